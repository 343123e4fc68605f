/**
 * The two passes over a seal's rows, with two implementations that give equal bytes: assemble-js.ts, which is the
 * specification and the fallback, and native/ (C++), which is used where it was built.
 *
 *   survey   which rows win (W-7 within a seal), the sorted keys, how large each column gets
 *   fill     the winning rows, in entry order, as contiguous Arrow buffers at their final place
 */
import type { KeyRun } from '../keys/protocol.ts'
import { tryNative } from '../util/native.ts'
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

export interface Assembler {
  readonly name: 'native' | 'js'
  /**
   * @param keyed the pool has a unique id
   * @param columns columns of a batch of posts, payload and key included
   */
  survey(entries: readonly TailEntry[], keyed: boolean, columns: number): Survey
  /** Writes the kept rows into `out`. Bitmaps and first offsets must be zero before the call. */
  fill(entries: readonly TailEntry[], keep: Uint8Array, out: Uint8Array, places: Places): void
}

interface NativeSegment {
  segmentSurvey(
    batches: Uint8Array[],
    requests: Float64Array[],
    kinds: Uint8Array,
    keyed: boolean,
    columns: number,
  ): Survey
  segmentFill(
    batches: Uint8Array[],
    requests: Float64Array[],
    kinds: Uint8Array,
    keep: Uint8Array,
    out: Uint8Array,
    places: Float64Array,
  ): void
}

/** The TypeScript one. */
export const assemblerJs: Assembler = { name: 'js', survey: surveyJs, fill: fillJs }

/** The C++ one, undefined where the native module was not built. */
export function tryAssemblerNative(): Assembler | undefined {
  const native = tryNative() as unknown as NativeSegment | undefined
  if (native === undefined) return undefined
  return {
    name: 'native',
    survey: (entries, keyed, columns) => native.segmentSurvey(...split(entries), keyed, columns),
    fill: (entries, keep, out, places) => native.segmentFill(...split(entries), keep, out, places),
  }
}

function split(entries: readonly TailEntry[]): [Uint8Array[], Float64Array[], Uint8Array] {
  return [
    entries.map(entry => new Uint8Array(entry.batch)),
    entries.map(entry => entry.requests),
    Uint8Array.from(entries, entry => (entry.kind === 'delete' ? 1 : 0)),
  ]
}
