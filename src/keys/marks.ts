/** Superseded rows, grouped by segment. */
import { assert } from '../util/assert.ts'
import type { MarkDelta } from './protocol.ts'

/**
 * Splits sorted (segment, row) pairs into one list of rows per segment.
 *
 *   W-7  A row is superseded once: its key points elsewhere afterwards. Two equal pairs are our own fault.
 */
export function groupPairs(pairs: Uint32Array): MarkDelta[] {
  const groups: MarkDelta[] = []
  let from = 0
  while (from < pairs.length) {
    const segment = pairs[from] as number
    let to = from
    while (to < pairs.length && pairs[to] === segment) to += 2
    groups.push({ segment, rows: rowsOf(pairs, from, to) })
    from = to
  }
  return groups
}

function rowsOf(pairs: Uint32Array, from: number, to: number): Uint32Array {
  const rows = new Uint32Array((to - from) / 2)
  let last = -1
  for (let i = 0; i < rows.length; i++) {
    const row = pairs[from + 2 * i + 1] as number
    assert(row > last, 'a row is superseded once')
    rows[i] = row
    last = row
  }
  return rows
}

/** All rows of sorted lists without common rows, sorted, in one list. */
export function mergeRows(parts: readonly Uint32Array[]): Uint32Array {
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return only
  let length = 0
  for (const part of parts) length += part.length
  const all = new Uint32Array(length)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all.sort()
}
