/** The log worker: messages in, LogWriter calls, messages out. One at a time, in order. */

import { must, unreachable } from '../util/assert.ts'
import { monotonicMs } from '../util/clock.ts'
import { type Disk, type FileHandle, disk as realDisk } from '../util/disk.ts'
import { toWire } from '../util/errors.ts'
import { DISK_RETRY_MS } from '../util/limits.ts'
import type { FromLog, ThreadData, ToLog } from './log-messages.ts'
import { type Group, LogWriter } from './log-writer.ts'
import { type FirstReading, freeCache, readFirst, recoverLog } from './recover-log.ts'

export class LogService {
  readonly #data: ThreadData
  readonly #post: (message: FromLog) => void
  readonly #disk: Disk
  #writer: LogWriter | undefined
  #chunkTaken: () => void = () => {}
  #reading: FirstReading | undefined
  #fault: unknown
  #retry: NodeJS.Timeout | undefined

  constructor(data: ThreadData, post: (message: FromLog) => void, disk: Disk = realDisk) {
    this.#data = data
    this.#post = post
    this.#disk = disk
  }

  /** Handles one message; a failure of the disk is answered with `failed`. */
  handle(message: ToLog): void {
    switch (message.kind) {
      case 'read':
        this.#read()
        return
      case 'recover':
        void this.#recover(message.flushed)
        return
      case 'replayed':
        this.#chunkTaken()
        return
      case 'spare':
        this.#running().addSpare(message.name)
        return
      case 'group':
        this.#answer(() => this.#write(message.group))
        return
      case 'stop':
        clearTimeout(this.#retry)
        this.#answer(() => {
          this.#running().stop()
          return { kind: 'stopped' }
        })
        return
      default:
        unreachable(message)
    }
  }

  #write(group: Group): FromLog {
    const begin = monotonicMs()
    const written = this.#running().write(group)
    if (written === 'no_spare') return { kind: 'no_spare' }
    if ('noFile' in written) {
      this.#tryFileLater()
      return { kind: 'no_file', what: written.noFile }
    }
    return { kind: 'written', ms: monotonicMs() - begin, written }
  }

  /** Tells once two files can be opened at once, as a roll needs them. */
  #tryFileLater(): void {
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => {
      const opened: FileHandle[] = []
      try {
        for (let count = 0; count < 2; count += 1) opened.push(this.#disk.open(this.#data.folder, 'r'))
        this.#post({ kind: 'file_again' })
      } catch {
        this.#tryFileLater() // what is wrong was told by no_file, and is tried again until it is not
      } finally {
        for (const file of opened) this.#disk.close(file)
      }
    }, DISK_RETRY_MS).unref()
  }

  /** What is wrong is told by `recover`: nobody waits before. */
  #read(): void {
    try {
      this.#reading = readFirst(this.#disk, this.#data.folder)
    } catch (error) {
      this.#fault = error
    }
  }

  async #recover(flushed: ReadonlyMap<number, number>): Promise<void> {
    try {
      if (this.#fault !== undefined) throw this.#fault
      const { folder, fileBytes, durability } = this.#data
      const reading = this.#reading
      this.#reading = undefined // its files are many megabytes
      const replay = (chunk: Parameters<Parameters<typeof recoverLog>[0]['replay']>[0]) =>
        new Promise<void>(resolve => {
          this.#chunkTaken = resolve
          this.#post({ kind: 'replay', chunk })
        })
      const { generation, ...found } = await recoverLog({
        disk: this.#disk,
        folder,
        fileBytes,
        flushed,
        replay,
        reading,
      })
      freeCache(reading?.log)
      this.#writer = new LogWriter(generation, durability, found.summary.lastSequence + 1, found.spares)
      this.#post({ kind: 'recovered', state: { ...found, files: generation.files } })
    } catch (error) {
      this.#post({ kind: 'failed', error: toWire(error) })
    }
  }

  #answer(step: () => FromLog): void {
    let answer: FromLog
    try {
      answer = step()
    } catch (error) {
      answer = { kind: 'failed', error: toWire(error) }
    }
    this.#post(answer)
  }

  #running(): LogWriter {
    return must(this.#writer, 'the recovered log')
  }
}
