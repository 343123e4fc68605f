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
import { CannotRun } from '../errors.ts'
import { SPARE_FILES_MAX } from '../limits.ts'
import { must } from '../util/assert.ts'
import { crashPoint } from '../util/crash.ts'
import { type Disk, syncFolder } from '../util/disk.ts'
import { EpochCopy } from './copy.ts'
import { Epoch } from './epoch.ts'
import { type FolderList, makeSpare, numberOfSpare, spareFileName } from './file.ts'
import { checkSealed, type FirstReading, readAgain, readFirst } from './first-reading.ts'
import { type Head, writeHead } from './head.ts'
import type { RecoverOptions } from './protocol.ts'
import { highestSealed, type LogEnd, type ReadRecord } from './read.ts'
import { ChunkFiller } from './replay.ts'

interface RecoverLogOptions extends RecoverOptions {
  readonly disk: Disk
  readonly folder: string
  readonly fileBytes: number
  /** The log as it was read before; undefined: it is read now. */
  readonly reading?: FirstReading | undefined
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
  const { disk, folder, sealed } = options
  const reading = options.reading ?? readFirst(disk, folder)
  const { list, log } = reading
  const isAnyNeeded = log !== undefined && checkSealed(log, sealed)
  const head = reading.head ?? beginLog(disk, folder)
  const spares = list.spares.filter(name => disk.size(join(folder, name)) === options.fileBytes)
  const epochNumber = Math.max(head.epoch, list.files.at(-1)?.epoch ?? 0) + 1
  spares.push(...takeLeftovers(options, list, head))
  const epoch = new Epoch(disk, folder, epochNumber, options.fileBytes)
  const copy = new EpochCopy(epoch, () => takeOrMake(options, spares, list.spares))
  const found = await replayAndCopy(options, { list, head, log }, isAnyNeeded, copy)
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

/** The folder, and a head of epoch 0 first of all, so that a lost head is never taken for a new log. */
function beginLog(disk: Disk, folder: string): Head {
  if (!disk.exists(folder)) {
    disk.mkdir(folder)
    syncFolder(disk, dirname(folder))
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

async function replayAndCopy(
  { disk, folder, sealed, replay }: RecoverLogOptions,
  { list, head, log }: FirstReading & { readonly head: Head },
  isAnyNeeded: boolean,
  copy: EpochCopy,
): Promise<Omit<RecoveredSummary, 'epoch'>> {
  if (log === undefined) {
    const lastSequence = highestSealed(sealed)
    return { lastSequence, replayed: 0, skipped: 0, cleanStop: true, torn: undefined }
  }
  const { end, records, firstSequence } = log
  if (!isAnyNeeded) {
    // As after each clean stop: one gap stands for the whole log, which need not be read again.
    if (firstSequence !== undefined) copy.skip({ sequence: firstSequence, lastSequence: end.lastSequence })
    return { ...summaryOf(end), replayed: 0, skipped: records }
  }
  const chunk = new ChunkFiller(replay)
  let replayed = 0
  for (const record of readAgain(disk, folder, { list, head, log })) {
    if (!isNeeded(record, sealed)) {
      copy.skip(record)
      continue
    }
    await chunk.add(record)
    await copy.keep(record)
    replayed += 1
  }
  await chunk.flush()
  return { ...summaryOf(end), replayed, skipped: records - replayed }
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
