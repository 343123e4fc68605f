/** The merge thread: one merge at a time; it takes a new speed, or the end, at the next rest of a running one. */
import type { MessagePort } from 'node:worker_threads'
import { monotonicMs } from '../../util/clock.ts'
import { type Disk, disk as realDisk } from '../../util/disk.ts'
import { SegmentDamaged, Unavailable } from '../../util/errors.ts'
import { threadCpuClock } from '../../util/this-thread.ts'
import { moved, serve } from '../../util/thread-server.ts'
import type { MergeCalls, MergeThreadData } from './compaction-types.ts'
import { MergeWriter } from './merge.ts'
import { MergeThrottle } from './merge-throttle.ts'

/** Serves `port` until it is told to stop. */
export function serveMerges(port: MessagePort, data: MergeThreadData, disk: Disk = realDisk): void {
  const clocks = { cpuMs: threadCpuClock(), nowMs: monotonicMs, after: callAfter }
  const throttle = new MergeThrottle(clocks, data.speed)
  const writer = new MergeWriter(throttle, data.temporary, disk)
  serve<MergeCalls>(
    port,
    {
      merge: async task => {
        const done = await writer.merge(task)
        return moved(done, done.keys === undefined ? [] : [done.keys])
      },
      speed: speed => throttle.set(speed),
    },
    {
      // An input or the machine may refuse. Anything else is our own fault: the thread ends, and with it the process.
      mayAnswer: isOfTheWorld,
      interrupt: () => throttle.stop(),
      close: () => writer.close(),
    },
  )
}

function isOfTheWorld(error: unknown): boolean {
  const isTyped = error instanceof SegmentDamaged || error instanceof Unavailable
  return isTyped || (error as NodeJS.ErrnoException).syscall !== undefined
}

function callAfter(ms: number, call: () => void): () => void {
  const timer = setTimeout(call, ms)
  return () => clearTimeout(timer)
}
