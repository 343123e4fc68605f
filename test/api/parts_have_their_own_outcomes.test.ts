/**
 * A store whose pools do not wait for one another: each request is answered by the outcome of its
 * part, and what a slow or broken pool waits for holds up nobody else.
 */
import { expect, test } from 'vitest'
import type { CommitBatch, CommitPart } from '../../src/api/api-types.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { ask } from './client.ts'
import { agent, api, fake, gate, good, start, startForEachTest, until } from './fake.ts'

startForEachTest()

/** A front end over a store whose parts end as `outcome` says, and how many it has got. */
async function startApart(outcome: (part: CommitPart) => Promise<void>) {
  const state = { parts: 0 }
  const commit = ({ parts }: CommitBatch) => {
    state.parts += parts.length
    return parts.map(part => ({ rows: part.rows, done: outcome(part), stage: 'insert' as const }))
  }
  const apart = await start(fake, {}, { commit })
  const send = (path: string, body = good) => ask(apart.port, path, { method: 'POST', body, agent })
  return { state, apart, send }
}

test('in one batch a pool fails, a pool waits, and the third one and refused bodies are answered', async () => {
  const slow = gate()
  const { apart, send } = await startApart(async ({ pool }) => {
    if (pool === 2) throw new Unavailable('cluster_insert', 'the events may be stored')
    if (pool === 5) await slow.promise
  })
  const parsing = gate()
  fake.parseGate = parsing.promise
  const first = send('/v1/open') // the others gather while it is parsed
  await until(() => fake.tasks.length === 1)
  const paths = ['/v1/open', '/v1/second', '/v1/keyless', '/v1/open', '/v1/second']
  const sent = paths.map(path => send(path))
  const refused = send('/v1/keyless', '{"id":7}')
  await until(() => apart.stats().open === 7)
  parsing.open()
  const [a, failed, waiting, b, failedToo] = sent
  for (const answer of await Promise.all([first, a, b])) expect(answer?.status).toBe(200)
  for (const answer of await Promise.all([failed, failedToo])) {
    expect(answer?.status).toBe(503)
    expect(answer?.text).toContain('cluster_insert')
  }
  expect((await refused).status).toBe(400)
  expect(fake.tasks[1]?.groups).toHaveLength(3)
  expect(apart.stats()).toMatchObject({ open: 1, tasksRunning: 0, slabsInUse: 0 })
  slow.open()
  expect((await waiting)?.status).toBe(200)
  expect(await apart.stop(1_000)).toBe(true)
})

test('a pool whose requests wait by hundreds leaves batches and slabs to the others', async () => {
  const slow = gate()
  const { state, apart, send } = await startApart(({ pool }) =>
    pool === 5 ? slow.promise : Promise.resolve(),
  )
  const waiting: ReturnType<typeof send>[] = []
  for (let sent = 1; sent <= 200; sent += 1) {
    waiting.push(send('/v1/keyless'))
    await until(() => state.parts === sent) // each has a batch of its own
  }
  expect((await send('/v1/open')).status).toBe(200)
  let isStopped = false
  const stopped = apart.stop(60_000).then(idle => {
    isStopped = idle
  })
  for (let turn = 0; turn < 50; turn += 1) await new Promise(resolve => setImmediate(resolve))
  expect(isStopped).toBe(false) // a stop waits for their answers
  slow.open()
  for (const answer of await Promise.all(waiting)) expect(answer.status).toBe(200)
  await stopped
  expect(isStopped).toBe(true)
})

test('a pool that is deleted while its part waits gets 404', async () => {
  const slow = gate()
  const { state, apart, send } = await startApart(() => slow.promise)
  const waiting = send('/v1/open')
  await until(() => state.parts === 1)
  fake.dead.add(1)
  slow.open()
  expect((await waiting).status).toBe(404)
  expect(api.stats().open).toBe(0)
  await apart.stop(1_000)
})
