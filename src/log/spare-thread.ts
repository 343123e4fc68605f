/**
 * The spare worker: keeps empty log files ready and takes old ones out of the log, away from the log's thread.
 *
 * W-4, W-13: the log header moves on first and durably; only then do the files before it go. They become spares up to
 * SPARE_FILES_MAX, the rest is removed. A disk that is full is no poison: it is tried again each DISK_RETRY_MS.
 */
import { join } from 'node:path'
import { unreachable } from '../util/assert.ts'
import { type Disk, disk as realDisk, syncFolder } from '../util/disk.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { DISK_RETRY_MS, SPARE_FILES_MAX, SPARE_FILES_MIN } from '../util/limits.ts'
import { type LogHeader, makeSpare, numberOfSpare, spareFileName, writeLogHeader } from './log-folder.ts'
import type { FromSpare, ThreadData, ToSpare } from './log-messages.ts'

export class SpareService {
  readonly #data: ThreadData
  readonly #post: (message: FromSpare) => void
  readonly #disk: Disk
  readonly #ready = new Set<string>()
  #number = 0
  #filling = false
  #ended = false
  #header: LogHeader | undefined
  #old: string[] = []
  #retry: NodeJS.Timeout | undefined

  constructor(data: ThreadData, post: (message: FromSpare) => void, disk: Disk = realDisk) {
    this.#data = data
    this.#post = post
    this.#disk = disk
  }

  /** Handles one message. Failures of the disk are told, kept and tried again. */
  handle(message: ToSpare): void {
    switch (message.kind) {
      case 'begin':
        for (const name of message.spares) this.#ready.add(name)
        this.#number = Math.max(0, ...[...message.spares, ...message.old].map(numberOfSpare))
        this.#old.push(...message.old)
        break
      case 'taken':
        this.#ready.delete(message.name)
        break
      case 'release':
        this.#header = message.header
        this.#old.push(...message.names)
        break
      case 'end':
        this.#ended = true
        clearTimeout(this.#retry)
        if (!this.#filling) this.#post({ kind: 'ended' })
        return
      default:
        unreachable(message)
    }
    this.#work()
  }

  #work(): void {
    if (this.#ended) return
    this.#takeOut()
    void this.#fill()
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
      this.#post({ kind: 'trouble', what: textOf(error) })
      this.#tryLater()
    }
  }

  #recycle(): void {
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
      // Not offered, so not counted as ready: they take their turn again with the rest.
      this.#old.push(...made)
      throw error
    }
    for (const name of made) this.#offer(name)
  }

  /** The spare that the file became, undefined where it was removed. */
  #recycleOne(old: string, made: number): string | undefined {
    const { folder, fileBytes } = this.#data
    const path = join(folder, old)
    if (!this.#disk.exists(path)) return undefined
    const fits = old.endsWith('.log') && this.#disk.size(path) === fileBytes
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
    if (this.#filling) return
    this.#filling = true
    try {
      while (this.#ready.size < SPARE_FILES_MIN && !this.#ended) {
        const name = this.#nextName()
        const rest = () => new Promise<void>(resolve => setImmediate(resolve))
        await makeSpare(this.#disk, this.#data.folder, name, this.#data.fileBytes, rest)
        this.#offer(name)
      }
    } catch (error) {
      this.#post({ kind: 'full', what: textOf(error) })
      this.#tryLater()
    } finally {
      this.#filling = false
      if (this.#ended) this.#post({ kind: 'ended' })
    }
  }

  #offer(name: string): void {
    this.#ready.add(name)
    this.#post({ kind: 'ready', name })
  }

  #nextName(): string {
    this.#number += 1
    return spareFileName(this.#number)
  }

  #tryLater(): void {
    clearTimeout(this.#retry)
    if (!this.#ended) this.#retry = setTimeout(() => this.#work(), DISK_RETRY_MS)
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
