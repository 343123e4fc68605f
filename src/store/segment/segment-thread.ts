/**
 * The segment thread: writes flushes one after the other, in order, and removes the files of
 * obsolete segments between them.
 */
import type { MessagePort } from 'node:worker_threads'
import { type Disk, isDiskError, disk as realDisk } from '../../util/disk.ts'
import { toWire, Unavailable } from '../../util/errors.ts'
import { moved, serve } from '../../util/thread-server.ts'
import type {
  FlushDone,
  FlushRefused,
  FlushTask,
  Removal,
  SegmentCalls,
  SegmentThreadData,
} from '../flush/segment-writer.ts'
import { tryAssemblerNative } from './assembler.ts'
import { assemblerJs } from './assembler-js.ts'
import { tryEncoderNative } from './parquet-encoder.ts'
import { Unlinks } from './publish-segment.ts'
import { FlushWriter } from './write-segment.ts'

export async function serveSegment(
  port: MessagePort,
  data: SegmentThreadData,
  disk: Disk = realDisk,
): Promise<void> {
  const assembler = tryAssemblerNative(data.kernel) ?? assemblerJs
  const encoder = tryEncoderNative(data.kernel) ?? (await import('./parquet-encoder-js.ts')).encoderJs
  const writer = new FlushWriter(assembler, encoder, disk)
  const order = new PoolOrder()
  const unlinks = new Unlinks(disk, removal => order.unlinked(removal))
  serve<SegmentCalls>(
    port,
    {
      flush: task => {
        unlinks.run(task.folder)
        const answer = flush(task, writer, order)
        return moved(answer, 'keys' in answer && answer.keys !== undefined ? [answer.keys] : [])
      },
      unlink: removal => unlinks.add(removal),
    },
    {
      // The disk may refuse a removal. Any other error is a bug: it ends the thread and the
      // process.
      mayAnswer: isDiskError,
      interrupt: () => unlinks.run(),
    },
  )
}

/**
 * After a failed flush, later flushes of its pool are refused. A rebuild takes the last segment for
 * the end of everything flushed, and would skip the rows of the failed flush (W-6). Before the
 * flusher tries again, it removes the files of the failed flush. The removal begins the order anew.
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

  unlinked({ folder, segments }: Removal): void {
    const first = this.#failed.get(folder)
    if (first !== undefined && segments.includes(first)) this.#failed.delete(folder)
  }
}

function flush(task: FlushTask, writer: FlushWriter, order: PoolOrder): FlushDone | FlushRefused {
  if (order.isBroken(task.folder)) {
    const error = new Unavailable('flush_failed', 'an earlier flush of the pool failed')
    return { failed: toWire(error) }
  }
  try {
    return writer.write(task)
  } catch (error) {
    if (!isDiskError(error)) throw error
    order.failed(task)
    return { failed: toWire(error) }
  }
}
