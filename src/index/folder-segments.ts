/**
 * Reads the state of a pool from the files of its folder, without an index: which segments are
 * live, and which files are orphans.
 *
 *   W-6  A delete file comes before its Parquet file and goes after it
 *        (store/segment/publish-segment.ts). Therefore:
 *        - A Parquet file without the delete file that its footer names is damage, unless another
 *          segment covers it.
 *        - A delete file without its Parquet file is left by an interrupted flush, merge or
 *          removal. It counts for nothing: its rows and deletes are elsewhere, or nobody needs
 *          them.
 */
import { join } from 'node:path'
import { type DeleteFile, readDeleteFile } from '../format/delete-file.ts'
import { covers, type Footer, readFooter, type SegmentMeta } from '../format/segment-meta.ts'
import { type Disk, readFile } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { deleteFile, numberOfFile, segmentFile } from '../util/paths.ts'

/** A delete file whose Parquet file is missing, with the sequences of its deletes. */
export type OrphanDeletes = Footer & Pick<DeleteFile, 'sequences'>

/** The segments of a folder. */
export interface FolderSegments {
  /** By rising sequence. */
  readonly live: readonly Footer[]
  /**
   * Delete files without their Parquet file that no live segment covers either; see `isRedundant`.
   */
  readonly orphanDeletes: readonly OrphanDeletes[]
  /** Higher than every segment number in the folder. */
  readonly nextSegment: number
}

/** Reads the footers and orphan delete files of a pool's folder. Throws Damaged. */
export function readFolder(disk: Disk, pool: number, folder: string): FolderSegments {
  const names = new Set(disk.readdir(folder))
  const found: Footer[] = []
  const incomplete: Footer[] = []
  const orphanDeletes: OrphanDeletes[] = []
  let nextSegment = 1
  for (const name of names) {
    const segment = numberOfFile(name)
    if (segment === undefined) continue // a temporary file: its flush was never committed
    nextSegment = Math.max(nextSegment, segment + 1)
    const file = join(folder, name)
    const isDeletes = name === deleteFile(segment)
    // A delete file is read together with its Parquet file.
    if (isDeletes && names.has(segmentFile(segment))) continue
    const deletes = isDeletes ? footerOfDeletes(readDeleteFile(readFile(disk, file), file)) : undefined
    const footer = deletes ?? readFooter(disk, file)
    if (footer.pool !== pool || footer.segment !== segment)
      throw new Damaged(file, 0, `it belongs to pool ${footer.pool}, segment ${footer.segment}`)
    if (deletes !== undefined && deletes.rows > 0) orphanDeletes.push(deletes)
    else if (!isDeletes && footer.deletes > 0 && !names.has(deleteFile(segment))) incomplete.push(footer)
    else found.push(footer)
  }
  const live = liveSegments(found).sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  checkWhole(folder, incomplete, live)
  checkOrder(folder, live)
  return { live, orphanDeletes: orphanDeletes.filter(one => !isReplaced(one, live)), nextSegment }
}

/** The footer of the segment that a delete file belongs to. */
export function footerOfDeletes(deletes: DeleteFile): OrphanDeletes {
  const { pool, schemaVersion, segment, sequenceFrom, sequenceTo, rowsOfFlush, keys, sequences } = deletes
  const counts = { rows: rowsOfFlush, deletes: keys.length, replaces: [] }
  return { pool, schemaVersion, segment, sequenceFrom, sequenceTo, ...counts, sequences }
}

/** The delete file of a segment. Throws Damaged where it is that of another one. */
export function readDeletesOf(
  disk: Disk,
  file: string,
  of: Pick<Footer, 'pool' | 'segment' | 'sequenceFrom' | 'sequenceTo' | 'deletes'>,
): DeleteFile {
  const found = readDeleteFile(readFile(disk, file), file)
  const isOfSegment =
    found.pool === of.pool &&
    found.segment === of.segment &&
    found.sequenceFrom === of.sequenceFrom &&
    found.sequenceTo === of.sequenceTo &&
    found.keys.length === of.deletes
  if (isOfSegment) return found
  throw new Damaged(file, 0, `it belongs to another flush than segment ${of.segment}`)
}

/** Leaves out the segments that a later file covers: named as replaced, or within its sequences. */
export function liveSegments(found: readonly Footer[]): Footer[] {
  const live: Footer[] = []
  for (const footer of [...found].sort((a, b) => b.segment - a.segment)) {
    if (!isCovered(footer, live)) live.push(footer)
  }
  return live
}

/** True where a rebuild leaves the segment out, because a later one of `live` covers it. */
export function isCovered(footer: Footer, live: readonly (Footer | SegmentMeta)[]): boolean {
  return live.some(later => later.segment > footer.segment && covers(later, footer))
}

/**
 * Live segments never overlap, and a higher number was written later. So a later segment that
 * overlaps proves that this one is obsolete or was never committed.
 */
function isReplaced(orphanDeletes: Footer, live: readonly Footer[]): boolean {
  return live.some(
    one =>
      one.segment > orphanDeletes.segment &&
      (one.replaces.includes(orphanDeletes.segment) || overlaps(one, orphanDeletes)),
  )
}

const overlaps = (a: Footer, b: Footer) => a.sequenceFrom <= b.sequenceTo && b.sequenceFrom <= a.sequenceTo

/**
 * True where all rows and deletes of the orphan delete file's segment are there without it. Its
 * first and last request are the ends of segments that it was to replace, or in the log, which then
 * has all requests in between.
 * @param logged requests of the pool that the log holds
 */
export function isRedundant(
  orphanDeletes: OrphanDeletes,
  live: readonly Footer[],
  logged: ReadonlySet<number>,
): boolean {
  const flushed = live.at(-1)?.sequenceTo ?? 0
  const beside = live.filter(one => overlaps(one, orphanDeletes))
  const isThere = (sequence: number, end: 'sequenceFrom' | 'sequenceTo') =>
    sequence > flushed ? logged.has(sequence) : beside.some(one => one[end] === sequence)
  return (
    isThere(orphanDeletes.sequenceFrom, 'sequenceFrom') &&
    isThere(orphanDeletes.sequenceTo, 'sequenceTo') &&
    Array.from(orphanDeletes.sequences).every(sequence => sequence <= flushed || logged.has(sequence))
  )
}

function checkWhole(folder: string, incomplete: readonly Footer[], live: readonly Footer[]): void {
  const open = incomplete.find(one => !isCovered(one, live))
  if (open === undefined) return
  const file = join(folder, deleteFile(open.segment))
  const what = `it is missing, and with it ${open.deletes} deletes; ${segmentFile(open.segment)} is there`
  throw new Damaged(file, 0, what)
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
