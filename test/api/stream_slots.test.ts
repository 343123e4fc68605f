/**
 * Places of streaming answers: readers that read nothing keep neither others nor a backup out.
 */
import { expect, test } from 'vitest'
import type { Api, ApiOptions, ControlRoute } from '../../src/api/api-types.ts'
import { FILE_EXPORTS_MAX, STREAMS_ADMIN_MIN, STREAMS_MAX } from '../../src/api/http/stream-slots.ts'
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
  const api = await start(new Fake(), { streamWaitMs: 0 }, { routes: [route] })
  const raws: Raw[] = []
  const asked = async (application: string) => {
    const raw = await Raw.open(api.port)
    raws.push(raw)
    raw.write(head(`/stream?${application}`, [], 'GET'))
    await raw.until(({ received }) => received.includes('\r\n\r\n'))
    return Number(raw.received.slice(9, 12))
  }
  // Each takes as many as it can, and a further one still finds one.
  const most = async (application: string) => {
    let taken = 0
    while ((await asked(application)) === 200) taken += 1
    return taken
  }
  const found = [await most('a'), await most('b'), await most('c'), await most('d')]
  expect(found).toEqual([ALONE, 4, 2, 1])
  expect(found.reduce((sum, taken) => sum + taken)).toBe(STREAMS_MAX - STREAMS_ADMIN_MIN)
  expect(await asked('e')).toBe(503)
  expect(await asked('backup')).toBe(200)
  expect(await asked('backup')).toBe(503)
  expect(begun.length).toBe(STREAMS_MAX)
  await released(api, raws, held.open)
})

/** Streams of one application beside no other. */
const ALONE = 8
const CHUNK = new Uint8Array(200_000)

/** Streams without an end. `?b` asks as application b, `?b-file` for one that is a file. */
class Endless {
  readonly begun: string[] = []
  readonly raws: Raw[] = []
  readonly api: Promise<Api>
  #isOver = false

  constructor(options: Partial<ApiOptions>) {
    const handle: ControlRoute['handle'] = async ({ query }) => {
      const [applicationId = '', kind] = query.split('-')
      const begin = async () => {
        this.begun.push(query)
        return { status: 200, chunks: this.#chunks() }
      }
      const owner = { applicationId, isAdmin: applicationId === 'backup' }
      return { owner, isFile: kind === 'file', begin }
    }
    const route = { methods: ['GET'], path: '/stream', bodyBytesMax: 0, handle } as const
    this.api = start(new Fake(), options, { routes: [route] })
  }

  async *#chunks() {
    while (!this.#isOver) {
      yield CHUNK
      await new Promise(resolve => setImmediate(resolve))
    }
  }

  /** The connection of a new request. */
  async send(query: string): Promise<Raw> {
    const raw = await Raw.open((await this.api).port)
    this.raws.push(raw)
    raw.write(head(`/stream?${query}`, [], 'GET'))
    return raw
  }

  /** A client that has the head of its answer and reads nothing more; or the refused answer. */
  async idle(query: string): Promise<{ readonly raw: Raw; readonly status: number }> {
    const raw = await this.send(query)
    await raw.until(({ received }) => received.includes('\r\n\r\n'))
    const status = Number(raw.received.slice(9, 12))
    if (status === 200) raw.socket.pause()
    return { raw, status }
  }

  async end(): Promise<void> {
    this.#isOver = true
    await released(await this.api, this.raws, () => undefined)
  }
}

/**
 * Waits until the server has closed these clients. They read what is left to learn it. The others
 * read on for a moment, and are open.
 */
async function expectClosed(clients: readonly { readonly raw: Raw }[], which: readonly number[]) {
  for (const index of which) clients[index]!.raw.socket.resume()
  for (const index of which) await clients[index]!.raw.untilClosed()
  const others = clients.filter((_, index) => !which.includes(index))
  for (const { raw } of others) {
    const { length } = raw.received
    raw.socket.resume()
    await raw.until(({ received }) => received.length > length)
    raw.socket.pause()
  }
  expect(others.map(({ raw }) => raw.closed)).toEqual(others.map(() => false))
}

test('readers that read nothing give their places to streams that wait, the idlest first', async () => {
  const streams = new Endless({ streamIdleMs: 300, streamWaitMs: 20_000 })
  const idle = []
  for (const application of [...'aaaaaaaabbbbccd']) idle.push(await streams.idle(application))
  expect(idle.map(({ status }) => status)).toEqual(idle.map(() => 200))
  expect((await streams.idle('e')).status).toBe(200)
  // Its second one needs two places: one stays for others.
  expect((await streams.idle('d')).status).toBe(200)
  await expectClosed(idle, [0, 1, 2])
  await streams.end()
})

test('an application with its share takes the place of its own stream, not of an idler one', async () => {
  const streams = new Endless({ streamIdleMs: 300, streamWaitMs: 20_000 })
  const idle = []
  for (const application of [...'baaaaaaa']) idle.push(await streams.idle(application))
  expect((await streams.idle('a')).status).toBe(200)
  await expectClosed(idle, [1])
  await streams.end()
})

test('a reader that reads keeps its place, one that trickles does not', async () => {
  const streams = new Endless({ streamIdleMs: 1_000, streamWaitMs: 1_500 })
  const reading = []
  for (let count = 0; count < ALONE; count += 1) {
    const raw = await streams.send('a')
    // It reads 40 MB/s at most, in pieces, and keeps nothing.
    raw.socket.removeAllListeners('data')
    const timer = setInterval(() => void raw.socket.read(), 5)
    raw.socket.pause()
    reading.push({ raw, timer })
  }
  await until(() => streams.begun.length === ALONE)
  expect((await streams.idle('a')).status).toBe(503)
  expect(reading.map(({ raw }) => raw.closed)).toEqual(reading.map(() => false))
  const [trickling] = reading
  clearInterval(trickling!.timer)
  trickling!.timer = setInterval(() => void trickling!.raw.socket.read(1), 50)
  // How much of what it has read before is known only when its idle time has passed.
  let status = 503
  while (status === 503) ({ status } = await streams.idle('a'))
  expect(status).toBe(200)
  for (const { timer } of reading) clearInterval(timer)
  await streams.end()
})

test('a stream that waits and whose client goes begins nothing, and one that waits too long is 503', async () => {
  const streams = new Endless({ streamIdleMs: 60_000, streamWaitMs: 300 })
  const idle = []
  for (let count = 0; count < ALONE; count += 1) idle.push(await streams.idle('a'))
  const waiting = await streams.send('a')
  const refused = await streams.idle('a')
  expect([refused.status, waiting.closed]).toEqual([503, false])
  expect(refused.raw.received).toContain('read or close them')
  const api = await streams.api
  const gone = await streams.send('a')
  await until(() => api.stats().open === ALONE + 1)
  gone.socket.destroy()
  await until(() => api.stats().open === ALONE)
  idle[0]!.raw.socket.destroy()
  expect((await streams.idle('a')).status).toBe(200)
  expect(streams.begun.length).toBe(ALONE + 1)
  await streams.end()
})

test('an application has one file of the few, and gives it up when it reads nothing', async () => {
  const streams = new Endless({ streamIdleMs: 60_000, streamWaitMs: 0 })
  const statuses = async (...queries: string[]) => {
    const found = []
    for (const query of queries) found.push((await streams.idle(query)).status)
    return found
  }
  const names = Array.from({ length: FILE_EXPORTS_MAX }, (_, index) => `f${index}`)
  expect(await statuses(...names.map(name => `${name}-file`))).toEqual(names.map(() => 200))
  const { raw } = await streams.idle('f0-file')
  expect(raw.received).toContain('another export to Parquet of this application is under way')
  expect(await statuses('f0', 'g-file')).toEqual([200, 503])
  await streams.end()

  const waiting = new Endless({ streamIdleMs: 300, streamWaitMs: 20_000 })
  const files = []
  for (const name of ['f9', ...names.map(one => `${one}-file`)]) files.push(await waiting.idle(name))
  expect((await waiting.idle('g-file')).status).toBe(200)
  await expectClosed(files, [1])
  await waiting.end()
})

async function released(api: Api, raws: readonly Raw[], open: () => void): Promise<void> {
  for (const raw of raws) raw.socket.destroy()
  open()
  await until(() => api.stats().streams === 0)
  await api.stop(1000)
}
