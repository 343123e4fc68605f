/**
 * Bodies wait for the next parse task only if they will share it: no request waits while later ones
 * are served (W-9).
 */
import { setImmediate } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { ask } from './client.ts'
import { agent, api, fake, gate, good, startForEachTest, until } from './fake.ts'

startForEachTest({ waitMsMax: 60_000 })

const requestsParsed = () => fake.tasks.reduce((sum, task) => sum + task.table.length / REQUEST_WORDS, 0)

test('the rest of a full slab is in the next parse task, however many requests come after it', async () => {
  const parsing = gate()
  fake.parseGate = parsing.promise
  const answers: Promise<{ status: number }>[] = []
  const send = async (body: string) => {
    answers.push(ask(api.port, '/v1/open', { body, agent }))
    await until(() => api.stats().open === answers.length)
    // Turns of the HTTP library too, which runs in this process.
    for (let turn = 0; turn < 20; turn += 1) await setImmediate()
  }
  await send(good)
  expect(requestsParsed()).toBe(1)
  const large = good.padEnd(30 * 1024)
  while (api.stats().slabsInUse < 2) await send(large)
  const before = requestsParsed()
  expect(before, 'some requests of the full slab wait').toBeLessThan(answers.length - 1)
  while (requestsParsed() === before) await send(large)
  expect(requestsParsed()).toBe(answers.length)
  parsing.open()
  for (const answer of answers) expect((await answer).status).toBe(200)
})

test('gzip bodies that may become large do not wait for each other', async () => {
  const parsing = gate()
  fake.parseGate = parsing.promise
  const ids = Array.from({ length: 4 }, (_, index) => `${Math.sin(index)}`.repeat(20))
  const answers = [ask(api.port, '/v1/open', { body: good, agent })]
  await until(() => fake.tasks.length === 1)
  for (const id of ids) {
    const body = gzipSync(JSON.stringify({ id, numbers: Array.from(id, (_, at) => Math.cos(at)) }))
    answers.push(ask(api.port, '/v1/open', { body, headers: { 'content-encoding': 'gzip' }, agent }))
    await until(() => requestsParsed() === answers.length)
  }
  parsing.open()
  for (const answer of answers) expect((await answer).status).toBe(200)
})
