/**
 * The delete file of a flush: the deleted keys with their sequences. segment.md has its bytes.
 *
 *   W-6  Delete files and the footers of segments are enough to rebuild the index.
 */
import { crc32 } from 'node:zlib'
import { assert, Damaged } from '../util/errors.ts'
import { type KeyRun, viewRun } from './key-run.ts'
import type { Footer } from './segment-meta.ts'

/** The header of a delete file: the flush that it belongs to. */
export interface DeletesHeader extends Omit<Footer, 'rows' | 'deletes' | 'replaces'> {
  /** Rows of the Parquet file beside it; above 0 the two files count only together. */
  readonly rowsOfFlush: number
}

const DELETES_MAGIC = 0x4c454457 // 'WDEL'
const DELETES_VERSION = 1
const HEADER_BYTES = 48
const CHECKSUM_BYTES = 4
/** A key's length and its sequence. */
const ENTRY_BYTES = 2 + 8

/** A delete file as it is read back. */
export interface DeleteFile extends DeletesHeader {
  /** Views on the file's bytes, sorted. */
  readonly keys: readonly Uint8Array[]
  /** Parallel to `keys`. */
  readonly sequences: Float64Array
}

/**
 * The file's bytes: the keys of `run` whose row is below 0, which were deleted (key-run.ts).
 * @param sequences of those keys, in order
 */
export function writeDeleteFile(header: DeletesHeader, run: KeyRun, sequences: Float64Array): Uint8Array {
  const { count, rows, offsets, bytes: keys } = viewRun(run)
  let keyBytes = 0
  for (let i = 0; i < count; i++) if (rows[i]! < 0) keyBytes += offsets[i + 1]! - offsets[i]!
  const bytes = new Uint8Array(HEADER_BYTES + keyBytes + ENTRY_BYTES * sequences.length + CHECKSUM_BYTES)
  const view = new DataView(bytes.buffer)
  writeHeader(view, header, sequences.length, bytes.length)
  let at = HEADER_BYTES
  let written = 0
  for (let i = 0; i < count; i++) {
    if (rows[i]! >= 0) continue
    const key = keys.subarray(offsets[i]!, offsets[i + 1]!)
    view.setUint16(at, key.length, true)
    bytes.set(key, at + 2)
    view.setBigUint64(at + 2 + key.length, BigInt(sequences[written++]!), true)
    at += ENTRY_BYTES + key.length
  }
  assert(written === sequences.length && at === bytes.length - CHECKSUM_BYTES, 'every delete has a sequence')
  view.setUint32(at, crc32(bytes.subarray(0, at)), true)
  return bytes
}

function writeHeader(view: DataView, header: DeletesHeader, count: number, bytes: number): void {
  view.setUint32(0, DELETES_MAGIC, true)
  view.setUint32(4, DELETES_VERSION, true)
  view.setUint32(8, header.pool, true)
  view.setUint32(12, header.schemaVersion, true)
  view.setBigUint64(16, BigInt(header.sequenceFrom), true)
  view.setBigUint64(24, BigInt(header.sequenceTo), true)
  view.setUint32(32, count, true)
  view.setUint32(36, header.rowsOfFlush, true)
  view.setUint32(40, header.segment, true)
  view.setUint32(44, bytes, true)
}

/** Parses a whole delete file. Throws Damaged with `file` and the offset of what is wrong. */
export function readDeleteFile(bytes: Uint8Array, file: string): DeleteFile {
  if (bytes.length < HEADER_BYTES + CHECKSUM_BYTES) throw new Damaged(file, 0, 'a delete file is longer')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.getUint32(0, true) !== DELETES_MAGIC) throw new Damaged(file, 0, 'not a delete file')
  if (view.getUint32(4, true) !== DELETES_VERSION)
    throw new Damaged(file, 4, `delete files of version ${view.getUint32(4, true)} are not known`)
  if (view.getUint32(44, true) !== bytes.length)
    throw new Damaged(file, 44, `it should have ${view.getUint32(44, true)} bytes and has ${bytes.length}`)
  const end = bytes.length - CHECKSUM_BYTES
  if (view.getUint32(end, true) !== crc32(bytes.subarray(0, end)))
    throw new Damaged(file, end, 'the checksum does not match')
  return readEntries(bytes, view, end, file)
}

function readEntries(bytes: Uint8Array, view: DataView, end: number, file: string): DeleteFile {
  const count = view.getUint32(32, true)
  const keys: Uint8Array[] = []
  const sequences = new Float64Array(count)
  let at = HEADER_BYTES
  for (let i = 0; i < count; i++) {
    const length = at + 2 <= end ? view.getUint16(at, true) : 0
    if (at + ENTRY_BYTES + length > end) throw new Damaged(file, at, 'an entry goes beyond the file')
    keys.push(bytes.subarray(at + 2, at + 2 + length))
    sequences[i] = Number(view.getBigUint64(at + 2 + length, true))
    at += ENTRY_BYTES + length
  }
  if (at !== end) throw new Damaged(file, at, 'there are bytes after the last entry')
  return {
    pool: view.getUint32(8, true),
    schemaVersion: view.getUint32(12, true),
    segment: view.getUint32(40, true),
    sequenceFrom: Number(view.getBigUint64(16, true)),
    sequenceTo: Number(view.getBigUint64(24, true)),
    rowsOfFlush: view.getUint32(36, true),
    keys,
    sequences,
  }
}
