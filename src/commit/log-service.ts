/** The log worker: messages in, LogWriter calls, messages out. One at a time, in order. */
import { toWire } from '../errors.ts'
import { must, unreachable } from '../util/assert.ts'
import { monotonicMs } from '../util/clock.ts'
import { type Disk, disk as realDisk } from '../util/disk.ts'
import { type FirstReading, forgetKept, readFirst } from './first-reading.ts'
import type { FromLog, ThreadData, ToLog } from './messages.ts'
import { recoverLog } from './recover.ts'
import { type Group, LogWriter } from './writer.ts'

export class LogService {
  readonly #data: ThreadData
  readonly #post: (message: FromLog) => void
  readonly #disk: Disk
  #writer: LogWriter | undefined
  #chunkTaken: () => void = () => {}
  #reading: FirstReading | undefined
  #fault: unknown

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
        void this.#recover(message.sealed)
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
    return { kind: 'written', ms: monotonicMs() - begin, written }
  }

  /** What is wrong is told by `recover`: nobody waits before. */
  #read(): void {
    try {
      this.#reading = readFirst(this.#disk, this.#data.folder)
    } catch (error) {
      this.#fault = error
    }
  }

  async #recover(sealed: ReadonlyMap<number, number>): Promise<void> {
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
      const { epoch, ...found } = await recoverLog({
        disk: this.#disk,
        folder,
        fileBytes,
        sealed,
        replay,
        reading,
      })
      forgetKept(reading?.log)
      this.#writer = new LogWriter(epoch, durability, found.summary.lastSequence + 1, found.spares)
      this.#post({ kind: 'recovered', state: { ...found, files: epoch.files } })
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
