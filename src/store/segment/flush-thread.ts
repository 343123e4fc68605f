/** The segment thread: takes flushes from its port one after the other, in order, and removals as Unlinks says. */
import type { MessagePort } from 'node:worker_threads'
import { type Disk, disk as realDisk } from '../../util/disk.ts'
import { toWire, Unavailable } from '../../util/errors.ts'
import { armCrash } from '../../util/fault-injection.ts'
import { niceThread } from '../../util/this-thread.ts'
import {
  buffersOf,
  type FlushTask,
  type SegmentAnswer,
  type SegmentRequest,
  type SegmentWorkerData,
} from '../flush/flush-types.ts'
import { tryAssemblerNative } from './assembler.ts'
import { assemblerJs } from './assembler-js.ts'
import { tryEncoderNative } from './parquet-encoder.ts'

import { type UnlinkRequest, Unlinks } from './publish-segment.ts'
import { FlushWriter } from './write-segment.ts'

/** Serves `port` until it is told to stop. */
export async function serveSegment(
  port: MessagePort,
  data: SegmentWorkerData,
  disk: Disk = realDisk,
): Promise<void> {
  armCrash(data.crashAt)
  niceThread(data.nice)
  const isNative = data.assembler === 'native'
  const assembler = (isNative ? tryAssemblerNative() : undefined) ?? assemblerJs
  const encoder =
    (isNative ? tryEncoderNative() : undefined) ?? (await import('./parquet-encoder-js.ts')).encoderJs
  const writer = new FlushWriter(assembler, encoder, disk)
  const order = new PoolOrder()
  const unlinks = new Unlinks(disk, (request, error) => {
    if (error === undefined) order.unlinked(request)
    port.postMessage(answerOf(request.id, error, []))
  })
  port.on('message', (request: SegmentRequest) => {
    const { id } = request
    if (request.do === 'unlink') unlinks.add(request)
    else if (request.do === 'flush') {
      unlinks.run(request.task.folder)
      const answer = answerTo(id, request.task, writer, order)
      port.postMessage(answer, movedWith(answer))
    } else {
      unlinks.run()
      port.postMessage({ id })
      port.close()
    }
  })
}

/**
 * Where a flush of a pool failed, those that wait behind it are not written: a rebuild takes the last segment for the end of
 * all that is flushed, and would skip the rows of the one that failed (W-6). The flusher removes what a failed flush left
 * before it tries again, which is the sign that the order begins anew.
 */
class PoolOrder {
  /** Folder → number of the flush that failed first. */
  readonly #failed = new Map<string, number>()

  isBroken(folder: string): boolean {
    return this.#failed.has(folder)
  }

  failed({ folder, segment }: FlushTask): void {
    if (!this.#failed.has(folder)) this.#failed.set(folder, segment)
  }

  unlinked({ folder, segments }: UnlinkRequest): void {
    const first = this.#failed.get(folder)
    if (first !== undefined && segments.includes(first)) this.#failed.delete(folder)
  }
}

function answerTo(id: number, task: FlushTask, writer: FlushWriter, order: PoolOrder): SegmentAnswer {
  if (order.isBroken(task.folder)) {
    const error = new Unavailable('flush_failed', 'the flush before it failed')
    return answerOf(id, error, task.entries)
  }
  try {
    return { id, done: writer.write(task) }
  } catch (error) {
    // Only the disk may refuse. Anything else is our own fault: the thread ends, and with it the process.
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
    order.failed(task)
    return answerOf(id, error as Error, task.entries)
  }
}

function answerOf(id: number, error: Error | undefined, entries: FlushTask['entries']): SegmentAnswer {
  return error === undefined ? { id } : { id, error: toWire(error), entries }
}

function movedWith(answer: SegmentAnswer): ArrayBuffer[] {
  if ('error' in answer) return buffersOf(answer.entries)
  if (answer.done === undefined) return []
  const { keys, entries } = answer.done
  return keys === undefined ? buffersOf(entries) : [keys, ...buffersOf(entries)]
}
