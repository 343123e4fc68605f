/**
 * The file `head`: where the log begins. Replacing it is the one atomic step by which a new epoch becomes the
 * log (W-3) and by which old files leave it (W-4, W-13).
 *
 * A file before the head is no part of the log, whether it is still there or not. A file from the head on that
 * is missing is damage. Every sequence up to `lastSequence` was synced when the head was written, so a
 * log that ends below it is damaged and not torn (W-2).
 */
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Damaged } from '../errors.ts'
import { type Disk, readFile, replaceFile } from '../util/disk.ts'
import { readU64, writeU64 } from './record.ts'

const HEAD_MAGIC = 0x44484557 // 'WEHD'
const HEAD_VERSION = 1
const HEAD_BYTES = 40
const HEAD_NAME = 'head'

/** Epoch 0: there has never been a log. */
export interface Head {
  readonly epoch: number
  /** The first file of the epoch that belongs to the log. */
  readonly position: number
  readonly lastSequence: number
}

/** Writes the head durably: after a crash the old one stands or the new one. */
export function writeHead(disk: Disk, folder: string, head: Head): void {
  const bytes = new Uint8Array(HEAD_BYTES)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, HEAD_MAGIC, true)
  view.setUint32(8, HEAD_VERSION, true)
  writeU64(view, 16, head.epoch)
  writeU64(view, 24, head.position)
  writeU64(view, 32, head.lastSequence)
  view.setUint32(4, crc32(bytes.subarray(8)), true)
  replaceFile(disk, join(folder, HEAD_NAME), [bytes])
}

/** The head, undefined where there is none. Throws Damaged. */
export function readHead(disk: Disk, folder: string): Head | undefined {
  const path = headPath(folder)
  if (!disk.exists(path)) return undefined
  const bytes = readFile(disk, path)
  if (bytes.byteLength !== HEAD_BYTES) throw new Damaged(path, bytes.byteLength, `not ${HEAD_BYTES} bytes`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEAD_BYTES)
  if (view.getUint32(0, true) !== HEAD_MAGIC || view.getUint32(4, true) !== crc32(bytes.subarray(8))) {
    throw new Damaged(path, 0, 'the head of the log does not validate')
  }
  const version = view.getUint32(8, true)
  if (version !== HEAD_VERSION) throw new Damaged(path, 8, `head version ${version}, not ${HEAD_VERSION}`)
  return { epoch: readU64(view, 16), position: readU64(view, 24), lastSequence: readU64(view, 32) }
}

/** Path of the head, for messages. */
export function headPath(folder: string): string {
  return join(folder, HEAD_NAME)
}
