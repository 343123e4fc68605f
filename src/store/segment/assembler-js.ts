/**
 * The passes over a flush's rows in TypeScript: the specification of the native ones (native/), and
 * the fallback. assembler.ts says what each pass does.
 *
 * W-7 within a flush: of equal keys the highest sequence wins, then the later row. With a version
 * column the highest version since the key's last delete comes before both. Rows of entries are not
 * in the order of their sequences (a request's rows may be in two batches), so sequences are
 * compared.
 */
import {
  type BatchBuffer,
  batchRows,
  columnView,
  KEY_COLUMN,
  KIND,
  type Kind,
  WIDTH_OF_KIND,
} from '../../format/batch-layout.ts'
import { VERSION_BYTES, writeVersion } from '../../format/key.ts'
import { afterDelete, type KeyRun, KeyRunWriter, withVersions } from '../../format/key-run.ts'
import { longOrder, minMaxRows, numberOrder, type RowOrder, textOrder } from '../../format/zone-map.ts'
import { assert } from '../../util/errors.ts'
import { ENTRY_WORDS, type MemtableEntry } from '../flush/memtable.ts'
import {
  type Assembler,
  type Deduplicated,
  PLACE_WORDS,
  PLACES_FIRST_COLUMN,
  type Places,
  type StreamColumn,
} from './assembler.ts'

/**
 * Calls `run(batch, from, to)` for each run of winning rows of posts, in order: a batch without
 * losers is one run.
 */
function eachRun(
  entries: readonly MemtableEntry[],
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
export function rowsOf(entries: readonly MemtableEntry[]): number {
  let rows = 0
  for (const entry of entries) rows += batchRows(entry.batch)
  return rows
}

function deduplicateJs(
  entries: readonly MemtableEntry[],
  keyed: boolean,
  columns: number,
  version = -1,
): Deduplicated {
  const keep = new Uint8Array(rowsOf(entries))
  const deletes: number[] = []
  let keys: KeyRun | undefined
  if (keyed) {
    const versions = version < 0 ? undefined : readVersions(entries, version)
    const rows = inKeyOrder(readKeys(entries))
    const winners = groupsOf(rows).map(
      (group): Winner => (versions === undefined ? group.at(-1)! : highestOf(group, versions)),
    )
    for (const { row, isDelete } of winners) keep[row] = isDelete ? 0 : 1
    keys = writeRun(winners, keep, deletes)
    if (versions !== undefined) keys = withVersions(keys, keptOf(versions, keep))
  } else keep.fill(1)
  return { keep, keys, deletes: Float64Array.from(deletes), sums: sumColumns(entries, keep, columns) }
}

interface KeyRow {
  readonly key: Uint8Array
  readonly sequence: number
  readonly row: number
  readonly isDelete: boolean
}

function readKeys(entries: readonly MemtableEntry[]): KeyRow[] {
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

/** Sorts by key, then sequence, then row; in place. */
function inKeyOrder(rows: KeyRow[]): KeyRow[] {
  return rows.sort((a, b) => Buffer.compare(a.key, b.key) || a.sequence - b.sequence || a.row - b.row)
}

/** The row or the delete of a key that counts. */
interface Winner extends KeyRow {
  /** With a version column: the sequence of the delete that the row follows. */
  readonly deletedAt?: number
}

function groupsOf(sorted: readonly KeyRow[]): KeyRow[][] {
  const groups: KeyRow[][] = []
  for (const [i, row] of sorted.entries()) {
    const before = sorted[i - 1]
    const isNew = before === undefined || Buffer.compare(row.key, before.key) !== 0
    if (isNew) groups.push([row])
    else groups.at(-1)!.push(row)
  }
  return groups
}

/** The last row of the highest version since the last delete; that delete where no row follows. */
function highestOf(group: readonly KeyRow[], versions: Uint8Array): Winner {
  const isBelow = (a: KeyRow, b: KeyRow) => Buffer.compare(versionAt(versions, a), versionAt(versions, b)) < 0
  const deleted = group.findLast(({ isDelete }) => isDelete)
  const since = group.slice(deleted === undefined ? 0 : group.indexOf(deleted) + 1)
  const [first, ...rest] = since
  if (first === undefined) return deleted!
  const highest = rest.reduce((best, row) => (isBelow(row, best) ? best : row), first)
  return deleted === undefined ? highest : { ...highest, deletedAt: deleted.sequence }
}

function versionAt(versions: Uint8Array, { row }: KeyRow): Uint8Array {
  return versions.subarray(VERSION_BYTES * row, VERSION_BYTES * (row + 1))
}

function writeRun(winners: readonly Winner[], keep: Uint8Array, deletes: number[]): KeyRun {
  const places = new Int32Array(keep.length)
  for (let row = 0, place = 0; row < keep.length; row++) places[row] = keep[row] === 1 ? place++ : -1
  const keyBytes = winners.reduce((sum, winner) => sum + winner.key.length, 0)
  const run = new KeyRunWriter(winners.length, keyBytes)
  for (const { key, row, sequence, isDelete, deletedAt } of winners) {
    const place = places[row]!
    if (isDelete || deletedAt !== undefined) deletes.push(deletedAt ?? sequence)
    run.add(key, deletedAt === undefined ? place : afterDelete(place))
  }
  return run.end()
}

/**
 * The versions of all rows, zeros for deletes.
 * @param column the version column's place in a batch
 */
function readVersions(entries: readonly MemtableEntry[], column: number): Uint8Array {
  const versions = new Uint8Array(VERSION_BYTES * rowsOf(entries))
  let base = 0
  for (const { kind, batch } of entries) {
    const rows = batchRows(batch)
    if (kind === 'post') {
      const { kind: kindOfValues, dataOffset } = columnView(batch, column)
      const write = versionWriter(versions, kindOfValues, new DataView(batch, dataOffset))
      for (let row = 0; row < rows; row++) write(VERSION_BYTES * (base + row), row)
    }
    base += rows
  }
  return versions
}

/** Returns a function that writes the version of row `row` at `at`. */
function versionWriter(into: Uint8Array, kind: Kind, data: DataView): (at: number, row: number) => void {
  switch (kind) {
    case KIND.i8:
      return (at, row) => writeVersion(into, at, 'INT8', data.getInt8(row))
    case KIND.i16:
      return (at, row) => writeVersion(into, at, 'INT16', data.getInt16(2 * row, true))
    case KIND.i32:
      return (at, row) => writeVersion(into, at, 'INT32', data.getInt32(4 * row, true))
    case KIND.i64:
      return (at, row) => writeVersion(into, at, 'INT64', data.getBigInt64(8 * row, true))
    case KIND.f32:
      return (at, row) => writeVersion(into, at, 'FLOAT', data.getFloat32(4 * row, true))
    case KIND.f64:
      return (at, row) => writeVersion(into, at, 'DOUBLE', data.getFloat64(8 * row, true))
    default:
      assert(false, 'a version column has a type with versions')
  }
}

/** The versions of the kept rows, in the order of their places in the segment. */
function keptOf(versions: Uint8Array, keep: Uint8Array): Uint8Array {
  const kept = new Uint8Array(versions.length)
  let place = 0
  for (let row = 0; row < keep.length; row++) {
    if (keep[row] === 0) continue
    kept.set(versions.subarray(VERSION_BYTES * row, VERSION_BYTES * (row + 1)), VERSION_BYTES * place)
    place += 1
  }
  return kept
}

function sumColumns(entries: readonly MemtableEntry[], keep: Uint8Array, columns: number): Float64Array {
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

function gatherJs(
  entries: readonly MemtableEntry[],
  keep: Uint8Array,
  out: Uint8Array,
  places: Places,
): void {
  const columns = (places.length - PLACES_FIRST_COLUMN) / PLACE_WORDS
  const written = new Float64Array(columns)
  let row = 0
  eachRun(entries, keep, (batch, from, to) => {
    for (let c = 0; c < columns; c++) {
      if (c === KEY_COLUMN) continue
      const at = PLACES_FIRST_COLUMN + PLACE_WORDS * c
      const target = { validity: places[at]!, offsets: places[at + 1]!, data: places[at + 2]! }
      written[c]! += appendColumn(batch, c, from, to, out, target, row, written[c]!)
    }
    row += to - from
  })
  appendRequests(entries, keep, out, places)
}

interface Target {
  readonly validity: number
  readonly offsets: number
  readonly data: number
}

/** Appends rows [from, to) at row `row`; returns the variable-width bytes written. */
function appendColumn(
  batch: BatchBuffer,
  index: number,
  from: number,
  to: number,
  out: Uint8Array,
  target: Target,
  row: number,
  written: number,
): number {
  const view = columnView(batch, index)
  const bytes = new Uint8Array(batch)
  if (target.validity >= 0) {
    if (view.nulls === 0) setBits(out, target.validity * 8 + row, to - from)
    else copyBits(out, target.validity * 8 + row, bytes, view.validityOffset * 8 + from, to - from)
  }
  if (view.kind === KIND.bool) {
    copyBits(out, target.data * 8 + row, bytes, view.dataOffset * 8 + from, to - from)
    return 0
  }
  if (view.kind !== KIND.binary) {
    const width = WIDTH_OF_KIND[view.kind]
    const start = view.dataOffset + from * width
    out.set(bytes.subarray(start, start + (to - from) * width), target.data + row * width)
    return 0
  }
  const source = new Int32Array(batch, view.offsetsOffset, batchRows(batch) + 1)
  const offsets = new Int32Array(out.buffer, out.byteOffset + target.offsets, row + to - from + 1)
  const shift = written - source[from]!
  for (let i = from + 1; i <= to; i++) offsets[row + i - from] = source[i]! + shift
  const [begin, end] = [view.dataOffset + source[from]!, view.dataOffset + source[to]!]
  if (target.data >= 0) out.set(bytes.subarray(begin, end), target.data + written)
  return end - begin
}

/** Sets bits from bit `at` of `out` on. */
function setBits(out: Uint8Array, at: number, count: number): void {
  for (let i = at; i < at + count; i++) out[Math.floor(i / 8)]! |= 1 << (i & 7)
}

function copyBits(out: Uint8Array, at: number, source: Uint8Array, from: number, count: number): void {
  for (let i = 0; i < count; i++) {
    const bit = (source[Math.floor((from + i) / 8)]! >> ((from + i) & 7)) & 1
    out[Math.floor((at + i) / 8)]! |= bit << ((at + i) & 7)
  }
}

function appendRequests(
  entries: readonly MemtableEntry[],
  keep: Uint8Array,
  out: Uint8Array,
  places: Places,
): void {
  const view = new DataView(out.buffer, out.byteOffset, out.byteLength)
  let [received, sequence, base] = [places[0]!, places[1]!, 0]
  for (const { kind, requests } of entries) {
    for (let r = 0; r < requests.length; r += ENTRY_WORDS) {
      const [start, rows, stepUs] = [base, requests[r + 2]!, requests[r + 3]!]
      for (; base < start + rows; base++) {
        if (keep[base] === 0 || kind === 'delete') continue
        view.setBigInt64(received, BigInt(requests[r + 1]! + stepUs * (base - start)), true)
        view.setBigInt64(sequence, BigInt(requests[r]!), true)
        received += 8
        sequence += 8
      }
    }
  }
}

function orderOf({ buffer, byteOffset }: Uint8Array, column: StreamColumn, rows: number): RowOrder {
  const at = byteOffset + column.data
  switch (column.kind) {
    case KIND.binary: {
      const offsets = new Int32Array(buffer, byteOffset + column.offsets, rows + 1)
      return textOrder(offsets, new Uint8Array(buffer, at, offsets[rows]!))
    }
    case KIND.i8:
      return numberOrder(new Int8Array(buffer, at, rows))
    case KIND.i16:
      return numberOrder(new Int16Array(buffer, at, rows))
    case KIND.i32:
      return numberOrder(new Int32Array(buffer, at, rows))
    default:
      return longOrder(new Int32Array(buffer, at, 2 * rows))
  }
}

export const assemblerJs: Assembler = {
  name: 'js',
  deduplicate: deduplicateJs,
  gather: gatherJs,
  minMax: (stream, column, rows) => minMaxRows(orderOf(stream, column, rows), rows),
}
