/** What stands in the log of a stopped folder. Reads through the log's own reader (W-2) and changes nothing. */
import { join } from 'node:path'
import { type FolderList, listFolder } from '../commit/file.ts'
import { type Head, headPath, readHead } from '../commit/head.ts'
import { type LogEnd, type ReadRecord, readLog } from '../commit/read.ts'
import { Damaged } from '../errors.ts'
import { type Disk, disk } from '../util/disk.ts'

export interface LogLook {
  /** Files of the log itself, and their bytes on disk. Spares are counted apart. */
  readonly files: number
  readonly bytes: number
  readonly spares: number
  /** Whole records, gaps and marks included. */
  readonly records: number
  /** Requests above their pool's sealed sequence, and the bytes of their records. */
  readonly unsealedRequests: number
  readonly unsealedBytes: number
  /** Of the last whole record; 0 in a log that never had one. */
  readonly lastSequence: number
  /** undefined where the log is damaged. */
  readonly end: LogEnd | undefined
  readonly damage: Damaged | undefined
}

/** A record as it is read, with whether its pool has it in no segment yet. */
type OnRecord = (record: ReadRecord, isUnsealed: boolean) => void

/**
 * Reads the whole log in `folder`. Damage is part of the answer.
 * @param sealed as in RecoverOptions
 */
export function lookAtLog(
  folder: string,
  sealed: ReadonlyMap<number, number>,
  onRecord: OnRecord = () => undefined,
  on: Disk = disk,
): LogLook {
  const list = on.exists(folder) ? listFolder(on, folder) : { files: [], spares: [], temporary: [] }
  const none = { files: 0, bytes: 0, spares: list.spares.length, records: 0, lastSequence: 0, end: undefined }
  const empty = { ...none, unsealedRequests: 0, unsealedBytes: 0, damage: undefined }
  try {
    const head = headOf(folder, list, on)
    if (head === undefined || head.epoch === 0) return empty
    const ours = list.files.filter(file => file.epoch === head.epoch && file.position >= head.position)
    const bytes = ours.reduce((sum, file) => sum + on.size(join(folder, file.name)), 0)
    const known = { ...empty, files: ours.length, bytes }
    return readAll(readLog(on, folder, list.files, head, sealed), known, sealed, onRecord)
  } catch (error) {
    if (error instanceof Damaged) return { ...empty, damage: error }
    throw error
  }
}

/** undefined: there is no log yet. Throws Damaged where its head was lost. */
function headOf(folder: string, list: FolderList, on: Disk): Head | undefined {
  const head = on.exists(folder) ? readHead(on, folder) : undefined
  if (head === undefined && (list.files.length > 0 || list.spares.length > 0))
    throw new Damaged(headPath(folder), 0, 'it is missing, but there are log files')
  return head
}

function readAll(
  reader: Generator<ReadRecord, LogEnd>,
  known: LogLook,
  sealed: ReadonlyMap<number, number>,
  onRecord: OnRecord,
): LogLook {
  let [records, unsealedRequests, unsealedBytes, lastSequence] = [0, 0, 0, 0]
  const counts = () => ({ records, unsealedRequests, unsealedBytes, lastSequence })
  try {
    for (let step = reader.next(); ; step = reader.next()) {
      if (step.done === true) {
        const end = step.value
        return { ...known, ...counts(), lastSequence: end.lastSequence, end }
      }
      const record = step.value
      const isUnsealed = isAbove(record, sealed)
      onRecord(record, isUnsealed)
      records += 1
      lastSequence = record.lastSequence
      if (!isUnsealed) continue
      unsealedRequests += 1
      unsealedBytes += record.recordBytes
    }
  } catch (error) {
    if (error instanceof Damaged) return { ...known, ...counts(), damage: error }
    throw error
  }
}

function isAbove({ kind, pool, sequence }: ReadRecord, sealed: ReadonlyMap<number, number>): boolean {
  if (kind !== 'post' && kind !== 'delete') return false
  const below = sealed.get(pool) ?? 0
  return below !== -1 && sequence > below
}
