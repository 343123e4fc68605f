/**
 * Start-up of the log, in two steps: read and check the old generation, then replay the requests
 * that are not flushed and copy them into a new generation.
 *
 *   W-2   The first step checks everything and changes nothing, so a damaged folder stays as it was
 *         found. It keeps file contents in memory up to a limit; the second step reads and checks
 *         the other files again. A torn tail is cut by not copying it.
 *   W-3   The new generation is whole, synced and its folder synced before the log header names it,
 *         and the header names it before anything is acknowledged. A crash at any point leaves the
 *         old generation or the new one as the log.
 *   W-10  The same code runs after a crash, after a clean stop, and on an empty folder.
 *   W-13  Records at or below their pool's flushed sequence are not replayed.
 *
 * The first step needs nothing of the catalog and the index and runs while they open.
 * `checkFlushed` compares what it read with what they say.
 *
 * Sequences never go back: the next one is above the last record and above every flushed sequence.
 * A log that ends below a flushed sequence is damage. A log folder that was removed as a whole is a
 * new log, which counts on above the highest flushed sequence.
 */
import { dirname, join } from 'node:path'
import { type Disk, syncFolder } from '../util/disk.ts'
import { CannotRun, Damaged } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { LOG_FILE_BYTES, SPARE_FILES_MAX } from '../util/limits.ts'
import { growingSpares, LogCopy } from './copy-log.ts'
import {
  type FolderList,
  firstFileBytes,
  type LogHeader,
  numberOfSpare,
  type OpenedFolder,
  readLogFolder,
  type Spare,
  writeLogHeader,
} from './log-folder.ts'
import type { RecoverOptions } from './log-types.ts'
import { Generation } from './log-writer.ts'
import { checkEnd, highestFlushed, type LogEnd, readLog, unknownPoolText } from './read-log.ts'
import {
  decodeRecord,
  isRequest,
  isUnflushed,
  type ReadRecord,
  type RecordBytes,
  viewOf,
} from './record-codec.ts'
import { ChunkBuilder } from './replay-chunk.ts'

/**
 * Bytes of log files that a start keeps in memory between checking and replaying them; it reads
 * further ones twice. Goal P-7 (docs/figures) has room for three files at a start.
 */
const LOG_CACHE_BYTES_MAX = 3 * LOG_FILE_BYTES

/** A log folder after the first step. `log` is undefined where there has never been a log. */
export interface FirstReading extends OpenedFolder {
  readonly log: LogRead | undefined
}

/** The first reading of a log, before the flushed sequences are known. */
interface LogRead {
  readonly end: LogEnd
  readonly records: number
  /** Sequence of the first record; undefined where there is none. */
  readonly firstSequence: number | undefined
  readonly pools: ReadonlyMap<number, PoolRequests>
  /** The first files that have records, with their contents. */
  readonly cached: readonly CachedFile[]
  readonly isAllCached: boolean
}

interface PoolRequests {
  readonly first: Pick<ReadRecord, 'sequence' | 'file' | 'fileOffset'>
  lastSequence: number
}

/** A log file in memory and the offsets of its records, which are whole. */
interface CachedFile extends RecordBytes {
  readonly offsets: number[]
}

interface RecoverLogOptions extends RecoverOptions {
  readonly disk: Disk
  readonly folder: string
  readonly fileBytesMax: number
  /** The result of `readFirst`. Where it is undefined, recovery calls `readFirst` itself. */
  readonly reading?: FirstReading | undefined
}

/** The outcome of a recovery, for the operator and for the commit stage. */
export interface RecoveredSummary {
  readonly generation: number
  readonly lastSequence: number
  readonly replayed: number
  readonly skipped: number
  /** True when the old log ended with a clean-stop record. */
  readonly cleanStop: boolean
  /** Where an unfinished group was cut. */
  readonly torn: { readonly file: string; readonly offset: number } | undefined
}

export interface RecoveredLog {
  readonly summary: RecoveredSummary
  readonly generation: Generation
  readonly spares: readonly Spare[]
  /** Names of files that left the log, to be recycled or removed. */
  readonly old: readonly string[]
}

/**
 * Reads and checks the log in `folder`. Throws Damaged.
 * @param cachedBytesMax bytes of file contents that stay in memory for the second step
 */
export function readFirst(disk: Disk, folder: string, cachedBytesMax = LOG_CACHE_BYTES_MAX): FirstReading {
  const { list, header } = readLogFolder(disk, folder)
  if (header === undefined || header.generation === 0) return { list, header, log: undefined }
  const pools = new Map<number, PoolRequests>()
  const cached: CachedFile[] = []
  let fileBytes = 0
  let file: CachedFile | undefined
  let path = ''
  let records = 0
  let firstSequence: number | undefined
  const reader = readLog(disk, folder, list.files, header, undefined)
  let step = reader.next()
  for (; step.done !== true; step = reader.next()) {
    const record = step.value
    records += 1
    firstSequence ??= record.sequence
    if (isRequest(record)) countRequest(pools, record)
    if (record.file !== path) {
      path = record.file
      fileBytes += record.bytes.byteLength
      file =
        fileBytes > cachedBytesMax
          ? undefined
          : { path: record.file, bytes: record.bytes, view: viewOf(record.bytes), offsets: [] }
      if (file !== undefined) cached.push(file)
    }
    file?.offsets.push(record.fileOffset)
  }
  const isAllCached = fileBytes <= cachedBytesMax
  return { list, header, log: { end: step.value, records, firstSequence, pools, cached, isAllCached } }
}

function countRequest(pools: Map<number, PoolRequests>, record: ReadRecord): void {
  const known = pools.get(record.pool)
  if (known !== undefined) known.lastSequence = record.sequence
  else {
    const { sequence, file, fileOffset } = record
    pools.set(record.pool, { first: { sequence, file, fileOffset }, lastSequence: sequence })
  }
}

/**
 * Compares the log with what is flushed.
 * @param flushed as in RecoverOptions
 * @returns true when there are requests to replay
 * @throws Damaged where a pool was never known, or the log ends below a flushed sequence
 */
function checkFlushed({ end, pools }: LogRead, flushed: ReadonlyMap<number, number>): boolean {
  let hasUnflushed = false
  for (const [pool, { first, lastSequence }] of pools) {
    const below = flushed.get(pool)
    if (below === undefined)
      throw new Damaged(first.file, first.fileOffset, unknownPoolText(first.sequence, pool))
    hasUnflushed ||= below !== -1 && lastSequence > below
  }
  checkEnd(end, flushed)
  return hasUnflushed
}

/**
 * Frees the cached files at once; nothing may use them any more. Little is allocated here, so V8
 * would keep them long.
 */
export function freeCache(log: LogRead | undefined): void {
  for (const { bytes } of log?.cached ?? []) {
    const buffer = bytes.buffer as ArrayBuffer
    // This moves the memory to a young object, which V8 collects first.
    structuredClone(buffer, { transfer: [buffer] })
  }
}

/**
 * Recovers the log in `folder`, which it makes if missing. Throws Damaged, CannotRun (disk full),
 * and the errors of `replay`.
 */
export async function recoverLog(options: RecoverLogOptions): Promise<RecoveredLog> {
  try {
    return await recover(options)
  } catch (error) {
    // A full disk stops the start at whichever write: there is nothing to serve yet, and nothing is
    // damaged.
    const code = (error as { code?: unknown }).code
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw error
    const { folder, fileBytesMax } = options
    throw new CannotRun(
      `the disk is full: the log in ${folder} needs ${firstFileBytes(fileBytesMax)} bytes for a new file; free some room and start again`,
    )
  }
}

async function recover(options: RecoverLogOptions): Promise<RecoveredLog> {
  const { disk, folder, flushed, fileBytesMax } = options
  const reading = options.reading ?? readFirst(disk, folder)
  const { list, log } = reading
  const hasUnflushed = log !== undefined && checkFlushed(log, flushed)
  const header = reading.header ?? beginLog(disk, folder)
  // None exceeds the setting, and each holds an append.
  const spares = list.spares
    .map((name): Spare => ({ name, bytes: disk.size(join(folder, name)) }))
    .filter(({ bytes }) => bytes >= firstFileBytes(fileBytesMax) && bytes <= fileBytesMax)
  const number = Math.max(header.generation, list.files.at(-1)?.generation ?? 0) + 1
  removeLeftovers(disk, folder, list, header)
  const generation = new Generation(disk, folder, number)
  // New spares have numbers above all that the start found, so none overwrites another.
  const above = Math.max(SPARE_FILES_MAX, ...list.spares.map(numberOfSpare))
  const makeSpare = growingSpares(disk, folder, { above, bytesMax: fileBytesMax })
  const copy = new LogCopy(generation, async () => spares.shift()?.name ?? (await makeSpare()))
  const found = await replayAndCopy(options, { list, header, log }, hasUnflushed, copy)
  await copy.finish(found.lastSequence + 1)
  crashPoint('recover.copied')
  writeLogHeader(disk, folder, { generation: number, position: 0, lastSequence: found.lastSequence })
  crashPoint('recover.renamed')
  const isReady = (name: string) => spares.some(spare => spare.name === name)
  const misfits = list.spares.filter(name => !isReady(name) && disk.exists(join(folder, name)))
  return {
    summary: { ...found, generation: number },
    generation,
    spares,
    old: [...list.files.map(file => file.name), ...list.temporary, ...misfits],
  }
}

/**
 * Makes the folder. Writes a header of generation 0 before any log file, so that a lost header
 * never looks like a new log.
 */
function beginLog(disk: Disk, folder: string): LogHeader {
  if (!disk.exists(folder)) {
    disk.mkdir(folder)
    syncFolder(disk, dirname(folder))
  }
  const none = { generation: 0, position: 0, lastSequence: 0 }
  writeLogHeader(disk, folder, none)
  return none
}

/**
 * Removes the files that an unfinished recovery left, so that a start that fails again and again
 * takes no more room each time. The new generation has a higher number than they have, so their
 * names are not used again.
 */
function removeLeftovers(disk: Disk, folder: string, list: FolderList, header: LogHeader): void {
  for (const { generation, name } of list.files)
    if (generation > header.generation) disk.unlink(join(folder, name))
}

async function replayAndCopy(
  { disk, folder, flushed, replay }: RecoverLogOptions,
  { list, header, log }: FirstReading & { readonly header: LogHeader },
  hasUnflushed: boolean,
  copy: LogCopy,
): Promise<Omit<RecoveredSummary, 'generation'>> {
  if (log === undefined) {
    const lastSequence = highestFlushed(flushed)
    return { lastSequence, replayed: 0, skipped: 0, cleanStop: true, torn: undefined }
  }
  const { end, records, firstSequence } = log
  if (!hasUnflushed) {
    // As after each clean stop: one filler stands for the whole log, which is not read again.
    if (firstSequence !== undefined) copy.skip({ sequence: firstSequence, lastSequence: end.lastSequence })
    return { ...summaryOf(end), replayed: 0, skipped: records }
  }
  const chunk = new ChunkBuilder(replay)
  let replayed = 0
  for (const record of readAgain(disk, folder, { list, header, log })) {
    if (!isUnflushed(record, flushed)) {
      copy.skip(record)
      continue
    }
    await chunk.add(record)
    await copy.add(record)
    replayed += 1
  }
  await chunk.finish()
  return { ...summaryOf(end), replayed, skipped: records - replayed }
}

function summaryOf(end: LogEnd): Pick<RecoveredSummary, 'lastSequence' | 'cleanStop' | 'torn'> {
  const torn = end.torn ? { file: end.file, offset: end.fileOffset } : undefined
  return { lastSequence: end.lastSequence, cleanStop: end.cleanStop, torn }
}

/** All records again, in order. Throws Damaged where a file changed between the two readings. */
function* readAgain(
  disk: Disk,
  folder: string,
  { list, header, log }: { readonly list: FolderList; readonly header: LogHeader; readonly log: LogRead },
): Generator<ReadRecord, void> {
  for (const file of log.cached) for (const offset of file.offsets) yield decodeRecord(file, offset)
  if (log.isAllCached) return
  const last = list.files.find(({ name }) => join(folder, name) === log.cached.at(-1)?.path)
  const position = last === undefined ? header.position : last.position + 1
  const end = yield* readLog(disk, folder, list.files, { ...header, position }, undefined)
  if (end.lastSequence === log.end.lastSequence) return
  const what = `it ends with sequence ${end.lastSequence}, and ended with ${log.end.lastSequence} when the start read it first`
  throw new Damaged(end.file, end.fileOffset, what)
}
