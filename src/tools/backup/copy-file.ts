/**
 * Copies one file of a backup, or reads it once, with its checksums, at a limited rate. A copy is
 * synced when `copyFile` returns; its name is not.
 */
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { crc32 } from '../../util/crc32.ts'
import { type Disk, type FileHandle, READ_PLAIN } from '../../util/disk.ts'
import { isUnreadable, Unavailable } from '../../util/errors.ts'
import { BACKUP_CHUNK_BYTES, MiB } from '../../util/limits.ts'
import { RateLimiter } from '../../util/rate-limiter.ts'

/** Bytes written between two syncs: the log's sync queues behind them. */
const BACKUP_SYNC_BYTES = 8 * MiB

/** Progress of a backup or restore. `bytesTotal` is 0 where it is not known before. */
export interface CopyProgress {
  readonly phase: 'flush' | 'log' | 'catalog' | 'segments' | 'sync' | 'verify' | 'copy'
  readonly bytesDone: number
  readonly bytesTotal: number
}

/** Limits the rate of a copy and cancels it. The copy waits here after each chunk. */
export class BackupThrottle {
  readonly #limiter: RateLimiter | undefined
  readonly #cancelled = new AbortController()

  /** @param bytesPerSecond 0 sets no limit */
  constructor(bytesPerSecond: number) {
    if (bytesPerSecond > 0)
      this.#limiter = new RateLimiter({ burst: 1, intervalMs: 1000 / bytesPerSecond, keysMax: 1 })
  }

  /** Makes every later `take` throw. */
  cancel(): void {
    this.#cancelled.abort()
  }

  /** Ends what waits for something else. */
  get signal(): AbortSignal {
    return this.#cancelled.signal
  }

  /**
   * Counts `bytes` and waits until they are paid for, but at most THROTTLE_WAIT_MS_MAX. The thread
   * receives messages meanwhile.
   * @throws Unavailable `backup_cancelled`
   */
  async take(bytes: number): Promise<void> {
    this.#limiter?.add('', bytes)
    await delay(Math.min(THROTTLE_WAIT_MS_MAX, this.#limiter?.waitMs('') ?? 0))
    if (this.signal.aborted) throw new Unavailable('backup_cancelled', 'the backup was cancelled')
  }
}

/** Longest wait before the throttle sees a cancellation. */
const THROTTLE_WAIT_MS_MAX = 1_000

/** Size and checksums of the bytes that were read. */
export interface Copied {
  readonly bytes: number
  /** Hex. */
  readonly sha256: string
  /** CRC-32, which the index has of each segment. */
  readonly checksum: number
}

export interface CopyDeps {
  readonly disk: Disk
  readonly throttle: BackupThrottle
  /**
   * The files come from somebody else: symbolic links are not followed, and pipes not waited for.
   */
  readonly isForeign?: boolean
  /** Called with the bytes of each chunk. */
  readonly onBytes: (bytes: number) => void
}

/**
 * Copies `from` to `to`, which must not exist. Every BACKUP_SYNC_BYTES are synced, so that no sync
 * of another thread waits for the whole file. Throws the disk's own errors, and leaves the synced
 * part of the copy then.
 */
export async function copyFile(deps: CopyDeps, from: string, to: string): Promise<Copied> {
  const { disk } = deps
  const copy = disk.open(to, 'wx')
  try {
    let unsynced = 0
    const copied = await readThrough(deps, from, (bytes, position) => {
      disk.write(copy, [bytes], position)
      unsynced += bytes.byteLength
      if (unsynced < BACKUP_SYNC_BYTES) return
      disk.fdatasync(copy)
      unsynced = 0
    })
    disk.fdatasync(copy)
    return copied
  } catch (error) {
    if (isUnreadable(error, from)) disk.fdatasync(copy) // the caller keeps the readable part
    throw error
  } finally {
    disk.close(copy)
  }
}

/** Size and checksums of a file. */
export function hashFile(deps: CopyDeps, path: string): Promise<Copied> {
  return readThrough(deps, path, () => undefined)
}

async function readThrough(
  { disk, throttle, isForeign, onBytes }: CopyDeps,
  path: string,
  use: (bytes: Uint8Array, position: number) => void,
): Promise<Copied> {
  const hash = createHash('sha256')
  let checksum = 0
  const file: FileHandle = disk.open(path, isForeign === true ? READ_PLAIN : 'r')
  try {
    const chunk = new Uint8Array(BACKUP_CHUNK_BYTES)
    let position = 0
    for (;;) {
      const read = disk.read(file, chunk, position)
      if (read === 0) return { bytes: position, sha256: hash.digest('hex'), checksum }
      const bytes = chunk.subarray(0, read)
      hash.update(bytes)
      checksum = crc32(bytes, checksum)
      use(bytes, position)
      position += read
      onBytes(read)
      await throttle.take(read)
    }
  } finally {
    disk.close(file)
  }
}
