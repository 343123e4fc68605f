/**
 * The passes over a seal's rows, with two implementations that give equal bytes: *-js.ts, which are the
 * specification and the fallback, and native/ (C++), which is used where it was built.
 *
 *   survey     which rows win (W-7 within a seal), the sorted keys, how large each column gets
 *   fill       the winning rows, in entry order, as contiguous Arrow buffers at their final place
 *   extremes   which of them hold the smallest and the largest value of a column
 */
import type { Kind } from '../batch/layout.ts'
import type { KeyRun } from '../keys/protocol.ts'
import { tryNative } from '../util/native.ts'
import { extremesJs } from './extremes-js.ts'
import { fillJs } from './fill-js.ts'
import type { TailEntry } from './protocol.ts'
import { surveyJs } from './survey-js.ts'

/** What the first pass found. */
export interface Survey {
  /** One byte per row of all entries, deletes included: 1 where the row goes into the segment. */
  readonly keep: Uint8Array
  /** undefined in a pool without a unique id. */
  readonly keys: KeyRun | undefined
  /** Sequences of the keys whose row is -1, in the order of `keys`. */
  readonly deletes: Float64Array
  /** Two per batch column: nulls, and bytes of a variable-width column, of the kept rows. The key's are 0. */
  readonly sums: Float64Array
}

/** Byte offsets in the IPC stream, -1: no such buffer. Received-at, sequence, then PLACE_WORDS per batch column. */
export type Places = Float64Array
export const PLACES_FIRST_COLUMN = 2
/** Validity, offsets, data. */
export const PLACE_WORDS = 3

/** A column without nulls in the stream: where it stands, `offsets` of variable-width ones alone. */
export interface StreamColumn {
  readonly kind: Kind
  readonly offsets: number
  readonly data: number
}

/** Rows of the smallest and the largest value. */
export type Extremes = readonly [least: number, most: number]

export interface Assembler {
  readonly name: 'native' | 'js'
  /**
   * @param keyed the pool has a unique id
   * @param columns columns of a batch of posts, payload and key included
   */
  survey(entries: readonly TailEntry[], keyed: boolean, columns: number): Survey
  /**
   * Writes the kept rows into `out`, but for the texts of a column without a place for them: of that only the offsets.
   * Bitmaps and first offsets must be zero before the call.
   */
  fill(entries: readonly TailEntry[], keep: Uint8Array, out: Uint8Array, places: Places): void
  /**
   * The first row of those that hold the column's smallest value, and the largest: of signed integers, or of text by
   * its bytes. At least one row.
   */
  extremes(stream: Uint8Array, column: StreamColumn, rows: number): Extremes
}

/** Arguments of a native call. */
export type NativeEntries = readonly [batches: Uint8Array[], requests: Float64Array[], kinds: Uint8Array]

interface NativeSegment {
  segmentSurvey(...args: [...NativeEntries, keyed: boolean, columns: number]): Survey
  segmentFill(...args: [...NativeEntries, keep: Uint8Array, out: Uint8Array, places: Float64Array]): void
  segmentExtremes(stream: Uint8Array, kind: Kind, offsets: number, data: number, rows: number): Extremes
}

/** The TypeScript one. */
export const assemblerJs: Assembler = { name: 'js', survey: surveyJs, fill: fillJs, extremes: extremesJs }

/** The C++ one, undefined where the native module was not built. */
export function tryAssemblerNative(): Assembler | undefined {
  const native = tryNative() as unknown as NativeSegment | undefined
  if (native === undefined) return undefined
  return {
    name: 'native',
    survey: (entries, keyed, columns) => native.segmentSurvey(...nativeEntries(entries), keyed, columns),
    fill: (entries, keep, out, places) => native.segmentFill(...nativeEntries(entries), keep, out, places),
    extremes: (stream, { kind, offsets, data }, rows) =>
      native.segmentExtremes(stream, kind, offsets, data, rows),
  }
}

/** Batches, requests and kinds (1: deletes), as native/entries.h reads them. */
export function nativeEntries(entries: readonly TailEntry[]): NativeEntries {
  return [
    entries.map(entry => new Uint8Array(entry.batch)),
    entries.map(entry => entry.requests),
    Uint8Array.from(entries, entry => (entry.kind === 'delete' ? 1 : 0)),
  ]
}
