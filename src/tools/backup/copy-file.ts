/** Copying one file, or reading it once, with its checksum. A copy is synced when it returns; its name is not. */
import { createHash } from 'node:crypto'
import { crc32 } from '../../util/crc32.ts'
import { type Disk, type FileHandle, READ_PLAIN } from '../../util/disk.ts'
import { isUnreadable } from '../../util/errors.ts'
import { BACKUP_CHUNK_BYTES, BACKUP_SYNC_BYTES } from '../../util/limits.ts'
import type { Pace } from './backup-throttle.ts'

/** What was read. */
export interface Copied {
  readonly bytes: number
  /** Hex. */
  readonly sha256: string
  /** As the index keeps it of a segment. */
  readonly checksum: number
}

/** What copying asks of its caller. */
export interface CopyDeps {
  readonly disk: Disk
  readonly pace: Pace
  /** The files read are somebody else's: no symbolic link is followed, no pipe waited for. */
  readonly isForeign?: boolean
  /** Called with each piece's bytes. */
  readonly onBytes: (bytes: number) => void
}

/**
 * Copies `from` to `to`, which must not be there. Synced piece by piece, so that no other thread's sync waits for
 * all of it. Throws the disk's own errors; a part of the copy may be left then, synced too.
 */
export async function copyFile(calls: CopyDeps, from: string, to: string): Promise<Copied> {
  const { disk } = calls
  const copy = disk.open(to, 'wx')
  try {
    let unsynced = 0
    const copied = await readThrough(calls, from, (bytes, position) => {
      disk.write(copy, [bytes], position)
      unsynced += bytes.byteLength
      if (unsynced < BACKUP_SYNC_BYTES) return
      disk.fdatasync(copy)
      unsynced = 0
    })
    disk.fdatasync(copy)
    return copied
  } catch (error) {
    if (isUnreadable(error, from)) disk.fdatasync(copy) // the caller keeps what could be read
    throw error
  } finally {
    disk.close(copy)
  }
}

/** Length and checksum of a file. */
export function hashFile(calls: CopyDeps, path: string): Promise<Copied> {
  return readThrough(calls, path, () => undefined)
}

async function readThrough(
  { disk, pace, isForeign, onBytes }: CopyDeps,
  path: string,
  use: (bytes: Uint8Array, position: number) => void,
): Promise<Copied> {
  const hash = createHash('sha256')
  let checksum = 0
  const file: FileHandle = disk.open(path, isForeign === true ? READ_PLAIN : 'r')
  try {
    const piece = new Uint8Array(BACKUP_CHUNK_BYTES)
    let position = 0
    for (;;) {
      const read = disk.read(file, piece, position)
      if (read === 0) return { bytes: position, sha256: hash.digest('hex'), checksum }
      const bytes = piece.subarray(0, read)
      hash.update(bytes)
      checksum = crc32(bytes, checksum)
      use(bytes, position)
      position += read
      onBytes(read)
      await pace.take(read)
    }
  } finally {
    disk.close(file)
  }
}
