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
    const copied = await hashFile(deps, from, (bytes, position) => {
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

/**
 * Size and checksums of a file. `use` gets its bytes, which are valid until the next ones are read.
 */
export async function hashFile(
  deps: CopyDeps,
  path: string,
  use: (bytes: Uint8Array, position: number) => void = () => undefined,
  partBytes = BACKUP_CHUNK_BYTES,
): Promise<Copied> {
  const hash = createHash('sha256')
  let [position, checksum] = [0, 0]
  for await (const bytes of readParts(deps, path, partBytes)) {
    hash.update(bytes)
    checksum = crc32(bytes, checksum)
    use(bytes, position)
    position += bytes.byteLength
  }
  return { bytes: position, sha256: hash.digest('hex'), checksum }
}

/** The bytes of a file in parts, at the rate of the copy. A part is valid until the next one. */
export async function* readParts(
  { disk, throttle, isForeign, onBytes }: CopyDeps,
  path: string,
  partBytes: number,
): AsyncGenerator<Uint8Array> {
  const file: FileHandle = disk.open(path, isForeign === true ? READ_PLAIN : 'r')
  try {
    // One byte more than the file has: it may grow meanwhile.
    const part = new Uint8Array(Math.min(partBytes, disk.size(path) + 1))
    for (let position = 0, filled = 0; ; filled = 0) {
      while (filled < part.byteLength) {
        const read = disk.read(file, part.subarray(filled, filled + BACKUP_CHUNK_BYTES), position)
        if (read === 0) break
        filled += read
        position += read
        onBytes(read)
        await throttle.take(read)
      }
      if (filled > 0) yield part.subarray(0, filled)
      if (filled < part.byteLength) return
    }
  } finally {
    disk.close(file)
  }
}

/** Requests to a bucket at once. Each holds PART_BYTES. */
const REQUESTS_AT_ONCE = 4

/** Does the work for each item, a few at once. The first error ends it, after those that run. */
export async function forEachAtOnce<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<void>,
  atOnce = REQUESTS_AT_ONCE,
): Promise<void> {
  const rest = items[Symbol.iterator]()
  let hasFailed = false
  const worker = async () => {
    for (let next = rest.next(); !hasFailed && next.done !== true; next = rest.next())
      await work(next.value).catch((error: unknown) => {
        hasFailed = true
        throw error
      })
  }
  const ended = await Promise.allSettled(Array.from({ length: atOnce }, worker))
  for (const one of ended) if (one.status === 'rejected') throw one.reason
}
