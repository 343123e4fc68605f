/**
 * The first reading of the log at a start. Everything is checked and nothing changed, so a damaged folder stays as it was found.
 *
 *   W-2  What is read again for the replay is the same bytes in memory, as far as LOG_KEPT_BYTES_MAX goes; the rest is
 *        checked again with the reading.
 *
 * It needs nothing of the catalog and the index, and runs while they are opened. What they say is held against it later:
 * `checkSealed`.
 */
import { join } from 'node:path'
import { Damaged } from '../errors.ts'
import { LOG_KEPT_BYTES_MAX } from '../limits.ts'
import type { Disk } from '../util/disk.ts'
import { viewOf } from './checksum.ts'
import { type FolderList, listFolder } from './file.ts'
import { type Head, headPath, readHead } from './head.ts'
import { checkEnd, decodeRecord, type LogEnd, type ReadRecord, type RecordBytes, readLog } from './read.ts'

/** A log folder, read. */
export interface FirstReading {
  readonly list: FolderList
  /** undefined: the folder is empty, or not there. */
  readonly head: Head | undefined
  /** undefined: there has never been a log. */
  readonly log: LogRead | undefined
}

/** What is known of a log without what is sealed. */
interface LogRead {
  readonly end: LogEnd
  readonly records: number
  /** Of the first record; undefined: there is none. */
  readonly firstSequence: number | undefined
  readonly pools: ReadonlyMap<number, PoolRequests>
  /** The first files that have records. */
  readonly kept: readonly KeptFile[]
  readonly isAllKept: boolean
}

/** The requests of one pool. */
interface PoolRequests {
  readonly first: Pick<ReadRecord, 'sequence' | 'file' | 'fileOffset'>
  lastSequence: number
}

/** A file with the places of its records, which are whole. */
interface KeptFile extends RecordBytes {
  readonly places: number[]
}

/**
 * Reads and checks the log in `folder`. Throws Damaged.
 * @param keptBytesMax bytes of files that stay in memory for `readAgain`
 */
export function readFirst(disk: Disk, folder: string, keptBytesMax = LOG_KEPT_BYTES_MAX): FirstReading {
  const list = disk.exists(folder) ? listFolder(disk, folder) : { files: [], spares: [], temporary: [] }
  const head = disk.exists(folder) ? readHead(disk, folder) : undefined
  if (head === undefined && (list.files.length > 0 || list.spares.length > 0))
    throw new Damaged(headPath(folder), 0, 'it is missing, but there are log files')
  const log =
    head === undefined || head.epoch === 0 ? undefined : readOnce(disk, folder, { list, head, keptBytesMax })
  return { list, head, log }
}

function readOnce(
  disk: Disk,
  folder: string,
  { list, head, keptBytesMax }: { list: FolderList; head: Head; keptBytesMax: number },
): LogRead {
  const pools = new Map<number, PoolRequests>()
  const kept: KeptFile[] = []
  let keptBytes = 0
  let file: KeptFile | undefined
  let path = ''
  let records = 0
  let firstSequence: number | undefined
  const reader = readLog(disk, folder, list.files, head, undefined)
  let step = reader.next()
  for (; step.done !== true; step = reader.next()) {
    const record = step.value
    records += 1
    firstSequence ??= record.sequence
    if (record.kind === 'post' || record.kind === 'delete') count(pools, record)
    if (record.file !== path) {
      path = record.file
      keptBytes += record.bytes.byteLength
      file = keptBytes > keptBytesMax ? undefined : keep(record)
      if (file !== undefined) kept.push(file)
    }
    file?.places.push(record.fileOffset)
  }
  const isAllKept = keptBytes <= keptBytesMax
  return { end: step.value, records, firstSequence, pools, kept, isAllKept }
}

function keep({ file, bytes }: ReadRecord): KeptFile {
  return { path: file, bytes, view: viewOf(bytes), places: [] }
}

function count(pools: Map<number, PoolRequests>, record: ReadRecord): void {
  const known = pools.get(record.pool)
  if (known !== undefined) known.lastSequence = record.sequence
  else {
    const { sequence, file, fileOffset } = record
    pools.set(record.pool, { first: { sequence, file, fileOffset }, lastSequence: sequence })
  }
}

/**
 * Holds what was read against what is sealed, as RecoverOptions has it. Throws Damaged: a pool was never known, or the log ends
 * below a sealed sequence.
 * @returns whether requests are to be replayed
 */
export function checkSealed({ end, pools }: LogRead, sealed: ReadonlyMap<number, number>): boolean {
  let isNeeded = false
  for (const [pool, { first, lastSequence }] of pools) {
    const below = sealed.get(pool)
    if (below === undefined) {
      const what = `sequence ${first.sequence} belongs to pool ${pool}, which was never known`
      throw new Damaged(first.file, first.fileOffset, what)
    }
    isNeeded ||= below !== -1 && lastSequence > below
  }
  checkEnd(end, sealed)
  return isNeeded
}

/** Gives the memory of the kept files back; nothing of them is used any more. Else it may stay for long: little is allocated here. */
export function forgetKept(log: LogRead | undefined): void {
  for (const { bytes } of log?.kept ?? []) {
    const buffer = bytes.buffer as ArrayBuffer
    structuredClone(buffer, { transfer: [buffer] }) // to a young object, which goes first
  }
}

/** The records again, in their order. Throws Damaged where a file that is read again is not what it was. */
export function* readAgain(
  disk: Disk,
  folder: string,
  { list, head, log }: { readonly list: FolderList; readonly head: Head; readonly log: LogRead },
): Generator<ReadRecord, void> {
  for (const file of log.kept) for (const place of file.places) yield decodeRecord(file, place)
  if (log.isAllKept) return
  const last = list.files.find(({ name }) => join(folder, name) === log.kept.at(-1)?.path)
  const position = last === undefined ? head.position : last.position + 1
  const { lastSequence, file, fileOffset } = yield* readLog(
    disk,
    folder,
    list.files,
    { ...head, position },
    undefined,
  )
  if (lastSequence === log.end.lastSequence) return
  const what = `it ends with sequence ${lastSequence}, a moment ago it ended with ${log.end.lastSequence}`
  throw new Damaged(file, fileOffset, what)
}
