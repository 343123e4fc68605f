/**
 * Which rows of a column hold its smallest and its largest value, the first of equal ones.
 * The specification of native/extremes.cpp.
 */
import { KIND, WIDTH_OF_KIND } from '../batch/layout.ts'
import type { Extremes, StreamColumn } from './assembler.ts'

/** See Assembler.extremes. */
export function extremesJs(stream: Uint8Array, column: StreamColumn, rows: number): Extremes {
  return column.kind === KIND.binary
    ? extremesOf(textOrder(stream, column, rows), rows)
    : extremesOf(integerOrder(stream, column, rows), rows)
}

type Order = (a: number, b: number) => number

function extremesOf(compare: Order, rows: number): Extremes {
  let [least, most] = [0, 0]
  for (let row = 1; row < rows; row++) {
    if (compare(row, least) < 0) least = row
    else if (compare(row, most) > 0) most = row
  }
  return [least, most]
}

/** Of signed integers. 64-bit ones are compared as halves: no BigInt per row. */
function integerOrder(stream: Uint8Array, { kind, data }: StreamColumn, rows: number): Order {
  const view = new DataView(stream.buffer, stream.byteOffset + data, rows * WIDTH_OF_KIND[kind])
  if (kind === KIND.i8) return (a, b) => view.getInt8(a) - view.getInt8(b)
  if (kind === KIND.i16) return (a, b) => view.getInt16(2 * a, true) - view.getInt16(2 * b, true)
  if (kind === KIND.i32) return (a, b) => view.getInt32(4 * a, true) - view.getInt32(4 * b, true)
  return (a, b) => {
    const high = view.getInt32(8 * a + 4, true) - view.getInt32(8 * b + 4, true)
    return high !== 0 ? high : view.getUint32(8 * a, true) - view.getUint32(8 * b, true)
  }
}

/** By bytes, as DuckDB compares strings, then the shorter first. */
function textOrder(stream: Uint8Array, { offsets: at, data }: StreamColumn, rows: number): Order {
  const offsets = new Int32Array(stream.buffer, stream.byteOffset + at, rows + 1)
  const bytes = new Uint8Array(stream.buffer, stream.byteOffset + data, offsets[rows]!)
  return (a, b) => {
    let [i, j] = [offsets[a]!, offsets[b]!]
    const [iEnd, jEnd] = [offsets[a + 1]!, offsets[b + 1]!]
    for (; i < iEnd && j < jEnd; i++, j++) {
      const order = bytes[i]! - bytes[j]!
      if (order !== 0) return order
    }
    return iEnd - i - (jEnd - j)
  }
}
