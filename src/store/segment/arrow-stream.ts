/**
 * A segment's rows as one run of Arrow buffers: the body of an Arrow IPC stream. The assembler
 * writes them in place, so a row's bytes are copied once between its batch and the stream. The
 * encoder decides what precedes the body. parquet-wasm reads a whole stream and needs its head
 * (parquet-encoder-js.ts). The native encoder reads the buffers at the places of the layout and
 * needs no head. It does not need the payloads' bytes, the largest part, either: it takes them from
 * their batches into the pages.
 */

import { END_OF_STREAM } from '../../format/arrow.ts'
import {
  FIRST_SCHEMA_COLUMN,
  KIND,
  type Kind,
  kindOf,
  PAYLOAD_COLUMN,
  WIDTH_OF_KIND,
} from '../../format/batch-layout.ts'
import type { PoolSchema } from '../../format/schema.ts'
import { PLACE_WORDS, PLACES_FIRST_COLUMN, type Places } from './assembler.ts'

/** Buffers start on a multiple of this, counted from the start of the body. */
const ALIGN = 64

/** Larger memory does not stay allocated between flushes. */
const SCRATCH_BYTES_MAX = 96 * 1024 * 1024

/** Memory that the next flush uses again, because fresh pages cost as much as filling them. */
export class Scratch {
  #memory = new ArrayBuffer(0)

  of(bytes: number): Uint8Array {
    if (bytes > SCRATCH_BYTES_MAX) return new Uint8Array(bytes)
    if (this.#memory.byteLength < bytes) this.#memory = new ArrayBuffer(Math.ceil(bytes * 1.125))
    return new Uint8Array(this.#memory, 0, bytes)
  }
}

/** The places of all buffers in a stream of known size. */
export interface StreamLayout {
  readonly bytes: number
  readonly places: Places
  /** The bytes before the body, from byte 0. */
  readonly head: Uint8Array
  /** [from, to) that must be zero before the assembler writes: bitmaps, first offsets, padding. */
  readonly zeros: readonly (readonly [number, number])[]
  /**
   * Bytes of payloads that stay in their batches. It is 0 where payloads are in the stream. Their
   * offsets always are.
   */
  readonly payloadBytes: number
}

/** The body as the metadata of a record batch describes it. */
export interface Body {
  /** The number of nulls of each column, in the file's order. */
  readonly nulls: readonly number[]
  /** Offset and length of each buffer in the body. */
  readonly regions: readonly (readonly [number, number])[]
  readonly bytes: number
}

/** Makes the bytes before a body; their length is a multiple of 8. */
export type HeadOf = (schema: PoolSchema, rows: number, body: Body) => Uint8Array

/** One output column. `source` is a column of the batch; -1 for received-at or the sequence. */
interface OutColumn {
  readonly kind: Kind
  readonly place: number
  readonly source: number
}

/**
 * Lays out the stream of `rows` rows.
 * @param sums Deduplicated.sums
 * @param headOf undefined where no Arrow stream is wanted; payloads stay in their batches then
 */
export function layOutStream(
  schema: PoolSchema,
  rows: number,
  sums: Float64Array,
  headOf: HeadOf | undefined,
): StreamLayout {
  const places = new Float64Array(
    PLACES_FIRST_COLUMN + PLACE_WORDS * (FIRST_SCHEMA_COLUMN + schema.columns.length),
  )
  places.fill(-1)
  const leftOut = headOf === undefined ? PAYLOAD_COLUMN : -1
  const body = new BodyLayout()
  const nulls = outColumns(schema).map(column => {
    const nullsOf = column.source < 0 ? 0 : sums[2 * column.source]!
    const textBytes = column.source < 0 || column.source === leftOut ? 0 : sums[2 * column.source + 1]!
    layOutColumn(body, column, rows, nullsOf, textBytes, places)
    return nullsOf
  })
  if (leftOut >= 0) places[PLACES_FIRST_COLUMN + PLACE_WORDS * leftOut + 2] = -1
  const head =
    headOf?.(schema, rows, { nulls, regions: body.regions, bytes: body.bytes }) ?? new Uint8Array(0)
  for (let p = 0; p < places.length; p++) if (places[p]! >= 0) places[p]! += head.length
  const bytes = head.length + body.bytes + END_OF_STREAM.length
  const zeros = body.zeros.map(([from, to]) => [from + head.length, to + head.length] as const)
  return { bytes, places, head, zeros, payloadBytes: leftOut < 0 ? 0 : sums[2 * leftOut + 1]! }
}

/** Writes the stream except for the rows. */
export function writeStreamFrame(out: Uint8Array, layout: StreamLayout): void {
  out.set(layout.head)
  for (const [from, to] of layout.zeros) out.fill(0, from, to)
  out.set(END_OF_STREAM, layout.bytes - END_OF_STREAM.length)
}

function outColumns(schema: PoolSchema): OutColumn[] {
  const place = (column: number) => PLACES_FIRST_COLUMN + PLACE_WORDS * column
  return [
    { kind: KIND.i64, place: 0, source: -1 },
    { kind: KIND.binary, place: place(0), source: 0 },
    ...schema.columns.map((column, i) => ({
      kind: kindOf(column.type),
      place: place(FIRST_SCHEMA_COLUMN + i),
      source: FIRST_SCHEMA_COLUMN + i,
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

/** The buffers of the record batch's body, one after the other. */
class BodyLayout {
  bytes = 0
  readonly regions: [number, number][] = []
  readonly zeros: [number, number][] = []

  /**
   * Adds a buffer and returns its offset. `isBits`: all of it is zeroed, else its first `zeroed`
   * bytes.
   */
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
