/**
 * Answers over HTTP where partial groups are kept: rows change and go, others come, a policy
 * changes, and each answer is that of the rows now.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeLeftovers, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { AT, column, metric, NEVER, post } from './compaction.ts'

const ROWS = 101_000
const BATCH = 500
const TENANTS = ['a', 'b', 'c']

interface Sent {
  readonly at: string
  readonly id: string
  readonly tenant: string
  readonly d: number
}

let server: TestServer
let pool: TestPool
let policy: string
let authorization: string
/** The rows as they are, by id. */
const rows = new Map<string, Sent>()

function eventOf(number: number, d = number / 10): Sent {
  const tenant = TENANTS[number % TENANTS.length] ?? ''
  return { at: `${AT}T00:00:00Z`, id: `k${number}`, tenant, d }
}

async function put(events: readonly Sent[]): Promise<void> {
  for (let from = 0; from < events.length; from += BATCH) await post(pool, events.slice(from, from + BATCH))
  for (const event of events) rows.set(event.id, event)
}

async function change<T>(document: string): Promise<T> {
  const { data, errors } = await server.graphql<T>(document)
  expect(errors, document).toBeUndefined()
  return data
}

beforeAll(async () => {
  server = await startServer({ env: NEVER })
  pool = await server.createPool({
    columns: [
      column('at', 'TIMESTAMP'),
      column('id', 'STRING'),
      column('tenant', 'STRING'),
      column('d', 'DOUBLE'),
    ],
    timestamp: 'at',
    uniqueId: 'id',
    uniqueName: 'rows',
  })
  const { app, made } = await change<{
    app: { application: { id: string; secret: string } }
    made: { dataPoolAccessPolicy: { id: string } }
  }>(`mutation {
    app: createApplication(input: {scopes: [DATA_POOL_QUERY]}) { ... on ApplicationResponse { application { id secret } } }
    made: createDataPoolAccessPolicy(input: {dataPool: "${pool.poolId}", columns: ["*"], filterSql: "tenant = 'a'"}) { dataPoolAccessPolicy { id } } }`)
  policy = made.dataPoolAccessPolicy.id
  const { id, secret } = app.application
  authorization = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`
  await change(`mutation {
    assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${policy}", application: "${id}")
    modifyDataPool(input: {idOrUniqueName: {id: "${pool.poolId}"}, accessControlEnabled: true}) { __typename } }`)
  await put(Array.from({ length: ROWS }, (_, number) => eventOf(number)))
}, 60_000)
afterAll(removeLeftovers)

/** The sum and the number of visible rows by tenant, three times: then what is kept is read. */
async function expectRows(visible: string): Promise<void> {
  const form = `dataPool: {name: "rows"}`
  const sum = `metric: {sum: {${form}, measure: {columnName: "d"}}}`
  const query = `{ counter(input: {${sum}}) { value }
    leaderboard(input: {metric: {count: {${form}}}, dimensions: [{columnName: "tenant"}], rowLimit: 5}) { rows } }`
  const mine = [...rows.values()].filter(({ tenant }) => visible === tenant)
  // Tenths, whose sum has few digits.
  const total = mine.reduce((all, { d }) => all + Math.round(d * 10), 0) / 10
  for (let ask = 0; ask < 3; ask++) {
    const answer = await fetch(`${server.base}/graphql`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ query }),
    })
    expect(await answer.json()).toEqual({
      data: {
        counter: { value: expect.toSatisfy((text: string) => Math.abs(Number(text) - total) < 1e-6) },
        leaderboard: { rows: [[visible, String(mine.length)]] },
      },
    })
  }
}

test('answers follow updates, deletions, new rows and policies', async () => {
  await expectRows('a')
  expect(await metric(server, 'weir_kept_partials_segments')).toBeGreaterThan(0)
  expect(await metric(server, 'weir_kept_partials_bytes')).toBeGreaterThan(0)
  await put([eventOf(0, 1_000), eventOf(3, -5), eventOf(1, 7), eventOf(ROWS, 9)])
  await expectRows('a')
  await post(pool, [eventOf(6), eventOf(7)], 'DELETE')
  for (const number of [6, 7]) rows.delete(eventOf(number).id)
  await expectRows('a')
  await change(`mutation { modifyDataPoolAccessPolicy(input: {id: "${policy}", filterSql: "tenant = 'b'"}) {
    dataPoolAccessPolicy { id } } }`)
  await expectRows('b')
  await put([eventOf(4, 0.5)])
  await expectRows('b')
}, 60_000)
