/**
 * The spare thread: keeps empty log files ready and removes old ones, so that no ack waits for
 * either.
 *
 * W-4, W-13: the log header moves on first and durably; only then do the files before it go. They
 * become spares up to SPARE_FILES_MAX, and the rest is removed. A full disk does not poison the
 * log: the thread reports each failure of the disk and tries again after DISK_RETRY_MS.
 */
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MessagePort } from 'node:worker_threads'
import { monotonicMs } from '../util/clock.ts'
import { type Disk, disk as realDisk, syncFolder } from '../util/disk.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { DISK_RETRY_MS, SPARE_FILES_MAX } from '../util/limits.ts'
import { serve, type TellEvent } from '../util/thread-server.ts'
import {
  firstFileBytes,
  type LogHeader,
  makeSpare,
  numberOfSpare,
  type Spare,
  spareFileName,
  writeLogHeader,
} from './log-folder.ts'
import type { LogThreadData, RecoveredState } from './log-thread.ts'

/** A log that fills a file within this time makes the next one twice as large. */
const LOG_FILE_FILLED_SOON_MS = 10_000
/** Spare log files that are ready. The spare thread makes one when there are fewer. */
export const SPARE_FILES_MIN = 2

/** Files that left the log, and the header of the log without them. */
interface ReleasedFiles {
  readonly header: LogHeader
  readonly names: readonly string[]
}

/** The messages to the spare thread. It answers none of them. */
export interface SpareCalls {
  begin(found: Pick<RecoveredState, 'spares' | 'old'>): void
  /** The log thread uses the spare `name`. */
  taken(name: string): void
  release(files: ReleasedFiles): void
}

export interface SpareEvents {
  ready(spare: Spare): void
  /** No file could be made. It is tried again each DISK_RETRY_MS. */
  full(reason: string): void
  /** Old files could not be removed. They are no part of the log, and only take space. */
  oldFilesLeft(reason: string): void
}

export function serveSpares(port: MessagePort, data: LogThreadData, disk: Disk = realDisk): void {
  const service = new SpareService(data, disk, (name, value) => tell(name, value))
  const tell = serve<SpareCalls, SpareEvents>(
    port,
    {
      begin: found => service.begin(found),
      taken: name => service.taken(name),
      release: files => service.release(files),
    },
    { interrupt: () => service.interrupt(), close: () => service.filled },
  )
}

class SpareService {
  readonly #data: LogThreadData
  readonly #disk: Disk
  readonly #tell: TellEvent<SpareEvents>
  readonly #ready = new Set<string>()
  /** Bytes of the next file. Old files of another size are removed. */
  #fileBytes: number
  /** When the log thread took the last spare. */
  #takenMs = monotonicMs()
  #number = 0
  #isFilling = false
  #isStopping = false
  #header: LogHeader | undefined
  #old: string[] = []
  #retry: NodeJS.Timeout | undefined
  /** Resolves when the file that is being made is made or given up. */
  filled: Promise<void> = Promise.resolve()

  constructor(data: LogThreadData, disk: Disk, tell: TellEvent<SpareEvents>) {
    this.#data = data
    this.#fileBytes = firstFileBytes(data.fileBytesMax)
    this.#disk = disk
    this.#tell = tell
  }

  begin({ spares, old }: Pick<RecoveredState, 'spares' | 'old'>): void {
    for (const { name, bytes } of spares) {
      this.#ready.add(name)
      this.#number = Math.max(this.#number, numberOfSpare(name))
      this.#fileBytes = Math.max(this.#fileBytes, bytes)
    }
    this.#number = Math.max(this.#number, ...old.map(numberOfSpare))
    this.#old.push(...old)
    this.#work()
  }

  taken(name: string): void {
    this.#ready.delete(name)
    const now = monotonicMs()
    if (now - this.#takenMs < LOG_FILE_FILLED_SOON_MS)
      this.#fileBytes = Math.min(2 * this.#fileBytes, this.#data.fileBytesMax)
    this.#takenMs = now
    this.#work()
  }

  release({ header, names }: ReleasedFiles): void {
    this.#header = header
    this.#old.push(...names)
    this.#work()
  }

  interrupt(): void {
    this.#isStopping = true
    clearTimeout(this.#retry)
  }

  #work(): void {
    if (this.#isStopping) return
    this.#takeOut()
    if (!this.#isFilling) this.filled = this.#fill()
  }

  /** Moves the log header, then recycles or removes what stands before it. */
  #takeOut(): void {
    try {
      if (this.#header !== undefined) {
        writeLogHeader(this.#disk, this.#data.folder, this.#header)
        this.#header = undefined
        crashPoint('log.released')
      }
      if (this.#old.length > 0) this.#recycle()
    } catch (error) {
      this.#tell('oldFilesLeft', textOf(error))
      this.#tryLater()
    }
  }

  #recycle(): void {
    const bytes = this.#fileBytes
    const made: string[] = []
    try {
      while (this.#old.length > 0) {
        const name = this.#recycleOne(this.#old[0]!, made.length)
        if (name !== undefined) made.push(name)
        this.#old.shift()
      }
      crashPoint('log.recycled')
      // Renamed files are used only once their new names are durable.
      syncFolder(this.#disk, this.#data.folder)
    } catch (error) {
      // Nobody may use these files before the sync, so they are recycled again with the rest.
      this.#old.push(...made)
      throw error
    }
    for (const name of made) this.#offer({ name, bytes })
  }

  /** Returns the name of the spare that the old file became; undefined where it was removed. */
  #recycleOne(old: string, made: number): string | undefined {
    const { folder } = this.#data
    const path = join(folder, old)
    if (!this.#disk.exists(path)) return undefined
    const fits = old.endsWith('.log') && this.#disk.size(path) === this.#fileBytes
    if (!fits || this.#ready.size + made >= SPARE_FILES_MAX) {
      this.#disk.unlink(path)
      return undefined
    }
    const name = this.#nextName()
    this.#disk.rename(path, join(folder, name))
    return name
  }

  /** Makes spares until there are SPARE_FILES_MIN. */
  async #fill(): Promise<void> {
    this.#isFilling = true
    try {
      while (this.#ready.size < SPARE_FILES_MIN && !this.#isStopping) {
        const spare = { name: this.#nextName(), bytes: this.#fileBytes }
        await makeSpare(this.#disk, this.#data.folder, spare, nextTurn)
        this.#offer(spare)
      }
    } catch (error) {
      this.#tell('full', textOf(error))
      this.#tryLater()
    } finally {
      this.#isFilling = false
    }
  }

  #offer(spare: Spare): void {
    this.#ready.add(spare.name)
    this.#tell('ready', spare)
  }

  #nextName(): string {
    this.#number += 1
    return spareFileName(this.#number)
  }

  #tryLater(): void {
    clearTimeout(this.#retry)
    if (!this.#isStopping) this.#retry = setTimeout(() => this.#work(), DISK_RETRY_MS)
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
