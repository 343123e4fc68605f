/** The segment thread: takes seals from its port one after the other, in order, and removals as unlinks.ts says. */
import type { MessagePort } from 'node:worker_threads'
import { toWire, Unavailable } from '../errors.ts'
import { armCrash } from '../util/crash.ts'
import { type Disk, disk as realDisk } from '../util/disk.ts'
import { tryNative } from '../util/native.ts'
import { assemblerJs, tryAssemblerNative } from './assembler.ts'
import { tryEncoderNative } from './encoder.ts'
import type { SealJob, SegmentAnswer, SegmentRequest, SegmentWorkerData } from './protocol.ts'
import { buffersOf } from './runs.ts'
import { type UnlinkRequest, Unlinks } from './unlinks.ts'
import { Writer } from './write.ts'

/** Serves `port` until it is told to stop. */
export async function serveSegment(
  port: MessagePort,
  data: SegmentWorkerData,
  disk: Disk = realDisk,
): Promise<void> {
  armCrash(data.crashAt)
  const niceThread = tryNative()?.['niceThread'] as ((nice: number) => boolean) | undefined
  if (data.nice !== 0) niceThread?.(data.nice)
  const isNative = data.assembler === 'native'
  const assembler = (isNative ? tryAssemblerNative() : undefined) ?? assemblerJs
  const encoder = (isNative ? tryEncoderNative() : undefined) ?? (await import('./encoder-js.ts')).encoderJs
  const writer = new Writer(assembler, encoder, disk)
  const order = new PoolOrder()
  const unlinks = new Unlinks(disk, (request, error) => {
    if (error === undefined) order.unlinked(request)
    port.postMessage(answerOf(request.id, error, []))
  })
  port.on('message', (request: SegmentRequest) => {
    const { id } = request
    if (request.do === 'unlink') unlinks.add(request)
    else if (request.do === 'seal') {
      unlinks.flush(request.job.folder)
      const answer = answerTo(id, request.job, writer, order)
      port.postMessage(answer, movedWith(answer))
    } else {
      unlinks.flush()
      port.postMessage({ id })
      port.close()
    }
  })
}

/**
 * Where a seal of a pool failed, those that wait behind it are not written: a rebuild takes the last segment for the end of
 * all that is sealed, and would skip the rows of the one that failed (W-6). The sealer removes what a failed seal left
 * before it tries again, which is the sign that the order begins anew.
 */
class PoolOrder {
  /** Folder → number of the seal that failed first. */
  readonly #failed = new Map<string, number>()

  isBroken(folder: string): boolean {
    return this.#failed.has(folder)
  }

  failed({ folder, segment }: SealJob): void {
    if (!this.#failed.has(folder)) this.#failed.set(folder, segment)
  }

  unlinked({ folder, segments }: UnlinkRequest): void {
    const first = this.#failed.get(folder)
    if (first !== undefined && segments.includes(first)) this.#failed.delete(folder)
  }
}

function answerTo(id: number, job: SealJob, writer: Writer, order: PoolOrder): SegmentAnswer {
  if (order.isBroken(job.folder)) {
    const error = new Unavailable('seal_failed', 'the seal before it failed')
    return answerOf(id, error, job.entries)
  }
  try {
    return { id, done: writer.write(job) }
  } catch (error) {
    // Only the disk may refuse. Anything else is our own fault: the thread ends, and with it the process.
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
    order.failed(job)
    return answerOf(id, error as Error, job.entries)
  }
}

function answerOf(id: number, error: Error | undefined, entries: SealJob['entries']): SegmentAnswer {
  return error === undefined ? { id } : { id, error: toWire(error), entries }
}

function movedWith(answer: SegmentAnswer): ArrayBuffer[] {
  if ('error' in answer) return buffersOf(answer.entries)
  if (answer.done === undefined) return []
  const { keys, entries } = answer.done
  return keys === undefined ? buffersOf(entries) : [keys, ...buffersOf(entries)]
}
