/** The merge thread: one merge at a time; it takes a new pace, or the end, at the next rest of a running one. */
import type { MessagePort } from 'node:worker_threads'
import { SegmentDamaged, toWire, Unavailable } from '../errors.ts'
import { assert, unreachable } from '../util/assert.ts'
import { monotonicMs } from '../util/clock.ts'
import { armCrash } from '../util/crash.ts'
import { type Disk, disk as realDisk } from '../util/disk.ts'
import { tryNative } from '../util/native.ts'
import { threadCpuClock } from '../util/thread-cpu.ts'
import { MergeWriter } from './merge.ts'
import type { MergeCalls } from './merge-calls.ts'
import type { FromMerger, MergeThreadData, ToMerger } from './messages.ts'
import { Pacer } from './pace.ts'
import type { MergeJob } from './protocol.ts'

/** Serves `port` until it is told to stop. */
export function serveMerges(
  port: MessagePort,
  data: MergeThreadData,
  calls: MergeCalls,
  disk: Disk = realDisk,
): void {
  armCrash(data.crashAt)
  const niceThread = tryNative()?.['niceThread'] as ((nice: number) => boolean) | undefined
  if (data.nice !== 0) niceThread?.(data.nice)
  const pacer = new Pacer({ cpuMs: threadCpuClock(), nowMs: monotonicMs, after: callAfter }, data.pace)
  const writer = new MergeWriter(calls, pacer, data.temporary, disk)
  let running: Promise<void> | undefined
  port.on('message', (message: ToMerger) => {
    switch (message.do) {
      case 'merge':
        assert(running === undefined, 'one merge at a time')
        running = answer(port, writer, message.job).finally(() => {
          running = undefined
        })
        return
      case 'pace':
        pacer.set(message.pace)
        return
      case 'stop':
        pacer.stop()
        void (running ?? Promise.resolve()).finally(() => {
          writer.close()
          port.close()
        })
        return
      default:
        unreachable(message)
    }
  })
}

async function answer(port: MessagePort, writer: MergeWriter, job: MergeJob): Promise<void> {
  let message: FromMerger
  try {
    message = { done: await writer.merge(job) }
  } catch (error) {
    // An input or the machine may refuse. Anything else is our own fault: the thread ends, and with it the process.
    if (!isOfTheWorld(error)) throw error
    message = { error: toWire(error) }
  }
  const keys = 'done' in message ? message.done.keys : undefined
  port.postMessage(message, keys === undefined ? [] : [keys])
}

function isOfTheWorld(error: unknown): boolean {
  const isTyped = error instanceof SegmentDamaged || error instanceof Unavailable
  return isTyped || (error as NodeJS.ErrnoException).syscall !== undefined
}

function callAfter(ms: number, call: () => void): () => void {
  const timer = setTimeout(call, ms)
  return () => clearTimeout(timer)
}
