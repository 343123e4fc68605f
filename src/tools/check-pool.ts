/**
 * Checks one pool: each segment against manifest and key index, then the whole pool. It must have
 * one key for each live row, and no orphans.
 *
 *   W-7  The key of a live row points at it. The key of a deleted row points elsewhere, or is gone.
 *   W-6  The key of a delete is gone, or points at a row with a later sequence.
 */
import { join } from 'node:path'
import { type Pool, schemaVersionOf } from '../catalog/documents/model.ts'
import type { DeleteFile } from '../format/delete-file.ts'
import { VERSION_BYTES } from '../format/key.ts'
import { buildKeyRun, type KeyRun, viewRun } from '../format/key-run.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { Footer, SegmentMeta } from '../format/segment-meta.ts'
import { type KeyStore, NOWHERE } from '../index/index-store.ts'
import { emptyPool, type PoolState } from '../index/index-types.ts'
import { type InspectedIndex, keysOfPool, lookupVersions } from '../index/inspect-index.ts'
import type { Index } from '../index/key-index.ts'
import { disk } from '../util/disk.ts'
import { deleteFile, segmentFile } from '../util/paths.ts'
import { checkSegment, liveFooters, type SegmentContent, segmentFilesOf } from './check-segment.ts'
import type { Report } from './report.ts'

export interface PoolCheck {
  readonly pool: Pool
  /** Absolute path of its folder of segments. */
  readonly folder: string
  /** Path of the index, for messages. */
  readonly indexFile: string
  readonly schema: (version: number) => PoolSchema | undefined
  /** undefined where there is no valid index. */
  readonly index: (InspectedIndex & PoolInIndex) | undefined
}

interface PoolInIndex {
  /** undefined where no row of the pool is flushed. */
  readonly state: PoolState | undefined
  readonly keyCount: number
}

/** Checks a pool; `onSegment` is called after each of its segments. */
export async function checkPoolFolder(
  check: PoolCheck,
  report: Report,
  onSegment: () => void = () => undefined,
): Promise<void> {
  const { pool, folder, index } = check
  if (index === undefined) {
    const footers = await liveFooters(folder, pool.number, report)
    count(report, footers)
    for (const footer of footers) {
      await checkSegment(folder, pool.number, check.schema(footer.schemaVersion), footer, report)
      onSegment()
    }
    return
  }
  const state = index.state ?? emptyPool(pool.number)
  checkState(check, state, report)
  count(report, state.segments)
  const before = report.count
  await checkSegments(check, index, state, report, onSegment)
  checkKeyCount(check, index, state, report, report.count > before)
  noteOrphans(folder, state, report)
}

function count({ checked }: Report, segments: readonly (Footer | SegmentMeta)[]): void {
  checked.segments += segments.length
  for (const { rows, deletes } of segments) {
    checked.rows += rows
    checked.deletes += deletes
  }
}

/** Numbers and sequence ranges of the manifest. */
function checkState({ folder, indexFile, pool }: PoolCheck, state: PoolState, report: Report): void {
  const wrong = (what: string) => report.find(indexFile, `pool ${pool.id}: ${what}`)
  const segments = [...state.segments].sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  for (const [at, { segment, sequenceFrom, sequenceTo }] of segments.entries()) {
    if (segment >= state.nextSegment)
      wrong(`segment ${segment} is beyond the next number ${state.nextSegment}`)
    if (sequenceTo > state.flushedSequence)
      wrong(
        `segment ${segment} ends with sequence ${sequenceTo}, above the flushed sequence ${state.flushedSequence}`,
      )
    if (sequenceTo < sequenceFrom) wrong(`segment ${segment} ends before it begins`)
    const last = segments[at - 1]
    if (last !== undefined && sequenceFrom <= last.sequenceTo)
      report.find(
        join(folder, segmentFile(segment)),
        `its sequences ${sequenceFrom} to ${sequenceTo} overlap those of segment ${last.segment}, ${last.sequenceFrom} to ${last.sequenceTo}`,
      )
  }
}

async function checkSegments(
  { pool, folder, schema, indexFile }: PoolCheck,
  index: InspectedIndex,
  state: PoolState,
  report: Report,
  onSegment: () => void,
): Promise<void> {
  const deletionVectors = new Map(
    index.index.readDeletionVectors(pool.number).deletionVectors.map(delta => [delta.segment, delta.rows]),
  )
  for (const { deletedRows, ...meta } of state.segments) {
    const { segment } = meta
    const content = await checkSegment(folder, pool.number, schema(meta.schemaVersion), meta, report)
    const one = {
      index: index.index,
      store: index.store,
      state,
      segment,
      deletedRows: deletionVectors.get(segment) ?? new Uint32Array(0),
      file: join(folder, segmentFile(segment)),
      deletesFile: join(folder, deleteFile(segment)),
    }
    checkDeletionVector(one, meta.rows, deletedRows, report)
    checkKeys(one, content, report)
    deletionVectors.delete(segment)
    onSegment()
  }
  for (const segment of deletionVectors.keys())
    report.find(
      indexFile,
      `pool ${pool.id}: it has a deletion vector of segment ${segment}, which is not in the manifest`,
    )
}

/**
 * Compares the number of keys with that of live rows. Where they differ, each wrong key is a
 * finding.
 */
function checkKeyCount(
  { pool, indexFile, schema }: PoolCheck,
  { keyCount, store }: InspectedIndex & PoolInIndex,
  state: PoolState,
  report: Report,
  isReported: boolean,
): void {
  const live = state.segments.reduce((sum, { rows, deletedRows }) => sum + rows - deletedRows, 0)
  const wanted = (schema(schemaVersionOf(pool))?.key ?? null) === null ? 0 : live
  if (keyCount === wanted) return
  const before = report.count
  const seen = new Map(state.segments.map(({ segment, rows }) => [segment, new Uint8Array(rows)]))
  for (const [key, { segment, row }] of keysOfPool(store, pool.number)) {
    const rows = seen.get(segment)
    const what =
      rows === undefined
        ? `segment ${segment}, which does not exist`
        : row >= rows.length
          ? `row ${row} of segment ${segment}, which has ${rows.length}`
          : rows[row] === 1
            ? `row ${row} of segment ${segment}, as another key does`
            : undefined
    if (what === undefined) rows![row] = 1
    else
      report.find(indexFile, `pool ${pool.id}: the key ${Buffer.from(key).toString('hex')} points at ${what}`)
  }
  if (report.count === before && !isReported)
    report.find(indexFile, `pool ${pool.id}: it has ${keyCount} keys for ${wanted} live rows`)
}

/** Notes files of interrupted flushes and merges, and files that Weir did not write. */
function noteOrphans(folder: string, state: PoolState, report: Report): void {
  if (!disk.exists(folder)) return
  const named = new Set(state.segments.flatMap(segment => segmentFilesOf(folder, segment)))
  for (const file of disk.readdir(folder).map(name => join(folder, name)))
    if (!named.has(file)) report.note(`${file} belongs to no segment; the next start removes it`)
}

interface IndexedSegment {
  readonly index: Index
  readonly store: KeyStore
  readonly state: PoolState
  readonly segment: number
  /** Deleted rows, sorted. */
  readonly deletedRows: Uint32Array
  /** The segment's files, for messages. */
  readonly file: string
  readonly deletesFile: string
}

/**
 * Deleted rows are sorted, stand once each, are rows of the segment, and are as many as the index
 * counts.
 */
function checkDeletionVector(one: IndexedSegment, rows: number, counted: number, report: Report): void {
  const { deletedRows, file } = one
  for (let at = 0; at < deletedRows.length; at++) {
    const row = deletedRows[at]!
    if (row >= rows) report.find(file, `its deletion vector has a row beyond its ${rows} rows`, { row })
    if (at > 0 && row === deletedRows[at - 1])
      report.find(file, 'its deletion vector has the row twice', { row })
  }
  if (deletedRows.length !== counted)
    report.find(file, `its deletion vector has ${deletedRows.length} rows, the index counts ${counted}`)
}

/** Looks up every key of the segment, the keys of each file in one sorted batch. */
function checkKeys(one: IndexedSegment, { rows, deletes }: SegmentContent, report: Report): void {
  if (rows?.run !== undefined) {
    checkRowKeys(one, rows.run, report)
    if (rows.versions !== undefined) checkVersions(one, rows.run, rows.versions, report)
  }
  if (deletes !== undefined) checkDeletedKeys(one, deletes, report)
}

function checkRowKeys(one: IndexedSegment, run: KeyRun, report: Report): void {
  const { index, state, segment, deletedRows, file } = one
  const { count, rows } = viewRun(run)
  const isDeleted = deletionsByRow(deletedRows, count)
  const places = index.lookupKeys(state.pool, run)
  for (let at = 0; at < count; at++) {
    const row = rows[at]!
    const [inSegment, inRow] = [places[2 * at]!, places[2 * at + 1]!]
    const isHere = inSegment === segment && inRow === row
    if (isHere === (isDeleted[row] === 0)) continue
    if (isHere) report.find(file, 'it is deleted, but its key points at it', { row })
    else {
      const is =
        inSegment === NOWHERE
          ? 'the index does not have its key'
          : `its key points at row ${inRow} of segment ${inSegment}`
      report.find(file, `${is}, and the row is not deleted`, { row })
    }
  }
}

/** The key of a live row has the version of the row: it decides over the rows to come. */
function checkVersions(one: IndexedSegment, run: KeyRun, versions: Uint8Array, report: Report): void {
  const { store, state, deletedRows, file } = one
  const { count, rows } = viewRun(run)
  const isDeleted = deletionsByRow(deletedRows, count)
  const found = lookupVersions(store, state.pool, run)
  const versionAt = (all: Uint8Array, at: number) =>
    all.subarray(VERSION_BYTES * at, VERSION_BYTES * (at + 1))
  for (let at = 0; at < count; at++) {
    const row = rows[at]!
    if (isDeleted[row] === 1 || Buffer.compare(versionAt(found, at), versionAt(versions, row)) === 0) continue
    report.find(file, 'its key has another version in the index', { row })
  }
}

/** One byte for each row: 1 where it is deleted. */
function deletionsByRow(deletedRows: Uint32Array, rows: number): Uint8Array {
  const isDeleted = new Uint8Array(rows)
  for (const row of deletedRows) if (row < rows) isDeleted[row] = 1
  return isDeleted
}

function checkDeletedKeys(one: IndexedSegment, deletes: DeleteFile, report: Report): void {
  const { index, state, deletesFile } = one
  const ends = new Map(state.segments.map(meta => [meta.segment, meta.sequenceTo]))
  // The row of a key is its place in the file. A key run must be sorted, as the file should be.
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
