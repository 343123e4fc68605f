/**
 * The parse workers as the main thread sees them: a Piscina pool with an explicit limit.
 *
 * At most PARSE_TASKS_PER_WORKER_MAX jobs per thread are handed over and not answered: one running, one ready so that the
 * thread never waits for the main thread. Further requests gather in their slabs and make larger jobs.
 */
import { availableParallelism } from 'node:os'
import type * as PiscinaPackage from 'piscina'
import type { Piscina } from 'piscina'
import { assert } from '../util/assert.ts'
import { FREED_TRIM_MS, PARSE_TASKS_PER_WORKER_MAX, PARSE_WORKERS_MAX } from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import type { KernelChoice } from '../util/native.ts'
import type { BatchBuffers } from './batch-buffers.ts'
import type { ParseResult, ParseTask } from './parse-task.ts'

export interface ParseWorkersData {
  readonly kernel: KernelChoice
  /** One number in shared memory: threads started so far. Each adds itself, and has its number for its name. */
  readonly started: Int32Array
}

export interface ParseWorkers {
  /** Cuts a job. Only called while `room()`. */
  parse(task: ParseTask): Promise<ParseResult>
  /** May another job be handed over now? */
  room(): boolean
  /** Jobs handed over and not answered, and the most there may be. */
  stats(): { readonly running: number; readonly max: number; readonly threads: number }
  stop(): Promise<void>
}

/**
 * One thread per core: cutting is the largest share of an ack's work, and the system balances the rest. The first one is
 * started now, each other one when a job comes while all have one; then they stay.
 */
export function startParseWorkers(
  kernel: KernelChoice,
  buffers: BatchBuffers,
  onRoom: () => void,
): ParseWorkers {
  const threads = Math.min(PARSE_WORKERS_MAX, Math.max(1, availableParallelism()))
  const max = threads * PARSE_TASKS_PER_WORKER_MAX
  const workerData: ParseWorkersData = { kernel, started: new Int32Array(new SharedArrayBuffer(4)) }
  const { Piscina } = loadPackage('piscina') as typeof PiscinaPackage
  const pool: Piscina<ParseTask, ParseResult> = new Piscina({
    filename: new URL('../../workers/parse.js', import.meta.url).href,
    minThreads: 1,
    maxThreads: threads,
    idleTimeout: Number.POSITIVE_INFINITY,
    loadBalancer: (_task, workers) => leastBusy(workers, threads),
    concurrentTasksPerWorker: PARSE_TASKS_PER_WORKER_MAX,
    maxQueue: max,
    workerData,
  })
  let running = 0
  const trimming = setInterval(() => buffers.trim(), FREED_TRIM_MS).unref()
  return {
    async parse(task) {
      assert(running < max, 'a job is handed over only while there is room')
      running += 1
      try {
        const result = await pool.run({ ...task, buffers: buffers.forTask(task) })
        buffers.takeBack(task, result)
        return result
      } finally {
        running -= 1
        onRoom()
      }
    },
    room: () => running < max,
    stats: () => ({ running, max, threads }),
    stop() {
      clearInterval(trimming)
      return pool.destroy()
    },
  }
}

/** Where a job goes; null: it waits for the thread that is then started, or for the first that is done. */
function leastBusy<W extends { readonly currentUsage: number }>(
  workers: readonly W[],
  threads: number,
): W | null {
  let least: W | null = null
  for (const worker of workers) if (least === null || worker.currentUsage < least.currentUsage) least = worker
  const usageMax = workers.length < threads ? 1 : PARSE_TASKS_PER_WORKER_MAX
  return least !== null && least.currentUsage < usageMax ? least : null
}
