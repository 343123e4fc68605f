/**
 * The memory of DuckDB's chunks: values as DuckDB lays them out, without a JavaScript value for each.
 *
 * The binding has no public way to them, so the fields of its vectors are read by name; a binding that is built otherwise
 * fails here, at once and for every type (test/query/record_batches.test.ts).
 */
import { type DuckDBDataChunk, DuckDBTypeId, type DuckDBVector } from '@duckdb/node-api'
import type { ColumnType } from '../batch/plan.ts'
import { assert } from '../util/assert.ts'

/** One column of a chunk; valid as long as this object is held. */
export interface RawColumn {
  readonly type: ColumnType
  readonly rows: number
  /** Values one behind the other: as in Arrow, but a byte for a BOOLEAN and TEXT_WORDS words for a text. */
  readonly values: Uint8Array
  /** Bit i of it, from the lowest: row i is not null. undefined: none is. What stands at a null is not defined. */
  readonly valid: Uint8Array | undefined
  /** Owns the memory: the vector and the views on it only point there, and it is freed with the chunk. */
  readonly chunk: DuckDBDataChunk
  readonly vector: DuckDBVector
}

/** A text: its length in bytes, then 12 bytes that are the text, or its first 4 and a pointer to all of it. */
export const TEXT_WORDS = 4
export const TEXT_INLINE_BYTES_MAX = 12

const TYPE_ID: Readonly<Record<ColumnType, readonly DuckDBTypeId[]>> = {
  BOOLEAN: [DuckDBTypeId.BOOLEAN],
  STRING: [DuckDBTypeId.VARCHAR],
  FLOAT: [DuckDBTypeId.FLOAT],
  DOUBLE: [DuckDBTypeId.DOUBLE],
  INT8: [DuckDBTypeId.TINYINT],
  INT16: [DuckDBTypeId.SMALLINT],
  INT32: [DuckDBTypeId.INTEGER],
  INT64: [DuckDBTypeId.BIGINT],
  DATE: [DuckDBTypeId.DATE],
  TIMESTAMP: [DuckDBTypeId.TIMESTAMP, DuckDBTypeId.TIMESTAMP_TZ],
  JSON: [DuckDBTypeId.VARCHAR],
}

/** Bytes of a value in Arrow; 0: bits or text. */
export const VALUE_BYTES: Readonly<Record<ColumnType, number>> = {
  BOOLEAN: 0,
  STRING: 0,
  FLOAT: 4,
  DOUBLE: 8,
  INT8: 1,
  INT16: 2,
  INT32: 4,
  INT64: 8,
  DATE: 4,
  TIMESTAMP: 8,
  JSON: 0,
}

export function isText(type: ColumnType): boolean {
  return type === 'STRING' || type === 'JSON'
}

/** Is `row` not null? See RawColumn.valid. */
export function isValid(valid: Uint8Array | undefined, row: number): boolean {
  return valid === undefined || (((valid[row >> 3] as number) >> (row & 7)) & 1) === 1
}

/** What the binding's vectors hold. */
interface VectorFields {
  readonly items?: ArrayBufferView
  readonly dataView?: DataView
  readonly validity: { readonly data: BigUint64Array | null; readonly offset: number }
}

/** The column at `index` of a chunk, which must be of `type`. */
export function rawColumn(chunk: DuckDBDataChunk, index: number, type: ColumnType): RawColumn {
  const vector = chunk.getColumnVector(index)
  const { typeId } = vector.type
  assert(TYPE_ID[type].includes(typeId), `column ${index} is ${type}, and DuckDB's is type ${typeId}`)
  const { items, dataView, validity } = vector as unknown as VectorFields
  const view = items ?? dataView
  const rows = chunk.rowCount
  const bytes = isText(type) ? 4 * TEXT_WORDS : Math.max(1, VALUE_BYTES[type])
  assert(view?.byteLength === rows * bytes && validity.offset === 0, 'a vector as the binding builds them')
  const { data } = validity
  return {
    type,
    rows,
    values: new Uint8Array(view.buffer, view.byteOffset, view.byteLength),
    valid: data === null ? undefined : new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    chunk,
    vector,
  }
}
