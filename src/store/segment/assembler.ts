/**
 * The passes over a flush's rows. Two implementations give equal bytes: assembler-js.ts, which is
 * the specification and the fallback, and native/ (C++), which is used where it was built.
 *
 *   deduplicate  which rows win (W-7 within a flush), the sorted keys, the size of each column
 *   gather       the winning rows, in entry order, as contiguous Arrow buffers at their final place
 *   minMax       the rows that hold the smallest and the largest value of a column
 */
import type { Kind } from '../../format/batch-layout.ts'
import type { KeyRun } from '../../format/key-run.ts'
import { type KernelChoice, tryNative } from '../../util/native.ts'
import type { MemtableEntry } from '../flush/memtable.ts'

export interface Deduplicated {
  /** One byte for each row of all entries, deletes included: 1 if the row goes into the segment. */
  readonly keep: Uint8Array
  /** undefined in a pool without a key. With a version column the run has versions. */
  readonly keys: KeyRun | undefined
  /**
   * In the order of `keys`, the sequence of the last delete of each key whose row is below 0: it is
   * deleted, or its row follows a delete (key-run.ts).
   */
  readonly deletes: Float64Array
  /**
   * Two numbers for each batch column: nulls, and bytes of a variable-width column, of the winning
   * rows. Both are 0 for the key.
   */
  readonly sums: Float64Array
}

/**
 * Byte offsets in the IPC stream; -1 where there is no such buffer. Received-at, sequence, then
 * PLACE_WORDS for each batch column.
 */
export type Places = Float64Array
export const PLACES_FIRST_COLUMN = 2
/** Words of a column: validity, offsets, data. */
export const PLACE_WORDS = 3

/**
 * The place of a column without nulls in the stream. Only variable-width columns have `offsets`.
 */
export interface StreamColumn {
  readonly kind: Kind
  readonly offsets: number
  readonly data: number
}

/** The numbers of the rows that hold the smallest and the largest value. */
type MinMaxRows = readonly [min: number, max: number]

export interface Assembler {
  readonly name: KernelChoice
  /**
   * @param keyed the pool has a key
   * @param columns columns of a batch of posts, payload and key included
   * @param version the place of the version column in a batch of posts; by default -1, where
   *   there is none
   */
  deduplicate(
    entries: readonly MemtableEntry[],
    keyed: boolean,
    columns: number,
    version?: number,
  ): Deduplicated
  /**
   * Writes the winning rows into `out`. For a text column without a place for its data it writes
   * only the offsets. Bitmaps and first offsets must be zero before the call.
   */
  gather(entries: readonly MemtableEntry[], keep: Uint8Array, out: Uint8Array, places: Places): void
  /**
   * Finds the first row that holds the column's smallest value, and the first that holds its
   * largest: signed integers, or texts by their bytes. There is at least one row.
   */
  minMax(stream: Uint8Array, column: StreamColumn, rows: number): MinMaxRows
}

/** The number of rows that go into the segment. */
export function countRows(keep: Uint8Array): number {
  let rows = 0
  for (let row = 0; row < keep.length; row++) rows += keep[row]!
  return rows
}

/** Arguments of a native call. */
export type NativeEntries = readonly [batches: Uint8Array[], requests: Float64Array[], kinds: Uint8Array]

interface NativeSegment {
  segmentDeduplicate(
    ...args: [...NativeEntries, keyed: boolean, columns: number, version: number]
  ): Deduplicated
  segmentGather(...args: [...NativeEntries, keep: Uint8Array, out: Uint8Array, places: Float64Array]): void
  segmentMinMax(stream: Uint8Array, kind: Kind, offsets: number, data: number, rows: number): MinMaxRows
}

/**
 * The native implementation; undefined where it is not wanted, or the native module was not built.
 */
export function tryAssemblerNative(kernel?: KernelChoice): Assembler | undefined {
  const native = tryNative<NativeSegment>(kernel)
  if (native === undefined) return undefined
  return {
    name: 'native',
    deduplicate: (entries, keyed, columns, version = -1) =>
      native.segmentDeduplicate(...nativeEntries(entries), keyed, columns, version),
    gather: (entries, keep, out, places) =>
      native.segmentGather(...nativeEntries(entries), keep, out, places),
    minMax: (stream, { kind, offsets, data }, rows) =>
      native.segmentMinMax(stream, kind, offsets, data, rows),
  }
}

/** Batches, requests and kinds (1 for deletes), as native/assembler.h reads them. */
export function nativeEntries(entries: readonly MemtableEntry[]): NativeEntries {
  return [
    entries.map(entry => new Uint8Array(entry.batch)),
    entries.map(entry => entry.requests),
    Uint8Array.from(entries, entry => (entry.kind === 'delete' ? 1 : 0)),
  ]
}
