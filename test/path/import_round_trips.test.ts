/**
 * Random pools, and files of their rows: their own exports, with headers in another form, in
 * another order, with a column missing or one more. Each value that does not come back is told.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask } from '../api/client.ts'
import { casesOf, integersFrom, newSeed } from '../util/random.ts'
import {
  type ColumnSpec,
  fetchToken,
  send,
  startServer,
  type TestPool,
  type TestServer,
} from '../util/server.ts'
import { column, portOf } from './client.ts'

let server: TestServer
/** A new one for each pool: a token is valid for an hour. */
let token: string
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

type Rows = ReadonlyMap<string, Readonly<Record<string, unknown>>>
type Integer = (limit: number) => number
interface Report {
  readonly rejected: number
  readonly unknownFields: readonly { readonly field: string; readonly column: string | null }[]
  readonly unfilledColumns: readonly string[]
}

const FORMATS = ['ndjson', 'csv', 'parquet'] as const
const NAMES = [
  'amount',
  'unitPrice',
  'Customer name',
  'ship_to',
  'stadt-größe',
  'line1',
  'line2',
  'x',
  'order.no',
]
const VALUES: Readonly<Record<string, (n: Integer) => unknown>> = {
  STRING: n => ['', 'text', 'a, "b"\nc', ' é€😀 '][n(4)],
  BOOLEAN: n => n(2) === 0,
  INT64: n => n(2 ** 31) - 2 ** 30,
  DOUBLE: n => n(1000) / 8,
  DATE: n => `2026-01-0${1 + n(9)}`,
  TIMESTAMP: n => `2026-01-0${1 + n(9)}T01:02:03.123456Z`,
  JSON: n => [{ a: [1, null, 'é'] }, 'text', 5, []][n(4)],
}

/** Other forms of a name which are near it, by the words of the issue that asked for the check. */
const FORMS: readonly ((name: string) => string)[] = [
  name => name.toUpperCase(),
  name => ` ${name}`,
  name => `${name} `,
  name => `${name.slice(0, 1)}_${name.slice(1)}`,
  name => name.replaceAll(/[ _.-]/g, '/').replace(/^/, '-'),
  name => `data.${name}`,
  name => `${name}.`,
]

interface Case {
  readonly columns: readonly ColumnSpec[]
  readonly events: readonly Record<string, unknown>[]
  /** Names of the columns in another form, by name. */
  readonly renamed: ReadonlyMap<string, string>
  readonly integer: Integer
}

const ADDED = column('of no pool', 'STRING', true, 'unrelated')

function pick<T>(all: readonly T[], count: number, integer: Integer): T[] {
  const left = [...all]
  return Array.from({ length: count }, () => left.splice(integer(left.length), 1)[0]!)
}

function makeCase(seed: number): Case {
  const integer = integersFrom(seed)
  const property = (name: string, index: number) =>
    [name, name, `order.v${index}`, `p_${index}`, `$${name}`.slice(integer(2))][integer(5)]!
  const names = pick(NAMES, 2 + integer(4), integer)
  const types = Object.keys(VALUES)
  const columns = [
    column('id', 'STRING', false, integer(2) === 0 ? 'id' : 'key.id'),
    ...names.map((name, index) =>
      column(name, types[integer(types.length)]!, true, property(name, index).replace(/^\$/, 'q')),
    ),
  ]
  const events = Array.from({ length: 1 + integer(4) }, (_, row) => {
    const event: Record<string, unknown> = { unrelated: 'u' }
    for (const { jsonProperty, type, name } of columns) {
      if (row > 0 && name !== 'id' && integer(4) === 0) continue
      set(event, jsonProperty, name === 'id' ? `id ${row}` : VALUES[type]!(integer))
    }
    return event
  })
  const renamed = new Map(
    pick(names, 1 + integer(names.length), integer).map(name => [name, FORMS[integer(FORMS.length)]!(name)]),
  )
  return { columns, events, renamed, integer }
}

function set(event: Record<string, unknown>, property: string, value: unknown): void {
  const path = property.split('.')
  let at = event
  for (const name of path.slice(0, -1)) {
    at[name] ??= {}
    at = at[name] as Record<string, unknown>
  }
  at[path.at(-1)!] = value
}

const headers = () => ({ authorization: `Bearer ${token}` })

async function poolOf(columns: readonly ColumnSpec[], events: readonly unknown[] = []): Promise<TestPool> {
  const pool = await server.createPool({ columns, uniqueId: 'id' })
  if (events.length > 0) {
    const { status, json } = (await send(pool.url, events)) as unknown as { status: number; json: unknown }
    expect([status, json]).toEqual([200, json])
  }
  return pool
}

/** @param columns none: all of them and the payload */
async function exported(pool: TestPool, format: string, columns: readonly string[]): Promise<Uint8Array> {
  const query = new URLSearchParams({ format, ...(columns.length > 0 && { columns: columns.join() }) })
  const answer = await fetch(`${server.base}/v1/pools/${pool.poolId}/export?${query}`, { headers: headers() })
  const body = new Uint8Array(await answer.arrayBuffer())
  expect([answer.status, answer.status === 200 ? '' : Buffer.from(body).toString()]).toEqual([200, ''])
  return body
}

/** The values of each row, by id and column. */
async function rowsOf(pool: TestPool, names: readonly string[]): Promise<Rows> {
  const text = Buffer.from(await exported(pool, 'ndjson', names)).toString()
  const rows = text.split('\n').filter(line => line !== '')
  return new Map(
    rows.map(line => {
      const row = JSON.parse(line) as Record<string, unknown>
      return [row['id'] as string, row]
    }),
  )
}

interface Outcome {
  readonly status: number
  readonly code: string | undefined
  readonly report: Report
  /** Columns of which a stored row has lost a value, and the number of rows that are not stored. */
  readonly lostColumns: readonly string[]
  readonly lostRows: number
}

/** Imports a file into a new pool, and compares its rows with those of the source. */
async function imported(
  { columns }: Case,
  wanted: Rows,
  format: string,
  body: Uint8Array,
  mapping = new URLSearchParams(),
): Promise<Outcome> {
  const names = columns.map(({ name }) => name)
  const target = await poolOf(columns)
  const path = `/v1/pools/${target.poolId}/import?${new URLSearchParams([['format', format], ...mapping])}`
  const { status, json } = await ask(portOf(server), path, { body, headers: headers() })
  const rows = await rowsOf(target, names)
  const lost = new Set<string>()
  for (const [id, row] of rows)
    for (const name of names)
      if (JSON.stringify(row[name]) !== JSON.stringify(wanted.get(id)?.[name])) lost.add(name)
  return {
    status,
    code: json.code,
    report: json as Report,
    lostColumns: [...lost],
    lostRows: wanted.size - rows.size,
  }
}

/** Every column that lost a value is named, and every row that is not there is counted. */
function expectTold(what: unknown, { status, report, lostColumns, lostRows }: Outcome): void {
  const untold = lostColumns.filter(name => !report.unfilledColumns.includes(name))
  const isTold = status !== 200 || report.rejected === lostRows
  expect({ what, untold, isTold }).toEqual({ what, untold: [], isTold: true })
}

const WHOLE = { status: 200, lostColumns: [], lostRows: 0 }
const parameters = (...pairs: [string, string][]) => new URLSearchParams(pairs)

/** Counts of what the round trips came to, printed at the end of the long run. */
const tally = new Map<string, number>()

async function roundTrips(seed: number): Promise<void> {
  token = await fetchToken(server.base, server.dataDir)
  const one = makeCase(seed)
  const { columns, events, renamed, integer } = one
  const names = columns.map(({ name }) => name)
  const source = await poolOf([...columns, ADDED], events)
  const wanted = await rowsOf(source, names)
  const named = (name: string) => renamed.get(name) ?? name
  const other = await poolOf(
    columns.map(spec => ({ ...spec, name: named(spec.name) })),
    events,
  )
  const missing = names[1 + integer(names.length - 1)]!
  const map = [...renamed].map(([name, form]) => ['map', `${form}=${name}`] as [string, string])
  const order = pick(names, names.length, integer)
  const ofFormat = async (format: string) => {
    // NDJSON has no header: its fields are properties unless the client says that they are columns.
    const by: [string, string][] = format === 'ndjson' ? [['by', 'column']] : []
    const trip = async (
      name: string,
      from: TestPool,
      chosen: readonly string[],
      mapping: URLSearchParams = parameters(...by),
    ) => {
      const outcome = await imported(one, wanted, format, await exported(from, format, chosen), mapping)
      const what = { seed, format, name, outcome, columns, mapping: mapping.toString() }
      expectTold(what, outcome)
      const kind =
        outcome.status !== 200
          ? 'refused'
          : outcome.lostColumns.length + outcome.lostRows > 0
            ? 'told'
            : 'whole'
      tally.set(`${format} ${name}: ${kind}`, (tally.get(`${format} ${name}: ${kind}`) ?? 0) + 1)
      return { ...outcome, what }
    }
    const own = await trip('own', source, names)
    expect(own).toMatchObject(WHOLE)
    expect([own.report.unknownFields, own.report.unfilledColumns]).toEqual([[], []])
    expect(await trip('own, with the payload', source, [])).toMatchObject(WHOLE)
    expect(await trip('other order', source, order)).toMatchObject(WHOLE)
    const without = await trip(
      'missing',
      source,
      names.filter(name => name !== missing),
    )
    expect(without.report.unfilledColumns).toEqual([missing])
    const more = await trip('extra', source, [...names, ADDED.name])
    expect(more).toMatchObject(WHOLE)
    expect(more.report.unknownFields).toEqual([{ field: ADDED.name, column: null }])
    const forms = names.map(named)
    if (format === 'ndjson') await trip('own, by property', source, names, parameters())
    const refused = await trip('other case', other, forms)
    if (format !== 'ndjson')
      expect([refused.code, refused.lostRows]).toEqual(['unknown_header', events.length])
    const told = refused.report.unknownFields.filter(({ column: near }) => near !== null)
    if (format === 'ndjson')
      expect(told.map(({ field }) => field).sort()).toEqual([...renamed.values()].sort())
    expect(await trip('other case, map', other, forms, parameters(...by, ...map))).toMatchObject(WHOLE)
    await trip('other case, ignored', other, forms, parameters(...by, ['ignoreUnknown', 'true']))
  }
  await Promise.all(FORMATS.map(ofFormat))
}

test('each loss of a round trip is told', { timeout: 3 * 3_600_000 }, async () => {
  const seed = newSeed()
  const cases = casesOf(1, 200)
  for (let index = 0; index < cases; index += 1) await roundTrips(seed + index)
  const counts = [...tally].sort().map(([what, count]) => `${what} ${count}`)
  if (cases > 1) process.stdout.write(`seed ${seed}, ${cases} pools\n${counts.join('\n')}\n`)
})
