/** A data folder with every kind of column and pool; its rows by an export and by the tables. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { printDate, printInstant, shortestSingle } from '../../src/query/expression/print-values.ts'
import { addColumn } from '../jobs/add-column.ts'
import { runJob } from '../jobs/rewrite-jobs.ts'
import { weir } from '../tools/folder.ts'
import {
  type PoolSpec,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import { type Clickhouse, isModern } from './clickhouse-servers.ts'
import { ADMIN } from './nodes.ts'

const column = (name: string, type: string, nullable = true) => ({ name, type, jsonProperty: name, nullable })

const VALUES = [
  column('flag', 'BOOLEAN'),
  column('text', 'STRING'),
  column('f', 'FLOAT'),
  column('d', 'DOUBLE'),
  column('i8', 'INT8'),
  column('i16', 'INT16'),
  column('i32', 'INT32'),
  column('i64', 'INT64'),
  column('day', 'DATE'),
  column('doc', 'JSON'),
]

const SPECS = {
  keyed: {
    uniqueName: 'keyed',
    timestamp: 'at',
    uniqueId: 'id',
    basicAuth: { username: 'sender', password: 'a password of the sender' },
    columns: [column('at', 'TIMESTAMP', false), column('id', 'STRING', false), ...VALUES],
  },
  /** Its key is received-at and the id. */
  timeless: { uniqueName: 'timeless', uniqueId: 'id', columns: [column('id', 'INT64', false), ...VALUES] },
  plain: { uniqueName: 'plain', columns: VALUES },
  dated: {
    uniqueName: 'dated',
    timestamp: 'day',
    columns: [column('day', 'DATE', false), column('n', 'INT64')],
  },
  empty: { uniqueName: 'empty' },
} satisfies Record<string, PoolSpec>

export type PoolName = keyof typeof SPECS

export interface MovedFolder {
  readonly dataDir: string
  readonly pools: Readonly<Record<PoolName, TestPool>>
  /** Of the first application. */
  readonly token: string
  /** It sees the rows of `plain` whose flag is true. */
  readonly limited: { readonly id: string; readonly secret: string }
}

/** More rows than one block has. */
const PLAIN_ROWS = 66_500
const BATCH = 500
/** Of the sender of `keyed`. The others take them too. */
export const HEADERS = {
  authorization: `Basic ${Buffer.from('sender:a password of the sender').toString('base64')}`,
  'content-type': 'application/json',
}

/** An event with values at the ends of their types, or with nulls. */
function valuesOf(n: number) {
  const orNull = <T>(value: T) => ((n * 7 + 3) % 5 === 0 ? null : value)
  return {
    flag: n % 3 === 0 ? null : n % 2 === 0,
    text: orNull(['', 'ü\u0000\u{1f600}', '\ufeffx', `'"\\\n${'long '.repeat(n % 50)}`][n % 4]),
    f: orNull([1.1, -3.4e38, 1e-45, n][n % 4]),
    d: orNull([0.1, -1.7e308, 5e-324, n / 3][n % 4]),
    i8: orNull([-128, 127, 0][n % 3]),
    i16: orNull([-32768, 32767, n % 1000][n % 3]),
    i32: orNull([-2147483648, 2147483647, n][n % 3]),
    i64: orNull(n),
    day: orNull(['0001-01-01', '9999-12-31', '1969-12-31', '2026-02-28'][n % 4]),
    doc: orNull([{ a: [n, '\\u0041'] }, [], 'x', 1.5][n % 4]),
  }
}

async function post(url: string, from: number, count: number, more: (n: number) => object, method = 'POST') {
  for (let begin = from; begin < from + count; begin += BATCH) {
    const rows = Math.min(BATCH, from + count - begin)
    const events = Array.from({ length: rows }, (_, index) => more(begin + index))
    // The largest integer is no number of JavaScript.
    const body = JSON.stringify(events).replaceAll('"max"', '9223372036854775807')
    const answer = await fetch(url, { method, body, headers: HEADERS })
    expect([answer.status, answer.headers.get('x-events-rejected')]).toEqual([200, '0'])
  }
}

/** The timestamp of an event of `keyed`. */
export function at(n: number): string {
  const printed = new Date(Date.UTC(2026, 0, 1, 0, 0, n)).toISOString()
  return n % 2 === 0 ? printed.replace('2026', '0001') : printed
}

/** Updates and deletes, a job that has ended, a column that was added, and a log with events. */
export async function fillMovedFolder(plainRows = PLAIN_ROWS): Promise<MovedFolder> {
  const dataDir = join(temporaryFolder(), 'data')
  const env = { WEIR_CLIENT_ID: ADMIN.clientId, WEIR_CLIENT_SECRET: ADMIN.clientSecret }
  const server = await startServer({ dataDir, env })
  const pools = {} as Record<PoolName, TestPool>
  for (const [name, spec] of Object.entries(SPECS)) pools[name as PoolName] = await server.createPool(spec)
  const keyed = (n: number) => ({ at: at(n), id: `id ${n}`, ...valuesOf(n) })
  await post(pools.keyed.url, 0, 3_000, keyed)
  expect(await server.count(pools.keyed.poolId)).toBe('3000') // they are flushed
  await post(pools.keyed.url, 0, 500, n => ({ ...keyed(n), i64: 'max' }))
  await post(pools.keyed.url, 100, 200, n => ({ at: at(n), id: `id ${n}` }), 'DELETE')
  await post(pools.timeless.url, 0, 1_000, n => ({ id: n, ...valuesOf(n) }))
  await post(pools.plain.url, 0, plainRows, valuesOf)
  await post(pools.dated.url, 0, 700, n => ({ day: n % 2 === 0 ? '2026-01-01' : '1900-05-05', n }))
  await changeMuch(server, pools)
  const limited = await addReader(server, pools.plain.poolId)
  const token = await tokenOf(server, ADMIN.clientId, ADMIN.clientSecret)
  // These are in the log alone.
  await post(pools.plain.url, plainRows, 300, n => ({ ...valuesOf(n), later: n }))
  await post(pools.keyed.url, 2_900, 200, keyed)
  await server.kill()
  return { dataDir, pools, token, limited }
}

async function changeMuch(server: TestServer, { plain }: Readonly<Record<PoolName, TestPool>>) {
  await addColumn(server, plain.poolId, 'later', 'INT64')
  const deleted = {
    dataPool: plain.poolId,
    filters: [{ column: 'i64', operator: 'LESS_THAN', value: '900' }],
  }
  expect(await runJob(server, 'deletion', deleted)).toBe(null)
}

async function addReader(server: TestServer, poolId: string) {
  const created = await server.graphql<{
    createApplication: { application: { id: string; secret: string } }
  }>(
    `mutation { createApplication(input: {uniqueName: "reader", scopes: [DATA_POOL_QUERY]}) {
       ... on ApplicationResponse { application { id secret } } } }`,
  )
  expect(created.errors).toBe(undefined)
  const reader = created.data.createApplication.application
  const policy = await server.graphql<{
    createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } }
  }>(
    `mutation { createDataPoolAccessPolicy(input: {dataPool: "${poolId}", columns: ["*"], filterSql: "flag"}) {
       dataPoolAccessPolicy { id } } }`,
  )
  expect(policy.errors).toBe(undefined)
  const { id } = policy.data.createDataPoolAccessPolicy.dataPoolAccessPolicy
  await server.graphql(
    `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${id}", application: "${reader.id}") }`,
  )
  return reader
}

export async function tokenOf(
  { base }: Pick<TestServer, 'base'>,
  id: string,
  secret: string,
): Promise<string> {
  const answer = await fetch(`${base}/oauth2/token`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: 'grant_type=client_credentials',
  })
  return ((await answer.json()) as { access_token: string }).access_token
}

/** The live rows of a pool as `weir export` writes them, sorted. */
export async function exportedRows(dataDir: string, pool: string): Promise<string[]> {
  const file = join(temporaryFolder(), 'rows.ndjson')
  const { code, err } = await weir(['export', pool, '--out', file, '--data-dir', dataDir])
  expect([code, err]).toEqual([0, expect.stringContaining('rows')])
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.filter(line => line !== '').sort()
}

/** The same of the tables, each replica of a shard with the same rows. */
export async function rowsOfTables(
  shards: readonly (readonly Clickhouse[])[],
  table: string,
  types: Readonly<Record<string, string>>,
): Promise<string[]> {
  const rows: string[] = []
  for (const replicas of shards) {
    const found = await Promise.all(replicas.map(server => rowsOf(server, table, types)))
    for (const each of found) expect(each).toEqual(found[0])
    rows.push(...found[0]!)
  }
  return rows.sort()
}

async function rowsOf(server: Clickhouse, table: string, types: Readonly<Record<string, string>>) {
  await server.query(`SYSTEM SYNC REPLICA ${table}`)
  const { meta } = JSON.parse(await server.query(`SELECT * FROM ${table} LIMIT 0 FORMAT JSON`)) as {
    meta: { name: string }[]
  }
  const names = meta.map(({ name }) => name).filter(name => !/^_(version|deleted)$/.test(name))
  const list = names.map(name => asRead(name, types[name]))
  const live = names.length === meta.length - 2 ? ' FINAL WHERE _deleted = 0' : ''
  const printed = await server.query(`SELECT ${list.join(', ')} FROM ${table}${live} FORMAT JSONCompact`)
  const { data } = JSON.parse(printed) as { data: (string | number | null)[][] }
  return data
    .map(row => {
      const cells = row.map((cell, at) => `${JSON.stringify(names[at])}:${cellOf(cell, types[names[at]!])}`)
      return `{${cells.join(',')}}`
    })
    .sort()
}

/** Numbers as integers of their bits, texts in hexadecimal digits: no printer is trusted. */
function asRead(name: string, type = 'JSON'): string {
  if (/FLOAT|DOUBLE/.test(type)) return `toString(reinterpretAsInt64(reinterpretAsString(${name})))`
  if (/STRING|JSON/.test(type)) return `hex(${name})`
  if (type === 'TIMESTAMP' && isModern) return `toString(toUnixTimestamp64Micro(${name}))`
  if (type === 'DATE') return `toInt32(${name})`
  return type === 'INT64' ? `toString(${name})` : name
}

/** A cell as an export prints it. */
function cellOf(cell: string | number | null, type = 'JSON'): string {
  if (cell === null) return 'null'
  switch (type) {
    case 'BOOLEAN':
      return String(Number(cell) === 1)
    case 'TIMESTAMP':
      return JSON.stringify(printInstant(BigInt(cell)))
    case 'DATE':
      return JSON.stringify(printDate(Number(cell)))
    case 'FLOAT':
      return shortestSingle(new Float32Array(new BigInt64Array([BigInt(cell)]).buffer)[0]!)
    case 'DOUBLE':
      return String(new Float64Array(new BigInt64Array([BigInt(cell)]).buffer)[0])
    case 'STRING':
      return JSON.stringify(Buffer.from(String(cell), 'hex').toString())
    case 'JSON':
      return Buffer.from(String(cell), 'hex').toString()
    default:
      return String(cell)
  }
}

/** The types of the columns of a pool, by name. */
export function typesOf(name: PoolName): Record<string, string> {
  const spec: PoolSpec = SPECS[name]
  return {
    _service_received_at: 'TIMESTAMP',
    ...Object.fromEntries((spec.columns ?? []).map(({ name, type }) => [name, type])),
    later: 'INT64',
  }
}
