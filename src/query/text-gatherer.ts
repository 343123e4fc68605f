/**
 * Texts of a DuckDB chunk → Arrow's offsets and bytes, with two implementations that give equal bytes: this one, which
 * asks DuckDB's binding for each long text, and native/gather.cpp, which follows the pointers (20 times as fast).
 */
import { assert } from '../util/assert.ts'
import { tryNative } from '../util/native.ts'
import { isValid, type RawColumn, TEXT_INLINE_BYTES_MAX, TEXT_WORDS } from './raw-column.ts'

/** Where texts go. */
interface TextTarget {
  /** Entry i + 1 is where text i ends in `data`; entry 0 stands. */
  readonly offsets: Int32Array
  readonly data: Uint8Array
}

/**
 * Appends rows [from, to) of `column` as texts row, row + 1, … of `target`; null has no bytes. There is room: see
 * textBytes.
 */
export type TextGatherer = (
  column: RawColumn,
  from: number,
  to: number,
  target: TextTarget,
  row: number,
) => void

/** Bytes of the texts in rows [from, to). */
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
/** U+FEFF: the binding's decoder takes one away at a text's beginning. */
const MARK = [0xef, 0xbb, 0xbf]

function putLong(text: string, bytes: number, data: Uint8Array, at: number): void {
  const { written } = encoder.encodeInto(text, data.subarray(at, at + bytes))
  if (written === bytes) return
  assert(written === bytes - MARK.length, 'a text is UTF-8 of its length')
  data.set(MARK, at)
  encoder.encodeInto(text, data.subarray(at + MARK.length, at + bytes))
}

interface NativeGather {
  /** See native/gather.cpp. */
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

/** The C++ one, undefined where the native module was not built. */
export function tryGatherTextsNative(): TextGatherer | undefined {
  const native = tryNative() as unknown as NativeGather | undefined
  if (native === undefined) return undefined
  return ({ values, valid }, from, to, { offsets, data }, row) =>
    native.gatherTexts(values, valid ?? null, from, to, offsets, data, row)
}
