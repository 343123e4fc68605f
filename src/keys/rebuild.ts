/**
 * Rebuild: an empty index is filled from the segments and their delete files.
 *
 *   W-6  What the files hold is all that is needed; the log is replayed above the sealed sequence as ever.
 *   W-7  Segments are applied by rising sequence through the same transaction as seals, so the later wins.
 *
 * Memory holds the keys of one segment, or of the small ones that share a transaction, and all footers.
 */
import { join } from 'node:path'
import type { Plan } from '../batch/plan.ts'
import { Damaged } from '../errors.ts'
import { REBUILD_COMMIT_BYTES, REBUILD_COMMIT_SEGMENTS } from '../limits.ts'
import { deleteFile, segmentFile } from '../paths.ts'
import { crashPoint } from '../util/crash.ts'
import { type Disk, readFile } from '../util/disk.ts'
import { fileChecksum } from '../util/file-checksum.ts'
import {
  isNeedless,
  type LoneDeletes,
  type ParseDeletes,
  readFolder,
  type StoredDeletes,
} from './folder-segments.ts'
import type { Index } from './index.ts'
import type { KeyRun, SealCommit, SegmentMeta } from './protocol.ts'
import { rangeFields } from './ranges.ts'
import { withDeletes } from './run-deletes.ts'
import type { Footer } from './segment-files.ts'
import { readSegmentKeys } from './segment-keys.ts'

/** A pool that the catalog knows. */
export interface RebuildPool {
  readonly pool: number
  /** Name of its folder. */
  readonly poolId: string
  /** All versions. */
  readonly plans: readonly Plan[]
}

/** Which requests the log still holds; see commit/held.ts. */
export type HeldSequences = (
  pools: ReadonlySet<number>,
) => ReadonlyMap<number, ReadonlySet<number>> | undefined

export interface RebuildOptions {
  readonly index: Index
  readonly disk: Disk
  readonly segmentFolder: string
  readonly pools: readonly RebuildPool[]
  readonly kernel: 'native' | 'js'
  readonly parseDeletes: ParseDeletes
  readonly heldSequences: HeldSequences
  /** After each segment: rows and deletes done, of those of all pools, and the pool at hand. */
  readonly onProgress: (done: number, of: number, pool: number) => void
}

/** What a rebuild leaves to say. */
export interface Rebuilt {
  /** Folders of no known pool, which were left alone. */
  readonly unknownFolders: string[]
  /** Rows that are gone, in words. */
  readonly lost: string[]
}

/** A pool's segments by rising sequence, before any of them is read. */
interface PoolPlan {
  readonly pool: RebuildPool
  readonly folder: string
  readonly live: readonly Footer[]
  /** Delete files without their Parquet file. */
  readonly lone: readonly LoneDeletes[]
  readonly nextSegment: number
}

/** Fills the index and marks it complete. */
export async function rebuild(options: RebuildOptions): Promise<Rebuilt> {
  const { index, disk, segmentFolder, pools } = options
  index.setComplete(false)
  const names = disk.exists(segmentFolder) ? disk.readdir(segmentFolder) : []
  const plans: PoolPlan[] = []
  for (const pool of pools) if (names.includes(pool.poolId)) plans.push(await planPool(options, pool))
  await applyAll(options, plans)
  index.raiseNextSegments(new Map(plans.map(({ pool, nextSegment }) => [pool.pool, nextSegment])))
  index.setComplete(true)
  const known = new Set(pools.map(pool => pool.poolId))
  const unknownFolders = names.filter(name => !known.has(name)).map(name => join(segmentFolder, name))
  return { unknownFolders, lost: lostOf(options, plans) }
}

async function planPool(options: RebuildOptions, pool: RebuildPool): Promise<PoolPlan> {
  const folder = join(options.segmentFolder, pool.poolId)
  return { pool, folder, ...(await readFolder(options.disk, options.parseDeletes, pool.pool, folder)) }
}

/** Segment by segment; small ones share a transaction, which is one flush. */
async function applyAll(options: RebuildOptions, plans: readonly PoolPlan[]): Promise<void> {
  const work = ({ rows, deletes }: Footer) => rows + deletes
  const total = plans.reduce((sum, { live }) => live.reduce((all, one) => all + work(one), sum), 0)
  let done = 0
  let seals: SealCommit[] = []
  let keyBytes = 0
  const flush = () => {
    if (seals.length === 0) return
    options.index.commit(seals)
    crashPoint('rebuild.committed')
    seals = []
    keyBytes = 0
  }
  for (const { pool, folder, live } of plans) {
    for (const footer of live) {
      const { meta, keys } = await readSegment(options, pool, folder, footer)
      seals.push({ pool: pool.pool, add: meta, remove: [], keys, sealedSequence: meta.sequenceTo })
      keyBytes += keys?.byteLength ?? 0
      if (keyBytes >= REBUILD_COMMIT_BYTES || seals.length >= REBUILD_COMMIT_SEGMENTS) flush()
      done += work(footer)
      options.onProgress(done, total, pool.pool)
    }
  }
  flush()
}

/**
 * A delete file alone is no loss where its seal is made again from the log, or its merge from what it merged. Else a removal
 * was cut short, or the Parquet file was lost: nothing tells one from the other.
 */
function lostOf({ heldSequences }: RebuildOptions, plans: readonly PoolPlan[]): string[] {
  const open = plans.filter(({ lone }) => lone.length > 0)
  if (open.length === 0) return []
  const held = heldSequences(new Set(open.map(({ pool }) => pool.pool)))
  return open.flatMap(({ pool, folder, live, lone }) =>
    lone
      .filter(one => !isNeedless(one, live, held?.get(pool.pool) ?? new Set()))
      .map(({ segment, sequenceFrom, sequenceTo, rows, deletes }) => {
        const file = join(folder, deleteFile(segment))
        return `${file} stands alone: either its segment (sequences ${sequenceFrom} to ${sequenceTo}) had no more to say and its removal was cut short, or ${segmentFile(segment)} is lost with up to ${rows} rows, and what its ${deletes} deletes removed is back`
      }),
  )
}

/** What the seal gave to the index: the meta, and rows and deletes as one run (none without a unique id). */
async function readSegment(
  options: RebuildOptions,
  pool: RebuildPool,
  folder: string,
  footer: Footer,
): Promise<{ meta: SegmentMeta; keys: KeyRun | undefined }> {
  const file = join(folder, segmentFile(footer.segment))
  const plan = pool.plans.find(({ version }) => version === footer.planVersion)
  if (plan === undefined) throw new Damaged(file, 0, `the catalog has no plan version ${footer.planVersion}`)
  const rows = footer.rows === 0 ? undefined : await readSegmentKeys(file, plan, options.kernel)
  if (rows !== undefined && rows.rows !== footer.rows)
    throw new Damaged(file, 0, `it has ${rows.rows} rows, its footer says ${footer.rows}`)
  const deletes = footer.deletes === 0 ? undefined : deletesOf(options, folder, footer)
  const { segment, planVersion, sequenceFrom, sequenceTo } = footer
  const meta: SegmentMeta = {
    segment,
    rows: footer.rows,
    bytes: bytesOf(options.disk, folder, footer),
    checksum: footer.rows === 0 ? null : fileChecksum(options.disk, file),
    planVersion,
    sequenceFrom,
    sequenceTo,
    ...(rows?.ranges ?? rangeFields(undefined)),
    deletes: footer.deletes,
  }
  if (plan.key === null) return { meta, keys: undefined }
  if (deletes === undefined) return { meta, keys: rows?.run }
  return { meta, keys: withDeletes(rows?.run, rows?.sequences ?? new Float64Array(0), deletes) }
}

/** Of both files. */
function bytesOf(disk: Disk, folder: string, { segment, rows, deletes }: Footer): number {
  const parquet = rows === 0 ? 0 : disk.size(join(folder, segmentFile(segment)))
  return parquet + (deletes === 0 ? 0 : disk.size(join(folder, deleteFile(segment))))
}

function deletesOf(options: RebuildOptions, folder: string, footer: Footer): StoredDeletes {
  const file = join(folder, deleteFile(footer.segment))
  const deletes = options.parseDeletes(readFile(options.disk, file), file)
  const same =
    deletes.sequenceFrom === footer.sequenceFrom &&
    deletes.sequenceTo === footer.sequenceTo &&
    deletes.keys.length === footer.deletes
  if (!same) throw new Damaged(file, 0, `it belongs to another seal than segment ${footer.segment}`)
  return deletes
}
