/** The memory of batches is bounded, however wide the rows of a pool are (W-9). */
import { beforeEach, expect, test } from 'vitest'
import { BATCHES_UNDER_WAY_BYTES_MAX } from '../../src/api/ingest/ingest.ts'
import { batchBytesMax, batchCostOf } from '../../src/format/batch-layout.ts'
import type { PoolSchema } from '../../src/format/schema.ts'
import { REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { BATCH_BYTES_MAX } from '../../src/util/limits.ts'
import { ask } from './client.ts'
import { agent, api, fake, gate, start, startForEachTest, targetOf, until } from './fake.ts'

const wide: PoolSchema = {
  pool: 7,
  version: 1,
  columns: Array.from({ length: 500 }, (_, index) => ({
    name: `c${index}`,
    type: 'DOUBLE',
    jsonProperty: `c${index}`,
    required: false,
  })),
  timestamp: -1,
  tenant: -1,
  key: null,
}
const cost = batchCostOf(wide)
const body = `[{"id":"a"}${',{}'.repeat(499)}]`
const bodyCost = batchBytesMax(cost, body.length)

startForEachTest()
beforeEach(() => {
  fake.targets.set('wide', targetOf(7, { cost }))
})
const posts = (count: number, port = api.port) =>
  Array.from({ length: count }, () => ask(port, '/v1/wide', { body, agent }))

test('a parse task has no more requests than its batch has room for', async () => {
  fake.hasParseRoom = false
  const answers = posts(40)
  await until(() => api.stats().open === answers.length)
  fake.openParse()
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200)
  expect(fake.logged.length).toBe(40)
  for (const { table } of fake.tasks)
    expect((table.length / REQUEST_WORDS) * bodyCost).toBeLessThanOrEqual(Math.max(bodyCost, BATCH_BYTES_MAX))
})

test('a request that may be larger than a parse task is parsed alone', async () => {
  fake.targets.set('wide', targetOf(7, { cost: { ...cost, copies: 100_000 } }))
  fake.hasParseRoom = false
  const answers = posts(3)
  await until(() => api.stats().open === answers.length)
  fake.openParse()
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200)
  expect(fake.tasks.map(task => task.table.length / REQUEST_WORDS)).toEqual([1, 1, 1])
})

test('the bytes of all unparsed tasks are bounded', async () => {
  const held = gate()
  fake.parseGate = held.promise
  const answers = posts(200)
  await until(() => api.stats().open === answers.length && fake.tasks.length > 2)
  for (let turn = 0; turn < 50; turn += 1) await new Promise(resolve => setImmediate(resolve))
  const requests = fake.tasks.reduce((sum, { table }) => sum + table.length / REQUEST_WORDS, 0)
  expect(requests * bodyCost).toBeLessThanOrEqual(BATCHES_UNDER_WAY_BYTES_MAX + BATCH_BYTES_MAX)
  held.open()
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200)
})

test('ready bodies are not parsed while the memtable is full: they are parsed later, or get 429', async () => {
  fake.hasParseRoom = false
  const answers = posts(5)
  await until(() => api.stats().open === 5 && api.stats().slabsInUse > 0)
  await ask(api.port, '/livez', { method: 'GET' })
  fake.hasRoom = false
  fake.openParse()
  for (let turn = 0; turn < 20; turn += 1) await new Promise(resolve => setImmediate(resolve))
  expect(fake.tasks).toEqual([])
  fake.openRoom()
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200)

  const impatient = await start(fake, { waitMsMax: 300 })
  fake.hasParseRoom = false
  const late = posts(5, impatient.port)
  await until(() => impatient.stats().open === 5 && impatient.stats().slabsInUse > 0)
  await ask(impatient.port, '/livez', { method: 'GET' })
  fake.hasRoom = false
  fake.openParse()
  for (const answer of await Promise.all(late)) {
    expect([answer.status, answer.json.code]).toEqual([429, 'busy'])
    expect([answer.headers['retry-after'], answer.headers['x-events-accepted']]).toEqual(['1', '0'])
  }
  expect(impatient.stats()).toMatchObject({ slabsInUse: 0, waitingRequests: 0, open: 0 })
  await impatient.stop(1000)
})
