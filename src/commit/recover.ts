/**
 * Start-up of the log: read the old epoch, replay what is not sealed, copy it into a new epoch.
 *
 *   W-2   Damage throws (read.ts); the torn tail is cut by not copying it.
 *   W-3   The new epoch is whole, synced and its folder synced before the head names it, and the head names it
 *         before anything is acknowledged. A crash at any point leaves the old epoch or the new one as the log.
 *   W-10  The same code after a crash, after a clean stop, and on an empty folder.
 *   W-13  Records at or below their pool's sealed sequence are not replayed.
 *
 * Numbers never go back: the next sequence is above the last one found and above every sealed one. A log that
 * exists but ends below a sealed sequence is damage; a log folder that was removed whole is a new log, and
 * then the numbers go on above the highest sealed sequence.
 */
import { dirname, join } from 'node:path'
import { CannotRun, Damaged } from '../errors.ts'
import { SPARE_FILES_MAX } from '../limits.ts'
import { must } from '../util/assert.ts'
import { crashPoint } from '../util/crash.ts'
import { type Disk, syncFolder } from '../util/disk.ts'
import { EpochCopy } from './copy.ts'
import { Epoch } from './epoch.ts'
import { type FolderList, listFolder, makeSpare, numberOfSpare, spareFileName } from './file.ts'
import { type Head, headPath, readHead, writeHead } from './head.ts'
import type { RecoverOptions } from './protocol.ts'
import { highestSealed, type LogEnd, type ReadRecord, readLog } from './read.ts'
import { ChunkFiller } from './replay.ts'

interface RecoverLogOptions extends RecoverOptions {
  readonly disk: Disk
  readonly folder: string
  readonly fileBytes: number
}

/** What the operator is told, and what commit.ts counts on from. */
export interface RecoveredSummary {
  readonly epoch: number
  readonly lastSequence: number
  readonly replayed: number
  readonly skipped: number
  /** The old log ended with a clean-stop mark. */
  readonly cleanStop: boolean
  /** Where an unfinished group was cut. */
  readonly torn: { readonly file: string; readonly offset: number } | undefined
}

export interface RecoveredLog {
  readonly summary: RecoveredSummary
  readonly epoch: Epoch
  /** Names in the folder that are empty files of the right size. */
  readonly spares: readonly string[]
  /** Names that are no part of the log any more: to be recycled or removed. */
  readonly old: readonly string[]
}

/** Recovers the log in `folder`, made if missing. Throws Damaged, CannotRun (disk full) and what `replay` throws. */
export async function recoverLog(options: RecoverLogOptions): Promise<RecoveredLog> {
  try {
    return await recover(options)
  } catch (error) {
    // A full disk stops the start-up, at whichever write: there is nothing to serve yet, and nothing is damaged.
    const code = (error as { code?: unknown }).code
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw error
    throw new CannotRun(
      `the disk is full: the log in ${options.folder} needs ${options.fileBytes} bytes for a new file`,
    )
  }
}

async function recover(options: RecoverLogOptions): Promise<RecoveredLog> {
  const { disk, folder } = options
  if (!disk.exists(folder)) {
    disk.mkdir(folder)
    syncFolder(disk, dirname(folder))
  }
  const list = listFolder(disk, folder)
  const head = headOf(disk, folder, list)
  const verified = head.epoch === 0 ? undefined : verify(options, list, head)
  const spares = list.spares.filter(name => disk.size(join(folder, name)) === options.fileBytes)
  const epochNumber = Math.max(head.epoch, list.files.at(-1)?.epoch ?? 0) + 1
  spares.push(...takeLeftovers(options, list, head))
  const epoch = new Epoch(disk, folder, epochNumber, options.fileBytes)
  const copy = new EpochCopy(epoch, () => takeOrMake(options, spares, list.spares))
  const found = await replayAndCopy(options, list, head, verified, copy)
  await copy.finish(found.lastSequence + 1)
  crashPoint('recover.copied')
  writeHead(disk, folder, { epoch: epochNumber, position: 0, lastSequence: found.lastSequence })
  crashPoint('recover.renamed')
  const misfits = list.spares.filter(name => !spares.includes(name) && disk.exists(join(folder, name)))
  return {
    summary: { ...found, epoch: epochNumber },
    epoch,
    spares,
    old: [...list.files.map(file => file.name), ...list.temporary, ...misfits],
  }
}

/** The head. An empty folder gets one of epoch 0 first, so that a lost head is never taken for a new log. */
function headOf(disk: Disk, folder: string, list: FolderList): Head {
  const head = readHead(disk, folder)
  if (head !== undefined) return head
  if (list.files.length > 0 || list.spares.length > 0) {
    throw new Damaged(headPath(folder), 0, 'it is missing, but there are log files')
  }
  const none = { epoch: 0, position: 0, lastSequence: 0 }
  writeHead(disk, folder, none)
  return none
}

/**
 * Files of a recovery that did not end become spares, so that a start that fails again and again takes no more
 * room each time. The new epoch's number is above theirs, so their names are not used again.
 */
function takeLeftovers(options: RecoverLogOptions, list: FolderList, head: Head): string[] {
  const { disk, folder, fileBytes } = options
  let number = Math.max(SPARE_FILES_MAX, ...list.spares.map(numberOfSpare)) + 1
  const taken: string[] = []
  for (const { epoch, name } of list.files) {
    if (epoch <= head.epoch || disk.size(join(folder, name)) !== fileBytes) continue
    number += 1
    disk.rename(join(folder, name), join(folder, spareFileName(number)))
    taken.push(spareFileName(number))
  }
  return taken
}

/** What the first reading found. */
interface Verified {
  readonly end: LogEnd
  readonly records: number
  /** Of the first record; undefined: there is none. */
  readonly firstSequence: number | undefined
  /** Some records are to be replayed. */
  readonly isNeeded: boolean
}

/** Reads the whole log once before anything is changed or replayed: a damaged folder stays as it was found. */
function verify({ disk, folder, sealed }: RecoverLogOptions, list: FolderList, head: Head): Verified {
  const reader = readLog(disk, folder, list.files, head, sealed)
  let records = 0
  let firstSequence: number | undefined
  let isAnyNeeded = false
  let step = reader.next()
  for (; step.done !== true; step = reader.next()) {
    records += 1
    firstSequence ??= step.value.sequence
    isAnyNeeded ||= isNeeded(step.value, sealed)
  }
  return { end: step.value, records, firstSequence, isNeeded: isAnyNeeded }
}

async function replayAndCopy(
  options: RecoverLogOptions,
  list: FolderList,
  head: Head,
  verified: Verified | undefined,
  copy: EpochCopy,
): Promise<Omit<RecoveredSummary, 'epoch'>> {
  if (verified === undefined) {
    const lastSequence = highestSealed(options.sealed)
    return { lastSequence, replayed: 0, skipped: 0, cleanStop: true, torn: undefined }
  }
  if (!verified.isNeeded) {
    // As after each clean stop: one gap stands for the whole log, which need not be read again.
    const { end, records, firstSequence } = verified
    if (firstSequence !== undefined) copy.skip({ sequence: firstSequence, lastSequence: end.lastSequence })
    return { ...summaryOf(end), replayed: 0, skipped: records }
  }
  const chunk = new ChunkFiller(options.replay)
  let replayed = 0
  let skipped = 0
  const records = readLog(options.disk, options.folder, list.files, head, options.sealed)
  let step = records.next()
  for (; step.done !== true; step = records.next()) {
    if (isNeeded(step.value, options.sealed)) {
      await chunk.add(step.value)
      await copy.keep(step.value)
      replayed += 1
    } else {
      copy.skip(step.value)
      skipped += 1
    }
  }
  await chunk.flush()
  return { ...summaryOf(step.value), replayed, skipped }
}

function summaryOf(end: LogEnd): Pick<RecoveredSummary, 'lastSequence' | 'cleanStop' | 'torn'> {
  const torn = end.torn ? { file: end.file, offset: end.fileOffset } : undefined
  return { lastSequence: end.lastSequence, cleanStop: end.cleanStop, torn }
}

/** Is this a request that is not sealed yet, of a pool that is not deleted? */
export function isNeeded(record: ReadRecord, sealed: ReadonlyMap<number, number>): boolean {
  if (record.kind !== 'post' && record.kind !== 'delete') return false
  const below = must(sealed.get(record.pool), 'the sealed sequence of a known pool')
  return below !== -1 && record.sequence > below
}

/** A ready spare, or a new one. */
async function takeOrMake(
  options: RecoverLogOptions,
  spares: string[],
  taken: readonly string[],
): Promise<string> {
  const ready = spares.shift()
  if (ready !== undefined) return ready
  // Above every name of this start, so that a spare is never made over another.
  const number = Math.max(SPARE_FILES_MAX, ...taken.map(numberOfSpare)) + 1
  const name = spareFileName(number)
  await makeSpare(options.disk, options.folder, name, options.fileBytes, () => Promise.resolve())
  return name
}
