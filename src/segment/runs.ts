/** Kept rows as runs: a batch that lost no row is one run, and is appended whole. */
import { type BatchBuffer, batchRows } from '../batch/layout.ts'
import type { TailEntry } from './protocol.ts'

/** Calls `run(batch, from, to)` for each run of kept rows of posts, in order. */
export function eachRun(
  entries: readonly TailEntry[],
  keep: Uint8Array,
  run: (batch: BatchBuffer, from: number, to: number) => void,
): void {
  let base = 0
  for (const { kind, batch } of entries) {
    const rows = batchRows(batch)
    for (let row = 0; row < rows && kind === 'post'; ) {
      while (row < rows && keep[base + row] === 0) row++
      const from = row
      while (row < rows && keep[base + row] === 1) row++
      if (row > from) run(batch, from, row)
    }
    base += rows
  }
}

/** Rows of all entries, deletes included. */
export function rowsOf(entries: readonly TailEntry[]): number {
  let rows = 0
  for (const entry of entries) rows += batchRows(entry.batch)
  return rows
}

/** How many rows are kept. */
export function countKept(keep: Uint8Array): number {
  let rows = 0
  for (let row = 0; row < keep.length; row++) rows += keep[row]!
  return rows
}

/** The buffers that move with entries to another thread. */
export function buffersOf(entries: readonly TailEntry[]): ArrayBuffer[] {
  const buffers: ArrayBuffer[] = []
  for (const { batch, requests } of entries) {
    if (batch instanceof ArrayBuffer) buffers.push(batch)
    buffers.push(requests.buffer as ArrayBuffer)
  }
  return buffers
}
