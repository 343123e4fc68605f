/**
 * What the files of a pool's folder say without an index: which segments are live, and which files stand for nothing.
 *
 *   W-6  A delete file comes before its Parquet file and goes after it (segment/publish.ts). So
 *        - a Parquet file without the delete file that its footer names is damage, unless another segment stands for it;
 *        - a delete file without its Parquet file is what a seal or merge that was cut short, or a removal that was, left.
 *          It stands for nothing: those rows and deletes are elsewhere, or nobody needs them.
 */
import { join } from 'node:path'
import { Damaged } from '../errors.ts'
import { deleteFile, numberOfFile, segmentFile } from '../paths.ts'
import { type Disk, readFile } from '../util/disk.ts'
import type { DeletesHeader } from './protocol.ts'
import type { StoredKeys } from './run-deletes.ts'
import { type Footer, readFooter } from './segment-files.ts'

/** A delete file as the segment stage reads it. */
export type StoredDeletes = DeletesHeader & StoredKeys

/** Parses the bytes of a delete file; throws Damaged naming `file`. The segment stage's own function. */
export type ParseDeletes = (bytes: Uint8Array, file: string) => StoredDeletes

/** A delete file whose Parquet file is not there, with the sequences of its deletes. */
export type LoneDeletes = Footer & Pick<StoredDeletes, 'sequences'>

/** The segments of a folder. */
interface FolderSegments {
  /** By rising sequence. */
  readonly live: readonly Footer[]
  /** Delete files that stand for nothing, and no live segment stands for them either; see `isNeedless`. */
  readonly lone: readonly LoneDeletes[]
  /** Above every number that a file bears. */
  readonly nextSegment: number
}

/** Reads the footers and lone delete files of a pool's folder. Throws Damaged. */
export async function readFolder(
  disk: Disk,
  parseDeletes: ParseDeletes,
  pool: number,
  folder: string,
): Promise<FolderSegments> {
  const names = new Set(disk.readdir(folder))
  const found: Footer[] = []
  const torn: Footer[] = []
  const lone: LoneDeletes[] = []
  let nextSegment = 1
  for (const name of names) {
    const segment = numberOfFile(name)
    if (segment === undefined) continue // a temporary file: its seal was never committed
    nextSegment = Math.max(nextSegment, segment + 1)
    const file = join(folder, name)
    const isDeletes = name === deleteFile(segment)
    if (isDeletes && names.has(segmentFile(segment))) continue // read together with its Parquet file
    const deletes = isDeletes ? footerOfDeletes(parseDeletes(readFile(disk, file), file)) : undefined
    const footer = deletes ?? (await readFooter(file))
    if (footer.pool !== pool || footer.segment !== segment)
      throw new Damaged(file, 0, `it belongs to pool ${footer.pool}, segment ${footer.segment}`)
    if (deletes !== undefined && deletes.rows > 0) lone.push(deletes)
    else if (!isDeletes && footer.deletes > 0 && !names.has(deleteFile(segment))) torn.push(footer)
    else found.push(footer)
  }
  const live = survivors(found).sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  checkWhole(folder, torn, live)
  checkOrder(folder, live)
  return { live, lone: lone.filter(one => !isReplaced(one, live)), nextSegment }
}

/** What a delete file says of itself. */
export function footerOfDeletes(deletes: StoredDeletes): LoneDeletes {
  const { pool, planVersion, segment, sequenceFrom, sequenceTo, rowsOfSeal, keys, sequences } = deletes
  const counts = { rows: rowsOfSeal, deletes: keys.length, replaces: [] }
  return { pool, planVersion, segment, sequenceFrom, sequenceTo, ...counts, sequences }
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

/**
 * Live segments never overlap, and a higher number was written later: a later one that overlaps proves that this one was
 * given up, or never committed.
 */
function isReplaced(lone: Footer, live: readonly Footer[]): boolean {
  return live.some(
    one => one.segment > lone.segment && (one.replaces.includes(lone.segment) || overlaps(one, lone)),
  )
}

const overlaps = (a: Footer, b: Footer) => a.sequenceFrom <= b.sequenceTo && b.sequenceFrom <= a.sequenceTo

/**
 * Is all that the lone delete file's segment held there without it? Its first and last request are the ends of segments
 * that it was to replace, or in the log, which then has all in between.
 * @param held requests of the pool that the log holds
 */
export function isNeedless(lone: LoneDeletes, live: readonly Footer[], held: ReadonlySet<number>): boolean {
  const sealed = live.at(-1)?.sequenceTo ?? 0
  const beside = live.filter(one => overlaps(one, lone))
  const isThere = (sequence: number, end: 'sequenceFrom' | 'sequenceTo') =>
    sequence > sealed ? held.has(sequence) : beside.some(one => one[end] === sequence)
  return (
    isThere(lone.sequenceFrom, 'sequenceFrom') &&
    isThere(lone.sequenceTo, 'sequenceTo') &&
    Array.from(lone.sequences).every(sequence => sequence <= sealed || held.has(sequence))
  )
}

function checkWhole(folder: string, torn: readonly Footer[], live: readonly Footer[]): void {
  const open = torn.find(one => !isCovered(one, live))
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
