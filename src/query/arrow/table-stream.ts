/** A table of printed cells as one Arrow IPC stream. */
import * as arrow from 'apache-arrow'
import { Table as ArrowTable, tableToIPC, vectorFromArray } from 'apache-arrow'
import { arrowType } from '../../format/arrow.ts'
import type { ColumnType } from '../../format/schema.ts'
import { must } from '../../util/assert.ts'
import { parseInstant } from '../operand.ts'
import type { Table } from '../table.ts'

/** The whole stream: schema, one record batch, end. */
export function tableStream({ columns, rows }: Table): Uint8Array {
  // Names may repeat in a table, which an object of vectors cannot have.
  const fields = columns.map(({ name, type }) => new arrow.Field(name, arrowType(arrow, type), true))
  const schema = new arrow.Schema(fields)
  const data = columns.map(({ type }, index) =>
    dataOf(
      type,
      rows.map(row => row[index] ?? null),
    ),
  )
  const struct = new arrow.Struct(fields)
  const batch = new arrow.RecordBatch(
    schema,
    arrow.makeData({ type: struct, length: rows.length, nullCount: 0, children: data }),
  )
  return tableToIPC(new ArrowTable(schema, [batch]), 'stream')
}

function dataOf(type: ColumnType, cells: readonly (string | null)[]): arrow.Data {
  const [stored, values] = [arrowType(arrow, type), cells.map(cell => cellValue(type, cell))]
  // The builder of times takes whole milliseconds; their memory is that of 64-bit integers.
  if (type !== 'TIMESTAMP') return dataOfVector(vectorFromArray(values, stored))
  const {
    length,
    nullCount,
    nullBitmap,
    values: data,
  } = dataOfVector(vectorFromArray(values, new arrow.Int64()))
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
      return Date.parse(text)
    case 'TIMESTAMP':
      return must(parseInstant(text), 'a printed time')
    default:
      return text
  }
}
