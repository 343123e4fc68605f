/**
 * The memory of DuckDB's chunks: values as DuckDB lays them out, without a JavaScript value for
 * each, and their texts gathered into Arrow's offsets and bytes.
 *
 * The binding has no public access to this memory, so the fields of its vectors are read by name. A
 * binding that is built differently fails here at once, for every type
 * (test/query/record_batches.test.ts).
 *
 * Two implementations gather texts and give equal bytes: the TypeScript one here, which asks the
 * binding for each long text, and ../native/gather.cpp, which follows the pointers and is 20 times
 * as fast.
 */
import type { DuckDBDataChunk, DuckDBVector } from '@duckdb/node-api'
import { valueBytes } from '../../format/batch-layout.ts'
import { COLUMN_TYPE, type ColumnType } from '../../format/schema.ts'
import { DuckDBTypeId } from '../../util/duckdb.ts'
import { assert } from '../../util/errors.ts'
import { type KernelChoice, tryNative } from '../../util/native.ts'

/** One column of a chunk. Its memory is valid as long as this object is held. */
export interface RawColumn {
  readonly type: ColumnType
  /** In row order, as in Arrow, but a byte for a BOOLEAN and TEXT_WORDS words for a text. */
  readonly values: Uint8Array
  /**
   * Bit i, from the lowest, is 1 if row i is not null. Absent where no row is null. The value of a
   * null row may be anything.
   */
  readonly valid: Uint8Array | undefined
  /** Owns the memory that `vector`, `values` and `valid` point to. It is freed with the chunk. */
  readonly chunk: DuckDBDataChunk
  readonly vector: DuckDBVector
}

/** A text: its length, then 12 bytes: the text, or its first 4 bytes and a pointer to it. */
const TEXT_WORDS = 4
const TEXT_INLINE_BYTES_MAX = 12

export function isText(type: ColumnType): boolean {
  return type === 'STRING' || type === 'JSON'
}

export function isValid(valid: Uint8Array | undefined, row: number): boolean {
  return valid === undefined || (((valid[row >> 3] as number) >> (row & 7)) & 1) === 1
}

interface VectorFields {
  readonly items?: ArrayBufferView
  readonly dataView?: DataView
  readonly validity: { readonly data: BigUint64Array | null; readonly offset: number }
}

/** U+FEFF in UTF-8. The binding's decoder removes it from the beginning of a text. */
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf]

/** The column at `index` of a chunk. Its type must be `type`. */
export function rawColumn(chunk: DuckDBDataChunk, index: number, type: ColumnType): RawColumn {
  const vector = chunk.getColumnVector(index)
  const { typeId } = vector.type
  const isTyped =
    typeId === DuckDBTypeId[COLUMN_TYPE[type].duckdb] ||
    (type === 'TIMESTAMP' && typeId === DuckDBTypeId.TIMESTAMP_TZ)
  assert(isTyped, `column ${index} is ${type}, but DuckDB's is type ${typeId}`)
  const { items, dataView, validity } = vector as unknown as VectorFields
  const view = items ?? dataView
  const bytes = isText(type) ? 4 * TEXT_WORDS : Math.max(1, valueBytes(type))
  assert(
    view?.byteLength === chunk.rowCount * bytes && validity.offset === 0,
    'the binding builds its vectors in another way',
  )
  const { data } = validity
  return {
    type,
    values: new Uint8Array(view.buffer, view.byteOffset, view.byteLength),
    valid: data === null ? undefined : new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    chunk,
    vector,
  }
}

/** The texts of a VARCHAR column, with the U+FEFF that the binding's decoder removes. */
export function wholeTexts(chunk: DuckDBDataChunk, index: number): readonly (string | null)[] {
  const { values } = rawColumn(chunk, index, 'STRING')
  return (chunk.getColumnValues(index) as (string | null)[]).map((text, row) => {
    // The first four bytes of a text stand here, whatever its length.
    const begin = 4 * (row * TEXT_WORDS + 1)
    const isMarked = BYTE_ORDER_MARK.every((byte, i) => values[begin + i] === byte)
    return text !== null && isMarked ? `\uFEFF${text}` : text
  })
}

/** The place of a column's texts in an Arrow message. */
interface TextTarget {
  /** Entry i + 1 is the end of text i in `data`. Entry 0 is set by the caller. */
  readonly offsets: Int32Array
  readonly data: Uint8Array
}

/**
 * Appends rows [from, to) of `column` as texts row, row + 1, … of `target`. A null takes no bytes.
 * The caller makes room for `textBytes`.
 */
export type TextGatherer = (
  column: RawColumn,
  from: number,
  to: number,
  target: TextTarget,
  row: number,
) => void

/** The bytes of the texts in rows [from, to). */
export function textBytes({ values, valid }: RawColumn, from: number, to: number): number {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.byteLength / 4)
  let bytes = 0
  for (let i = from; i < to; i++) if (isValid(valid, i)) bytes += words[i * TEXT_WORDS] as number
  return bytes
}

export const gatherTextsJs: TextGatherer = (column, from, to, { offsets, data }, row) => {
  const { values, valid } = column
  const words = new Uint32Array(values.buffer, values.byteOffset, values.byteLength / 4)
  let at = offsets[row] as number
  for (let i = from; i < to; i++) {
    const bytes = isValid(valid, i) ? (words[i * TEXT_WORDS] as number) : 0
    if (bytes > TEXT_INLINE_BYTES_MAX) putLong(column.vector.getItem(i) as string, bytes, data, at)
    else {
      const begin = 4 * (i * TEXT_WORDS + 1)
      for (let b = 0; b < bytes; b++) data[at + b] = values[begin + b] as number
    }
    at += bytes
    offsets[++row] = at
  }
}

const encoder = new TextEncoder()
function putLong(text: string, bytes: number, data: Uint8Array, at: number): void {
  const { written } = encoder.encodeInto(text, data.subarray(at, at + bytes))
  if (written === bytes) return
  assert(written === bytes - BYTE_ORDER_MARK.length, 'a text is UTF-8 of its length')
  data.set(BYTE_ORDER_MARK, at)
  encoder.encodeInto(text, data.subarray(at + BYTE_ORDER_MARK.length, at + bytes))
}

interface NativeGather {
  /** See ../native/gather.cpp. */
  gatherTexts(
    values: Uint8Array,
    valid: Uint8Array | null,
    from: number,
    to: number,
    offsets: Int32Array,
    data: Uint8Array,
    row: number,
  ): void
}

/** The C++ gatherer; undefined where it is not wanted, or the native module was not built. */
export function tryGatherTextsNative(kernel?: KernelChoice): TextGatherer | undefined {
  const native = tryNative<NativeGather>(kernel)
  if (native === undefined) return undefined
  return ({ values, valid }, from, to, { offsets, data }, row) =>
    native.gatherTexts(values, valid ?? null, from, to, offsets, data, row)
}
