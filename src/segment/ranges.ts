/** Smallest and largest values of a new segment, for the manifest: the planner prunes by them. */
import { FIRST_PLAN_COLUMN, KIND, KIND_OF_TYPE, WIDTH_OF_KIND } from '../batch/layout.ts'
import type { Plan } from '../batch/plan.ts'
import type { ColumnRange } from '../keys/protocol.ts'
import { assert } from '../util/assert.ts'
import {
  type Assembler,
  type Extremes,
  PLACE_WORDS,
  PLACES_FIRST_COLUMN,
  type StreamColumn,
} from './assembler.ts'
import type { StreamLayout } from './stream.ts'

/** A tenant longer than this, in UTF-8, has no range. */
const TENANT_BYTES_MAX = 64
const DAY_US = 86_400_000_000

/** The parts of SegmentMeta that come from values. */
export interface Ranges {
  readonly receivedFromUs: number
  readonly receivedToUs: number
  readonly timestampFromUs: number | null
  readonly timestampToUs: number | null
  readonly tenant: ColumnRange | null
}

/** The rows of a segment in its stream. */
interface Filled {
  readonly stream: Uint8Array
  readonly layout: StreamLayout
  /** At least one. */
  readonly rows: number
  /** Survey.sums */
  readonly sums: Float64Array
}

/** Ranges of the rows in `filled`; `assembler` finds those that hold the ends. */
export function rangesOf(plan: Plan, filled: Filled, assembler: Pick<Assembler, 'extremes'>): Ranges {
  const endsOf = (column: StreamColumn) => assembler.extremes(filled.stream, column, filled.rows)
  const received = integerRange(
    filled,
    { kind: KIND.i64, offsets: -1, data: filled.layout.places[0]! },
    endsOf,
  )
  const stamp = plan.timestamp < 0 ? received : timestampRange(plan, filled, endsOf)
  return {
    receivedFromUs: Number(received.min),
    receivedToUs: Number(received.max),
    timestampFromUs: stamp === null ? null : Number(stamp.min),
    timestampToUs: stamp === null ? null : Number(stamp.max),
    tenant: plan.tenant < 0 ? null : tenantRange(plan, filled, endsOf),
  }
}

type EndsOf = (column: StreamColumn) => Extremes

interface IntegerRange {
  readonly min: bigint
  readonly max: bigint
}

/** Column `index` of the plan; undefined where a value is null. */
function columnOf(plan: Plan, { sums, layout }: Filled, index: number): StreamColumn | undefined {
  const batchColumn = FIRST_PLAN_COLUMN + index
  const place = PLACES_FIRST_COLUMN + PLACE_WORDS * batchColumn
  if (sums[2 * batchColumn]! > 0) return undefined
  return {
    kind: KIND_OF_TYPE[plan.columns[index]!.type],
    offsets: layout.places[place + 1]!,
    data: layout.places[place + 2]!,
  }
}

function timestampRange(plan: Plan, filled: Filled, endsOf: EndsOf): IntegerRange | null {
  const column = columnOf(plan, filled, plan.timestamp)
  if (column === undefined) return null
  const range = integerRange(filled, column, endsOf)
  const unit = plan.columns[plan.timestamp]!.type === 'DATE' ? BigInt(DAY_US) : 1n
  return { min: range.min * unit, max: range.max * unit }
}

/** Of text and integers; null for other types. */
function tenantRange(plan: Plan, filled: Filled, endsOf: EndsOf): ColumnRange | null {
  const { type } = plan.columns[plan.tenant]!
  const column = columnOf(plan, filled, plan.tenant)
  if (column === undefined) return null
  if (type === 'STRING') return textRange(filled, column, endsOf)
  if (type !== 'INT8' && type !== 'INT16' && type !== 'INT32' && type !== 'INT64') return null
  const range = integerRange(filled, column, endsOf)
  return { min: String(range.min), max: String(range.max) }
}

function integerRange({ stream }: Filled, column: StreamColumn, endsOf: EndsOf): IntegerRange {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength)
  const [least, most] = endsOf(column)
  return { min: integerAt(view, column, least), max: integerAt(view, column, most) }
}

function integerAt(view: DataView, { kind, data }: StreamColumn, row: number): bigint {
  const at = data + WIDTH_OF_KIND[kind] * row
  if (kind === KIND.i64) return view.getBigInt64(at, true)
  if (kind === KIND.i32) return BigInt(view.getInt32(at, true))
  return BigInt(kind === KIND.i16 ? view.getInt16(at, true) : view.getInt8(at))
}

/** null where either end is long. */
function textRange({ stream, rows }: Filled, column: StreamColumn, endsOf: EndsOf): ColumnRange | null {
  const offsets = new Int32Array(stream.buffer, stream.byteOffset + column.offsets, rows + 1)
  const data = Buffer.from(stream.buffer, stream.byteOffset + column.data, offsets[rows]!)
  const [min, max] = endsOf(column).map(row => data.subarray(offsets[row], offsets[row + 1]))
  assert(min !== undefined && max !== undefined, 'a column has two ends')
  if (min.length > TENANT_BYTES_MAX || max.length > TENANT_BYTES_MAX) return null
  return { min: min.toString(), max: max.toString() }
}
