/**
 * A request that its head refuses has its short body read, and one answer: the refusal, whatever
 * becomes of the body.
 */
import { beforeEach, expect, test } from 'vitest'
import { ask, head, Raw } from './client.ts'
import { agent, api, fake, gate, good, start, startForEachTest, targetOf, until } from './fake.ts'

startForEachTest()

const TEXT = { 'content-type': 'text/plain' }

beforeEach(() => {
  fake.targets.set('kept', targetOf(7, { rejects: '"source_id":"S","data_pool_id":"P"' }))
})

const refuse = (port: number, body = 'no json') => ask(port, '/v1/kept', { body, headers: TEXT, agent })

test('the answer is the same as without the body, and is counted once', async () => {
  const answer = await refuse(api.port)
  const { json, headers } = await ask(api.port, '/v1/open', { body: 'no json', headers: TEXT, agent })
  expect([answer.status, answer.json]).toEqual([415, json])
  expect(answer.headers['accept']).toBe(headers['accept'])
  expect(fake.codes).toEqual(['unsupported_media_type', 'unsupported_media_type'])
  expect(fake.tasks.length).toBe(1)
  expect(api.stats()).toMatchObject({ slabsInUse: 0, waitingRequests: 0 })
})

test('without room for the body the answer stays 415: no 429', async () => {
  const impatient = await start(fake, { waitMsMax: 200 })
  fake.hasRoom = false
  expect((await refuse(impatient.port)).status).toBe(415)
  fake.hasRoom = true
  fake.hasParseRoom = false
  const parsed = refuse(impatient.port)
  await until(() => impatient.stats().slabsInUse === 1)
  fake.hasRoom = false
  fake.openParse()
  expect((await parsed).status).toBe(415)
  expect(fake.codes).toEqual(['unsupported_media_type', 'unsupported_media_type'])
  fake.openRoom()
  expect(impatient.stats()).toMatchObject({ slabsInUse: 0, waitingRequests: 0, bufferedBytes: 0 })
  await impatient.stop(1000)
})

test('a body that comes too slowly ends with 415: no 408', async () => {
  const impatient = await start(fake, { bodyMsMax: 300 })
  const raw = await Raw.open(impatient.port)
  raw.write(`${head('/v1/kept', ['Content-Type: text/plain', 'Content-Length: 100'])}a part`)
  await raw.until(({ received }) => received.includes('unsupported_media_type'))
  expect(raw.received).toMatch(/^HTTP\/1\.1 415 /)
  raw.socket.destroy()
  await impatient.stop(1000)
})

test('a parse worker that fails, and a pool that ends, change nothing of the answer', async () => {
  fake.parseGate = Promise.reject(new Error('expected by this test'))
  fake.parseGate.catch(() => undefined) // until a task awaits it
  expect((await refuse(api.port)).status).toBe(415)
  fake.parseGate = undefined
  fake.dead.add(7)
  expect((await refuse(api.port)).status).toBe(415)
  expect((await ask(api.port, '/v1/open', { body: good, agent })).status).toBe(200)
})

test('no answer waits until its row is stored', async () => {
  const built = targetOf(99)
  const server = await start(fake, {}, { rejectedTarget: () => built })
  const stored = gate()
  fake.commitGate = stored.promise
  expect((await refuse(server.port, '')).status).toBe(415)
  await until(() => server.stats().tasksRunning === 1)
  expect((await refuse(server.port, '')).status).toBe(415)
  expect(fake.logged).toEqual([])
  stored.open()
  await until(() => fake.logged.length === 2)
  expect(fake.logged.map(({ pool, accepted }) => [pool, accepted])).toEqual([
    [99, 1],
    [99, 1],
  ])
  await server.stop(1000)
})
