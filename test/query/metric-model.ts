/**
 * The answers of metrics in plain JavaScript, over random rows of one pool: few values of each
 * type, so that groups are shared and metrics tie.
 */
import type { QuerySegment } from '../../src/index/index-types.ts'
import type { MetricFormula } from '../../src/query/plan/metric.ts'
import type { RowPolicy } from '../../src/query/plan/policy.ts'
import type { RowSelection, TimeRange } from '../../src/query/plan/where.ts'
import { below, type Random } from '../util/random.ts'
import { type Cell, type Row, schemaOf, type TestPool, withDeletionVectors } from './pool.ts'
import type { WallClock } from './wall-clock.ts'

export const SCHEMA = schemaOf(
  [
    ['at', 'TIMESTAMP'],
    ['seen', 'TIMESTAMP'],
    ['day', 'DATE'],
    ['name', 'STRING'],
    ['flag', 'BOOLEAN'],
    ['n', 'INT32'],
    ['big', 'INT64'],
    ['f64', 'DOUBLE'],
    // A name that the planner gives to an output.
    ['value', 'STRING'],
  ],
  { timestamp: 0 },
)
export const DAY_US = 86_400_000_000n
/** Any column can be a dimension. */
export const COLUMNS = SCHEMA.columns.map(({ name }) => name)

const NAMES = ['', 'a', 'A', "it's", 'é', '\uFEFFa', '\uFEFF', `\uFEFF\uFEFF${'b'.repeat(20)}`]
/** Their sums are exact whatever the order. */
const DOUBLES = [-2.5, -0.25, 0, 0.5, 1, 1e6]
const BIGS = [-9_007_199_254_740_993n, 0n, 7n, 9_007_199_254_740_993n, 4_611_686_018_427_387_904n]

export const pick = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)]!

/** A row between two instants, in microseconds since 1970. Each column but `at` may be null. */
export function randomRow(random: Random, fromUs: bigint, toUs: bigint): Row {
  const instant = () => {
    const us = fromUs + BigInt(Math.floor(random() * Number(toUs - fromUs)))
    // Whole minutes too: they lie on the bounds of intervals.
    return below(random, 3) === 0 ? us - (((us % 60_000_000n) + 60_000_000n) % 60_000_000n) : us
  }
  const maybe = <T>(cell: T): T | null => (below(random, 6) === 0 ? null : cell)
  return {
    at: instant(),
    seen: maybe(instant()),
    day: maybe(floorDays(instant())),
    name: maybe(pick(random, NAMES)),
    flag: maybe(below(random, 2) === 0),
    n: maybe(below(random, 5) - 2),
    big: maybe(pick(random, BIGS)),
    f64: maybe(pick(random, DOUBLES)),
    value: pick(random, ['x', 'y']),
  }
}

function floorDays(us: bigint): bigint {
  return (us - (((us % DAY_US) + DAY_US) % DAY_US)) / DAY_US
}

/** Segments of the rows, and the rows that are not deleted. */
export async function store(pool: TestPool, random: Random, rows: readonly Row[]) {
  const half = below(random, rows.length + 1)
  const live: Row[] = []
  const segments: QuerySegment[] = []
  for (const part of [rows.slice(0, half), rows.slice(half)]) {
    if (part.length === 0) continue
    const deleted = part.flatMap((_, index) => (below(random, 10) === 0 ? [index] : []))
    live.push(...part.filter((_, index) => !deleted.includes(index)))
    segments.push(withDeletionVectors(await pool.segment(SCHEMA, part), deleted))
  }
  return { live, segments }
}

export function randomMetric(random: Random): MetricFormula {
  const column = (names: readonly string[]) => pick(random, names)
  switch (below(random, 7)) {
    case 0:
      return { kind: 'sum', column: column(['n', 'big', 'f64']) }
    case 1:
      return { kind: 'average', column: column(['n', 'f64']) }
    case 2:
      return { kind: 'min', column: column(COLUMNS) }
    case 3:
      return { kind: 'max', column: column(COLUMNS) }
    case 4:
      return { kind: 'countDistinct', column: column(COLUMNS) }
    case 5:
      return { kind: 'custom', expression: 'COUNT() + SUM(n)' }
    default:
      return { kind: 'count' }
  }
}

/** A condition as a question gives it, and in JavaScript. */
interface Condition {
  readonly selection: Pick<RowSelection, 'filters' | 'filterSql'>
  readonly holds: (row: Row) => boolean
}

export function randomCondition(random: Random): Condition {
  switch (below(random, 5)) {
    case 0:
      return {
        selection: { filters: [{ column: 'name', operator: 'EQUALS', value: 'a' }] },
        holds: row => row['name'] === 'a',
      }
    case 1:
      return { selection: { filterSql: 'n > 0' }, holds: row => row['n'] !== null && Number(row['n']) > 0 }
    case 2:
      return {
        selection: {
          filters: [{ column: 'flag', operator: 'IS_NOT_NULL' }],
          filterSql: `"value" = 'x'`,
        },
        holds: row => row['flag'] !== null && row['value'] === 'x',
      }
    default:
      return { selection: {}, holds: () => true }
  }
}

/** A policy of rows, and in JavaScript; null for most askers. */
export function randomPolicy(random: Random): { policy: RowPolicy | null; sees: (row: Row) => boolean } {
  if (below(random, 4) > 0) return { policy: null, sees: () => true }
  const policy = { columns: ['*'], rows: [], filterSql: `"value" = \${{ who }}`, values: { who: 'y' } }
  return { policy, sees: row => row['value'] === 'y' }
}

/** The instant of a cell: a DATE is the first one of its day on the clock, or in UTC. */
export function instantOf(row: Row, column: string, clock?: WallClock): bigint | null {
  const cell = row[column] ?? null
  if (cell === null || column !== 'day') return cell === null ? null : BigInt(cell)
  const midnight = BigInt(cell) * DAY_US
  return clock === undefined ? midnight : BigInt(clock.firstInstant(Number(midnight / 1_000n))) * 1_000n
}

/** A range that may be open at either end, on any column of time. */
export function randomRange(random: Random, fromUs: bigint, toUs: bigint): TimeRange {
  const instant = () => {
    const us = fromUs + BigInt(Math.floor(random() * Number(toUs - fromUs)))
    return below(random, 2) === 0 ? us - (((us % 1_000n) + 1_000n) % 1_000n) : us
  }
  const [a, b] = [instant(), instant()].sort((one, other) => (one < other ? -1 : 1))
  return {
    timestamp: pick(random, [null, 'at', 'seen', 'day']),
    start: below(random, 3) === 0 ? null : isoOf(a!),
    stop: below(random, 3) === 0 ? null : isoOf(b!),
  }
}

/** True if a range holds the row. */
export function inRange({ timestamp, start, stop }: TimeRange, row: Row, clock?: WallClock): boolean {
  if (!start && !stop) return true
  const us = instantOf(row, timestamp ?? 'at', clock)
  return us !== null && (!start || us >= usOf(start)) && (!stop || us < usOf(stop))
}

/** ISO text of microseconds since 1970, with six digits. */
export function isoOf(us: bigint): string {
  const rest = ((us % 1_000_000n) + 1_000_000n) % 1_000_000n
  const text = new Date(Number((us - rest) / 1_000n)).toISOString()
  return `${text.slice(0, -5)}.${String(rest).padStart(6, '0')}Z`
}

export function usOf(iso: string): bigint {
  const [whole, digits] = iso.slice(0, -1).split('.')
  return BigInt(Date.parse(`${whole}Z`)) * 1_000n + BigInt(digits!)
}

/** The order of two cells of one column; nulls come last. */
export function compare(a: Cell, b: Cell): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  if (typeof a === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(String(b)))
  return a < b ? -1 : a > b ? 1 : 0
}

/** A cell as answers print it. */
export function print(column: string, cell: Cell): string | null {
  if (cell === null) return null
  const type = SCHEMA.columns.find(({ name }) => name === column)?.type
  if (type === 'DATE') return isoOf(BigInt(cell) * DAY_US).slice(0, 10)
  if (type === 'TIMESTAMP') return isoOf(BigInt(cell)).replace(/(\.\d{3})000Z$/, '$1Z')
  return String(cell)
}

/** The value of a metric over rows, as a cell that can be compared, and its text. */
export function evaluate(metric: MetricFormula, rows: readonly Row[]): { cell: Cell; text: string | null } {
  if (metric.kind === 'count') return { cell: rows.length, text: String(rows.length) }
  if (metric.kind === 'custom') {
    const sum = evaluate({ kind: 'sum', column: 'n' }, rows).cell
    const cell = sum === null ? null : BigInt(rows.length) + BigInt(sum)
    return { cell, text: cell === null ? null : String(cell) }
  }
  const { kind, column } = metric
  const cells = rows.map(row => row[column] ?? null).filter(cell => cell !== null)
  if (kind === 'countDistinct') {
    const cell = new Set(cells).size
    return { cell, text: String(cell) }
  }
  if (cells.length === 0) return { cell: null, text: null }
  if (kind === 'min' || kind === 'max') {
    const sorted = [...cells].sort(compare)
    const cell = (kind === 'min' ? sorted[0] : sorted.at(-1))!
    return { cell, text: print(column, cell) }
  }
  if (column === 'f64' || kind === 'average') {
    const sum = cells.reduce((total: number, cell) => total + Number(cell), 0)
    const cell = kind === 'sum' ? sum : sum / cells.length
    return { cell, text: String(cell) }
  }
  const cell = cells.reduce((total: bigint, each) => total + BigInt(each as bigint), 0n)
  return { cell, text: String(cell) }
}

/** Rows by the values of columns, in the order in which they are found. */
export function groupsOf(columns: readonly string[], rows: readonly Row[]) {
  const groups = new Map<string, { readonly cells: readonly Cell[]; readonly rows: Row[] }>()
  for (const row of rows) {
    const cells = columns.map(column => row[column] ?? null)
    const key = JSON.stringify(cells.map(cell => (cell === null ? null : String(cell))))
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { cells, rows: [row] })
    else group.rows.push(row)
  }
  return [...groups.values()]
}
