/**
 * A seal's rows become the bytes of a Parquet file, with two implementations whose files hold the same rows: the
 * parquet-wasm one (encoder-js.ts), which is the fallback, and native/parquet*.cpp, which is used where it was built.
 * The bytes differ: compression, pages and the choice of dictionaries are each one's own.
 */
import { FIRST_PLAN_COLUMN } from '../batch/layout.ts'
import { type ColumnType, PAYLOAD, type Plan, RECEIVED_AT, SEQUENCE } from '../batch/plan.ts'
import { ROW_GROUP_ROWS } from '../limits.ts'
import { assert } from '../util/assert.ts'
import { tryNative } from '../util/native.ts'
import { type NativeEntries, nativeEntries, PLACE_WORDS, PLACES_FIRST_COLUMN } from './assembler.ts'
import type { TailEntry } from './protocol.ts'
import type { HeadOf, StreamLayout } from './stream.ts'

export interface Encoder {
  readonly name: 'native' | 'js'
  /** What it needs before the rows; undefined: nothing. */
  readonly headOf?: HeadOf
  /**
   * The Parquet file of `rows` rows, at least one, which stand in `stream` as `layout` says. The bytes stay as they
   * are until the next call. `footer` is the file's key-value metadata.
   * @param source has the payloads where the layout left them in their batches
   */
  encode(
    stream: Uint8Array,
    layout: StreamLayout,
    plan: Plan,
    rows: number,
    footer: ReadonlyMap<string, string>,
    source?: PayloadSource,
  ): Uint8Array
}

/** Where the rows of a stream came from. */
export interface PayloadSource {
  readonly entries: readonly TailEntry[]
  /** Survey.keep */
  readonly keep: Uint8Array
}

/** The C++ one, undefined where the native module was not built. */
export function tryEncoderNative(): Encoder | undefined {
  const native = tryNative() as unknown as NativeParquet | undefined
  return native === undefined ? undefined : new NativeEncoder(native)
}

interface NativeParquet {
  /** See native/parquet_calls.h. */
  parquetEncode(
    stream: Uint8Array,
    out: Uint8Array,
    words: Float64Array,
    text: Uint8Array,
    lengths: Float64Array,
    ...source: [] | [...NativeEntries, keep: Uint8Array]
  ): number
}

/** A file larger than this gets memory of its own: the scratch stays small between seals. */
const SCRATCH_BYTES_MAX = 96 * 1024 * 1024
/** Lengths in a page's header are 32 bits. */
const STREAM_BYTES_MAX = 2 ** 30
/** Words of a column in a call: type, flags, places. */
const COLUMN_WORDS = 2 + PLACE_WORDS
const FLAG = { optional: 1, statistics: 2, dictionary: 4 } as const

/** Numbers of native/parquet.h. */
const TYPE: Readonly<Record<ColumnType, number>> = {
  BOOLEAN: 0,
  STRING: 1,
  FLOAT: 2,
  DOUBLE: 3,
  INT8: 4,
  INT16: 5,
  INT32: 6,
  INT64: 7,
  DATE: 8,
  TIMESTAMP: 9,
  JSON: 10,
}

class NativeEncoder implements Encoder {
  readonly name = 'native'
  readonly #native: NativeParquet
  #scratch = new ArrayBuffer(0)

  constructor(native: NativeParquet) {
    this.#native = native
  }

  encode(
    stream: Uint8Array,
    layout: StreamLayout,
    plan: Plan,
    rows: number,
    footer: ReadonlyMap<string, string>,
    source?: PayloadSource,
  ): Uint8Array {
    assert(rows > 0 && stream.length === layout.bytes, 'a segment has rows, and its stream is laid out')
    const bytesIn = stream.length + layout.payloadBytes
    assert(bytesIn <= STREAM_BYTES_MAX, 'the tail is far smaller')
    const names = [RECEIVED_AT, PAYLOAD, ...plan.columns.map(column => column.name), SEQUENCE]
    const texts = [...names, ...[...footer].flat()].map(text => Buffer.from(text))
    const text = new Uint8Array(Buffer.concat(texts))
    const out = this.#room(fileBytesMax(bytesIn, rows, names.length, text.length))
    const lengths = Float64Array.from(texts, one => one.length)
    const words = wordsOf(plan, rows, layout)
    const payloads =
      source === undefined ? ([] as const) : ([...nativeEntries(source.entries), source.keep] as const)
    const bytes = this.#native.parquetEncode(stream, out, words, text, lengths, ...payloads)
    assert(bytes > 0, 'a file fits in what its stream allows')
    return out.subarray(0, bytes)
  }

  /** Memory for a file. Only what is written becomes resident. */
  #room(bytes: number): Uint8Array {
    if (bytes > SCRATCH_BYTES_MAX) return new Uint8Array(bytes)
    if (this.#scratch.byteLength < bytes) this.#scratch = new ArrayBuffer(Math.ceil(bytes * 1.125))
    return new Uint8Array(this.#scratch)
  }
}

/**
 * Bytes that a file has at most. A value takes no more than in the stream, but for small integers (4 bytes); LZ4 adds
 * at most 1/255; a page is headed by at most 64 bytes and a chunk is described in less than 1 KiB besides its name.
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
function wordsOf(plan: Plan, rows: number, layout: StreamLayout): Float64Array {
  const { places } = layout
  const words = [rows, ROW_GROUP_ROWS]
  const add = (type: ColumnType, flags: number, placesOfColumn: Iterable<number>) =>
    words.push(TYPE[type], flags, ...placesOfColumn)
  const placesOf = (batchColumn: number) => {
    const at = PLACES_FIRST_COLUMN + PLACE_WORDS * batchColumn
    return places.subarray(at, at + PLACE_WORDS)
  }
  const unique = new Set(plan.key?.columns)
  add('TIMESTAMP', FLAG.statistics, [-1, -1, places[0]!])
  add('JSON', 0, placesOf(0))
  plan.columns.forEach((column, i) => {
    const statistics = column.type === 'JSON' ? 0 : FLAG.statistics
    const dictionary = column.type === 'STRING' && !unique.has(i) ? FLAG.dictionary : 0
    const optional = column.required ? 0 : FLAG.optional
    add(column.type, optional + statistics + dictionary, placesOf(FIRST_PLAN_COLUMN + i))
  })
  add('INT64', FLAG.statistics, [-1, -1, places[1]!])
  assert(words.length === 2 + COLUMN_WORDS * (3 + plan.columns.length), 'every column has its words')
  return Float64Array.from(words)
}
