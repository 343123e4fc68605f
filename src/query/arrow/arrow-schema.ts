/** The Arrow schema of exported columns, the beginning of a stream, and tables as streams. */
import * as arrow from 'apache-arrow'
import { arrowType, END_OF_STREAM, MESSAGE_HEAD_BYTES, metadataBytes } from '../../format/arrow.ts'
import { type ColumnType, PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { must } from '../../util/errors.ts'
import { parsePrinted, type QueryColumn } from '../expression/operand.ts'
import type { Table } from '../plan/answer-table.ts'

const DAY_MS = 86_400_000

/** Only the service's own two are never null: a later column is null in older rows. */
export function arrowSchema(columns: readonly QueryColumn[]): arrow.Schema {
  return new arrow.Schema(
    columns.map(({ name, type }) => {
      const nullable = name !== RECEIVED_AT && name !== PAYLOAD
      return new arrow.Field(name, arrowType(arrow, type), nullable)
    }),
  )
}

/** The first message of a stream of these columns. */
export function schemaMessage(columns: readonly QueryColumn[]): Uint8Array {
  return messageOf(arrowSchema(columns))
}

/** True of a message that begins a stream of columns of these types, whatever their names. */
export function hasTypes(message: Uint8Array, columns: readonly QueryColumn[]): boolean {
  const typesOf = (bytes: Uint8Array) =>
    arrow.tableFromIPC(Buffer.concat([bytes, END_OF_STREAM])).schema.fields.map(({ type }) => String(type))
  // apache-arrow removes U+FEFF from the beginning of a name, which may be all in which two differ.
  const places = columns.map((column, index) => ({ ...column, name: String(index) }))
  return typesOf(message).join() === typesOf(schemaMessage(places)).join()
}

function messageOf(schema: arrow.Schema): Uint8Array {
  const stream = arrow.tableToIPC(new arrow.Table(schema), 'stream')
  return stream.slice(0, firstMessageBytes(stream))
}

/** Bytes of the first message of a stream: of its schema, which has no body. */
export function firstMessageBytes(stream: Uint8Array): number {
  return MESSAGE_HEAD_BYTES + must(metadataBytes(stream), 'a message at the beginning')
}

/**
 * The whole stream: schema, one record batch, end.
 *
 * Names may repeat in a table. apache-arrow joins the fields of a batch by their names, so the
 * batch is made with the places of the columns for names. Its message has no names: those of the
 * table stand in the message of the schema alone.
 */
export function tableStream({ columns, rows }: Table): Uint8Array {
  const places = schemaOf(columns.map(({ type }, index) => ({ name: String(index), type })))
  const children = columns.map(({ type }, index) =>
    dataOf(
      type,
      rows.map(row => row[index] ?? null),
    ),
  )
  const struct = new arrow.Struct(places.fields)
  const batch = new arrow.RecordBatch(
    places,
    arrow.makeData({ type: struct, length: rows.length, nullCount: 0, children }),
  )
  const stream = arrow.tableToIPC(new arrow.Table(places, [batch]), 'stream')
  return Buffer.concat([messageOf(schemaOf(columns)), stream.subarray(firstMessageBytes(stream))])
}

function schemaOf(columns: Table['columns']): arrow.Schema {
  return new arrow.Schema(
    columns.map(({ name, type }) => new arrow.Field(name, arrowType(arrow, type), true)),
  )
}

function dataOf(type: ColumnType, cells: readonly (string | null)[]): arrow.Data {
  const [stored, values] = [arrowType(arrow, type), cells.map(cell => cellValue(type, cell))]
  // The builder of times takes whole milliseconds; their memory is that of 64-bit integers.
  if (type !== 'TIMESTAMP') return dataOfVector(arrow.vectorFromArray(values, stored))
  const {
    length,
    nullCount,
    nullBitmap,
    values: data,
  } = dataOfVector(arrow.vectorFromArray(values, new arrow.Int64()))
  return arrow.makeData({ type: stored as arrow.TimestampMicrosecond, length, nullCount, nullBitmap, data })
}

function dataOfVector<T extends arrow.DataType>(vector: arrow.Vector<T>): arrow.Data<T> {
  return must(vector.data[0], 'the data of a vector')
}

/** A printed cell as apache-arrow's builder of its type takes it. */
function cellValue(type: ColumnType, text: string | null): unknown {
  if (text === null) return null
  switch (type) {
    case 'BOOLEAN':
      return text === 'true'
    case 'INT64':
      return BigInt(text)
    case 'DOUBLE':
      return Number(text)
    case 'DATE':
      return Number(must(parsePrinted(type, text), 'a printed day')) * DAY_MS
    case 'TIMESTAMP':
      return must(parsePrinted(type, text), 'a printed time')
    default:
      return text
  }
}
