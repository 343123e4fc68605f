/**
 * A copy of the running log in another folder, up to one sequence: a log of its own, which recovery takes as it takes any.
 *
 *   W-2   Sequences without gaps: what is sealed, or belongs to a deleted pool, becomes gap records. The head names the
 *         last sequence, so that a copy that lost its end is damaged and not torn.
 *
 * Reads files that the log worker may be writing to: everything up to the span's last sequence is synced and does not
 * change, and nothing behind it is looked at.
 */
import { BACKUP_LOG_FILE_BYTES } from '../limits.ts'
import type { Disk } from '../util/disk.ts'
import { EpochCopy } from './copy.ts'
import { Epoch } from './epoch.ts'
import { listFolder, logFileName, makeSpare, spareFileName } from './file.ts'
import { writeHead } from './head.ts'
import type { LogSpan } from './protocol.ts'
import { readLog } from './read.ts'
import { isNeeded } from './recover.ts'

interface ExtractOptions {
  readonly disk: Disk
  /** The running log's folder; its files are held. */
  readonly from: string
  /** Is made; must not be there. */
  readonly to: string
  readonly span: LogSpan
  /** As in RecoverOptions: records at or below, and those of deleted pools (-1), are left out. */
  readonly sealed: ReadonlyMap<number, number>
  /** Called with the bytes of each record read; awaited. What it throws ends the copy. */
  readonly onBytes: (bytes: number) => Promise<void>
}

const EPOCH = 1

/** Copies and syncs. Returns the names of the files in `to`. Throws Damaged where the running log cannot be read. */
export async function extractLog(options: ExtractOptions): Promise<string[]> {
  const { disk, to, span } = options
  disk.mkdir(to)
  const epoch = new Epoch(disk, to, EPOCH, BACKUP_LOG_FILE_BYTES)
  let spares = 0
  const copy = new EpochCopy(epoch, async () => {
    spares += 1
    const name = spareFileName(spares)
    await makeSpare(disk, to, name, BACKUP_LOG_FILE_BYTES, () => options.onBytes(0))
    return name
  })
  // A log that begins above its last sequence is empty: a start that found everything sealed made it.
  if (span.firstSequence <= span.lastSequence) await copyRecords(options, copy)
  await copy.finish(span.lastSequence + 1)
  epoch.close()
  writeHead(disk, to, { epoch: EPOCH, position: 0, lastSequence: span.lastSequence })
  return ['head', ...epoch.files.map(({ position }) => logFileName(EPOCH, position))]
}

async function copyRecords(options: ExtractOptions, copy: EpochCopy): Promise<void> {
  const { disk, from, span, sealed, onBytes } = options
  for (const record of readLog(disk, from, listFolder(disk, from).files, span, sealed)) {
    if (isNeeded(record, sealed)) await copy.keep(record)
    else copy.skip(record)
    await onBytes(record.recordBytes)
    // Not one step further: what follows may be half written. A log that ends before is damage, which readLog throws.
    if (record.lastSequence >= span.lastSequence) return
  }
}
