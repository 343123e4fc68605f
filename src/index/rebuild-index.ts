/**
 * The rebuild fills an empty index from the segments and their delete files.
 *
 *   W-6  These files are all that is needed. The log is replayed above the flushed sequence as at
 *        every start.
 *   W-7  Segments are applied by rising sequence through the same transaction as flushes, so the
 *        same rows win.
 *
 * Memory holds all footers, and the keys of one segment or of the small segments that share a
 * transaction.
 */

import { join } from 'node:path'
import type { DeleteFile } from '../format/delete-file.ts'
import {
  afterDelete,
  buildKeyRun,
  compareKeyAt,
  type KeyRun,
  KeyRunWriter,
  type RunView,
  viewRun,
  withVersions,
} from '../format/key-run.ts'
import type { PoolSchema } from '../format/schema.ts'
import { readSegmentKeys, type SegmentKeys } from '../format/segment-keys.ts'
import { type Footer, hasDeleteFile, type SegmentMeta } from '../format/segment-meta.ts'
import { rangeFields } from '../format/zone-map.ts'
import { fileChecksum } from '../util/crc32.ts'
import type { Disk } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { MiB } from '../util/limits.ts'
import type { KernelChoice } from '../util/native.ts'
import { deleteFile, segmentFile } from '../util/paths.ts'
import { type FolderSegments, isRedundant, readDeletesOf, readFolder } from './folder-segments.ts'
import type { FlushCommit, IndexNotes } from './index-types.ts'
import type { Index } from './key-index.ts'

/** Bytes of keys of small segments that a rebuild puts into one transaction, which is one sync. */
const REBUILD_COMMIT_BYTES = 16 * MiB
/** Small segments that a rebuild puts into one transaction. */
const REBUILD_COMMIT_SEGMENTS = 256

/** A pool that the catalog knows. */
export interface RebuildPool {
  readonly pool: number
  /** The name of its folder. */
  readonly poolId: string
  /** All versions of its schema. */
  readonly schemas: readonly PoolSchema[]
}

/**
 * Reads which requests the log still holds (log/read-log.ts); undefined where the log is
 * damaged.
 */
export type LoggedSequences = (
  pools: ReadonlySet<number>,
) => ReadonlyMap<number, ReadonlySet<number>> | undefined

export interface RebuildOptions {
  readonly index: Index
  readonly disk: Disk
  readonly segmentFolder: string
  readonly pools: readonly RebuildPool[]
  readonly kernel: KernelChoice
  readonly loggedSequences: LoggedSequences
  /**
   * Called after each segment: it has read `done` of the `of` rows and deletes, and reads `pool`
   * now.
   */
  readonly onProgress: (done: number, of: number, pool: number) => void
}

/** The findings of a rebuild. */
export type Rebuilt = Pick<IndexNotes, 'unknownFolders' | 'possibleLosses'>

/** The segments of a pool by rising sequence, before any of them is read. */
interface PoolSegments extends FolderSegments {
  readonly pool: RebuildPool
  readonly folder: string
}

/** Fills the index and sets it complete. */
export async function rebuild(options: RebuildOptions): Promise<Rebuilt> {
  const { index, disk, segmentFolder, pools } = options
  index.setComplete(false)
  const names = disk.exists(segmentFolder) ? disk.readdir(segmentFolder) : []
  const poolSegments: PoolSegments[] = []
  for (const pool of pools)
    if (names.includes(pool.poolId)) poolSegments.push(readPoolSegments(options, pool))
  await applyAll(options, poolSegments)
  index.raiseNextSegments(new Map(poolSegments.map(({ pool, nextSegment }) => [pool.pool, nextSegment])))
  index.setComplete(true)
  const known = new Set(pools.map(pool => pool.poolId))
  const unknownFolders = names.filter(name => !known.has(name)).map(name => join(segmentFolder, name))
  return { unknownFolders, possibleLosses: possibleLossesOf(options, poolSegments) }
}

function readPoolSegments(options: RebuildOptions, pool: RebuildPool): PoolSegments {
  const folder = join(options.segmentFolder, pool.poolId)
  return { pool, folder, ...readFolder(options.disk, pool.pool, folder) }
}

/** Applies segment by segment. Small segments share a transaction, which is one sync. */
async function applyAll(options: RebuildOptions, poolSegments: readonly PoolSegments[]): Promise<void> {
  const work = ({ rows, deletes }: Footer) => Math.max(rows + deletes, 1)
  const total = poolSegments.reduce((sum, { live }) => live.reduce((all, one) => all + work(one), sum), 0)
  let done = 0
  let flushes: FlushCommit[] = []
  let keyBytes = 0
  const flush = () => {
    if (flushes.length === 0) return
    options.index.commit(flushes)
    crashPoint('rebuild.committed')
    flushes = []
    keyBytes = 0
  }
  for (const { pool, folder, live } of poolSegments) {
    for (const footer of live) {
      const { meta, keys } = await readSegment(options, pool, folder, footer)
      flushes.push({ pool: pool.pool, add: meta, remove: [], keys, flushedSequence: meta.sequenceTo })
      keyBytes += keys?.byteLength ?? 0
      if (keyBytes >= REBUILD_COMMIT_BYTES || flushes.length >= REBUILD_COMMIT_SEGMENTS) flush()
      done += work(footer)
      options.onProgress(done, total, pool.pool)
    }
  }
  flush()
}

/**
 * An orphan delete file is no loss where its flush is made again from the log, or its merge from
 * its inputs. Otherwise a removal was interrupted, or the Parquet file is missing. The two look the
 * same.
 */
function possibleLossesOf(
  { loggedSequences }: RebuildOptions,
  poolSegments: readonly PoolSegments[],
): string[] {
  const open = poolSegments.filter(({ orphanDeletes }) => orphanDeletes.length > 0)
  if (open.length === 0) return []
  const logged = loggedSequences(new Set(open.map(({ pool }) => pool.pool)))
  return open.flatMap(({ pool, folder, live, orphanDeletes }) =>
    orphanDeletes
      .filter(one => !isRedundant(one, live, logged?.get(pool.pool) ?? new Set()))
      .map(({ segment, sequenceFrom, sequenceTo, rows, deletes }) => {
        const file = join(folder, deleteFile(segment))
        return `${file} has no Parquet file beside it: either the removal of its segment (sequences ${sequenceFrom} to ${sequenceTo}) was interrupted, or ${segmentFile(segment)} is missing with up to ${rows} rows, and the rows that its ${deletes} deletes removed are visible again`
      }),
  )
}

/**
 * Reads the changes that the flush gave to the index: the meta, and rows and deletes as one run
 * (none without a key).
 */
async function readSegment(
  options: RebuildOptions,
  pool: RebuildPool,
  folder: string,
  footer: Footer,
): Promise<{ meta: SegmentMeta; keys: KeyRun | undefined }> {
  const file = join(folder, segmentFile(footer.segment))
  const schema = pool.schemas.find(({ version }) => version === footer.schemaVersion)
  if (schema === undefined)
    throw new Damaged(file, 0, `the catalog has no schema version ${footer.schemaVersion}`)
  const rows = footer.rows === 0 ? undefined : await readSegmentKeys(file, schema, options.kernel)
  if (rows !== undefined && rows.rows !== footer.rows)
    throw new Damaged(file, 0, `it has ${rows.rows} rows, its footer says ${footer.rows}`)
  const deletes = hasDeleteFile(footer)
    ? readDeletesOf(options.disk, join(folder, deleteFile(footer.segment)), footer)
    : undefined
  const { segment, schemaVersion, sequenceFrom, sequenceTo } = footer
  const meta: SegmentMeta = {
    segment,
    rows: footer.rows,
    bytes: bytesOf(options.disk, folder, footer),
    checksum: footer.rows === 0 ? null : fileChecksum(options.disk, file),
    schemaVersion,
    sequenceFrom,
    sequenceTo,
    ...(rows?.ranges ?? rangeFields(undefined)),
    deletes: footer.deletes,
  }
  return { meta, keys: schema.key === null ? undefined : keysOf(rows, deletes) }
}

/** All keys of a segment as one run, with versions where the rows have some. */
function keysOf(rows: SegmentKeys | undefined, deletes: DeleteFile | undefined): KeyRun | undefined {
  const run = deletes === undefined ? rows?.run : withDeletes(rows, deletes)
  return run !== undefined && rows?.versions !== undefined ? withVersions(run, rows.versions) : run
}

/** The size of both files. */
function bytesOf(disk: Disk, folder: string, { segment, rows, deletes }: Footer): number {
  const parquet = rows === 0 ? 0 : disk.size(join(folder, segmentFile(segment)))
  return parquet + (hasDeleteFile({ rows, deletes }) ? disk.size(join(folder, deleteFile(segment))) : 0)
}

/**
 * Joins the rows and deletes of one segment into one run. Of a row and a delete of one key, the
 * higher sequence wins (W-7). A row with a version that wins so is marked, because the delete comes
 * before it. Changes the run in place or copies it.
 * @param rows the segment's rows; undefined where it has none
 */
function withDeletes(rows: SegmentKeys | undefined, deletes: DeleteFile): KeyRun {
  const base = rows?.run ?? buildKeyRun([])
  const view = viewRun(base)
  const found = new Int32Array(view.rows) // the deletes may hold a key more than once
  const added: Uint8Array[] = []
  for (const [index, key] of deletes.keys.entries()) {
    const at = placeOf(view, key)
    if (rows === undefined || at === view.count || compareKeyAt(view, at, key) !== 0) {
      added.push(key)
      continue
    }
    const row = found[at]!
    if (deletes.sequences[index]! > rows.sequences[row]!) view.rows[at] = -1
    else if (rows.versions !== undefined && view.rows[at]! >= 0) view.rows[at] = afterDelete(row)
  }
  return added.length === 0 ? base : insert(view, added)
}

/** The index of the first key that is not below `key`. */
function placeOf(view: RunView, key: Uint8Array): number {
  let [from, to] = [0, view.count]
  while (from < to) {
    const middle = (from + to) >>> 1
    if (compareKeyAt(view, middle, key) < 0) from = middle + 1
    else to = middle
  }
  return from
}

/** Adds keys that the run does not have, with row -1. */
function insert(view: RunView, added: Uint8Array[]): KeyRun {
  added.sort(Buffer.compare)
  const keys = added.filter((key, i) => i === 0 || Buffer.compare(key, added[i - 1]!) !== 0)
  const keyBytes = keys.reduce((sum, key) => sum + key.byteLength, view.bytes.byteLength)
  const run = new KeyRunWriter(view.count + keys.length, keyBytes)
  let from = 0
  for (const key of keys) {
    const at = placeOf(view, key)
    run.addRange(view, from, at)
    run.add(key, -1)
    from = at
  }
  run.addRange(view, from, view.count)
  return run.end()
}
