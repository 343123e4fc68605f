/**
 * The pools of the power-cut runs, and their random requests.
 */
import type { ColumnInput, NewWebhookSource } from '../../src/catalog/documents/catalog-types.ts'
import type { Pool } from '../../src/catalog/documents/model.ts'
import { below, type Random } from '../util/random.ts'

/**
 * Three forms of pools with a key: `shop` with a tenant, and `header` as `daily`, with the day in a
 * header of the request. Each event of `plain` is a row of its own, and so is each of `arrival`,
 * whose key holds received-at.
 */
export type Form = 'shop' | 'plain' | 'daily' | 'header' | 'arrival'
export const FORMS: readonly Form[] = ['shop', 'plain', 'daily', 'header', 'arrival']

const DAY_HEADER = '$header.x-day'

/** No event of such a pool replaces another one. */
const isAppendOnly = (form: Form) => form === 'plain' || form === 'arrival'

const column = (name: string, type: string, nullable = false): ColumnInput => ({
  name,
  type,
  jsonProperty: name,
  nullable,
})

/** Each post has a stamp of its own. No event has a tag: jobs set it. */
const STAMP_AND_TAG = [column('stamp', 'INT64'), column('tag', 'INT64', true)]

const SOURCES: Readonly<Record<Form, NewWebhookSource>> = {
  shop: {
    columns: [
      column('ts', 'TIMESTAMP'),
      column('id', 'STRING'),
      column('shop', 'STRING', true),
      ...STAMP_AND_TAG,
    ],
    timestamp: 'ts',
    uniqueId: 'id',
    tenant: 'shop',
  },
  plain: { columns: STAMP_AND_TAG },
  daily: {
    columns: [column('day', 'DATE'), column('n', 'INT64'), ...STAMP_AND_TAG],
    timestamp: 'day',
    uniqueId: 'n',
  },
  header: {
    columns: [{ ...column('day', 'DATE'), jsonProperty: DAY_HEADER }, column('n', 'INT64'), ...STAMP_AND_TAG],
    timestamp: 'day',
    uniqueId: 'n',
  },
  arrival: { columns: [column('id', 'STRING'), ...STAMP_AND_TAG], uniqueId: 'id' },
}

/** The webhook source of a new pool. Its name tells the form. */
export function sourceOf(form: Form, number: number): NewWebhookSource {
  return { ...SOURCES[form], uniqueName: `${form}-${number}` }
}

/** The form of a pool; undefined for the one that every folder begins with. */
export function formOf({ uniqueName }: Pick<Pool, 'uniqueName'>): Form | undefined {
  return FORMS.find(form => uniqueName.startsWith(`${form}-`))
}

/** The columns that jobs add read the stamp. Rows before the cut-over are null in them. */
export const ADDED = /^added_\d+$/

/** The name of a pool's folder, where there is no catalog. */
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
  /** Stands before the body in its log record; empty where no column reads the request. */
  readonly context: Uint8Array
  readonly body: Uint8Array
  readonly receivedAtUs: number
  readonly mutations: readonly Mutation[]
}

/** The name that a reader gives to a row, and its key properties. */
interface Key {
  readonly key: string
  readonly event: Record<string, unknown>
}

/** Key number `n`. Neighbours have different days. */
function keyOf(form: Form, n: number): Key {
  const ms = FIRST_MS + (n % 4) * DAY_MS
  if (form === 'shop') {
    const id = `k${n >> 1}`.padEnd(n % 7 === 0 ? 230 : 3, '.')
    return { key: `${ms * 1000} ${id}`, event: { ts: new Date(ms).toISOString(), id } }
  }
  const day = Math.floor(ms / DAY_MS)
  return { key: `${day} ${n >> 1}`, event: { day: new Date(ms).toISOString().slice(0, 10), n: n >> 1 } }
}

/** The name that a reader gives to a row. */
export function keyOfRow(form: Form, row: Readonly<Record<string, unknown>>): string {
  if (form === 'shop') return `${row['ts']} ${row['id']}`
  return isAppendOnly(form) ? String(row['stamp']) : `${row['day']} ${row['n']}`
}

/**
 * True where the row's primary timestamp is below. Every event of an append-only pool is as new as
 * its request.
 */
export function isExpired(form: Form, key: string, beforeUs: number): boolean {
  const first = Number(key.slice(0, key.indexOf(' ')))
  return !isAppendOnly(form) && (form === 'shop' ? first : first * 1000 * DAY_MS) < beforeUs
}

/** Makes requests; each stamp is used once in a run. */
export class RequestMaker {
  readonly #random: Random
  #stamp = 0

  constructor(random: Random) {
    this.#random = random
  }

  next(pool: number, form: Form): Request {
    const random = this.#random
    const receivedAtUs = 1000 * FIRST_MS + below(random, 1_000_000_000)
    const isDelete = !isAppendOnly(form) && random() < 0.25
    const count = random() < 0.2 ? 20 + below(random, 60) : 1 + below(random, 6)
    // The events of a request with a header have one day: every fourth key.
    const day = form === 'header' ? below(random, 4) : undefined
    const keys = Array.from({ length: count }, () =>
      keyOf(form, day === undefined ? below(random, KEYS) : 4 * below(random, KEYS / 4) + day),
    )
    const made = isDelete ? this.#deletes(form, keys) : this.#posts(form, keys)
    const header =
      day === undefined || isDelete ? '' : JSON.stringify({ [DAY_HEADER]: keys[0]?.event['day'] })
    return {
      pool,
      kind: isDelete ? 'delete' : 'post',
      context: Buffer.from(header),
      body: Buffer.from(JSON.stringify(made.events)),
      receivedAtUs,
      mutations: made.mutations,
    }
  }

  #deletes(form: Form, all: readonly Key[]) {
    const keys = all.slice(0, 12)
    return {
      events: keys.map(({ event: { day, ...rest } }) => ({
        ...rest,
        ...(day === undefined ? {} : { [form === 'header' ? DAY_HEADER : 'day']: day }),
      })),
      mutations: keys.map(({ key }): Mutation => ({ key, stamp: null })),
    }
  }

  /** Some requests have an invalid event among the valid ones. It changes nothing. */
  #posts(form: Form, keys: readonly Key[]) {
    const random = this.#random
    const count = keys.length
    const events: Record<string, unknown>[] = []
    const mutations: Mutation[] = []
    const bad = count > 1 && random() < 0.2 ? below(random, count) : -1
    // Four requests of 80 events are one append, which fits in a small log file.
    const pad = 'x'.repeat(below(random, count > 10 ? 60 : 300))
    for (const [i, { key, event }] of keys.entries()) {
      this.#stamp += 1
      const shop = form === 'shop' && random() < 0.9 ? { shop: `s${below(random, 3)}` } : {}
      const own = form === 'arrival' ? { id: `k${this.#stamp % 2}` } : {}
      // What a header says counts, whatever the body has of that name.
      const wrong = form === 'header' ? { [DAY_HEADER]: '1999-12-31' } : {}
      events.push({
        ...(isAppendOnly(form) ? own : event),
        ...shop,
        ...wrong,
        stamp: i === bad ? 'bad' : this.#stamp,
        pad,
      })
      if (i !== bad)
        mutations.push({ key: isAppendOnly(form) ? String(this.#stamp) : key, stamp: this.#stamp })
    }
    return { events, mutations }
  }
}
