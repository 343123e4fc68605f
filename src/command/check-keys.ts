/**
 * The key index against one segment's rows and deletes.
 *
 *   W-7  The key of a row that is not marked points at it; that of a marked row points elsewhere, or is gone.
 *   W-6  The key of a delete is gone, or points at a row with a later sequence.
 */
import type { Index } from '../keys/index.ts'
import { buildKeyRun, viewRun } from '../keys/key-run.ts'
import type { KeyRun, PoolState } from '../keys/protocol.ts'
import { NOWHERE } from '../keys/store.ts'
import type { DeleteFile } from '../segment/deletes.ts'
import type { SegmentContent } from './check-segment.ts'
import type { Report } from './report.ts'

/** One segment as it is in the index. */
interface IndexedSegment {
  readonly index: Index
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

/** Every key of the segment, each file's in one sorted batch. */
export function checkKeys(one: IndexedSegment, { rows, deletes }: SegmentContent, report: Report): void {
  if (rows?.run !== undefined) checkRowKeys(one, rows.run, report)
  if (deletes !== undefined) checkDeletedKeys(one, deletes, report)
}

function checkRowKeys(one: IndexedSegment, run: KeyRun, report: Report): void {
  const { index, state, segment, marks, file } = one
  const { count, rows } = viewRun(run)
  const isMarked = marksByRow(marks, count)
  const places = index.lookupKeys(state.pool, run)
  for (let at = 0; at < count; at++) {
    const row = rows[at]!
    const [inSegment, inRow] = [places[2 * at]!, places[2 * at + 1]!]
    const isHere = inSegment === segment && inRow === row
    if (isHere === (isMarked[row] === 0)) continue
    if (isHere) report.find(file, 'it is marked, but its key points at it', { row })
    else {
      const is =
        inSegment === NOWHERE
          ? 'the index does not have its key'
          : `its key points at row ${inRow} of segment ${inSegment}`
      report.find(file, `${is}, and the row is not marked`, { row })
    }
  }
}

/** A byte a row: 1 where it is marked. */
function marksByRow(marks: Uint32Array, rows: number): Uint8Array {
  const isMarked = new Uint8Array(rows)
  for (const row of marks) if (row < rows) isMarked[row] = 1
  return isMarked
}

function checkDeletedKeys(one: IndexedSegment, deletes: DeleteFile, report: Report): void {
  const { index, state, deletesFile } = one
  const ends = new Map(state.segments.map(meta => [meta.segment, meta.sequenceTo]))
  // A run is sorted, as the file should be: the row is the place in the file.
  const run = buildKeyRun(deletes.keys.map((key, row) => ({ key, row })))
  const places = index.lookupKeys(state.pool, run)
  for (const [at, place] of viewRun(run).rows.entries()) {
    const [segment, row] = [places[2 * at]!, places[2 * at + 1]!]
    const sequence = deletes.sequences[place]!
    if (segment === NOWHERE || (ends.get(segment) ?? 0) >= sequence) continue
    report.find(
      deletesFile,
      `delete ${place} of sequence ${sequence}: its key points at row ${row} of the older segment ${segment}`,
    )
  }
}
