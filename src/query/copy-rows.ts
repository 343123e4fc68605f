/**
 * Copies of live rows to files: temporary ones, which an Arrow stream reads back, and Parquet files
 * that an export hands out as a whole.
 */
import { createReadStream } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { PoolSchema } from '../format/schema.ts'
import type { QuerySegment } from '../index/index-types.ts'
import { isDiskError } from '../util/disk.ts'
import { assert } from '../util/errors.ts'
import { EXPORT_PIECE_BYTES, MiB, ROW_GROUP_ROWS } from '../util/limits.ts'
import { exportFile, isLeftCopy, spillFolder } from '../util/paths.ts'
import { type CopiedFile, copyFailed, type SegmentGroup } from './arrow/export-stream.ts'
import { countLiveRows } from './duckdb/live-rows.ts'
import type { Asker } from './plan/query-task.ts'
import { type CopyTarget, type ParquetTarget, rowsOfPool, type SegmentEngine } from './plan/segment-task.ts'
import type { WrittenSelection } from './selection.ts'

/**
 * Compressed bytes of a row group in an exported Parquet file, besides ROW_GROUP_ROWS. Each DuckDB
 * thread holds about ten times that. A row group has at least 2,048 rows, DuckDB's minimum.
 */
const EXPORT_ROW_GROUP_BYTES = 4 * MiB

interface CopyDeps {
  readonly engine: SegmentEngine
  /** data/tmp, absolute. The engine may write there. */
  readonly temporaryFolder: string
}

let filesMade = 0

export function nextExportFile(temporaryFolder: string): string {
  filesMade += 1
  return exportFile(temporaryFolder, filesMade)
}

/**
 * Copies the selected live rows of a group to a new temporary file, as CopySegments asks.
 * @param msMax see CopyTarget
 */
export async function copyRows(
  schema: PoolSchema,
  planned: WrittenSelection,
  group: SegmentGroup,
  asker: Asker,
  deps: CopyDeps,
  msMax?: number,
): Promise<CopiedFile> {
  const file = nextExportFile(deps.temporaryFolder)
  const types = planned.columns.map(({ type }) => type)
  const target: CopyTarget = { format: 'arrow', file, types, ...(msMax === undefined ? {} : { msMax }) }
  try {
    return { file, rows: await copyTo(target, schema, planned, group, asker, deps.engine) }
  } catch (error) {
    await rm(file, { force: true })
    throw error
  }
}

/** Copies selected live rows; returns their number. After a failure the caller removes the file. */
export async function copyTo(
  target: CopyTarget,
  schema: PoolSchema,
  planned: WrittenSelection,
  group: SegmentGroup,
  { fairKey, verify, gone }: Asker,
  engine: SegmentEngine,
): Promise<number> {
  const { statement } = planned
  const task = { source: rowsOfPool(schema, group), statement, rowsMax: 1, copyTo: target }
  const done = await engine.run(task, fairKey, verify, gone)
  const rows = Number(done.rows[0]?.[0])
  // The engine counts the deleted rows of a range, which is a loop.
  const live = group.rowRange === undefined ? countLiveRows(group.segments) : done.recordsProcessed
  const seesAll = planned.selectsAll && planned.visible?.where === undefined
  assert(seesAll ? rows === live : rows <= live, `${live} live rows, and ${rows} were copied`)
  return rows
}

/** The bytes of a copied file. */
export async function* piecesOf(file: string): AsyncGenerator<Uint8Array, void, void> {
  try {
    yield* createReadStream(file, { highWaterMark: EXPORT_PIECE_BYTES })
  } catch (error) {
    throw isDiskError(error) ? copyFailed(file, 'read', error) : error
  }
}

/**
 * Removes files that an earlier process left when it was killed: of exports and imports, and what
 * the penalty process spilled, which may not start again.
 */
export async function sweepCopies(temporaryFolder: string): Promise<void> {
  await rm(spillFolder(temporaryFolder, 'penalty'), { recursive: true, force: true })
  for (const name of await readdir(temporaryFolder))
    if (isLeftCopy(name)) await rm(join(temporaryFolder, name), { force: true })
}

export function parquetTarget(
  file: string,
  segments: readonly QuerySegment[],
  msMax: number,
  compression: 'zstd' | 'snappy' | 'gzip' | 'none' = 'zstd',
): ParquetTarget {
  return {
    format: 'parquet',
    file,
    compression: compression === 'none' ? 'uncompressed' : compression,
    // Snappy is for old readers, and one of them, parquetjs-lite, reads no RLE_DICTIONARY.
    hasDictionaries: compression !== 'snappy',
    rowGroupRows: rowGroupRows(segments),
    msMax,
  }
}

/** Row groups are limited by rows and bytes: each thread of DuckDB holds one in memory. */
function rowGroupRows(segments: readonly QuerySegment[]): number {
  const rows = segments.reduce((sum, { meta }) => sum + meta.rows, 0)
  const bytes = segments.reduce((sum, { meta }) => sum + meta.bytes, 0)
  const fit = Math.floor((EXPORT_ROW_GROUP_BYTES * rows) / Math.max(1, bytes))
  return Math.max(2048, Math.min(ROW_GROUP_ROWS, fit))
}
