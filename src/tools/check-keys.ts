/**
 * The key index against one segment's rows and deletes.
 *
 *   W-7  The key of a row that is not marked points at it; that of a marked row points elsewhere, or is gone.
 *   W-6  The key of a delete is gone, or points at a row with a later sequence.
 */

import type { DeleteFile } from '../format/delete-file.ts'
import type { KeyRun } from '../format/key-run.ts'
import { buildKeyRun, viewRun } from '../format/key-run.ts'
import { NOWHERE } from '../index/index-store.ts'
import type { PoolState } from '../index/index-types.ts'
import type { Index } from '../index/key-index.ts'
import type { SegmentContent } from './check-segment.ts'
import type { Report } from './report.ts'

/** One segment as it is in the index. */
interface IndexedSegment {
  readonly index: Index
  readonly state: PoolState
  readonly segment: number
  /** Sorted. */
  readonly deletionVectors: Uint32Array
  /** For messages: the segment's own files, and the index. */
  readonly file: string
  readonly deletesFile: string
}

/** Rows of marks: sorted, each once, within the segment, as many as the index counts. */
export function checkDeletionVectors(
  one: IndexedSegment,
  rows: number,
  deletedRows: number,
  report: Report,
): void {
  const { deletionVectors, file } = one
  for (let at = 0; at < deletionVectors.length; at++) {
    const row = deletionVectors[at]!
    if (row >= rows) report.find(file, `the index marks a row beyond its ${rows} rows`, { row })
    if (at > 0 && row === deletionVectors[at - 1]) report.find(file, 'the index marks it twice', { row })
  }
  if (deletionVectors.length !== deletedRows)
    report.find(file, `the index holds ${deletionVectors.length} marks and counts ${deletedRows}`)
}

/** Every key of the segment, each file's in one sorted batch. */
export function checkKeys(one: IndexedSegment, { rows, deletes }: SegmentContent, report: Report): void {
  if (rows?.run !== undefined) checkRowKeys(one, rows.run, report)
  if (deletes !== undefined) checkDeletedKeys(one, deletes, report)
}

function checkRowKeys(one: IndexedSegment, run: KeyRun, report: Report): void {
  const { index, state, segment, deletionVectors, file } = one
  const { count, rows } = viewRun(run)
  const isDeleted = deletionsByRow(deletionVectors, count)
  const places = index.lookupKeys(state.pool, run)
  for (let at = 0; at < count; at++) {
    const row = rows[at]!
    const [inSegment, inRow] = [places[2 * at]!, places[2 * at + 1]!]
    const isHere = inSegment === segment && inRow === row
    if (isHere === (isDeleted[row] === 0)) continue
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
function deletionsByRow(deletionVectors: Uint32Array, rows: number): Uint8Array {
  const isDeleted = new Uint8Array(rows)
  for (const row of deletionVectors) if (row < rows) isDeleted[row] = 1
  return isDeleted
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
