/**
 * Encodes a flush's rows as a Parquet file. Two implementations write files with the same rows:
 * native/parquet*.cpp, which is used where it was built, and parquet-wasm (parquet-encoder-js.ts),
 * the fallback. The bytes differ: each has its own compression, pages and choice of dictionaries.
 */
import { FIRST_SCHEMA_COLUMN } from '../../format/batch-layout.ts'
import {
  COLUMN_TYPE,
  type ColumnType,
  PAYLOAD,
  type PoolSchema,
  RECEIVED_AT,
  SEQUENCE,
  uniqueColumns,
} from '../../format/schema.ts'
import { assert } from '../../util/errors.ts'
import { ROW_GROUP_ROWS } from '../../util/limits.ts'
import { type KernelChoice, tryNative } from '../../util/native.ts'
import type { MemtableEntry } from '../flush/memtable.ts'
import { type HeadOf, Scratch, type StreamLayout } from './arrow-stream.ts'
import { type NativeEntries, nativeEntries, PLACE_WORDS, PLACES_FIRST_COLUMN } from './assembler.ts'

export interface Encoder {
  readonly name: KernelChoice
  /** Makes the bytes that it needs before the rows. It is absent where none are needed. */
  readonly headOf?: HeadOf
  /**
   * Encodes the `rows` rows, at least one, that `stream` holds as `layout` says. The bytes are
   * valid until the next call. `footer` is the file's key-value metadata.
   * @param source has the payloads if the layout left them in their batches
   */
  encode(
    stream: Uint8Array,
    layout: StreamLayout,
    schema: PoolSchema,
    rows: number,
    footer: ReadonlyMap<string, string>,
    source?: PayloadSource,
  ): Uint8Array
}

/** The source of a stream's rows. */
interface PayloadSource {
  readonly entries: readonly MemtableEntry[]
  /** Deduplicated.keep */
  readonly keep: Uint8Array
}

/**
 * The native implementation; undefined where it is not wanted, or the native module was not built.
 */
export function tryEncoderNative(kernel?: KernelChoice): Encoder | undefined {
  const native = tryNative<NativeParquet>(kernel)
  return native === undefined ? undefined : new NativeEncoder(native)
}

interface NativeParquet {
  /** See native/parquet.h. */
  parquetEncode(
    stream: Uint8Array,
    out: Uint8Array,
    words: Float64Array,
    text: Uint8Array,
    lengths: Float64Array,
    ...source: [] | [...NativeEntries, keep: Uint8Array]
  ): number
}

/** Lengths in a page's header are 32 bits. */
const STREAM_BYTES_MAX = 2 ** 30
/** Words of a column in a native call: type, flags, places. */
const COLUMN_WORDS = 2 + PLACE_WORDS
const FLAG = { optional: 1, statistics: 2, dictionary: 4 } as const

class NativeEncoder implements Encoder {
  readonly name = 'native'
  readonly #native: NativeParquet
  /** For the files. Only the pages that are written become resident. */
  readonly #scratch = new Scratch()

  constructor(native: NativeParquet) {
    this.#native = native
  }

  encode(
    stream: Uint8Array,
    layout: StreamLayout,
    schema: PoolSchema,
    rows: number,
    footer: ReadonlyMap<string, string>,
    source?: PayloadSource,
  ): Uint8Array {
    assert(
      rows > 0 && stream.length === layout.bytes,
      "a segment has rows, and its stream has the layout's size",
    )
    const bytesIn = stream.length + layout.payloadBytes
    assert(bytesIn <= STREAM_BYTES_MAX, "a flush is far smaller than the encoder's limit")
    const names = [RECEIVED_AT, PAYLOAD, ...schema.columns.map(column => column.name), SEQUENCE]
    const texts = [...names, ...[...footer].flat()].map(text => Buffer.from(text))
    const text = new Uint8Array(Buffer.concat(texts))
    const out = this.#scratch.of(fileBytesMax(bytesIn, rows, names.length, text.length))
    const lengths = Float64Array.from(texts, one => one.length)
    const words = wordsOf(schema, rows, layout)
    const payloads =
      source === undefined ? ([] as const) : ([...nativeEntries(source.entries), source.keep] as const)
    const bytes = this.#native.parquetEncode(stream, out, words, text, lengths, ...payloads)
    assert(bytes > 0, 'a file fits in what its stream allows')
    return out.subarray(0, bytes)
  }
}

/**
 * The size of a file at most. A value takes no more bytes than in the stream, except small integers
 * (4 bytes). LZ4 adds at most 1/255. A page header takes at most 64 bytes, and the description of a
 * chunk less than 1 KiB beside its name.
 */
function fileBytesMax(bytesIn: number, rows: number, columns: number, textBytes: number): number {
  const groups = Math.ceil(rows / ROW_GROUP_ROWS)
  const pages = columns * (groups + Math.ceil(rows / 16_384)) + Math.ceil(bytesIn / 32_768)
  const values = bytesIn + 4 * rows * columns
  return (
    values +
    Math.ceil(values / 200) +
    256 * pages +
    groups * (textBytes + 1024 * columns) +
    textBytes +
    65_536
  )
}

/** Rows, rows of a row group, and the columns in the file's order. */
function wordsOf(schema: PoolSchema, rows: number, layout: StreamLayout): Float64Array {
  const { places } = layout
  const words = [rows, ROW_GROUP_ROWS]
  const add = (type: ColumnType, flags: number, placesOfColumn: Iterable<number>) =>
    words.push(COLUMN_TYPE[type].number, flags, ...placesOfColumn)
  const placesOf = (batchColumn: number) => {
    const at = PLACES_FIRST_COLUMN + PLACE_WORDS * batchColumn
    return places.subarray(at, at + PLACE_WORDS)
  }
  const unique = uniqueColumns(schema)
  add('TIMESTAMP', FLAG.statistics, [-1, -1, places[0]!])
  add('JSON', 0, placesOf(0))
  schema.columns.forEach((column, i) => {
    const statistics = column.type === 'JSON' ? 0 : FLAG.statistics
    const dictionary = column.type === 'STRING' && !unique.has(i) ? FLAG.dictionary : 0
    const optional = column.required ? 0 : FLAG.optional
    add(column.type, optional + statistics + dictionary, placesOf(FIRST_SCHEMA_COLUMN + i))
  })
  add('INT64', FLAG.statistics, [-1, -1, places[1]!])
  assert(words.length === 2 + COLUMN_WORDS * (3 + schema.columns.length), 'every column has its words')
  return Float64Array.from(words)
}
