/**
 * Reads the log: every record in sequence order, or the place where the log is damaged. It changes
 * nothing on disk. Recovery, backup, `weir verify` and `weir inspect` read through this file.
 *
 * W-2: a bad record is a torn tail only where all of this holds; anything else throws Damaged.
 *   - The record stands in the newest file (the writer leaves a file only when all of it is
 *     synced).
 *   - Every valid record after it was unsynced together with it: the group field is not above the
 *     bad sequence.
 *   - Its sequence is above every flushed sequence and above the log header's last sequence.
 *   - No clean-stop record stands right before it with a valid record after it.
 * The plain end of the log is the same case: there the bad record is zeros, or bytes of the
 * recycled file.
 */
import { join } from 'node:path'
import { RECORD_HEADER_BYTES, RECORD_MAGIC, readU64 } from '../format/log-record.ts'
import { type Disk, readFile } from '../util/disk.ts'
import { assert, Damaged } from '../util/errors.ts'
import {
  decodeFileHeader,
  FILE_HEADER_BYTES,
  filesOfLog,
  type LogFileHeader,
  type LogHeader,
  listFolder,
  type NamedFile,
  readLogHeader,
} from './log-folder.ts'
import {
  decodeRecord,
  headerIsValid,
  isRequest,
  type ReadRecord,
  type RecordBytes,
  recordIsWhole,
  viewOf,
} from './record-codec.ts'

/** The end of the log, known after the last record was read. */
export interface LogEnd {
  /** Sequence of the last whole record. */
  readonly lastSequence: number
  readonly cleanStop: boolean
  /** Where the log ends. */
  readonly file: string
  readonly fileOffset: number
  /** True when an unfinished group stands at the end. */
  readonly torn: boolean
}

export interface LoadedFile extends RecordBytes {
  readonly header: LogFileHeader
}

interface ReadState {
  expected: number
  cleanStop: boolean
}

const NOTHING_FLUSHED: ReadonlyMap<number, number> = new Map()

/** The bytes that every record begins with. */
const MAGIC = Buffer.alloc(4)
MAGIC.writeUInt32LE(RECORD_MAGIC)

/**
 * Yields all records of the log that `header` names; `files` is the folder's list. Returns the end
 * of the log.
 * @param flushed as in RecoverOptions; undefined where records may name any pool and it is not
 * known what is flushed
 * @throws Damaged
 */
export function* readLog(
  disk: Disk,
  folder: string,
  files: readonly NamedFile[],
  header: LogHeader,
  flushed: ReadonlyMap<number, number> | undefined,
): Generator<ReadRecord, LogEnd> {
  const ours = checkedFiles(folder, files, header)
  let loaded = loadFile(disk, folder, ours[0]!)
  const state: ReadState = { expected: loaded.header.firstSequence, cleanStop: false }
  for (let index = 0; ; index++) {
    const end = yield* readRecords(loaded, state, flushed)
    const next = ours[index + 1]
    if (next === undefined) return checkedEnd(loaded, state, end, header, flushed ?? NOTHING_FLUSHED)
    const after = loadFile(disk, folder, next)
    checkNextFile(loaded, state, end, after)
    loaded = after
  }
}

/** The log's files. Throws Damaged where one is missing. */
function checkedFiles(folder: string, files: readonly NamedFile[], header: LogHeader): readonly NamedFile[] {
  const { generation, position } = header
  const ours = filesOfLog(files, header)
  const count = Math.max(1, (ours.at(-1)?.position ?? position) - position + 1)
  for (let index = 0; index < count; index++) {
    const want = position + index
    if (ours[index]?.position === want) continue
    const text = `log file ${want} of generation ${generation} is missing, the log begins with file ${position}`
    throw new Damaged(join(folder, ours[index]?.name ?? 'head'), 0, text)
  }
  return ours
}

function loadFile(disk: Disk, folder: string, { name, generation, position }: NamedFile): LoadedFile {
  const path = join(folder, name)
  const bytes = readFile(disk, path)
  const header = decodeFileHeader(bytes, path)
  if (header.generation !== generation || header.position !== position) {
    const text = `its header names generation ${header.generation}, file ${header.position}`
    throw new Damaged(path, 16, text)
  }
  if (header.fileBytes !== bytes.byteLength) {
    throw new Damaged(path, bytes.byteLength, `the file had ${header.fileBytes} bytes when it was made`)
  }
  return { path, bytes, view: viewOf(bytes), header }
}

/** Yields the file's records. Returns the offset where no further record follows. */
function* readRecords(
  file: LoadedFile,
  state: ReadState,
  flushed: ReadonlyMap<number, number> | undefined,
): Generator<ReadRecord, number> {
  let offset = FILE_HEADER_BYTES
  while (recordIsWhole(file, offset, file.header.salt)) {
    const record = decodeRecord(file, offset)
    const { sequence, lastSequence, pool } = record
    const damaged = (what: string) => new Damaged(file.path, offset, what)
    if (sequence !== state.expected) throw damaged(`expected sequence ${state.expected}, found ${sequence}`)
    if (state.cleanStop) throw damaged(`sequence ${sequence} follows a clean-stop record`)
    if (lastSequence < sequence) throw damaged(`the filler from sequence ${sequence} ends at ${lastSequence}`)
    if (isRequest(record) && flushed?.has(pool) === false) throw damaged(unknownPoolText(sequence, pool))
    state.expected = lastSequence + 1
    state.cleanStop = record.kind === 'stop'
    yield record
    offset += record.recordBytes
  }
  return offset
}

/** The message for a request of a pool that the catalog never had. */
export function unknownPoolText(sequence: number, pool: number): string {
  return `sequence ${sequence} belongs to pool ${pool}, which was never known`
}

/** Throws Damaged unless the next file begins with the sequence before which this one ended. */
function checkNextFile(file: LoadedFile, state: ReadState, end: number, next: LoadedFile): void {
  const first = next.header.firstSequence
  if (state.cleanStop) throw new Damaged(next.path, 0, `a file follows the clean-stop record of ${file.path}`)
  if (first === state.expected) return
  const what = `expected sequence ${state.expected}, found no valid record; the next file begins with ${first}`
  throw new Damaged(file.path, end, what)
}

/** The end of the log, torn or not. Throws Damaged where the place is damage (W-2). */
function checkedEnd(
  file: LoadedFile,
  { expected, cleanStop }: ReadState,
  offset: number,
  header: LogHeader,
  flushed: ReadonlyMap<number, number>,
): LogEnd {
  const isUnfinished = checkRestOfFile(file, offset, { expected, cleanStop })
  const torn = isUnfinished || beginsAs(file, offset, expected)
  assert(expected >= 1, 'sequences begin with 1')
  const end = { lastSequence: expected - 1, cleanStop, file: file.path, fileOffset: offset, torn }
  checkEnd(end, flushed)
  if (expected > header.lastSequence) return end
  throw endsTooEarly(file.path, offset, expected, `sequence ${header.lastSequence} was synced`)
}

/** Throws Damaged where a sequence above the log's end is flushed. */
export function checkEnd(end: LogEnd, flushed: ReadonlyMap<number, number>): void {
  const highest = highestFlushed(flushed)
  if (end.lastSequence >= highest) return
  throw endsTooEarly(end.file, end.fileOffset, end.lastSequence + 1, `sequence ${highest} is flushed`)
}

function endsTooEarly(file: string, offset: number, expected: number, what: string): Damaged {
  return new Damaged(file, offset, `no valid record of sequence ${expected}, but ${what}`)
}

/**
 * The highest flushed sequence of any pool, 0 where nothing is flushed. Not by spreading into
 * Math.max: deleted pools count too, and a call takes about 120,000 arguments.
 */
export function highestFlushed(flushed: ReadonlyMap<number, number>): number {
  let highest = 0
  for (const sequence of flushed.values()) highest = Math.max(highest, sequence)
  return highest
}

/**
 * Finds valid record headers at the aligned places after `end` and throws Damaged for one that may
 * not stand there. Most of a file is empty and every start comes through here, so it searches for
 * the magic bytes of a record instead of testing each place.
 * @returns true when there is a valid header
 */
function checkRestOfFile(file: LoadedFile, end: number, { expected, cleanStop }: ReadState): boolean {
  const { bytes, view, header } = file
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let found = false
  for (let offset = buffer.indexOf(MAGIC, end); offset !== -1; offset = buffer.indexOf(MAGIC, offset + 1)) {
    if (offset % 8 !== 0 || !headerIsValid(bytes, view, offset, header.salt)) continue
    found = true
    if (cleanStop || readU64(view, offset + 16) > expected) {
      const text = `sequence ${readU64(view, offset + 8)} stands after it at byte ${offset}`
      throw endsTooEarly(file.path, end, expected, text)
    }
  }
  return found
}

/**
 * True when the header of the torn record is there in part. Only the operator's message depends on
 * it.
 */
function beginsAs(file: LoadedFile, end: number, expected: number): boolean {
  if (end + RECORD_HEADER_BYTES > file.bytes.byteLength) return false
  return readU64(file.view, end + 8) === expected
}

/**
 * The sequences of the posts and deletes of `pools` that the log in `folder` holds; a missing
 * folder holds none. It reads the whole log. The index asks it about the file of a flush that the
 * index does not know: recovery makes the flush again while the log holds its requests (W-13);
 * otherwise the file is the only copy of its rows.
 * @returns undefined where the log is damaged, which its recovery reports
 */
export function loggedSequences(
  disk: Disk,
  folder: string,
  pools: ReadonlySet<number>,
): ReadonlyMap<number, ReadonlySet<number>> | undefined {
  const logged = new Map<number, Set<number>>([...pools].map(pool => [pool, new Set()]))
  try {
    const header = readLogHeader(disk, folder)
    if (header === undefined || header.generation === 0) return logged
    for (const record of readLog(disk, folder, listFolder(disk, folder).files, header, undefined)) {
      if (isRequest(record)) logged.get(record.pool)?.add(record.sequence)
    }
    return logged
  } catch (error) {
    if (error instanceof Damaged) return undefined
    throw error
  }
}
