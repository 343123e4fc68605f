/**
 * Requests that find no room wait with their sockets paused, then get 429 (W-9). Stopping answers
 * them.
 */
import { Agent } from 'node:http'
import { expect, test } from 'vitest'
import { EVENT_ERRORS_PER_TURN } from '../../src/api/ingest/ingest-answer.ts'
import { committedTogether } from '../../src/app/commit-to-log.ts'
import { REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import type { ParseTask } from '../../src/parse/parse-task.ts'
import { Unavailable } from '../../src/util/errors.ts'
import {
  PARSE_TASK_BYTES_MAX,
  PARSE_TASK_GATHERED_BYTES,
  PARSE_TASK_GATHERED_REQUESTS,
  PARSE_TASK_REQUESTS_MAX,
  SLABS_MAX,
} from '../../src/util/limits.ts'
import { type Ask, ask, head, Raw } from './client.ts'
import { agent, api, fake, frontEnd, gate, good, start, startForEachTest, until } from './fake.ts'

// Requests that wait here must be answered, however slow the machine. Tests of 429 start servers of
// their own.
startForEachTest({ waitMsMax: 60_000 })

const post = (body: string, port = api.port) => ask(port, '/v1/open', { body, agent })

test('requests wait for room and are answered when there is room', async () => {
  fake.hasRoom = false
  const answers = []
  for (let index = 0; index < 5; index += 1) {
    answers.push(post(`{"id":"${index}"}${' '.repeat(index % 2 === 0 ? 10 : 700_000)}`))
    await until(() => api.stats().waitingRequests === index + 1)
  }
  expect(api.stats().bufferedBytes).toBeGreaterThan(0)
  fake.openRoom()
  for (const answer of answers) expect((await answer).status).toBe(200)
  expect(api.stats()).toMatchObject({ waitingRequests: 0, bufferedBytes: 0, slabsInUse: 0 })
  expect(fake.logged.length).toBe(5)
})

test('without room for too long: 429 with Retry-After, for complete and incomplete bodies', async () => {
  const impatient = await start(fake, { waitMsMax: 200 })
  fake.hasRoom = false
  const raw = await Raw.open(impatient.port)
  raw.write(`${head('/v1/open', ['Content-Length: 100'])}{"id":`)
  const answer = await post(good, impatient.port)
  expect([answer.status, answer.headers['retry-after'], answer.json.retryable]).toEqual([429, '1', true])
  // The counts stand on every answer to a body that was read, and on no other.
  expect([answer.headers['x-events-accepted'], answer.headers['x-events-rejected']]).toEqual(['0', '0'])
  await raw.until(r => r.received.includes('"code":"busy"'))
  expect(raw.received).toMatch(/^HTTP\/1\.1 429 /)
  expect(raw.received).not.toMatch(/x-events/i)
  expect(impatient.stats()).toMatchObject({ waitingRequests: 0, bufferedBytes: 0, slabsInUse: 0 })
  raw.socket.destroy()
  fake.openRoom()
  expect((await post(good, impatient.port)).status).toBe(200)
  await impatient.stop(1000)
})

test('a client that disconnects while it waits leaves nothing behind', async () => {
  fake.hasRoom = false
  const raw = await Raw.open(api.port)
  raw.write(`${head('/v1/open', [`Content-Length: ${good.length}`])}${good}`)
  await until(() => api.stats().waitingRequests === 1)
  raw.socket.destroy()
  await until(() => api.stats().open === 0)
  expect(api.stats()).toMatchObject({ waitingRequests: 0, bufferedBytes: 0 })
  fake.openRoom()
  expect((await post(good)).status).toBe(200)
  expect(fake.logged.length).toBe(1)
})

test('with all slabs in use large bodies wait and small ones go on', async () => {
  fake.hasParseRoom = false
  const large = good + ' '.repeat(1_000_000)
  const answers = Array.from({ length: 2 * SLABS_MAX }, () => post(large))
  await until(() => api.stats().waitingRequests > 0 && api.stats().open === answers.length)
  fake.openParse()
  expect((await post(good)).status).toBe(200)
  const statuses = (await Promise.all(answers)).map(answer => answer.status)
  expect(new Set(statuses)).toEqual(new Set([200]))
  expect(api.stats()).toMatchObject({ waitingRequests: 0, bufferedBytes: 0, slabsInUse: 0 })
})

test('256 connections in a closed loop with little room: all are answered, none with 429', async () => {
  let free = 4
  const deps = {
    room: () => free > 0,
    commit: () => {
      free -= 1
      const sync = async () => {
        await new Promise(resolve => setTimeout(resolve, 1)) // a sync's time
        free += 1
        fake.openRoom()
      }
      return committedTogether(sync())
    },
  }
  const tight = await start(fake, {}, deps)
  const body = good + ' '.repeat(30_000)
  const loop = async () => {
    const own = new Agent({ keepAlive: true, maxSockets: 1 })
    for (let index = 0; index < 5; index += 1)
      expect((await ask(tight.port, '/v1/open', { body, agent: own })).status).toBe(200)
    own.destroy()
  }
  await Promise.all(Array.from({ length: 256 }, loop))
  expect(fake.statuses.filter(status => status === 200).length).toBe(1280)
  await tight.stop(1000)
})

test('10,000 small requests of two pools, both kinds: each is logged once', async () => {
  const connection = new Agent({ keepAlive: true, maxSockets: 64 })
  const answers = Array.from({ length: 10_000 }, (_, index) =>
    ask(api.port, index % 3 === 0 ? '/v1/second' : '/v1/open', {
      method: index % 7 === 0 ? 'DELETE' : 'POST',
      body: index % 5 === 0 ? `[{"id":"${index}"},{}]` : `{"id":"${index}"}`,
      agent: connection,
    }),
  )
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200)
  connection.destroy()
  const ids = fake.logged.map(record => Number(/"id":"(\d+)"/.exec(record.body)![1]))
  expect(new Set(ids).size).toBe(10_000)
  for (const [index, record] of fake.logged.entries()) {
    const id = ids[index]!
    expect([record.pool, record.kind, record.accepted]).toEqual([
      id % 3 === 0 ? 2 : 1,
      id % 7 === 0 ? 2 : 1,
      1,
    ])
  }
  expect(api.stats().slabsInUse).toBe(0)
})

test('small bodies gather while a task of small bodies is parsed; enough of them, and large ones, start at once', async () => {
  const parsing = gate()
  fake.parseGate = parsing.promise
  const answers = [post(good)]
  await until(() => fake.tasks.length === 1)
  const gathered = PARSE_TASK_GATHERED_REQUESTS - 1
  for (let index = 0; index < gathered; index += 1) answers.push(post(`{"id":"${index}"}`))
  await until(() => api.stats().open === gathered + 1)
  // The body comes in several pieces, so it takes a slab for large bodies.
  answers.push(ask(api.port, '/v1/open', { chunks: [good], agent }))
  await until(() => fake.tasks.length === 2)
  const requestsOf = (task: ParseTask) => task.table.length / REQUEST_WORDS
  expect(fake.tasks.map(requestsOf)).toEqual([1, 1])
  answers.push(post(good))
  await until(() => fake.tasks.length === 3)
  expect(fake.tasks.map(requestsOf)).toEqual([1, 1, gathered + 1])
  answers.push(post(good))
  await until(() => api.stats().open === gathered + 4)
  const fat = good.padEnd(PARSE_TASK_GATHERED_BYTES / 16)
  for (let index = 0; index < 16; index += 1) answers.push(post(fat))
  await until(() => fake.tasks.length === 4)
  expect(requestsOf(fake.tasks[3]!)).toBe(17)
  answers.push(post(good))
  await until(() => api.stats().open === gathered + 21)
  expect(fake.tasks.length).toBe(4)
  parsing.open()
  for (const answer of answers) expect((await answer).status).toBe(200)
  expect(fake.tasks.length).toBe(5)
})

test('bodies that arrive during a sync are parsed during it, so the log never waits for a parse', async () => {
  const sync = gate()
  fake.commitGate = sync.promise
  const answers = [post(good)]
  for (let tasks = 1; tasks <= 3; tasks += 1) {
    await until(() => fake.tasks.length === tasks)
    answers.push(post(good))
  }
  await until(() => fake.tasks.length === 4)
  sync.open()
  for (const answer of answers) expect((await answer).status).toBe(200)
})

test('parse tasks stay within their limits and join neighbours in few spans', async () => {
  fake.hasParseRoom = false
  const answers = Array.from({ length: 600 }, (_, index) => post(`{"id":"${index}"}`))
  await until(() => api.stats().slabsInUse === 1 && api.stats().open === 600)
  fake.openParse()
  await Promise.all(answers)
  for (const task of fake.tasks)
    expect(task.table.length / REQUEST_WORDS).toBeLessThanOrEqual(PARSE_TASK_REQUESTS_MAX)
  expect(fake.tasks.length).toBe(3)
  expect(fake.batches.map(batch => batch.spans.length)).toEqual([1, 1, 1])
  fake.hasParseRoom = false
  fake.tasks.length = 0
  const large = Array.from({ length: 8 }, () => post(good + ' '.repeat(200_000)))
  await until(() => api.stats().open === 8 && api.stats().slabsInUse > 0)
  fake.openParse()
  await Promise.all(large)
  for (const task of fake.tasks) {
    let bytes = 0
    for (let at = REQUEST.bytes; at < task.table.length; at += REQUEST_WORDS) bytes += task.table[at]!
    expect(bytes).toBeLessThanOrEqual(PARSE_TASK_BYTES_MAX)
  }
})

test('a refused body between accepted ones is left out of the log', async () => {
  fake.hasParseRoom = false
  const answers = []
  for (const body of ['{"id":"a"}', '{"no":"id"}', '{"id":"b"}', '{"id":"c"}']) {
    answers.push(post(body))
    await until(() => api.stats().open === answers.length)
    // The body arrived with its head, before this request.
    await ask(api.port, '/livez', { method: 'GET' })
  }
  fake.openParse()
  expect((await Promise.all(answers)).map(answer => answer.status)).toEqual([200, 400, 200, 200])
  expect(fake.logged.map(record => record.body)).toEqual(['{"id":"a"}', '{"id":"b"}', '{"id":"c"}'])
  expect(fake.batches[0]!.spans.map(span => span.records)).toEqual([1, 2])
})

test('a 200 waits for the commit, a refusal does not (W-1)', async () => {
  const held = gate()
  fake.commitGate = held.promise
  fake.hasParseRoom = false
  let answered = false
  const accepted = post(good).then(answer => {
    answered = true
    return answer
  })
  const refused = post('{')
  await until(() => api.stats().open === 2 && api.stats().slabsInUse === 1)
  fake.openParse()
  expect((await refused).status).toBe(400)
  for (let index = 0; index < 3; index += 1) await ask(api.port, '/livez', { method: 'GET' })
  expect(answered).toBe(false)
  held.open()
  expect((await accepted).status).toBe(200)
})

test('answers with many event errors take turns, and their task keeps its slab until then (W-11)', async () => {
  fake.hasParseRoom = false
  const one = `[${new Array(500).fill('{}')}]`
  const bodies = Array.from({ length: 60 }, (_, index) => (index % 20 === 0 ? good : one))
  const answers = bodies.map(body => post(body))
  await until(() => api.stats().open === answers.length)
  for (let index = 0; index < 3; index += 1) await ask(api.port, '/livez', { method: 'GET' })
  const before = fake.statuses.length
  let last = before
  let most = 0
  fake.openParse()
  while (last < before + answers.length) {
    await new Promise(resolve => setImmediate(resolve))
    most = Math.max(most, fake.statuses.length - last)
    last = fake.statuses.length
    if (last < before + answers.length) expect(api.stats().slabsInUse).toBeGreaterThan(0)
  }
  expect(most).toBeLessThanOrEqual(EVENT_ERRORS_PER_TURN / 500 + 4)
  for (const [index, answer] of (await Promise.all(answers)).entries()) {
    expect(answer.status).toBe(index % 20 === 0 ? 200 : 400)
    if (index % 20 !== 0) expect(answer.json.events.length).toBe(500)
  }
  expect(fake.logged.length).toBe(3)
})

test('a failed commit is 503, a failed parse is 500, and the slab is freed', async () => {
  const broken = await start(
    fake,
    {},
    { commit: () => committedTogether(Promise.reject(new Unavailable('log_refused', 'no'))) },
  )
  const unavailable = await post(good, broken.port)
  expect([unavailable.status, unavailable.json.code, unavailable.headers['x-events-accepted']]).toEqual([
    503,
    'log_refused',
    '0',
  ])
  expect(unavailable.headers['retry-after']).toBe('1')
  await until(() => broken.stats().slabsInUse === 0)
  await broken.stop(1000)
  const failing = await start(fake, {}, { parse: () => Promise.reject(new Error('expected by this test')) })
  expect((await post(good, failing.port)).json.code).toBe('internal')
  await until(() => failing.stats().slabsInUse === 0)
  await failing.stop(1000)
})

test('a failed commit refuses what is in it, and event errors of other requests stay 400', async () => {
  fake.hasParseRoom = false
  const commit = () => committedTogether(Promise.reject(new Unavailable('log_refused', 'no')))
  const broken = await start(fake, {}, { commit })
  const one = `[${new Array(500).fill('{}')}]`
  const bodies = Array.from({ length: 30 }, (_, index) => (index % 10 === 0 ? good : one))
  const answers = bodies.map(body => post(body, broken.port))
  await until(() => broken.stats().open === answers.length)
  for (let index = 0; index < 3; index += 1) await ask(broken.port, '/livez', { method: 'GET' })
  const before = fake.statuses.length
  fake.openParse()
  const statuses = (await Promise.all(answers)).map(({ status }) => status)
  expect(statuses).toEqual(bodies.map(body => (body === good ? 503 : 400)))
  await until(() => broken.stats().slabsInUse === 0)
  expect(fake.statuses).toHaveLength(before + answers.length) // each has one answer
  await broken.stop(1000)
})

test('a pool deleted while its commit runs answers 404', async () => {
  const held = gate()
  fake.commitGate = held.promise
  const answer = post(good)
  await until(() => fake.tasks.length === 1)
  await new Promise(resolve => setImmediate(resolve))
  fake.dead.add(1)
  held.open()
  expect((await answer).status).toBe(404)
})

test('a pool over its rate gets 429 at once, and other pools go on', async () => {
  const limited = await start(fake, { rateLimit: 1 })
  const many = `[${new Array(150).fill(good)}]`
  expect((await post(many, limited.port)).status).toBe(200)
  const over = await post(good, limited.port)
  expect([over.status, over.json.code]).toEqual([429, 'rate_limited'])
  // 149 s of debt: no machine is so slow that the bucket is full again.
  expect(Number(over.headers['retry-after'])).toBeGreaterThan(100)
  // Checks of the head come before the rate, checks of the body after it.
  const statusOf = async (path: string, more: Ask) =>
    (await ask(limited.port, path, { agent, ...more })).status
  expect(await statusOf('/v1/open?disable_partial_success=x', { body: good })).toBe(400)
  expect(await statusOf('/v1/open', { headers: { 'content-length': '1048321' } })).toBe(413)
  expect(await statusOf('/v1/open', { body: '{' })).toBe(429)
  expect(await statusOf('/v1/open', { chunks: [good, ' '.repeat(2_000_000)] })).toBe(429)
  expect((await ask(limited.port, '/v1/second', { body: good, agent })).status).toBe(200)
  await limited.stop(1000)
})

test('a pool over its rate is accepted again later', async () => {
  const limited = await start(fake, { rateLimit: 100 })
  expect((await post(`[${new Array(150).fill(good)}]`, limited.port)).status).toBe(200)
  let answer = await post(good, limited.port)
  for (; answer.status === 429; answer = await post(good, limited.port))
    expect(answer.headers['retry-after']).toBe('1')
  expect(answer.status).toBe(200)
  await limited.stop(1000)
})

// node:http answers it in its turn (docs/http.md).
test.skipIf(frontEnd.name === 'node')(
  'a request pipelined behind an unanswered one closes the connection, and no answer is wrong',
  async () => {
    const held = gate()
    fake.commitGate = held.promise
    const raw = await Raw.open(api.port)
    const request = `${head('/v1/open', [`Content-Length: ${good.length}`])}${good}`
    raw.write(request + request)
    await raw.untilClosed()
    expect(raw.received).toBe('')
    held.open()
    await until(() => api.stats().open === 0 && api.stats().slabsInUse === 0)
  },
)

test('stop answers the requests in flight, refuses new ones, and closes', async () => {
  const held = gate()
  fake.commitGate = held.promise
  const idle = await Raw.open(api.port)
  idle.write(`${head('/v1/open', [`Content-Length: 1`])}{`)
  await idle.until(r => r.received.includes('not_json'))
  const answer = post(good)
  await until(() => api.stats().tasksRunning === 1)
  const stopped = api.stop(5000)
  idle.write(`${head('/v1/open', [`Content-Length: ${good.length}`])}${good}`)
  await idle.until(r => r.received.includes('"code":"stopping"'))
  held.open()
  expect((await answer).status).toBe(200)
  expect(await stopped).toBe(true)
  await idle.untilClosed()
  await expect(ask(api.port, '/livez', { method: 'GET' })).rejects.toThrow()
})

test('stop gives up at its deadline', async () => {
  const held = gate()
  const stuck = await start(fake, {}, { commit: () => committedTogether(held.promise) })
  const answer = post(good, stuck.port).catch(() => 'closed')
  await until(() => stuck.stats().tasksRunning === 1)
  expect(await stuck.stop(50)).toBe(false)
  expect(await answer).toBe('closed')
  held.open()
  await until(() => stuck.stats().tasksRunning === 0)
})
