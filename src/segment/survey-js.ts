/**
 * Which rows of a seal survive, the sorted run of its keys, and how large the new segment's columns get.
 * The specification of native/survey.cpp.
 *
 * W-7 within a seal: of equal keys the one with the highest sequence wins, then the later row. Entries are
 * not ordered by sequence row by row (a request's rows may stand in two batches), so sequences are compared.
 */
import { batchRows, columnView, KEY_COLUMN, KIND } from '../batch/layout.ts'
import type { KeyRun } from '../keys/protocol.ts'
import type { Survey } from './assembler.ts'
import { ENTRY_WORDS, type TailEntry } from './protocol.ts'
import { eachRun, rowsOf } from './runs.ts'

/** The first pass in TypeScript; see Assembler.survey. */
export function surveyJs(entries: readonly TailEntry[], keyed: boolean, columns: number): Survey {
  const keep = new Uint8Array(rowsOf(entries))
  const deletes: number[] = []
  let keys: KeyRun | undefined
  if (keyed) {
    const rows = readKeys(entries)
    const winners = pickWinners(rows, keep)
    keys = writeRun(winners, keep, deletes)
  } else keep.fill(1)
  return { keep, keys, deletes: Float64Array.from(deletes), sums: sumColumns(entries, keep, columns) }
}

interface KeyRow {
  readonly key: Uint8Array
  readonly sequence: number
  readonly row: number
  readonly isDelete: boolean
}

function readKeys(entries: readonly TailEntry[]): KeyRow[] {
  const rows: KeyRow[] = []
  for (const { kind, batch, requests } of entries) {
    const view = columnView(batch, KEY_COLUMN)
    const offsets = new Int32Array(batch, view.offsetsOffset, batchRows(batch) + 1)
    let row = 0
    for (let r = 0; r < requests.length; r += ENTRY_WORDS) {
      for (const end = row + requests[r + 2]!; row < end; row++) {
        const key = new Uint8Array(batch, view.dataOffset + offsets[row]!, offsets[row + 1]! - offsets[row]!)
        rows.push({ key, sequence: requests[r]!, row: rows.length, isDelete: kind === 'delete' })
      }
    }
  }
  return rows
}

/** The last row of each key, sorted by key; winning posts are marked in `keep`. */
function pickWinners(rows: KeyRow[], keep: Uint8Array): KeyRow[] {
  const sorted = rows.sort((a, b) => Buffer.compare(a.key, b.key) || a.sequence - b.sequence || a.row - b.row)
  const winners = sorted.filter((row, i) => {
    const next = sorted[i + 1]
    return next === undefined || Buffer.compare(row.key, next.key) !== 0
  })
  for (const winner of winners) keep[winner.row] = winner.isDelete ? 0 : 1
  return winners
}

function writeRun(winners: readonly KeyRow[], keep: Uint8Array, deletes: number[]): KeyRun {
  const places = new Int32Array(keep.length)
  for (let row = 0, place = 0; row < keep.length; row++) places[row] = keep[row] === 1 ? place++ : -1
  const n = winners.length
  const bytes = winners.reduce((sum, winner) => sum + winner.key.length, 0)
  const run = new ArrayBuffer(4 * (3 + 2 * n) + bytes)
  const words = new Int32Array(run, 0, 3 + 2 * n)
  const to = new Uint8Array(run, 4 * (3 + 2 * n))
  words[0] = n
  words[1] = bytes
  let end = 0
  for (let i = 0; i < n; i++) {
    const winner = winners[i]!
    words[2 + i] = places[winner.row]!
    if (words[2 + i]! < 0) deletes.push(winner.sequence)
    to.set(winner.key, end)
    end += winner.key.length
    words[3 + n + i] = end
  }
  return run
}

function sumColumns(entries: readonly TailEntry[], keep: Uint8Array, columns: number): Float64Array {
  const sums = new Float64Array(2 * columns)
  eachRun(entries, keep, (batch, from, to) => {
    for (let c = 0; c < columns; c++) {
      if (c === KEY_COLUMN) continue
      const view = columnView(batch, c)
      if (view.nulls > 0) sums[2 * c]! += countNulls(new Uint8Array(batch, view.validityOffset), from, to)
      if (view.kind !== KIND.binary) continue
      const offsets = new Int32Array(batch, view.offsetsOffset, batchRows(batch) + 1)
      sums[2 * c + 1]! += offsets[to]! - offsets[from]!
    }
  })
  return sums
}

function countNulls(validity: Uint8Array, from: number, to: number): number {
  let nulls = 0
  for (let row = from; row < to; row++) nulls += 1 - ((validity[row >> 3]! >> (row & 7)) & 1)
  return nulls
}
