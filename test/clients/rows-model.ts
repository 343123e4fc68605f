/** A model of pools in memory: random events, posted and deleted on the server and here. */
import { expect } from 'vitest'
import { type ColumnType, PAYLOAD, RECEIVED_AT } from '../../src/format/schema.ts'
import type { Filter } from '../../src/query/plan/where.ts'
import { below, type Random } from '../util/random.ts'
import { type PoolSpec, send, type TestPool } from '../util/server.ts'
import { type Cell, randomInstant, randomValue, spellInstant } from './values.ts'

export const TYPES: ReadonlyMap<string, ColumnType> = new Map([
  ['id', 'STRING'],
  ['at', 'TIMESTAMP'],
  ['tenant', 'STRING'],
  ['flag', 'BOOLEAN'],
  ['na"me; --', 'STRING'],
  ['f32', 'FLOAT'],
  ['f64', 'DOUBLE'],
  ['i8', 'INT8'],
  ['i64', 'INT64'],
  ['day', 'DATE'],
  ['seen', 'TIMESTAMP'],
  ['constructor', 'JSON'],
])
export const NAMES = [...TYPES.keys()]
const KEYS = 150
const MARK = '\uFEFF'

export interface Row {
  readonly cells: ReadonlyMap<string, Cell>
  /** The number of its request, from 0. */
  readonly request: number
}

/** A part of a pool that a reader sees, and the columns of its key. */
export interface View {
  readonly rows: readonly Row[]
  readonly columns: readonly string[]
  /** Null where each event is its own record. */
  readonly key: readonly string[] | null
  readonly timestamp: string
}

export const pick = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)]!

export const specOf = (more: Partial<PoolSpec>): PoolSpec => ({
  columns: NAMES.map(name => ({
    name,
    jsonProperty: name,
    type: TYPES.get(name)!,
    nullable: !['id', 'at'].includes(name),
  })),
  ...more,
})

/** A pool and the rows that it must have. */
export class PoolModel {
  readonly pool: TestPool
  readonly key: View['key']
  readonly timestamp: string
  /** By key; in a pool without a key by number. */
  readonly rows = new Map<string | number, Row>()
  #requests = 0
  #events = 0

  constructor(pool: TestPool, key: View['key'], timestamp: string) {
    this.pool = pool
    this.key = key
    this.timestamp = timestamp
  }

  /** No event replaces another one: there is no key, or it holds received-at. */
  get #isAppendOnly(): boolean {
    return this.key === null || this.key.includes(RECEIVED_AT)
  }

  view(): View {
    return {
      rows: [...this.rows.values()],
      columns: [RECEIVED_AT, PAYLOAD, ...NAMES],
      key: this.key,
      timestamp: this.timestamp,
    }
  }

  /** One POST of random events, or one DELETE of known keys. */
  async change(random: Random, eventsMax: number): Promise<void> {
    const isDelete = this.key?.includes('at') === true && random() < 0.25
    const texts: string[] = []
    const request = this.#requests++
    // Few different events in some requests, so that some rows are equal in every cell.
    const sames = random() < 0.4 ? [1, 2].map(() => randomEvent(random, request)) : []
    for (let count = 1 + below(random, eventsMax); count > 0; count--) {
      const { text, cells } = sames.length > 0 ? pick(random, sames) : randomEvent(random, request)
      texts.push(text)
      const key =
        this.key === null || this.#isAppendOnly
          ? this.#events++
          : this.key.map(name => String(cells.get(name))).join()
      if (isDelete) this.rows.delete(key)
      else this.rows.set(key, { cells, request })
    }
    const answer = await send(this.pool.url, `[${texts.join()}]`, isDelete ? 'DELETE' : 'POST')
    expect([answer.status, answer.headers.get('x-events-rejected')]).toEqual([200, '0'])
  }

  /**
   * Takes over the received-at of each row, from pairs of it and the payload as queries print them.
   */
  learn(pairs: readonly (readonly (string | null)[])[]): void {
    // The events of a request have its time, or rising ones in their order.
    const times = new Map<number, bigint[]>()
    const inOrder = pairs.map(([time, payload]) => [microsOf(time!), JSON.parse(payload!).request] as const)
    for (const [time, request] of inOrder.sort(([a], [b]) => (a < b ? -1 : 1)))
      times.set(request, [...(times.get(request) ?? []), time])
    for (const [key, row] of this.rows) {
      const time = times.get(row.request)?.shift()
      expect(time).toBeDefined()
      this.rows.set(key, { ...row, cells: new Map([...row.cells, [RECEIVED_AT, time!]]) })
    }
  }
}

function randomEvent(random: Random, request: number) {
  const at = randomInstantOfFew(random)
  const id = `k${below(random, KEYS)}`
  const cells = new Map<string, Cell>([
    ['id', id],
    ['at', at.cell],
  ])
  const parts = [`"request":${request}`, `"id":"${id}"`, `"at":${at.json}`]
  for (const name of NAMES.slice(2)) {
    const value = random() < 0.2 ? null : randomCell(random, name)
    if (value !== null) parts.push(`${JSON.stringify(name)}:${value.json}`)
    cells.set(name, value?.cell ?? null)
  }
  const text = `{${parts.join()}}`
  cells.set(PAYLOAD, text)
  return { text, cells }
}

/** Three instants, so that there are many ties. */
function randomInstantOfFew(random: Random) {
  const us = 1_700_000_000_000_000n + BigInt(below(random, 3)) * 1_000_001n
  return spellInstant(random, us)
}

function randomCell(random: Random, name: string) {
  const value = name === 'tenant' ? { cell: pick(random, ['a', 'b']) } : randomValue(random, TYPES.get(name)!)
  if (typeof value.cell !== 'string' || TYPES.get(name) !== 'STRING')
    return value as ReturnType<typeof randomValue>
  const cell = name !== 'tenant' && random() < 0.1 ? MARK + value.cell : value.cell
  return { cell, json: JSON.stringify(cell), text: cell }
}

/** A random choice of rows: the input of a question, and its meaning. */
export function randomSelection(random: Random): {
  readonly input: object
  readonly has: (row: Row) => boolean
} {
  const filter = random() < 0.4 ? randomFilter(random) : undefined
  const isSql = random() < 0.2
  const [start, stop] = random() < 0.2 ? [randomInstant(random), randomInstant(random)] : []
  const iso = (us: bigint) => print('seen', us)
  return {
    input: {
      filterSql: isSql ? `"i8" >= 0 OR tenant IS NULL` : null,
      ...(filter === undefined ? {} : { filters: [filter.filter] }),
      ...(start === undefined || stop === undefined
        ? {}
        : { timeRange: { timestamp: 'seen', start: iso(start), stop: iso(stop) } }),
    },
    has: row => {
      const [i8, tenant, seen] = ['i8', 'tenant', 'seen'].map(name => row.cells.get(name) ?? null)
      const isInSql = (i8 !== null && (i8 as bigint) >= 0n) || tenant === null
      const isInRange =
        seen !== null && start !== undefined && (seen as bigint) >= start && (seen as bigint) < stop!
      return (
        (filter === undefined || filter.has(row)) && (!isSql || isInSql) && (start === undefined || isInRange)
      )
    },
  }
}

/** One condition on a column, with a value that some rows have. */
export function randomFilter(random: Random): {
  readonly filter: Filter
  readonly has: (row: Row) => boolean
} {
  const column = pick(random, ['tenant', 'flag', 'i8', 'i64', 'day', 'f64'])
  const operator = pick(random, ['EQUALS', 'NOT_EQUALS', 'GREATER_THAN', 'IS_NULL', 'IS_NOT_NULL'] as const)
  const value = randomCell(random, column)
  const has = ({ cells }: Row) => {
    const cell = cells.get(column) ?? null
    if (operator === 'IS_NULL') return cell === null
    if (cell === null) return false
    if (operator === 'IS_NOT_NULL') return true
    const order = compareCells(cell, value.cell, 'ASC')
    return operator === 'EQUALS' ? order === 0 : operator === 'NOT_EQUALS' ? order !== 0 : order > 0
  }
  return { filter: { column, operator, value: operator.includes('NULL') ? null : value.text }, has }
}

/** Nulls are last in either direction. */
export function compareCells(a: Cell, b: Cell, direction: 'ASC' | 'DESC'): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1
  const order =
    typeof a === 'string'
      ? Buffer.compare(Buffer.from(a), Buffer.from(String(b)))
      : a < b
        ? -1
        : a > b
          ? 1
          : 0
  return direction === 'ASC' ? order : -order
}

/** A cell as answers print it. */
export function print(name: string, cell: Cell): string | null {
  if (cell === null) return null
  switch (name === RECEIVED_AT ? 'TIMESTAMP' : TYPES.get(name)) {
    case 'DATE':
      return new Date(Number(cell) * 86_400_000).toISOString().slice(0, 10)
    case 'TIMESTAMP': {
      const us = cell as bigint
      const micros = String(us % 1_000n).padStart(3, '0')
      return new Date(Number(us / 1_000n)).toISOString().replace('Z', micros === '000' ? 'Z' : `${micros}Z`)
    }
    case 'FLOAT': {
      const short = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(digits => Number((cell as number).toPrecision(digits)))
      return String(short.find(each => Math.fround(each) === cell))
    }
    default:
      return String(cell)
  }
}

function microsOf(text: string): bigint {
  const [, milliseconds, micros = '000'] = /^(.*\.\d{3})(\d{3})?Z$/.exec(text)!
  return BigInt(Date.parse(`${milliseconds}Z`)) * 1_000n + BigInt(micros)
}
