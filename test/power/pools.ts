/**
 * The pools of the power-cut runs, their random requests, and what a reader must see after them.
 */
import { KEY_RECEIVED_AT, type PoolSchema, type SchemaColumn } from '../../src/format/schema.ts'
import { below, type Random } from '../util/random.ts'

const column = (name: string, type: SchemaColumn['type'], required = true): SchemaColumn => ({
  name,
  type,
  jsonProperty: name,
  required,
})

/**
 * Two pools with a key, one of them with a tenant, one in which every event is a row of its own,
 * and one whose key holds received-at, which makes every event a row too.
 */
export const SCHEMAS: readonly PoolSchema[] = [
  {
    pool: 1,
    version: 1,
    columns: [
      column('ts', 'TIMESTAMP'),
      column('id', 'STRING'),
      column('shop', 'STRING', false),
      column('stamp', 'INT64'),
    ],
    timestamp: 0,
    tenant: 2,
    key: { columns: [0, 1], version: -1 },
  },
  { pool: 2, version: 1, columns: [column('stamp', 'INT64')], timestamp: -1, tenant: -1, key: null },
  {
    pool: 3,
    version: 1,
    columns: [column('day', 'DATE'), column('n', 'INT64'), column('stamp', 'INT64')],
    timestamp: 0,
    tenant: -1,
    key: { columns: [0, 1], version: -1 },
  },
  {
    pool: 4,
    version: 1,
    columns: [column('id', 'STRING'), column('stamp', 'INT64')],
    timestamp: -1,
    tenant: -1,
    key: { columns: [0, KEY_RECEIVED_AT], version: -1 },
  },
]

/** No event of the pool replaces another one. */
const isAppendOnly = (pool: number) => pool === 2 || pool === 4

/** The name of a pool's folder. */
export const poolIdOf = (pool: number) => `POOL${pool}`

const KEYS = 40
export const FIRST_MS = Date.UTC(2026, 0, 1)
export const DAY_MS = 86_400_000

/** A row is put under its key with a stamp that is used once, or (null) deleted. */
interface Mutation {
  readonly key: string
  readonly stamp: number | null
}

/** One request: the body as it is sent, and its changes where it is accepted. */
export interface Request {
  readonly pool: number
  readonly kind: 'post' | 'delete'
  readonly body: Uint8Array
  readonly receivedAtUs: number
  readonly mutations: readonly Mutation[]
}

/** The key properties of key number `n`, and the name that a reader gives to its row. */
function keyOf(pool: number, n: number): { readonly key: string; readonly event: Record<string, unknown> } {
  const ms = FIRST_MS + (n % 4) * DAY_MS
  if (pool === 1) {
    const id = `k${n >> 1}`.padEnd(n % 7 === 0 ? 230 : 3, '.')
    return { key: `${ms * 1000} ${id}`, event: { ts: new Date(ms).toISOString(), id } }
  }
  const day = Math.floor(ms / DAY_MS)
  return { key: `${day} ${n >> 1}`, event: { day: new Date(ms).toISOString().slice(0, 10), n: n >> 1 } }
}

/** The name that a reader gives to a row. */
export function keyOfRow(pool: number, row: Readonly<Record<string, unknown>>): string {
  if (pool === 1) return `${row['ts']} ${row['id']}`
  return isAppendOnly(pool) ? String(row['stamp']) : `${row['day']} ${row['n']}`
}

/** Makes requests; each stamp is used once in a run. */
export class RequestMaker {
  readonly #random: Random
  #stamp = 0

  constructor(random: Random) {
    this.#random = random
  }

  next(): Request {
    const random = this.#random
    const pool = 1 + below(random, SCHEMAS.length)
    const receivedAtUs = 1000 * FIRST_MS + below(random, 1_000_000_000)
    const isDelete = !isAppendOnly(pool) && random() < 0.25
    const count = random() < 0.2 ? 20 + below(random, 60) : 1 + below(random, 6)
    const made = isDelete ? this.#deletes(pool, count) : this.#posts(pool, count)
    const body = Buffer.from(JSON.stringify(made.events))
    return { pool, kind: isDelete ? 'delete' : 'post', body, receivedAtUs, mutations: made.mutations }
  }

  #deletes(pool: number, count: number) {
    const keys = Array.from({ length: Math.min(count, 12) }, () => keyOf(pool, below(this.#random, KEYS)))
    return {
      events: keys.map(({ event }) => event),
      mutations: keys.map(({ key }): Mutation => ({ key, stamp: null })),
    }
  }

  /** Some requests have an invalid event among the valid ones. It changes nothing. */
  #posts(pool: number, count: number) {
    const random = this.#random
    const events: Record<string, unknown>[] = []
    const mutations: Mutation[] = []
    const bad = count > 1 && random() < 0.2 ? below(random, count) : -1
    // Four requests of 80 events are one append, which fits in a small log file.
    const pad = 'x'.repeat(below(random, count > 10 ? 60 : 300))
    for (let i = 0; i < count; i++) {
      this.#stamp += 1
      const { key, event } = keyOf(pool, below(random, KEYS))
      const shop = pool === 1 && random() < 0.9 ? { shop: `s${below(random, 3)}` } : {}
      const named = pool === 4 ? { id: `k${this.#stamp % 2}` } : event
      events.push({ ...(pool === 2 ? {} : named), ...shop, stamp: i === bad ? 'bad' : this.#stamp, pad })
      if (i !== bad)
        mutations.push({ key: isAppendOnly(pool) ? String(this.#stamp) : key, stamp: this.#stamp })
    }
    return { events, mutations }
  }
}

/** Key → stamp of each pool, after these requests. */
export type Rows = ReadonlyMap<number, ReadonlyMap<string, number>>

export function rowsAfter(requests: Iterable<Request>): Rows {
  const rows = new Map(SCHEMAS.map(({ pool }) => [pool, new Map<string, number>()]))
  for (const { pool, mutations } of requests)
    for (const { key, stamp } of mutations) {
      if (stamp === null) rows.get(pool)?.delete(key)
      else rows.get(pool)?.set(key, stamp)
    }
  return rows
}

/**
 * True where the row's primary timestamp is below. Events of append-only pools are as new as their
 * requests.
 */
function isExpired(pool: number, key: string, beforeUs: number): boolean {
  const first = Number(key.slice(0, key.indexOf(' ')))
  return !isAppendOnly(pool) && (pool === 1 ? first : first * 1000 * DAY_MS) < beforeUs
}

/**
 * The first difference; undefined where both are equal.
 * @param expiredUs a merge may have dropped rows with an earlier timestamp
 * @param isRebuilt an earlier row of an expired key may be there until the next pass of retention,
 *   because the rows or deletes that superseded it were dropped
 */
export function difference(
  found: Rows,
  expected: Rows,
  expiredUs: number,
  isRebuilt: boolean,
): string | undefined {
  for (const { pool } of SCHEMAS) {
    const [actual, wanted] = [found.get(pool) ?? new Map(), expected.get(pool) ?? new Map()]
    for (const [key, stamp] of wanted)
      if (actual.get(key) !== stamp && ((actual.has(key) && !isRebuilt) || !isExpired(pool, key, expiredUs)))
        return `pool ${pool}, key ${key}: ${actual.get(key)}, not ${stamp}`
    for (const [key, stamp] of actual)
      if (!wanted.has(key) && !(isRebuilt && isExpired(pool, key, expiredUs)))
        return `pool ${pool}, key ${key}: ${stamp}, and should not be there`
  }
  return undefined
}
