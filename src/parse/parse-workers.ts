/**
 * The parse workers as the main thread sees them: a Piscina pool with an explicit limit.
 *
 * At most PARSE_TASKS_PER_WORKER_MAX tasks of a thread are handed over and not answered: one runs,
 * and one is ready, so that the thread never waits for the main thread. Further requests gather in
 * their slabs and make larger tasks.
 */

import { availableParallelism } from 'node:os'
import type * as PiscinaPackage from 'piscina'
import type { Piscina } from 'piscina'
import { workerFile } from '../util/build-files.ts'
import { assert } from '../util/errors.ts'
import { loadPackage } from '../util/load-package.ts'
import type { KernelChoice } from '../util/native.ts'
import type { BatchBuffers } from './batch-buffers.ts'
import type { BatchOptions } from './kernel.ts'
import type { ParseResult, ParseTask } from './parse-task.ts'
import { createTaskRunner } from './run-task.ts'

/** Parse tasks per parse worker without an answer: one runs, one waits. More requests gather. */
const PARSE_TASKS_PER_WORKER_MAX = 2
/** Parse workers, whatever the machine has. */
const PARSE_WORKERS_MAX = 16
/**
 * Makes Piscina load the worker's module by `import`, not by `require`. Node 20 aborts the process
 * when a thread ends within a `require` of an ES module: a start that was refused ended so.
 */
const NO_REQUIRE = '--no-experimental-require-module'
/** Time after which batch memory that no parse task took is left to the garbage collector. */
const FREED_TRIM_MS = 10_000

export interface ParseWorkersData {
  readonly kernel: KernelChoice
  readonly options: BatchOptions
  /** One number in shared memory: threads started so far. Each is named by its own. */
  readonly started: Int32Array
}

/**
 * Starts the parse workers, one thread per core: parsing is the largest share of the work for an
 * ack, and the system balances the rest. The first thread starts now. Another one starts when a
 * task comes while each thread has one, and stays.
 */
export function startParseWorkers(kernel: KernelChoice, buffers: BatchBuffers, options: BatchOptions = {}) {
  const threads = Math.min(PARSE_WORKERS_MAX, Math.max(1, availableParallelism()))
  const max = threads * PARSE_TASKS_PER_WORKER_MAX
  const started = new Int32Array(new SharedArrayBuffer(4))
  const workerData: ParseWorkersData = { kernel, options, started }
  const { Piscina } = loadPackage('piscina') as typeof PiscinaPackage
  const pool: Piscina<ParseTask, ParseResult> = new Piscina({
    filename: workerFile('parse').href,
    minThreads: 1,
    maxThreads: threads,
    idleTimeout: Number.POSITIVE_INFINITY,
    loadBalancer: (_task, workers) => leastBusy(workers, threads),
    concurrentTasksPerWorker: PARSE_TASKS_PER_WORKER_MAX,
    maxQueue: max,
    workerData,
    execArgv: workerOptions(),
  })
  const withBuffers = (task: ParseTask): ParseTask => {
    const { slab, table, groups, received, isReplay } = task
    return { slab, table, groups, received, buffers: buffers.forTask(task), isReplay }
  }
  let running = 0
  let onRoom = () => {}
  let runHere: ReturnType<typeof createTaskRunner> | undefined
  const trimming = setInterval(() => buffers.trim(), FREED_TRIM_MS).unref()
  return {
    /** Runs a task. It may be called only while `room()` is true. */
    async parse(task: ParseTask): Promise<ParseResult> {
      assert(running < max, 'a parse task is handed over only while there is room')
      running += 1
      try {
        const result = await pool.run(withBuffers(task))
        buffers.takeBack(task, result)
        return result
      } finally {
        running -= 1
        onRoom()
      }
    },
    /** Runs a task in the caller's thread, without the time of a hand-over (some 90 µs). */
    parseHere(task: ParseTask): ParseResult {
      runHere ??= createTaskRunner(kernel, options)
      const result = runHere(withBuffers(task))
      buffers.takeBack(task, result)
      return result
    },
    /** True while another task may be handed over. */
    room: () => running < max,
    /** Sets the function that is called after each answer: `room()` may be true then. */
    onRoom(listener: () => void): void {
      onRoom = listener
    },
    /** Tasks handed over and not answered, the most that there may be, and the most threads. */
    stats: () => ({ running, max, threads }),
    stop(): Promise<void> {
      clearInterval(trimming)
      return pool.destroy()
    },
  }
}

/** Options of Node for workers. Node below 20.17 has no `require` of ES modules, nor an option. */
function workerOptions(): string[] {
  const hasOption = process.allowedNodeEnvironmentFlags.has(NO_REQUIRE)
  return hasOption ? [...process.execArgv, NO_REQUIRE] : process.execArgv
}

/**
 * Picks the thread for a task. Returns null where the task has to wait for a thread that is started
 * then, or for the first thread that is done.
 */
function leastBusy<W extends { readonly currentUsage: number }>(
  workers: readonly W[],
  threads: number,
): W | null {
  let least: W | null = null
  for (const worker of workers) if (least === null || worker.currentUsage < least.currentUsage) least = worker
  const usageMax = workers.length < threads ? 1 : PARSE_TASKS_PER_WORKER_MAX
  return least !== null && least.currentUsage < usageMax ? least : null
}
