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
import { deleteFile, numberOfFile, segmentFile } from '../paths.ts'
import { crashPoint } from '../util/crash.ts'
import { type Disk, readFile } from '../util/disk.ts'
import { fileChecksum } from '../util/file-checksum.ts'
import type { Index } from './index.ts'
import type { KeyRun, SealCommit, SegmentMeta } from './protocol.ts'
import { rangeFields } from './ranges.ts'
import { type StoredKeys, withDeletes } from './run-deletes.ts'
import { type Footer, readFooter } from './segment-files.ts'
import { readSegmentKeys } from './segment-keys.ts'

/** A delete file as the segment stage reads it. */
export interface StoredDeletes extends StoredKeys {
  readonly pool: number
  readonly planVersion: number
  readonly segment: number
  readonly sequenceFrom: number
  readonly sequenceTo: number
  /** Rows of the Parquet file beside it; above 0 the delete file counts only together with that file. */
  readonly rowsOfSeal: number
}

/** Parses the bytes of a delete file; throws Damaged naming `file`. The segment stage's own function. */
export type ParseDeletes = (bytes: Uint8Array, file: string) => StoredDeletes

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
  /** Segments of which one file of two is there, and no later one stands for them. */
  readonly halves: readonly Footer[]
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
  const { found, halves, nextSegment } = await readFolder(options, pool.pool, folder)
  const live = survivors(found).sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  const open = halves.filter(half => !isCovered(half, live))
  checkHalves(folder, open, live)
  checkOrder(folder, live)
  return { pool, folder, live, halves: open, nextSegment }
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

/** A seal that was cut short is made again from the log; one of whose files one was lost is not. */
function lostOf({ heldSequences }: RebuildOptions, plans: readonly PoolPlan[]): string[] {
  const halves = plans.flatMap(({ pool, folder, live, halves }) => {
    const sealed = live.at(-1)?.sequenceTo ?? 0
    return halves.filter(half => half.sequenceTo > sealed).map(half => ({ pool, folder, half }))
  })
  if (halves.length === 0) return []
  const held = heldSequences(new Set(halves.map(({ pool }) => pool.pool)))
  if (held === undefined) return []
  return halves
    .filter(({ pool, half }) => held.get(pool.pool)?.has(half.sequenceTo) !== true)
    .map(({ folder, half: { segment, sequenceFrom, sequenceTo, rows, deletes } }) => {
      const file = join(folder, segmentFile(segment))
      return `${file} or its delete file is lost, and the log does not have sequences ${sequenceFrom} to ${sequenceTo} any more: up to ${rows} rows and ${deletes} deletes are gone`
    })
}

/** The segments of a folder, and a number above all that its files bear. */
async function readFolder(options: RebuildOptions, pool: number, folder: string) {
  const names = new Set(options.disk.readdir(folder))
  const found: Footer[] = []
  const halves: Footer[] = []
  let nextSegment = 1
  for (const name of names) {
    const segment = numberOfFile(name)
    if (segment === undefined) continue // a temporary file: its seal was never committed
    nextSegment = Math.max(nextSegment, segment + 1)
    const file = join(folder, name)
    const isDeletes = name === deleteFile(segment)
    if (isDeletes && names.has(segmentFile(segment))) continue // read together with its Parquet file
    const footer = isDeletes ? footerOfDeletes(readDeletes(options, file)) : await readFooter(file)
    if (footer.pool !== pool || footer.segment !== segment)
      throw new Damaged(file, 0, `it belongs to pool ${footer.pool}, segment ${footer.segment}`)
    const isHalf = isDeletes ? footer.rows > 0 : footer.deletes > 0 && !names.has(deleteFile(segment))
    if (isHalf) halves.push(footer)
    else found.push(footer)
  }
  return { found, halves, nextSegment }
}

/**
 * One file of two is fine where it is the newest: that seal was cut short, and the log still has it (lostOf looks).
 * Anywhere else a file was lost.
 */
function checkHalves(folder: string, halves: readonly Footer[], live: readonly Footer[]): void {
  for (const half of halves) {
    if (live.every(({ segment }) => segment < half.segment)) continue
    const there = [segmentFile(half.segment), deleteFile(half.segment)].map(name => join(folder, name))
    throw new Damaged(there.join(' or '), 0, 'the file is missing, the other one of the segment is there')
  }
}

function readDeletes(options: RebuildOptions, file: string): StoredDeletes {
  return options.parseDeletes(readFile(options.disk, file), file)
}

function footerOfDeletes(deletes: StoredDeletes): Footer {
  const { pool, planVersion, segment, sequenceFrom, sequenceTo, rowsOfSeal, keys } = deletes
  const counts = { rows: rowsOfSeal, deletes: keys.length, replaces: [] }
  return { pool, planVersion, segment, sequenceFrom, sequenceTo, ...counts }
}

/** Without those that a later file stands for: named as replaced, or within its sequences. */
export function survivors(found: readonly Footer[]): Footer[] {
  const live: Footer[] = []
  for (const footer of [...found].sort((a, b) => b.segment - a.segment)) {
    if (!isCovered(footer, live)) live.push(footer)
  }
  return live
}

function isCovered({ segment, sequenceFrom, sequenceTo }: Footer, live: readonly Footer[]): boolean {
  return live.some(
    later =>
      later.segment > segment &&
      (later.replaces.includes(segment) ||
        (later.sequenceFrom <= sequenceFrom && sequenceTo <= later.sequenceTo)),
  )
}

function checkOrder(folder: string, live: readonly Footer[]): void {
  for (let i = 1; i < live.length; i++) {
    const before = live[i - 1] as Footer
    const { segment, sequenceFrom } = live[i] as Footer
    if (sequenceFrom <= before.sequenceTo) {
      const what = `its sequences overlap those of segment ${before.segment}`
      throw new Damaged(join(folder, segmentFile(segment)), 0, what)
    }
  }
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
  const deletes = readDeletes(options, file)
  const same =
    deletes.sequenceFrom === footer.sequenceFrom &&
    deletes.sequenceTo === footer.sequenceTo &&
    deletes.keys.length === footer.deletes
  if (!same) throw new Damaged(file, 0, `it belongs to another seal than segment ${footer.segment}`)
  return deletes
}
