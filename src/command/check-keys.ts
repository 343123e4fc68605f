/**
 * The key index against one segment's rows and deletes.
 *
 *   W-7  The key of a row that is not marked points at it; that of a marked row points elsewhere, or is gone.
 *   W-6  The key of a delete is gone, or points at a row with a later sequence.
 */
import { viewRun } from '../keys/key-run.ts'
import { type KeyEntry, readRowsOfKeys } from '../keys/look.ts'
import type { KeyRun, PoolState } from '../keys/protocol.ts'
import type { KeyStore } from '../keys/store.ts'
import { INDEX_SLICE_RECORDS } from '../limits.ts'
import type { DeleteFile } from '../segment/deletes.ts'
import type { SegmentContent } from './check-segment.ts'
import type { Report } from './report.ts'

/** One segment as it is in the index. */
export interface IndexedSegment {
  readonly store: KeyStore
  readonly state: PoolState
  readonly segment: number
  /** Sorted. */
  readonly marks: Uint32Array
  /** For messages: the segment's own files, and the index. */
  readonly file: string
  readonly deletesFile: string
}

/** Rows of marks: sorted, each once, within the segment, as many as the index counts. */
export function checkMarks(one: IndexedSegment, rows: number, marked: number, report: Report): void {
  const { marks, file } = one
  for (let at = 0; at < marks.length; at++) {
    const row = marks[at]!
    if (row >= rows) report.find(file, `the index marks a row beyond its ${rows} rows`, { row })
    if (at > 0 && row === marks[at - 1]) report.find(file, 'the index marks it twice', { row })
  }
  if (marks.length !== marked) report.find(file, `the index holds ${marks.length} marks and counts ${marked}`)
}

/** Every key of the segment, in slices. */
export function checkKeys(one: IndexedSegment, { rows, deletes }: SegmentContent, report: Report): void {
  if (rows?.run !== undefined) checkRowKeys(one, rows.run, report)
  if (deletes !== undefined) checkDeletedKeys(one, deletes, report)
}

function checkRowKeys(one: IndexedSegment, run: KeyRun, report: Report): void {
  const { state, segment, marks, file } = one
  const marked = new Set(marks)
  const { count, rows, offsets, bytes } = viewRun(run)
  const keyAt = (at: number) => bytes.subarray(offsets[at], offsets[at + 1])
  for (const { at, entry } of lookUp(one.store, state.pool, count, keyAt)) {
    const row = rows[at]!
    const isHere = entry !== undefined && entry.segment === segment && entry.row === row
    if (isHere && marked.has(row)) report.find(file, 'it is marked, but its key points at it', { row })
    if (isHere || marked.has(row)) continue
    const is =
      entry === undefined
        ? 'the index does not have its key'
        : `its key points at row ${entry.row} of segment ${entry.segment}`
    report.find(file, `${is}, and the row is not marked`, { row })
  }
}

function checkDeletedKeys(one: IndexedSegment, deletes: DeleteFile, report: Report): void {
  const { state, deletesFile } = one
  const ends = new Map(state.segments.map(meta => [meta.segment, meta.sequenceTo]))
  for (const { at, entry } of lookUp(one.store, state.pool, deletes.keys.length, at => deletes.keys[at]!)) {
    const sequence = deletes.sequences[at]!
    if (entry === undefined || (ends.get(entry.segment) ?? 0) >= sequence) continue
    report.find(
      deletesFile,
      `delete ${at} of sequence ${sequence}: its key points at row ${entry.row} of the older segment ${entry.segment}`,
    )
  }
}

/** Looks up `count` sorted keys, in bounded reads. */
function* lookUp(
  store: KeyStore,
  pool: number,
  count: number,
  keyAt: (at: number) => Uint8Array,
): Generator<{ readonly at: number; readonly entry: KeyEntry | undefined }> {
  for (let from = 0; from < count; from += INDEX_SLICE_RECORDS) {
    const slice = Array.from({ length: Math.min(INDEX_SLICE_RECORDS, count - from) }, (_, i) =>
      keyAt(from + i),
    )
    for (const [index, entry] of readRowsOfKeys(store, pool, slice).entries())
      yield { at: from + index, entry }
  }
}
