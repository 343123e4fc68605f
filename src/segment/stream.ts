/**
 * A segment's rows as an Arrow IPC stream: one schema message, one record batch, the end. The messages' metadata is
 * made with apache-arrow's own classes from buffer lengths; the bodies are written in place by the assembler, so
 * that a row's bytes are copied once between its batch and the stream.
 */
import {
  Bool,
  type DataType,
  DateDay,
  Field,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  Message,
  Schema,
  TimestampMicrosecond,
  Utf8,
} from 'apache-arrow'
import { BufferRegion, FieldNode, RecordBatch } from 'apache-arrow/ipc/metadata/message'
import { FIRST_PLAN_COLUMN, KIND, KIND_OF_TYPE, type Kind, WIDTH_OF_KIND } from '../batch/layout.ts'
import { type ColumnType, PAYLOAD, type Plan, RECEIVED_AT, SEQUENCE } from '../batch/plan.ts'
import { PLACE_WORDS, PLACES_FIRST_COLUMN, type Places } from './assembler.ts'

/** Buffers start on a multiple of this, counted from the start of the body. */
const ALIGN = 64
const CONTINUATION = 0xffffffff

/** Where everything stands in a stream of known size. */
export interface StreamLayout {
  readonly bytes: number
  readonly places: Places
  /** The schema message and the record batch's metadata, from byte 0. */
  readonly head: Uint8Array
  /** [from, to) that must be zero before the assembler writes: bitmaps, first offsets, gaps. */
  readonly zeros: readonly (readonly [number, number])[]
}

/** One output column: `source` is a column of the batch, or one of the two places before them. */
interface OutColumn {
  readonly kind: Kind
  readonly place: number
  readonly source: number
}

/** The Arrow schema of a plan's segments, in the order in which columns are stored. */
export function schemaOf(plan: Plan): Schema {
  return new Schema([
    new Field(RECEIVED_AT, new TimestampMicrosecond('UTC'), false),
    new Field(PAYLOAD, new Utf8(), false),
    ...plan.columns.map(column => new Field(column.name, arrowType(column.type), !column.required)),
    new Field(SEQUENCE, new Int64(), false),
  ])
}

function arrowType(type: ColumnType): DataType {
  switch (type) {
    case 'BOOLEAN':
      return new Bool()
    case 'FLOAT':
      return new Float32()
    case 'DOUBLE':
      return new Float64()
    case 'INT8':
      return new Int8()
    case 'INT16':
      return new Int16()
    case 'INT32':
      return new Int32()
    case 'INT64':
      return new Int64()
    case 'DATE':
      return new DateDay()
    case 'TIMESTAMP':
      return new TimestampMicrosecond('UTC')
    default:
      return new Utf8()
  }
}

/**
 * Lays out the stream of `rows` rows.
 * @param sums Survey.sums
 */
export function layOutStream(plan: Plan, rows: number, sums: Float64Array): StreamLayout {
  const places = new Float64Array(
    PLACES_FIRST_COLUMN + PLACE_WORDS * (FIRST_PLAN_COLUMN + plan.columns.length),
  )
  places.fill(-1)
  const body = new BodyLayout()
  const nodes = outColumns(plan).map(column => {
    const nulls = column.source < 0 ? 0 : sums[2 * column.source]!
    layOutColumn(body, column, rows, nulls, column.source < 0 ? 0 : sums[2 * column.source + 1]!, places)
    return new FieldNode(rows, nulls)
  })
  const batch = new RecordBatch(rows, nodes, body.regions, null)
  const head = joined([
    envelope(Message.encode(Message.from(schemaOf(plan)))),
    envelope(Message.encode(Message.from(batch, body.bytes))),
  ])
  for (let p = 0; p < places.length; p++) if (places[p]! >= 0) places[p]! += head.length
  const bytes = head.length + body.bytes + 8
  const zeros = body.zeros.map(([from, to]) => [from + head.length, to + head.length] as const)
  return { bytes, places, head, zeros }
}

/** Writes all of the stream but the rows. */
export function writeStreamFrame(out: Uint8Array, layout: StreamLayout): void {
  out.set(layout.head)
  for (const [from, to] of layout.zeros) out.fill(0, from, to)
  const end = new DataView(out.buffer, out.byteOffset + layout.bytes - 8, 8)
  end.setUint32(0, CONTINUATION, true)
  end.setUint32(4, 0, true)
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
  readonly regions: BufferRegion[] = []
  readonly zeros: [number, number][] = []

  /** Adds a buffer and returns its offset. `isBits`: all of it is zeroed, else its first `zeroed` bytes. */
  add(length: number, isBits: boolean, zeroed = 0): number {
    const offset = this.bytes
    this.regions.push(new BufferRegion(offset, length))
    this.bytes = Math.ceil((offset + length) / ALIGN) * ALIGN
    if (isBits) this.zeros.push([offset, this.bytes])
    else {
      if (zeroed > 0) this.zeros.push([offset, offset + zeroed])
      if (this.bytes > offset + length) this.zeros.push([offset + length, this.bytes])
    }
    return offset
  }
}

/** A message's metadata as it stands in a stream: marker, length, padded to a multiple of 8. */
function envelope(metadata: Uint8Array): Uint8Array {
  const padded = Math.ceil(metadata.length / 8) * 8
  const bytes = new Uint8Array(8 + padded)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, CONTINUATION, true)
  view.setUint32(4, padded, true)
  bytes.set(metadata, 8)
  return bytes
}

/** The parts one behind the other, padded at the front message's end so that the body starts aligned. */
function joined(parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(Buffer.concat(parts))
}
