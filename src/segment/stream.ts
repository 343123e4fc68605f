/**
 * A segment's rows as one run of Arrow buffers: the body of an Arrow IPC stream, written in place by the assembler, so that
 * a row's bytes are copied once between its batch and the stream. What stands before it is the encoder's: parquet-wasm reads
 * a whole stream (stream-head.ts); the native one reads the buffers where the layout says and needs nothing, not even the
 * payloads' bytes, most of all: it takes them from their batches into the pages that it compresses.
 */
import {
  FIRST_PLAN_COLUMN,
  KIND,
  KIND_OF_TYPE,
  type Kind,
  PAYLOAD_COLUMN,
  WIDTH_OF_KIND,
} from '../batch/layout.ts'
import type { Plan } from '../batch/plan.ts'
import { END_OF_STREAM } from '../util/arrow-frame.ts'
import { PLACE_WORDS, PLACES_FIRST_COLUMN, type Places } from './assembler.ts'

/** Buffers start on a multiple of this, counted from the start of the body. */
const ALIGN = 64

/** Where everything stands in a stream of known size. */
export interface StreamLayout {
  readonly bytes: number
  readonly places: Places
  /** What stands before the body, from byte 0. */
  readonly head: Uint8Array
  /** [from, to) that must be zero before the assembler writes: bitmaps, first offsets, gaps. */
  readonly zeros: readonly (readonly [number, number])[]
  /** Bytes of payloads that stay in their batches; 0: they are in the stream. Their offsets are, always. */
  readonly payloadBytes: number
}

/** What the body holds, as the metadata of a record batch says it. */
export interface Body {
  /** Of each column, in the file's order: how many of its values are null. */
  readonly nulls: readonly number[]
  /** [offset, length) of each buffer in the body. */
  readonly regions: readonly (readonly [number, number])[]
  readonly bytes: number
}

/** Makes what stands before a body; its length is a multiple of 8. */
export type HeadOf = (plan: Plan, rows: number, body: Body) => Uint8Array

/** One output column: `source` is a column of the batch, or one of the two places before them. */
interface OutColumn {
  readonly kind: Kind
  readonly place: number
  readonly source: number
}

/**
 * Lays out the stream of `rows` rows.
 * @param sums Survey.sums
 * @param headOf undefined: no Arrow stream is wanted, and payloads stay in their batches
 */
export function layOutStream(
  plan: Plan,
  rows: number,
  sums: Float64Array,
  headOf: HeadOf | undefined,
): StreamLayout {
  const places = new Float64Array(
    PLACES_FIRST_COLUMN + PLACE_WORDS * (FIRST_PLAN_COLUMN + plan.columns.length),
  )
  places.fill(-1)
  const leftOut = headOf === undefined ? PAYLOAD_COLUMN : -1
  const body = new BodyLayout()
  const nulls = outColumns(plan).map(column => {
    const nullsOf = column.source < 0 ? 0 : sums[2 * column.source]!
    const textBytes = column.source < 0 || column.source === leftOut ? 0 : sums[2 * column.source + 1]!
    layOutColumn(body, column, rows, nullsOf, textBytes, places)
    return nullsOf
  })
  if (leftOut >= 0) places[PLACES_FIRST_COLUMN + PLACE_WORDS * leftOut + 2] = -1
  const head = headOf?.(plan, rows, { nulls, regions: body.regions, bytes: body.bytes }) ?? new Uint8Array(0)
  for (let p = 0; p < places.length; p++) if (places[p]! >= 0) places[p]! += head.length
  const bytes = head.length + body.bytes + END_OF_STREAM.length
  const zeros = body.zeros.map(([from, to]) => [from + head.length, to + head.length] as const)
  return { bytes, places, head, zeros, payloadBytes: leftOut < 0 ? 0 : sums[2 * leftOut + 1]! }
}

/** Writes all of the stream but the rows. */
export function writeStreamFrame(out: Uint8Array, layout: StreamLayout): void {
  out.set(layout.head)
  for (const [from, to] of layout.zeros) out.fill(0, from, to)
  out.set(END_OF_STREAM, layout.bytes - END_OF_STREAM.length)
}

function outColumns(plan: Plan): OutColumn[] {
  const place = (column: number) => PLACES_FIRST_COLUMN + PLACE_WORDS * column
  return [
    { kind: KIND.i64, place: 0, source: -1 },
    { kind: KIND.binary, place: place(0), source: 0 },
    ...plan.columns.map((column, i) => ({
      kind: KIND_OF_TYPE[column.type],
      place: place(FIRST_PLAN_COLUMN + i),
      source: FIRST_PLAN_COLUMN + i,
    })),
    { kind: KIND.i64, place: 1, source: -1 },
  ]
}

function layOutColumn(
  body: BodyLayout,
  column: OutColumn,
  rows: number,
  nulls: number,
  textBytes: number,
  places: Places,
): void {
  const bits = Math.ceil(rows / 8)
  if (column.source < 0) {
    body.add(0, false)
    places[column.place] = body.add(8 * rows, false)
    return
  }
  const validity = body.add(nulls > 0 ? bits : 0, true)
  if (nulls > 0) places[column.place] = validity
  if (column.kind === KIND.binary) places[column.place + 1] = body.add(4 * (rows + 1), false, 4)
  const bytes =
    column.kind === KIND.binary
      ? textBytes
      : column.kind === KIND.bool
        ? bits
        : rows * WIDTH_OF_KIND[column.kind]
  places[column.place + 2] = body.add(bytes, column.kind === KIND.bool)
}

/** Buffers of the record batch's body, one behind the other. */
class BodyLayout {
  bytes = 0
  readonly regions: [number, number][] = []
  readonly zeros: [number, number][] = []

  /** Adds a buffer and returns its offset. `isBits`: all of it is zeroed, else its first `zeroed` bytes. */
  add(length: number, isBits: boolean, zeroed = 0): number {
    const offset = this.bytes
    this.regions.push([offset, length])
    this.bytes = Math.ceil((offset + length) / ALIGN) * ALIGN
    if (isBits) this.zeros.push([offset, this.bytes])
    else {
      if (zeroed > 0) this.zeros.push([offset, offset + zeroed])
      if (this.bytes > offset + length) this.zeros.push([offset + length, this.bytes])
    }
    return offset
  }
}
