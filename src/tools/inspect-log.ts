/** What stands in the log of a stopped folder. Reads through the log's own reader (W-2) and changes nothing. */
import { join } from 'node:path'
import { filesOfLog, listFolder, readLogFolder } from '../log/log-folder.ts'
import { type LogEnd, readLog } from '../log/read-log.ts'
import { isUnflushed, type ReadRecord } from '../log/record-codec.ts'
import { type Disk, disk } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'

export interface LogLook {
  /** Files of the log itself, and their bytes on disk. Spares are counted apart. */
  readonly files: number
  readonly bytes: number
  readonly spares: number
  /** Whole records, gaps and marks included. */
  readonly records: number
  /** Requests above their pool's flushed sequence, and the bytes of their records. */
  readonly unflushedRequests: number
  readonly unflushedBytes: number
  /** Of the last whole record; 0 in a log that never had one. */
  readonly lastSequence: number
  /** undefined where the log is damaged. */
  readonly end: LogEnd | undefined
  readonly damage: Damaged | undefined
}

/** A record as it is read, with whether its pool has it in no segment yet. */
type OnRecord = (record: ReadRecord, isUnflushed: boolean) => void

/**
 * Reads the whole log in `folder`. Damage is part of the answer.
 * @param flushed as in RecoverOptions
 */
export function lookAtLog(
  folder: string,
  flushed: ReadonlyMap<number, number>,
  onRecord: OnRecord = () => undefined,
  on: Disk = disk,
): LogLook {
  const { spares } = listFolder(on, folder)
  const none = { files: 0, bytes: 0, spares: spares.length, records: 0, lastSequence: 0, end: undefined }
  const empty = { ...none, unflushedRequests: 0, unflushedBytes: 0, damage: undefined }
  try {
    const { list, header } = readLogFolder(on, folder)
    if (header === undefined || header.generation === 0) return empty
    const ours = filesOfLog(list.files, header)
    const bytes = ours.reduce((sum, file) => sum + on.size(join(folder, file.name)), 0)
    const known = { ...empty, files: ours.length, bytes }
    return readAll(readLog(on, folder, list.files, header, flushed), known, flushed, onRecord)
  } catch (error) {
    if (error instanceof Damaged) return { ...empty, damage: error }
    throw error
  }
}

function readAll(
  reader: Generator<ReadRecord, LogEnd>,
  known: LogLook,
  flushed: ReadonlyMap<number, number>,
  onRecord: OnRecord,
): LogLook {
  let [records, unflushedRequests, unflushedBytes, lastSequence] = [0, 0, 0, 0]
  const counts = () => ({ records, unflushedRequests, unflushedBytes, lastSequence })
  try {
    for (let step = reader.next(); ; step = reader.next()) {
      if (step.done === true) {
        const end = step.value
        return { ...known, ...counts(), lastSequence: end.lastSequence, end }
      }
      const record = step.value
      const needsFlush = isUnflushed(record, flushed)
      onRecord(record, needsFlush)
      records += 1
      lastSequence = record.lastSequence
      if (!needsFlush) continue
      unflushedRequests += 1
      unflushedBytes += record.recordBytes
    }
  } catch (error) {
    if (error instanceof Damaged) return { ...known, ...counts(), damage: error }
    throw error
  }
}
