/** A paused pool: its bodies wait for the end of a cut-over, and other pools go on. */
import { expect, test } from 'vitest'
import { REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { must } from '../../src/util/errors.ts'
import { ask } from './client.ts'
import { agent, api, fake, gate, good, ingestSchemaOf, start, startForEachTest, until } from './fake.ts'

startForEachTest()

const send = (path: string, method: 'POST' | 'DELETE' = 'POST', port = api.port) =>
  ask(port, path, { method, body: good, agent })

const openPool = () => must(fake.targets.get('open'), 'a pool').pool

/** The versions of a pool's groups, task by task. */
const versionsOf = (pool: number) =>
  fake.tasks
    .map(({ groups }) => groups.filter(group => group.pool === pool))
    .filter(groups => groups.length > 0)
    .map(groups => groups.map(({ version }) => version))

test('requests in flight keep their schema, later ones wait for the new one, other pools go on', async () => {
  const parsing = gate()
  fake.parseGate = parsing.promise
  const before = send('/v1/open')
  await until(() => fake.tasks.length === 1)
  let isSequenced = false
  const sequenced = openPool()
    .pause()
    .then(() => {
      isSequenced = true
    })
  const waiting = [send('/v1/open'), send('/v1/open', 'DELETE'), send('/v1/open')]
  const other = send('/v1/second')
  await until(() => api.stats().open === 5) // small bodies gather while a task is parsed
  expect(isSequenced).toBe(false)
  parsing.open()
  for (const answer of await Promise.all([before, other])) expect(answer.status).toBe(200)
  await sequenced
  for (let turn = 0; turn < 50; turn++) await new Promise(resolve => setImmediate(resolve))
  expect(api.stats().open).toBe(3)
  expect((await send('/v1/second')).status).toBe(200)
  fake.resume(openPool(), ingestSchemaOf(1, 2))
  for (const answer of await Promise.all(waiting)) expect(answer.status).toBe(200)
  expect(versionsOf(1)[0]).toEqual([1])
  expect(new Set(versionsOf(1).slice(1).flat())).toEqual(new Set([2]))
  expect(new Set(versionsOf(2).flat())).toEqual(new Set([1]))
})

test('a pool without requests in flight is paused at once, and again later', async () => {
  for (let version = 2; version < 5; version++) {
    await openPool().pause()
    const waiting = send('/v1/open')
    await until(() => api.stats().open === 1)
    fake.resume(openPool(), ingestSchemaOf(1, version))
    expect((await waiting).status).toBe(200)
    expect(versionsOf(1).at(-1)).toEqual([version])
  }
})

test('requests that cannot be parsed or logged hold no cut-over up', async () => {
  const failing = await start(
    fake,
    {},
    {
      parse: async () => {
        await fake.parseGate
        throw new Error('a parse worker ended')
      },
    },
  )
  const parsing = gate()
  fake.parseGate = parsing.promise
  const answer = send('/v1/open', 'POST', failing.port)
  await until(() => failing.stats().tasksRunning === 1)
  const sequenced = openPool().pause()
  parsing.open()
  expect((await answer).status).toBe(500)
  await sequenced
  fake.resume(openPool(), ingestSchemaOf(1, 2))
  await failing.stop(1000)
})

test('bodies that waited are weighed by the new schema', async () => {
  await openPool().pause()
  const waiting = Array.from({ length: 3 }, () => send('/v1/open'))
  await until(() => api.stats().open === 3)
  const { cost } = ingestSchemaOf(1, 2)
  fake.resume(openPool(), ingestSchemaOf(1, 2, { ...cost, copies: 10_000_000 }))
  for (const answer of await Promise.all(waiting)) expect(answer.status).toBe(200)
  expect(fake.tasks.map(task => task.table.length / REQUEST_WORDS)).toEqual([1, 1, 1])
})
