/**
 * Answers that are kept are those of the rows now. Rows come, change and go, segments are merged
 * and rewritten, columns are added, policies change: around each step random questions are asked,
 * and each again with a condition that is true of all rows and new each time, so that nothing can
 * answer it from what is kept.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addColumn } from '../jobs/add-column.ts'
import { runJob } from '../jobs/rewrite-jobs.ts'
import { below, casesOf, newSeed, type Random, randomFrom } from '../util/random.ts'
import { removeLeftovers, send, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { column } from './client.ts'
import { metric, OFTEN } from './compaction.ts'

const STEPS = casesOf(40, 1_000)
const TENANTS = ['a', 'b', "c's"]
const columns = [
  column('ts', 'TIMESTAMP'),
  column('id', 'STRING'),
  column('tenant', 'STRING', true),
  column('n', 'INT64', true),
  column('d', 'DOUBLE', true),
]
const KEYED = { columns, timestamp: 'ts', uniqueId: 'id', tenant: 'tenant' }

let server: TestServer
let pool: TestPool
let other: TestPool
let policy: string
let authorization: string

beforeAll(async () => {
  server = await startServer({ env: OFTEN })
  pool = await server.createPool({ ...KEYED, uniqueName: 'rows' })
  other = await server.createPool({ ...KEYED, uniqueName: 'other' })
  const { createApplication } = await change<{
    createApplication: { application: { id: string; secret: string } }
  }>(
    'mutation { createApplication(input: {uniqueName: "reader", scopes: [DATA_POOL_QUERY]}) { ... on ApplicationResponse { application { id secret } } } }',
  )
  const { id, secret } = createApplication.application
  authorization = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`
  const made = await change<{ createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } } }>(
    `mutation { createDataPoolAccessPolicy(input: {dataPool: "${pool.poolId}", columns: ["*"]}) { dataPoolAccessPolicy { id } } }`,
  )
  policy = made.createDataPoolAccessPolicy.dataPoolAccessPolicy.id
  await change(
    `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${policy}", application: "${id}") }`,
  )
})
afterAll(removeLeftovers)

async function change<T>(mutation: string): Promise<T> {
  const { data, errors } = await server.graphql<T>(mutation)
  expect(errors, mutation).toBeUndefined()
  return data
}

/** The answer of a field of `Query` as text, and whether it was kept. */
async function ask(field: string): Promise<{ readonly text: string; readonly isKept: boolean }> {
  const answer = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ query: `{ a: ${field} }` }),
  })
  const { data, errors } = (await answer.json()) as {
    readonly data?: { readonly a: { readonly query?: Kept; readonly info?: Kept } }
    readonly errors?: unknown
  }
  expect(errors, field).toBeUndefined()
  const { query, info, ...rows } = data!.a
  return { text: JSON.stringify(rows), isKept: (query ?? info)!.fromCache }
}

interface Kept {
  readonly fromCache: boolean
}

const POOL = 'dataPool: {name: "rows"}'
const SUM = (measure: string) => `metric: {sum: {${POOL}, measure: {columnName: "${measure}"}}}`
const ANY_TIME = 'timeRange: {start: "2020-01-01T00:00:00Z", stop: "2030-01-01T00:00:00Z"}'
const counter = (input: string) => (all: string) =>
  `counter(input: {${input}, filterSql: "${all}"}) { value query { fromCache } }`
const statement = (sql: string) => (all: string) =>
  `sqlV1(input: {query: ${JSON.stringify(sql.replace('TRUE', all))}}) { columns { columnName type } rows info { fromCache } }`

/** Questions with a place for a condition. */
const QUESTIONS: readonly ((all: string) => string)[] = [
  counter(`metric: {count: {${POOL}}}`),
  counter(SUM('n')),
  counter(SUM('d')),
  counter(`${SUM('d')}, filters: [{column: "tenant", operator: EQUALS, value: "a"}]`),
  counter(`${SUM('d')}, filters: [{column: "tenant", operator: EQUALS, value: "b"}]`),
  counter(
    `metric: {max: {${POOL}, measure: {columnName: "n"}}}, timeRange: {relative: LAST_N_DAYS, n: 3650}`,
  ),
  counter(`metric: {countDistinct: {${POOL}, dimension: {columnName: "id"}}}`),
  all =>
    `timeSeries(input: {${SUM('d')}, ${ANY_TIME}, granularity: MONTH, filterSql: "${all}"}) { labels values query { fromCache } }`,
  all =>
    `leaderboard(input: {${SUM('n')}, dimensions: [{columnName: "tenant"}], rowLimit: 5, filterSql: "${all}"}) { headers rows query { fromCache } }`,
  statement('SELECT tenant, count(*), sum(d), max(n) FROM rows WHERE TRUE GROUP BY 1 ORDER BY 1'),
  statement('SELECT * FROM rows WHERE TRUE ORDER BY id, ts LIMIT 7'),
  statement('SELECT count(*), max(o.d) FROM (SELECT id FROM rows WHERE TRUE) r JOIN other o ON o.id = r.id'),
]
const ALWAYS = 'n IS NULL OR n > -1000000'
let fresh = 0
/** True of all rows, and a text that was never asked. */
const always = () => `n IS NULL OR n > ${-1_000_000 - ++fresh}`

const event = (random: Random) => ({
  ts: `2026-0${1 + below(random, 3)}-01T00:00:00Z`,
  id: `i${below(random, 12)}`,
  tenant: TENANTS[below(random, 3)],
  n: below(random, 1_000),
  d: random() * 10 ** below(random, 6),
  e0: below(random, 9),
})
let columnsAdded = 0
let isLimited = false

/** One change. Most steps change nothing, so that answers are kept. */
async function step(random: Random): Promise<void> {
  const to = random() < 0.2 ? other : pool
  const lot = random()
  const post = async (body: unknown, method: 'POST' | 'DELETE' = 'POST') =>
    expect((await send(to.url, body, method)).status).toBe(200)
  if (lot < 0.25) await post(Array.from({ length: 1 + below(random, 4) }, () => event(random)))
  else if (lot < 0.4) await post(event(random), 'DELETE')
  else if (lot < 0.43)
    await runJob(server, 'update', {
      dataPool: pool.poolId,
      filterSql: `n % 3 = ${below(random, 3)}`,
      set: [{ column: 'd', expression: 'd + 0.1' }],
    })
  else if (lot < 0.45)
    await runJob(server, 'deletion', { dataPool: pool.poolId, filterSql: `n % 50 = ${below(random, 50)}` })
  else if (lot < 0.47 && columnsAdded < 3) await addColumn(server, pool.poolId, `e${columnsAdded++}`, 'INT64')
  else if (lot < (isLimited ? 0.7 : 0.52)) {
    isLimited = !isLimited
    await change(
      `mutation { modifyDataPool(input: {idOrUniqueName: {id: "${pool.poolId}"}, accessControlEnabled: ${isLimited}}) { __typename } }`,
    )
  } else if (lot < 0.57 || isLimited)
    await change(
      `mutation { modifyDataPoolAccessPolicy(input: {id: "${policy}", filterSql: "n % 2 = ${below(random, 2)}"}) { __typename } }`,
    )
}

test('an answer that is kept equals the one that is computed, whatever happened', async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  let kept = 0
  for (let at = 0; at < STEPS; at++) {
    const questions = Array.from({ length: 3 }, () => QUESTIONS[below(random, QUESTIONS.length)]!)
    // They are kept, and the change makes them untrue.
    for (const question of questions) await ask(question(ALWAYS))
    await step(random)
    const answers = []
    for (const question of questions) answers.push(await ask(question(ALWAYS)))
    for (const [index, question] of questions.entries()) {
      const answer = answers[index]!
      const now = await ask(question(always()))
      const where = `seed ${seed}, step ${at}: ${question(ALWAYS)}`
      expect(answer.text, where).toBe(now.text)
      expect([now.isKept, answer.isKept && isLimited], where).toEqual([false, false])
      kept += Number(answer.isKept)
    }
  }
  expect(kept).toBeGreaterThan(STEPS / 4)
  expect(await metric(server, 'weir_answer_cache_hits')).toBeGreaterThanOrEqual(kept)
  expect(await metric(server, 'weir_answer_cache_bytes')).toBeGreaterThan(0)
  expect(await metric(server, 'weir_compaction_merges_total')).toBeGreaterThan(0)
}, 120_000)

test('a job that rewrites rows ends the answers about them', async () => {
  expect((await send(other.url, event(randomFrom(1)))).status).toBe(200)
  const field = `counter(input: {${SUM('n').replace('"rows"', '"other"')}}) { value query { fromCache } }`
  const before = await ask(field)
  expect(await ask(field)).toEqual({ text: before.text, isKept: true })
  const set = [{ column: 'n', expression: 'n + 1' }]
  await runJob(server, 'update', { dataPool: other.poolId, filterSql: 'n >= 0', set })
  const after = await ask(field)
  expect(after.isKept).toBe(false)
  expect(after.text).not.toBe(before.text)
})

test('the answers about a deleted pool go with it', async () => {
  const gone = await server.createPool({ ...KEYED, uniqueName: 'gone' })
  expect((await send(gone.url, event(randomFrom(1)))).status).toBe(200)
  for (const isKept of [false, true]) {
    const field = `counter(input: {metric: {count: {dataPool: {name: "gone"}}}}) { value query { fromCache } }`
    expect(await ask(field)).toEqual({ text: '{"value":"1"}', isKept })
  }
  const bytes = await metric(server, 'weir_answer_cache_bytes')
  await change(`mutation { deleteDataPool(id: "${gone.poolId}") }`)
  await expect.poll(() => metric(server, 'weir_answer_cache_bytes')).toBeLessThan(bytes)
})

test('--answer-cache 0 keeps nothing', async () => {
  const without = await startServer({ args: ['--answer-cache', '0'] })
  const { poolId, url } = await without.createPool(KEYED)
  expect((await send(url, event(randomFrom(1)))).status).toBe(200)
  const query = `{ counter(input: {metric: {count: {dataPool: {id: "${poolId}"}}}}) { value query { fromCache } } }`
  for (let times = 0; times < 2; times++)
    expect((await without.graphql(query)).data).toEqual({
      counter: { value: '1', query: { fromCache: false } },
    })
  expect(await metric(without, 'weir_answer_cache_misses')).toBe(0)
  await without.stop()
})
