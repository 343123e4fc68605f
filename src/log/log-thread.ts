/**
 * The log thread: recovers the log, then writes and syncs groups, one at a time and in order.
 *
 * A group is sent with `tell`, not `call`: the thread answers it with an event, so a group costs
 * one message each way and no promise.
 */
import type { MessagePort } from 'node:worker_threads'
import { type Disk, disk as realDisk } from '../util/disk.ts'
import { must, toWire, type WireError } from '../util/errors.ts'
import { DISK_RETRY_MS } from '../util/limits.ts'
import { moved, serve, type TellEvent } from '../util/thread-server.ts'
import {
  type Durability,
  type GenerationFile,
  type Group,
  LogWriter,
  type NoRoom,
  type Written,
} from './log-writer.ts'
import { type FirstReading, freeCache, type RecoveredLog, readFirst, recoverLog } from './recover-log.ts'
import type { ReplayChunk } from './replay-chunk.ts'

/** Data of both threads of the log. */
export interface LogThreadData {
  /** Absolute; made if missing. */
  readonly folder: string
  /** Bytes of the largest log file. */
  readonly fileBytesMax: number
  readonly durability: Durability
}

/** A recovered log, as the main thread needs to know it. */
export interface RecoveredState extends Omit<RecoveredLog, 'generation'> {
  readonly files: readonly GenerationFile[]
}

/** A step of a recovery: a chunk to replay, or the end. The chunk's table is moved. */
type RecoveryStep = { readonly chunk: ReplayChunk } | { readonly recovered: RecoveredState }

export interface LogCalls {
  /** Reads and checks the log. It comes first, while the flushed sequences are not known yet. */
  read(): void
  recover(flushed: ReadonlyMap<number, number>): RecoveryStep
  /** The chunk was taken: asks for the next step. */
  replayed(): RecoveryStep
  /** Sent with `tell`. Exactly one of the events below answers it, except `roomAgain`. */
  group(group: Group): void
  /** Sent with `tell`: the name of a new spare. */
  spare(name: string): void
}

export interface LogEvents {
  written(written: Written): void
  /** The group does not fit and there is no empty file. It was not written and may come again. */
  noSpare(): void
  /** The group had no room. It does not count as written, and its sequences are free again. */
  noRoom(refused: NoRoom): void
  /** After noRoom: there is room again. */
  roomAgain(): void
  failed(error: WireError): void
}

/** Serves `port` until it is told to stop, which writes the clean-stop record. */
export function serveLog(port: MessagePort, data: LogThreadData, disk: Disk = realDisk): void {
  const service = new LogService(data, disk, (name, value) => tell(name, value))
  const tell = serve<LogCalls, LogEvents>(
    port,
    {
      read: () => service.read(),
      recover: async flushed => movedStep(await service.recover(flushed)),
      replayed: async () => movedStep(await service.replayed()),
      group: group => service.write(group),
      spare: name => service.writer.addSpare(name),
    },
    { interrupt: () => service.interrupt(), close: () => service.writer.stop() },
  )
}

function movedStep(step: RecoveryStep) {
  return moved(step, 'chunk' in step ? [step.chunk.table.buffer as ArrayBuffer] : [])
}

class LogService {
  readonly #data: LogThreadData
  readonly #disk: Disk
  readonly #tell: TellEvent<LogEvents>
  #writer: LogWriter | undefined
  #reading: FirstReading | undefined
  /** Answers the call that waits for the next step of the recovery. */
  #answerStep: (step: RecoveryStep | Promise<RecoveryStep>) => void = () => {}
  #chunkTaken: () => void = () => {}
  #retry: NodeJS.Timeout | undefined

  constructor(data: LogThreadData, disk: Disk, tell: TellEvent<LogEvents>) {
    this.#data = data
    this.#disk = disk
    this.#tell = tell
  }

  get writer(): LogWriter {
    return must(this.#writer, 'the recovered log')
  }

  read(): void {
    this.#reading = readFirst(this.#disk, this.#data.folder)
  }

  recover(flushed: ReadonlyMap<number, number>): Promise<RecoveryStep> {
    const step = this.#nextStep()
    const recovered = this.#recover(flushed)
    const answer = () => this.#answerStep(recovered)
    recovered.then(answer, answer)
    return step
  }

  replayed(): Promise<RecoveryStep> {
    const step = this.#nextStep()
    this.#chunkTaken()
    return step
  }

  /** Writes a group. Reports a failure of the disk with the event `failed`. */
  write(group: Group): void {
    let written: ReturnType<LogWriter['write']>
    try {
      written = this.writer.write(group)
    } catch (error) {
      this.#tell('failed', toWire(error))
      return
    }
    if (written === 'no_spare') this.#tell('noSpare', undefined)
    else if ('noRoom' in written) {
      this.#tryLater()
      this.#tell('noRoom', written)
    } else this.#tell('written', written)
  }

  interrupt(): void {
    clearTimeout(this.#retry)
  }

  #nextStep(): Promise<RecoveryStep> {
    return new Promise(resolve => {
      this.#answerStep = resolve
    })
  }

  async #recover(flushed: ReadonlyMap<number, number>): Promise<RecoveryStep> {
    const { folder, fileBytesMax, durability } = this.#data
    const reading = this.#reading
    this.#reading = undefined // its files are many megabytes
    const { generation, ...found } = await recoverLog({
      disk: this.#disk,
      folder,
      fileBytesMax,
      flushed,
      reading,
      replay: chunk =>
        new Promise<void>(resolve => {
          this.#chunkTaken = resolve
          this.#answerStep({ chunk })
        }),
    })
    freeCache(reading?.log)
    const spares = found.spares.map(({ name }) => name)
    this.#writer = new LogWriter(generation, durability, found.summary.lastSequence + 1, spares)
    return { recovered: { ...found, files: generation.files } }
  }

  /** Tells `roomAgain` once a group has room in the next file. */
  #tryLater(): void {
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => {
      try {
        this.writer.tryRoom()
        this.#tell('roomAgain', undefined)
      } catch {
        this.#tryLater() // `noRoom` has reported the reason
      }
    }, DISK_RETRY_MS).unref()
  }
}
