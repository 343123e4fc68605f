/**
 * Places of streaming answers: readers that read nothing keep neither other applications nor a
 * backup out.
 */
import { expect, test } from 'vitest'
import type { Api, ControlRoute } from '../../src/api/api-types.ts'
import { STREAMS_ADMIN_MIN, STREAMS_MAX, STREAMS_PER_APPLICATION_MAX } from '../../src/util/limits.ts'
import { head, Raw } from './client.ts'
import { Fake, gate, start, until } from './fake.ts'

test('an application has its share, others and scope admin find places, and nothing begins without one', async () => {
  const held = gate()
  const begun: string[] = []
  const handle: ControlRoute['handle'] = async ({ query }) => ({
    owner: { applicationId: query, isAdmin: query === 'backup' },
    begin: async () => {
      begun.push(query)
      async function* chunks() {
        yield new Uint8Array(10)
        await held.promise
      }
      return { status: 200, chunks: chunks() }
    },
  })
  const route = { methods: ['GET'], path: '/stream', bodyBytesMax: 0, handle } as const
  const api = await start(new Fake(), {}, { routes: [route] })
  const raws: Raw[] = []
  const asked = async (application: string) => {
    const raw = await Raw.open(api.port)
    raws.push(raw)
    raw.write(head(`/stream?${application}`, [], 'GET'))
    await raw.until(({ received }) => received.includes('\r\n\r\n'))
    return Number(raw.received.slice(9, 12))
  }
  for (let count = 0; count < STREAMS_PER_APPLICATION_MAX; count += 1) expect(await asked('a')).toBe(200)
  expect(await asked('a')).toBe(503)
  const left = STREAMS_MAX - STREAMS_ADMIN_MIN - STREAMS_PER_APPLICATION_MAX
  for (let count = 0; count < left; count += 1) expect(await asked('b')).toBe(200)
  expect(await asked('c')).toBe(503)
  expect(await asked('backup')).toBe(200)
  expect(await asked('backup')).toBe(503)
  expect(begun.length).toBe(STREAMS_MAX)
  await released(api, raws, held.open)
})

async function released(api: Api, raws: readonly Raw[], open: () => void): Promise<void> {
  for (const raw of raws) raw.socket.destroy()
  open()
  await until(() => api.stats().streams === 0)
  await api.stop(1000)
}
