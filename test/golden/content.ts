/**
 * The rows of a golden folder: its pools, and the requests that fill them in several rounds. The
 * model holds the rows that the pools must have, in the form that NDJSON exports print.
 */
import { column } from '../path/client.ts'
import type { ColumnSpec, PoolSpec } from '../util/server.ts'

/** An event's values as an export prints them. `"#12#"` stands for the number 12. */
type Event = Readonly<Record<string, unknown>>

/** A pool of a golden folder. */
export interface GoldenPool extends PoolSpec {
  readonly uniqueName: string
  /** The columns of the key; without them each event is a row of its own. */
  readonly key: readonly string[]
  /** Of two events of a key the one with the higher value stays. */
  readonly version?: string
  /** The pool needs a version of Weir that has table settings, policies and jobs. */
  readonly needsControl?: true
  /** The pool needs a version of Weir that has settings of foreign senders. */
  readonly needsSenders?: true
  /** The pool needs a version of Weir whose columns read the body around the events. */
  readonly needsEnvelopes?: true
  /** It belongs to an Http source. */
  readonly isGeneric?: true
  /** The events of a round, in two requests: the second one updates rows of the first. */
  events(round: number): readonly (readonly Event[])[]
  /** The events that the round deletes then. */
  deletes?(round: number): readonly Event[]
}

/** Rounds of requests. Between two of them the server is killed. The last one is not flushed. */
export const ROUNDS = 4

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)
const two = (n: number) => String(n).padStart(2, '0')
const REQUIRED = false
const NULLABLE = true

const EVERY_TYPE = [
  column('at', 'TIMESTAMP'),
  column('id', 'STRING'),
  column('tenant', 'STRING'),
  column('flag', 'BOOLEAN', NULLABLE),
  column('f', 'FLOAT', NULLABLE),
  column('d', 'DOUBLE', NULLABLE),
  column('i8', 'INT8', NULLABLE),
  column('i16', 'INT16', NULLABLE),
  column('i32', 'INT32', NULLABLE),
  column('i64', 'INT64', NULLABLE),
  column('day', 'DATE', NULLABLE),
  column('moment', 'TIMESTAMP', NULLABLE),
  column('j', 'JSON', NULLABLE),
  column('city', 'STRING', NULLABLE, 'address.city'),
  column('round', 'INT32'),
]

/** Ids of more than 200 bytes are keyed by their SHA-256. */
const idOf = (n: number) => (n % 10 === 7 ? `${'long '.repeat(41)}${n}` : `é😀 ${n}`)
const keyOf = (n: number) => ({ at: `2026-01-${two(1 + (n % 28))}T03:04:05.678901Z`, id: idOf(n) })

function everyType(n: number, round: number): Event {
  const key = { ...keyOf(n), tenant: `tenant ${n % 3}`, round }
  if (n % 4 === 3) return key // the others are null
  return {
    ...key,
    flag: n % 2 === 0,
    f: n + 0.5,
    d: n % 2 === 0 ? 1e100 : -0.1,
    i8: -128 + (n % 100),
    i16: 32_767 - n,
    i32: -2_147_483_648 + n,
    i64: `#${9_223_372_036_854_775_807n - BigInt(n)}#`,
    day: `1969-12-${two(1 + (n % 28))}`,
    moment: `2023-11-14T22:13:${two(n % 60)}.000Z`,
    j: n % 2 === 0 ? { a: [n, null, 'x'] } : 'text',
    address: { city: n % 5 === 0 ? '' : `city\n${n}` },
  }
}

/** A pool whose key is one timestamp and an id of this type. */
function keyedBy(type: string, ids: readonly unknown[]): GoldenPool {
  return {
    uniqueName: `by_${type.toLowerCase()}`,
    columns: [column('at', 'TIMESTAMP'), column('id', type), column('n', 'INT32')],
    timestamp: 'at',
    uniqueId: 'id',
    key: ['at', 'id'],
    events: round => [
      ids.map(id => ({ at: '2026-01-01T00:00:00.000Z', id, n: round })),
      ids.slice(0, 2).map(id => ({ at: '2026-01-01T00:00:00.000Z', id, n: 10 + round })),
    ],
    deletes: () => ids.slice(2, 3).map(id => ({ at: '2026-01-01T00:00:00.000Z', id })),
  }
}

/** Every pool of a golden folder. A new version adds its own kinds at the end. */
export const POOLS: readonly GoldenPool[] = [
  {
    uniqueName: 'every_type',
    columns: EVERY_TYPE,
    timestamp: 'at',
    uniqueId: 'id',
    tenant: 'tenant',
    key: ['at', 'id'],
    events: round => [
      numbers(24).map(i => everyType(18 * round + i, round)),
      numbers(8).map(i => everyType(18 * round + 3 * i, 100 + round)),
    ],
    deletes: round => numbers(5).map(i => keyOf(12 * round + 7 * i)),
  },
  {
    uniqueName: 'by_day',
    columns: [column('day', 'DATE'), column('id', 'INT64'), column('shop', 'INT32'), column('n', 'DOUBLE')],
    timestamp: 'day',
    uniqueId: 'id',
    tenant: 'shop',
    key: ['day', 'id'],
    events: round => [
      numbers(12).map(i => ({
        day: `2026-02-${two(1 + i)}`,
        id: `#${9_007_199_254_740_993n + BigInt(i * round)}#`,
        shop: i % 3,
        n: round + 0.25,
      })),
      [{ day: '2026-02-01', id: '#9007199254740993#', shop: 9, n: round }],
    ],
    deletes: round => [{ day: '2026-02-03', id: `#${9_007_199_254_740_993n + 2n * BigInt(round)}#` }],
  },
  keyedBy('DOUBLE', [0, 1.5, 1e300, -3]),
  keyedBy('BOOLEAN', [true, false]),
  keyedBy('DATE', ['0001-01-01', '1969-12-31', '9999-12-31']),
  keyedBy('INT8', [-128, 0, 127]),
  {
    // The key holds the time of arrival, so no event updates another one.
    uniqueName: 'arrivals',
    columns: [column('id', 'STRING'), column('n', 'INT32', NULLABLE)],
    uniqueId: 'id',
    key: [],
    events: round => [numbers(6).map(n => ({ id: `a${n}`, n })), [{ id: 'a0', n: round }]],
  },
  {
    uniqueName: 'moments',
    columns: [column('at', 'TIMESTAMP'), column('n', 'INT32')],
    timestamp: 'at',
    key: [],
    events: round => [numbers(5).map(n => ({ at: `2026-03-0${round}T00:00:00.000Z`, n }))],
  },
  {
    uniqueName: 'guarded',
    basicAuth: { username: 'sender', password: 'golden' },
    key: [],
    events: round => [[{ round }, { round, text: 'two\u0000' }]],
  },
  {
    // Later merges leave nothing of its segments.
    uniqueName: 'emptied',
    columns: [column('at', 'TIMESTAMP'), column('id', 'STRING')],
    timestamp: 'at',
    uniqueId: 'id',
    key: ['at', 'id'],
    events: round => (round === 1 ? [numbers(20).map(keyOf)] : []),
    deletes: round => (round === 1 ? numbers(10).map(keyOf) : numbers(20).map(keyOf)),
  },
  {
    uniqueName: 'versions',
    needsControl: true,
    columns: [
      column('a', 'STRING', REQUIRED),
      column('b', 'INT32'),
      column('ver', 'INT64'),
      column('n', 'INT32'),
    ],
    tableSettings: { engine: { replacingMergeTree: { ver: 'ver' } }, orderBy: ['a', 'b'] },
    key: ['a', 'b'],
    version: 'ver',
    events: round => [
      numbers(10).map(n => ({ a: `v${n}`, b: n, ver: 10 - round, n: round })),
      numbers(5).map(n => ({ a: `v${n}`, b: n, ver: 20 + round * (n % 2 === 0 ? 1 : -1), n: 100 + round })),
    ],
    deletes: () => [{ a: 'v9', b: 9 }],
  },
  {
    uniqueName: 'ordered',
    needsControl: true,
    columns: [column('a', 'STRING'), column('at', 'TIMESTAMP'), column('n', 'INT32')],
    timestamp: 'at',
    tableSettings: { orderBy: ['a', '_service_received_at'] },
    key: [],
    events: round => [[{ a: 'x', at: '2026-04-01T00:00:00.000Z', n: round }]],
  },
  // One gets a column, jobs change the rows of the next, and a policy limits the third.
  { ...counted('widened'), needsControl: true },
  { ...counted('rewritten'), needsControl: true },
  { ...counted('closed'), accessControlEnabled: true, needsControl: true },
  // An import fills this one alone.
  { ...counted('imported'), needsControl: true, events: () => [] },
  {
    uniqueName: 'generic',
    needsControl: true,
    isGeneric: true,
    columns: [column('id', 'STRING', NULLABLE)],
    basicAuth: { username: 'sender', password: 'golden' },
    key: [],
    events: round => [[{ id: `g${round}` }, { other: round }]],
  },
  {
    uniqueName: 'foreign',
    needsControl: true,
    needsSenders: true,
    accept: ['FORM', 'PATH'],
    verifyToken: 'golden',
    columns: [
      column('id', 'STRING'),
      column('sku', 'STRING', NULLABLE, 'items[0].sku'),
      column('event', 'STRING', NULLABLE, '$header.x-golden'),
      { ...column('price', 'DOUBLE', NULLABLE), coerce: true },
    ],
    uniqueId: 'id',
    tableSettings: { orderBy: ['id'] },
    key: ['id'],
    events: round => [
      [
        { id: `f${round}`, items: [{ sku: `sku ${round}` }], price: round + 0.5 },
        { id: 'f0', items: [], price: null },
      ],
    ],
  },
  {
    // Signed requests are sent by other tests.
    uniqueName: 'wrapped',
    needsControl: true,
    needsSenders: true,
    preset: 'CLOUDEVENTS',
    columns: [column('id', 'STRING')],
    eventsPath: 'data.items',
    signature: { scheme: 'GENERIC_HMAC', secrets: ['golden'], header: 'x-golden' },
    key: [],
    events: () => [],
  },
  {
    uniqueName: 'enveloped',
    needsEnvelopes: true,
    columns: [column('id', 'STRING'), column('batch', 'STRING', NULLABLE, '$.batch')],
    eventsPath: 'data.items',
    key: [],
    events: () => [],
  },
  {
    uniqueName: 'with_envelopes',
    needsEnvelopes: true,
    columns: [column('id', 'STRING'), column('batch', 'STRING', NULLABLE, '$.batch')],
    eventsPath: 'data.items',
    keepEnvelope: true,
    key: [],
    events: () => [],
  },
]

/** The events of the import. */
export const IMPORTED = counted('imported').events(0).flat()

function counted(uniqueName: string): GoldenPool {
  return {
    uniqueName,
    columns: [column('at', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')],
    timestamp: 'at',
    uniqueId: 'id',
    key: ['at', 'id'],
    events: round => [
      numbers(20).map(i => ({ ...keyOf(10 * round + i), n: 10 * round + i, extra: `extra ${round}` })),
    ],
  }
}

/** The column that a job adds to the pool `widened`. */
export const ADDED = column('extra', 'STRING', NULLABLE)

/** The column that a job adds to the pool `wrapped`. */
export const ADDED_TO_WRAPPED = { ...column('page', 'INT64', NULLABLE, '$query.page'), coerce: true }

/** The JSON of an event or a value. */
export function textOf(value: unknown): string {
  return JSON.stringify(value).replaceAll(/"#(-?\d+)#"/g, '$1')
}

/** The rows that a folder must hold. */
export class Model {
  readonly #pools = new Map<string, Map<string, { readonly event: Event; readonly columns: Event }>>()
  readonly #added = new Map<string, readonly ColumnSpec[]>()

  /** Stores the events as one request. */
  post(pool: GoldenPool, events: readonly Event[]): void {
    const rows = this.#rowsOf(pool)
    for (const event of events) {
      const key = pool.key.length === 0 ? String(rows.size) : keyText(pool, event)
      const { version } = pool
      const before = rows.get(key)
      if (
        version !== undefined &&
        before !== undefined &&
        Number(before.event[version]) > Number(event[version])
      )
        continue
      const columns = [...(pool.columns ?? []), ...(this.#added.get(pool.uniqueName) ?? [])]
      rows.set(key, { event, columns: cellsOf(columns, event) })
    }
  }

  delete(pool: GoldenPool, events: readonly Event[]): void {
    for (const event of events) this.#rowsOf(pool).delete(keyText(pool, event))
  }

  /** Adds a column: it is null in the rows that are there. */
  addColumn(pool: GoldenPool, added: ColumnSpec): void {
    this.#added.set(pool.uniqueName, [added])
    this.set(pool, added.name, () => null)
  }

  /** Sets a column as an update job does: the payload stays. */
  set(pool: GoldenPool, name: string, value: (columns: Event) => unknown): void {
    const rows = this.#rowsOf(pool)
    for (const [key, row] of rows)
      rows.set(key, { ...row, columns: { ...row.columns, [name]: value(row.columns) } })
  }

  /** Deletes rows as a deletion job does. */
  deleteWhere(pool: GoldenPool, matches: (columns: Event) => boolean): void {
    const rows = this.#rowsOf(pool)
    for (const [key, row] of rows) if (matches(row.columns)) rows.delete(key)
  }

  /** The lines of an NDJSON export without the time of arrival, sorted. */
  lines(pool: GoldenPool): readonly string[] {
    return [...this.#rowsOf(pool).values()]
      .map(({ event, columns }) => {
        const cells = Object.entries(columns).map(([name, value]) => `,"${name}":${textOf(value)}`)
        return `{"_service_payload":${textOf(event)}${cells.join('')}}`
      })
      .sort()
  }

  #rowsOf({ uniqueName }: GoldenPool) {
    let rows = this.#pools.get(uniqueName)
    if (rows === undefined) {
      rows = new Map()
      this.#pools.set(uniqueName, rows)
    }
    return rows
  }
}

function keyText(pool: GoldenPool, event: Event): string {
  return pool.key.map(name => textOf(event[name])).join()
}

function cellsOf(columns: readonly ColumnSpec[], event: Event): Event {
  return Object.fromEntries(
    columns.map(({ name, jsonProperty }) => {
      const value = jsonProperty
        .split(/[.[\]]+/)
        .reduce<unknown>((object, part) => (object as Event | undefined)?.[part], event)
      return [name, value ?? null]
    }),
  )
}
