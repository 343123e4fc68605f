/** The Arrow schema of exported columns, and the frame of the IPC stream format: schema, batches, end. */
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
  Schema,
  Table,
  TimestampMicrosecond,
  tableToIPC,
  Utf8,
} from 'apache-arrow'
import { type ColumnType, PAYLOAD, RECEIVED_AT } from '../batch/plan.ts'
import { assert } from '../util/assert.ts'
import type { ExportColumn } from './protocol.ts'

/** JSON is its text: readers that do not know the `arrow.json` extension warn or refuse. */
const ARROW_TYPE: Readonly<Record<ColumnType, () => DataType>> = {
  BOOLEAN: () => new Bool(),
  STRING: () => new Utf8(),
  FLOAT: () => new Float32(),
  DOUBLE: () => new Float64(),
  INT8: () => new Int8(),
  INT16: () => new Int16(),
  INT32: () => new Int32(),
  INT64: () => new Int64(),
  DATE: () => new DateDay(),
  TIMESTAMP: () => new TimestampMicrosecond('UTC'),
  JSON: () => new Utf8(),
}

/** All nullable but the service's own two: a column added later is null in older rows, required or not. */
export function schemaOf(columns: readonly ExportColumn[]): Schema {
  return new Schema(
    columns.map(({ name, type }) => {
      const nullable = name !== RECEIVED_AT && name !== PAYLOAD
      return new Field(name, ARROW_TYPE[type](), nullable)
    }),
  )
}

/** A message begins with this, then the length of its metadata; a length of 0 ends a stream. */
const CONTINUATION = 0xffffffff
export const END_OF_STREAM = new Uint8Array([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])

/** The stream's first message. */
export function schemaMessage(columns: readonly ExportColumn[]): Uint8Array {
  const stream = tableToIPC(new Table(schemaOf(columns)), 'stream')
  return stream.slice(0, firstMessageBytes(stream))
}

/** A schema message has no body. */
function firstMessageBytes(stream: Uint8Array): number {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength)
  assert(view.getUint32(0, true) === CONTINUATION, 'a stream begins with a message')
  return 8 + view.getUint32(4, true)
}
