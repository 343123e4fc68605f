/**
 * What makes a body an Arrow IPC stream: one schema message and the metadata of one record batch, made with
 * apache-arrow's own classes from buffer lengths. Loaded for parquet-wasm alone.
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
import { type ColumnType, PAYLOAD, type Plan, RECEIVED_AT, SEQUENCE } from '../batch/plan.ts'
import { type Body, STREAM_MARKER } from './stream.ts'

/** The schema message and the record batch's metadata; see HeadOf. */
export function arrowHead(plan: Plan, rows: number, body: Body): Uint8Array {
  const nodes = body.nulls.map(nulls => new FieldNode(rows, nulls))
  const regions = body.regions.map(([offset, length]) => new BufferRegion(offset, length))
  const batch = new RecordBatch(rows, nodes, regions, null)
  return joined([
    envelope(Message.encode(Message.from(schemaOf(plan)))),
    envelope(Message.encode(Message.from(batch, body.bytes))),
  ])
}

/** The Arrow schema of a plan's segments, in the order in which columns are stored. */
function schemaOf(plan: Plan): Schema {
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

/** A message's metadata as it stands in a stream: marker, length, padded to a multiple of 8. */
function envelope(metadata: Uint8Array): Uint8Array {
  const padded = Math.ceil(metadata.length / 8) * 8
  const bytes = new Uint8Array(8 + padded)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, STREAM_MARKER, true)
  view.setUint32(4, padded, true)
  bytes.set(metadata, 8)
  return bytes
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(Buffer.concat(parts))
}
