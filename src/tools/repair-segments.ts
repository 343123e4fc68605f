/**
 * Segments that cannot be read as they are, and what becomes of them.
 *
 *   both files bad, or the only one   moved aside; the rows are lost
 *   Parquet bad, delete file good     the Parquet file is moved aside; the delete file stands alone from then on, so that
 *                                     what it deleted stays deleted
 *   Parquet good, delete file bad     the delete file is moved aside; the Parquet file's footer names no deletes then
 *
 * Rows that a lost segment had updated or deleted in older ones come back as they were: the message says so.
 */
import { basename, dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Memory } from '../catalog/memory.ts'
import { readDeleteFile } from '../format/delete-file.ts'
import type { PoolState } from '../index/index-types.ts'
import { assert } from '../util/assert.ts'
import { type Disk, disk, readFile, replaceFile, syncFolder } from '../util/disk.ts'
import { deleteFile, numberOfFile, poolFolder, segmentFile } from '../util/paths.ts'
import { wantedOf } from './check-pool.ts'
import { checkSegment } from './check-segment.ts'
import type { FolderLook } from './open-read-only.ts'
import { liveFooters } from './read-footers.ts'
import { Report } from './report.ts'
import { copyAside, moveAside } from './set-aside.ts'
import { countText } from './text-table.ts'

export interface SegmentRepair {
  readonly poolId: string
  /** For the operator. */
  readonly text: string
  readonly loses: boolean
  /** Files to move aside; those that are there. */
  readonly move: readonly string[]
  /** A delete file that is to stand alone. */
  readonly freeDeletes: string | undefined
  /** A Parquet file that is to have no deletes. */
  readonly dropDeletes: string | undefined
}

/** Looks at every file below data/segment. `states`: the index's, empty where it cannot be read. */
export async function findBadSegments(
  { paths }: FolderLook,
  memory: Memory,
  states: readonly PoolState[],
): Promise<SegmentRepair[]> {
  const repairs: SegmentRepair[] = []
  for (const pool of memory.pools.byId.values()) {
    const folder = poolFolder(paths, pool.id)
    const report = new Report()
    const footers = await liveFooters(folder, pool.number, report)
    for (const footer of footers) {
      const schema = memory.schema(pool.number, footer.schemaVersion)?.schema
      await checkSegment(folder, schema, wantedOf(pool.number, footer), report)
    }
    const state = states.find(one => one.pool === pool.number)
    const bad = new Set(report.files)
    for (const file of missingOf(folder, state)) bad.add(file)
    const segments = new Set(
      [...bad].map(file => numberOfFile(basename(file))).filter(one => one !== undefined),
    )
    for (const segment of segments) repairs.push(repairOf(pool.id, folder, segment, bad, state))
  }
  return repairs
}

/** Files that the index names and that are not there. */
function missingOf(folder: string, state: PoolState | undefined): string[] {
  return (state?.segments ?? [])
    .flatMap(({ segment, rows, deletes }) => [
      ...(rows > 0 ? [segmentFile(segment)] : []),
      ...(deletes > 0 ? [deleteFile(segment)] : []),
    ])
    .map(name => join(folder, name))
    .filter(file => !disk.exists(file))
}

function repairOf(
  poolId: string,
  folder: string,
  segment: number,
  bad: ReadonlySet<string>,
  state: PoolState | undefined,
): SegmentRepair {
  const parquet = join(folder, segmentFile(segment))
  const deletes = join(folder, deleteFile(segment))
  const meta = state?.segments.find(one => one.segment === segment)
  const isGood = (file: string) => disk.exists(file) && !bad.has(file)
  const visible = meta === undefined ? undefined : meta.rows - meta.deletedRows
  const rowsText =
    visible === undefined
      ? 'its rows are lost; how many is not known'
      : `${countText(visible)} visible rows are lost`
  const older = 'what it had updated or deleted in older segments may be back as it was'
  const base = { poolId, loses: true, freeDeletes: undefined, dropDeletes: undefined }
  if (isGood(parquet)) {
    const text = `${deletes}: damaged or missing; its deletes are lost, and what they deleted may be back; the rows of the segment stay`
    return { ...base, text, move: thereOf([deletes]), dropDeletes: parquet }
  }
  if (isGood(deletes) && isReadable(deletes)) {
    const text = `${parquet}: damaged or missing; ${rowsText}, and ${older}; its deletes stay`
    return { ...base, text, move: thereOf([parquet]), freeDeletes: deletes }
  }
  const isNamed = meta !== undefined || state === undefined
  const text = isNamed
    ? `${parquet}: damaged or missing; ${rowsText}, and ${older}`
    : `${parquet}: damaged, but no live segment; nothing is lost`
  return { ...base, text, loses: isNamed, move: thereOf([parquet, deletes]) }
}

function thereOf(files: readonly string[]): string[] {
  return files.filter(file => disk.exists(file))
}

function isReadable(file: string): boolean {
  try {
    readDeleteFile(readFile(disk, file), file)
    return true
  } catch {
    return false
  }
}

/** Moves aside what is bad and makes the rest stand alone. What is changed in place is copied aside first. */
export function mend(on: Disk, { move, freeDeletes, dropDeletes }: SegmentRepair, aside: string): void {
  if (freeDeletes !== undefined) {
    copyAside(on, freeDeletes, aside)
    replaceFile(on, freeDeletes, [standAlone(readFile(on, freeDeletes))])
  }
  if (dropDeletes !== undefined) withoutDeletes(on, dropDeletes)
  for (const file of move) moveAside(on, file, aside)
  const [first] = move
  if (first !== undefined) syncFolder(on, dirname(first))
}

/** A delete file whose flush has no rows: segment.md of src/format, byte 36, and the checksum. */
function standAlone(bytes: Uint8Array): Uint8Array {
  const alone = Uint8Array.from(bytes)
  const view = new DataView(alone.buffer)
  view.setUint32(36, 0, true)
  view.setUint32(alone.length - 4, crc32(alone.subarray(0, alone.length - 4)), true)
  return alone
}

/** The last bytes of a Parquet file: where its footer begins, and 'PAR1'. */
const TRAILER_BYTES = 8
const DELETES_KEY = 'weir.deletes'

/** Writes zeros over the digits of `weir.deletes` in the footer: as many, so that nothing moves. */
function withoutDeletes(on: Disk, file: string): void {
  const handle = on.open(file, 'r+')
  try {
    const size = on.size(file)
    const trailer = new Uint8Array(TRAILER_BYTES)
    on.read(handle, trailer, size - TRAILER_BYTES)
    const footerBytes = new DataView(trailer.buffer).getUint32(0, true)
    const from = size - TRAILER_BYTES - footerBytes
    const footer = Buffer.alloc(footerBytes)
    on.read(handle, footer, from)
    // Thrift, compact: the key's text, then 0x18 (the next field is text), its length, its digits.
    const at = footer.indexOf(DELETES_KEY) + DELETES_KEY.length
    const digits = footer[at + 1] ?? 0
    const isFound = footer.indexOf(DELETES_KEY) >= 0 && footer[at] === 0x18 && digits < 20
    assert(isFound, `the footer of ${file} names its deletes`)
    on.write(handle, [new Uint8Array(digits).fill(0x30)], from + at + 2)
    on.fdatasync(handle)
  } finally {
    on.close(handle)
  }
}
