/** Bodies gather for the next job only where they will share one: nobody is left behind while others come (W-9). */
import { Agent } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Api } from '../../src/api/api-types.ts'
import { REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { ask } from './client.ts'
import { Fake, gate, start, until } from './fake.ts'

let fake: Fake
let api: Api
let agent: Agent
beforeEach(async () => {
  fake = new Fake()
  api = await start(fake, { waitMsMax: 60_000 })
  agent = new Agent({ keepAlive: true })
})
afterEach(async () => {
  agent.destroy()
  await api.stop(1000)
})

const good = '{"id":"a"}'
const requestsParsed = () => fake.tasks.reduce((sum, task) => sum + task.table.length / REQUEST_WORDS, 0)

test('what is left in a slab that is full goes with the next job, however many come behind it', async () => {
  const cut = gate()
  fake.parseGate = cut.promise
  const answers: Promise<{ status: number }>[] = []
  const send = async (body: string) => {
    answers.push(ask(api.port, '/v1/open', { body, agent }))
    await until(() => api.stats().open === answers.length)
    for (let turn = 0; turn < 20; turn += 1) await setImmediate() // of the api too: it runs in this process
  }
  await send(good)
  expect(requestsParsed()).toBe(1)
  const large = good.padEnd(30 * 1024)
  while (api.stats().slabsInUse < 2) await send(large)
  const before = requestsParsed()
  expect(before, 'some are left behind').toBeLessThan(answers.length - 1)
  while (requestsParsed() === before) await send(large)
  expect(requestsParsed()).toBe(answers.length)
  cut.open()
  for (const answer of answers) expect((await answer).status).toBe(200)
})

test('gzip bodies that may become large do not wait for each other', async () => {
  const cut = gate()
  fake.parseGate = cut.promise
  const ids = Array.from({ length: 4 }, (_, index) => `${Math.sin(index)}`.repeat(20))
  const answers = [ask(api.port, '/v1/open', { body: good, agent })]
  await until(() => fake.tasks.length === 1)
  for (const id of ids) {
    const body = gzipSync(JSON.stringify({ id, numbers: Array.from(id, (_, at) => Math.cos(at)) }))
    answers.push(ask(api.port, '/v1/open', { body, headers: { 'content-encoding': 'gzip' }, agent }))
    await until(() => requestsParsed() === answers.length)
  }
  cut.open()
  for (const answer of answers) expect((await answer).status).toBe(200)
})
