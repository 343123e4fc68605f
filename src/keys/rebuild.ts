/**
 * Rebuild: an empty index is filled from the segments and their delete files.
 *
 *   W-6  What the files hold is all that is needed; the log is replayed above the sealed sequence as ever.
 *   W-7  Segments are applied by rising sequence through the same transaction as seals, so the later wins.
 *
 * Memory holds one segment's keys and one pool's footers at a time.
 */
import { join } from 'node:path'
import type { Plan } from '../batch/plan.ts'
import { Damaged } from '../errors.ts'
import { deleteFile, numberOfFile, segmentFile } from '../paths.ts'
import { type Disk, readFile } from '../util/disk.ts'
import type { Index } from './index.ts'
import { buildKeyRun, type RunKey } from './key-run.ts'
import type { KeyRun, SegmentMeta } from './protocol.ts'
import { rangeFields } from './ranges.ts'
import { type Footer, readFooter, readRows, type StoredKeys } from './segment-files.ts'

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

export interface RebuildOptions {
  readonly index: Index
  readonly disk: Disk
  readonly segmentFolder: string
  readonly pools: readonly RebuildPool[]
  readonly parseDeletes: ParseDeletes
  /** After each segment. */
  readonly onProgress: (done: number, of: number, pool: number) => void
}

/** Fills the index and marks it complete. Returns folders of no known pool, which were left alone. */
export async function rebuild(options: RebuildOptions): Promise<string[]> {
  const { index, disk, segmentFolder, pools } = options
  index.setComplete(false)
  const names = disk.exists(segmentFolder) ? disk.readdir(segmentFolder) : []
  for (const pool of pools) if (names.includes(pool.poolId)) await rebuildPool(options, pool)
  index.setComplete(true)
  const known = new Set(pools.map(pool => pool.poolId))
  return names.filter(name => !known.has(name)).map(name => join(segmentFolder, name))
}

async function rebuildPool(options: RebuildOptions, pool: RebuildPool): Promise<void> {
  const folder = join(options.segmentFolder, pool.poolId)
  const { found, halves, nextSegment } = await readFolder(options, pool.pool, folder)
  const live = survivors(found).sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  checkHalves(folder, halves, live)
  checkOrder(folder, live)
  let done = 0
  for (const footer of live) {
    const { meta, keys } = await readSegment(options, pool, folder, footer)
    const sealedSequence = meta.sequenceTo
    options.index.commit([{ pool: pool.pool, add: meta, remove: [], keys, sealedSequence }])
    done += 1
    options.onProgress(done, live.length, pool.pool)
  }
  options.index.raiseNextSegment(pool.pool, nextSegment)
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
 * One file of two is fine where a later segment stands for both, or where it is the newest: that seal was cut
 * short, and the log still has it. Anywhere else a file was lost.
 */
function checkHalves(folder: string, halves: readonly Footer[], live: readonly Footer[]): void {
  for (const half of halves) {
    if (isCovered(half, live) || live.every(({ segment }) => segment < half.segment)) continue
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
  const rows = footer.rows === 0 ? undefined : await readRows(file, plan)
  if (rows !== undefined && rows.rows !== footer.rows)
    throw new Damaged(file, 0, `it has ${rows.rows} rows, its footer says ${footer.rows}`)
  const deletes = footer.deletes === 0 ? undefined : deletesOf(options, folder, footer)
  const { segment, planVersion, sequenceFrom, sequenceTo } = footer
  const meta: SegmentMeta = {
    segment,
    rows: footer.rows,
    bytes: bytesOf(options.disk, folder, footer),
    planVersion,
    sequenceFrom,
    sequenceTo,
    ...rangeFields(rows?.ranges),
    deletes: footer.deletes,
  }
  if (plan.key === null) return { meta, keys: undefined }
  return { meta, keys: runOf(file, rows, deletes) }
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

/** Of a row and a delete of one key, the one with the higher sequence counts. */
function runOf(file: string, rows: StoredKeys | undefined, deletes: StoredKeys | undefined): KeyRun {
  const rowOf = new Map<string, number>()
  const run: RunKey[] = []
  for (const [row, key] of rows?.keys.entries() ?? []) {
    const text = Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1')
    if (rowOf.has(text)) throw new Damaged(file, 0, `rows ${rowOf.get(text)} and ${row} have the same key`)
    rowOf.set(text, row)
    run.push({ key, row })
  }
  const deleted = new Map<string, number>()
  for (const [index, key] of deletes?.keys.entries() ?? []) {
    const text = Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1')
    const sequence = deletes?.sequences[index] as number
    const row = rowOf.get(text)
    if (row === undefined) {
      if (!deleted.has(text)) run.push({ key, row: -1 })
    } else if (sequence > (rows?.sequences[row] as number)) run[row] = { key, row: -1 }
    deleted.set(text, sequence)
  }
  return buildKeyRun(run)
}
