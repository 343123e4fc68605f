/**
 * The ground of the tests of statements: three pools of a shop in a real server, after updates,
 * deletes and a compaction, and plain DuckDB over an export of the same pools.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { merges, OFTEN, until, untilRest } from '../../path/compaction.ts'
import { STORE } from '../../util/cluster-node.ts'
import {
  fetchToken,
  type PoolSpec,
  send,
  startServer,
  type TestServer,
  temporaryFolder,
} from '../../util/server.ts'
import { type Answer, plainAnswer } from './plain-answer.ts'
import { columnsOf, limitPool } from './pools.ts'
import type { Question } from './questions.ts'

/** The settings of the pools, by their names. */
const POOLS: Readonly<Record<string, PoolSpec>> = {
  hits: {
    columns: columnsOf({
      ts: 'TIMESTAMP',
      id: 'STRING',
      visitor: 'STRING',
      name: 'STRING',
      url: 'STRING',
      country: 'STRING',
      tenant: 'STRING',
      amount: 'DOUBLE',
      quantity: 'INT64',
      paid: 'BOOLEAN',
      day: 'DATE',
      props: 'JSON',
      secret: 'STRING',
    }),
    timestamp: 'ts',
    uniqueId: 'id',
    tenant: 'tenant',
  },
  visitors: {
    columns: columnsOf({
      id: 'STRING',
      plan: 'STRING',
      signed_up: 'TIMESTAMP',
      country: 'STRING',
      email: 'STRING',
    }),
    tableSettings: { orderBy: ['id'] },
  },
  t: {
    columns: columnsOf({
      ts: 'TIMESTAMP',
      id: 'STRING',
      s: 'STRING',
      n: 'INT64',
      x: 'DOUBLE',
      b: 'BOOLEAN',
      p: 'JSON',
    }),
    timestamp: 'ts',
    uniqueId: 'id',
  },
  prices: {
    columns: columnsOf({ id: 'STRING', sku: 'STRING', since: 'TIMESTAMP', price: 'DOUBLE' }),
    tableSettings: { orderBy: ['id'] },
  },
}

/** What the policies of `limitReader` show, as views over the pools in plain DuckDB. */
const POLICIES: Readonly<
  Record<string, { readonly columns: readonly string[]; readonly filterSql: string }>
> = {
  hits: {
    columns: POOLS['hits']!.columns!.map(({ name }) => name).filter(name => name !== 'secret'),
    filterSql: "tenant = 'north'",
  },
  visitors: { columns: ['id', 'plan', 'signed_up', 'country'], filterSql: "id <> 'v9'" },
  t: { columns: ['ts', 'id', 's', 'n', 'x', 'b', 'p'], filterSql: 'n < 9' },
  prices: { columns: ['id', 'sku', 'since', 'price', '_service_payload'], filterSql: 'price < 100' },
}

/** A node of a cluster merges nothing. */
const IS_LOCAL = STORE === 'local'

/** A Monday. */
const START_MS = Date.UTC(2024, 1, 26, 8)
const MINUTE_MS = 60_000
const EVENTS = 400
/** Each is at most half of the one before, so no flush replaces an earlier segment. */
const FALLING = [190, 95, 47, 23, 11, 5]
const VISITORS = 12
const NAMES = [
  'page_view',
  'page_view',
  'search',
  'add_to_cart',
  'page_view',
  'checkout',
  'purchase',
  'refund',
]
const SKUS = ['tea', 'cup', 'pot']
const CAMPAIGNS = ['spring', 'mail%20one', '']

/** Event `i`. Amounts are quarters, so that sums are exact in any order. */
function eventOf(i: number) {
  const name = NAMES[(i * 5 + (i >> 3)) % NAMES.length]!
  const visitor = (i * 7 + (i % 5)) % VISITORS
  const ms = START_MS + i * 47 * MINUTE_MS + (i % 6) * 13 * MINUTE_MS
  const items = Array.from({ length: i % 4 }, (_, at) => ({
    sku: SKUS[(i + at) % SKUS.length],
    qty: 1 + ((i + at) % 3),
    price: 0.25 * ((i + at) % 9),
  }))
  const campaign = CAMPAIGNS[i % CAMPAIGNS.length]!
  return {
    ts: `${new Date(ms).toISOString().slice(0, -1)}${i % 10 === 3 ? '456' : ''}Z`,
    id: `e${i}`,
    visitor: i % 17 === 16 ? null : `v${visitor}`,
    name,
    url:
      i % 11 === 10
        ? null
        : `https://shop.example/${['', 'tea/green', 'cup', 'search'][i % 4]}?utm_source=${['ads', 'mail'][i % 2]}&utm_campaign=${campaign}#top`,
    country: ['DE', 'FR', null, 'JP', 'DE'][visitor % 5],
    tenant: ['north', 'south', 'north', "east's"][visitor % 4],
    amount: name === 'purchase' || name === 'refund' ? (i % 40) * 0.25 : null,
    quantity: i % 9 === 8 ? null : (i * 7) % 23,
    paid: i % 7 === 6 ? null : i % 2 === 0,
    day: new Date(ms).toISOString().slice(0, 10),
    props:
      i % 13 === 12
        ? null
        : { items, tags: ['new', 'sale', 'üß'].slice(0, i % 4), utm: { source: 'ads' }, n: i % 3 },
    secret: `hidden-${i}`,
  }
}

function visitorOf(i: number, plan: string) {
  return {
    id: `v${i}`,
    plan,
    signed_up: new Date(START_MS - 1000 + i * 26 * 60 * MINUTE_MS).toISOString(),
    country: ['DE', 'FR', null, 'JP', 'DE'][i % 5],
    email: `v${i}@example.org`,
  }
}

/** A reader of the pools by HTTP. */
type Ask = (query: string, more?: Pick<Question, 'dialect' | 'parameters'>) => Promise<Answer>

export interface Ground {
  readonly server: TestServer
  /** Asks as the first application, which no policy limits. */
  readonly ask: Ask
  /** Asks plain DuckDB. */
  readonly plain: (query: string, parameters?: Question['parameters']) => Promise<Answer>
  /** Turns access control on: from now on `ask` has policies, and `plain` reads views like them. */
  limit(): Promise<void>
  stop(): Promise<void>
}

/** Starts the server, and fills its pools and plain DuckDB. */
export async function openGround(env: Readonly<Record<string, string>> = {}): Promise<Ground> {
  const server = await startServer({ env: { ...(IS_LOCAL ? OFTEN : {}), ...env } })
  await fill(server)
  const duckdb = await DuckDBInstance.create(':memory:')
  const connection = await duckdb.connect()
  await connection.run("SET TimeZone = 'UTC'; SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
  const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
  for (const name of Object.keys(POOLS)) {
    const answer = await fetch(`${server.base}/v1/pools/${name}/export?format=parquet`, {
      headers: { authorization },
    })
    const file = join(temporaryFolder(), `${name}.parquet`)
    writeFileSync(file, new Uint8Array(await answer.arrayBuffer()))
    await connection.run(`CREATE TABLE all_${name} AS ${await exportedRows(connection, file)}`)
    await connection.run(`CREATE VIEW ${name} AS SELECT * FROM all_${name}`)
  }
  const ask: Ask = async (query, more = {}) => {
    const { data, errors } = await server.graphql<{
      sqlV1: { columns: { columnName: string }[]; rows: Answer & object }
    }>('query ($input: SqlV1Input!) { sqlV1(input: $input) { columns { columnName } rows } }', {
      input: { query, ...more },
    })
    if (errors !== undefined) return { error: `${errors[0]?.extensions?.code}: ${errors[0]?.message}` }
    return { names: data.sqlV1.columns.map(({ columnName }) => columnName), rows: data.sqlV1.rows as never }
  }
  return {
    server,
    ask,
    plain: (query, parameters = []) => {
      const isNamed = parameters.some(({ name }) => name !== undefined)
      const values = parameters.map(({ value, type }) => (type === 'INT64' ? BigInt(value) : value))
      const named = Object.fromEntries(parameters.map(({ name }, at) => [name, values[at]]))
      return plainAnswer(connection, query, isNamed ? named : values)
    },
    limit: async () => {
      for (const [name, policy] of Object.entries(POLICIES)) {
        await limitPool(server, name, policy)
        await connection.run(
          `CREATE OR REPLACE VIEW ${name} AS SELECT ${policy.columns.join()} FROM all_${name} WHERE ${policy.filterSql}`,
        )
      }
    },
    stop: async () => {
      connection.closeSync()
      duckdb.closeSync()
      const { code, output } = await server.stop()
      if (code !== 0) throw new Error(output)
    },
  }
}

/** Two posts of the events with a flush between, then changes of some, and a merge of all. */
async function fill(server: TestServer): Promise<void> {
  const pools = new Map<string, string>()
  for (const [uniqueName, spec] of Object.entries(POOLS))
    pools.set(uniqueName, (await server.createPool({ uniqueName, ...spec })).url)
  const change = async (name: string, body: unknown, method: 'POST' | 'DELETE' = 'POST') => {
    const { status, body: answer } = await send(pools.get(name)!, body, method)
    if (status !== 200) throw new Error(`${name}: ${JSON.stringify(answer)}`)
  }
  const flushed = () =>
    server.graphql('{ counter(input: { metric: { count: { dataPool: { name: "hits" } } } }) { value } }')
  const events = Array.from({ length: EVENTS }, (_, i) => eventOf(i))
  // The first values of most events, which each of the next posts replaces for some of them.
  const changed = FALLING.reduce((sum, size) => sum + size, 0)
  const old = events.map((event, i) => (i < changed ? { ...event, amount: 1e6, secret: 'old' } : event))
  await change('hits', old)
  await flushed()
  let next = 0
  for (const size of FALLING) {
    await change('hits', events.slice(next, next + size))
    await flushed()
    next += size
  }
  if (IS_LOCAL) await until('the pool was merged', async () => (await merges(server)) > 0)
  // Merged once, and changed again, so that deletion vectors stand beside merged segments.
  if (IS_LOCAL) await untilRest(server)
  await change(
    'hits',
    events.filter((_, i) => i % 10 === 4),
    'DELETE',
  )
  await change(
    'hits',
    events.filter((_, i) => i % 25 === 1).map(event => ({ ...event, quantity: 100 })),
  )
  await flushed()
  for (const plan of ['free', 'pro'])
    await change(
      'visitors',
      Array.from({ length: VISITORS + 2 }, (_, i) =>
        visitorOf(i, plan === 'pro' && i % 3 > 0 ? plan : 'free'),
      ),
    )
  // The policy hides the last two.
  await change(
    't',
    Array.from({ length: 11 }, (_, n) => ({
      ts: new Date(Date.UTC(2024, 0, 1 + n)).toISOString(),
      id: `v${n}`,
      s: `${n}`,
      n,
      x: n / 2,
      b: n % 2 === 0,
      p: { k: n, l: [1, n] },
    })),
  )
  await change(
    'prices',
    Array.from({ length: 9 }, (_, i) => ({
      id: `p${i}`,
      sku: SKUS[i % SKUS.length],
      since: new Date(START_MS + (i - 3) * 40 * 60 * MINUTE_MS).toISOString(),
      price: i === 8 ? 500 : 1 + i * 0.5,
    })),
  )
  if (IS_LOCAL) await untilRest(server)
}

/** The rows of an exported file, with the types that statements see. */
async function exportedRows(
  connection: { run(sql: string): Promise<{ getRows(): Promise<readonly (readonly unknown[])[]> }> },
  file: string,
): Promise<string> {
  const from = `read_parquet('${file}')`
  const described = await (await connection.run(`DESCRIBE SELECT * FROM ${from}`)).getRows()
  const columns = described.map(([name, type]) => {
    if (type === 'TIMESTAMP WITH TIME ZONE') return `${name} AT TIME ZONE 'UTC' AS ${name}`
    return ['props', 'p', '_service_payload'].includes(String(name)) ? `${name}::JSON AS ${name}` : name
  })
  return `SELECT ${columns.join()} FROM ${from}`
}
