/** Starts the two threads of the commit stage, and recovers the log through the first of them. */
import { startThread } from '../util/thread-kit.ts'
import { Commit, type CommitThreads } from './commit-log.ts'
import type { LogCalls, LogEvents, LogThreadData } from './log-thread.ts'
import type { RecoverOptions } from './log-types.ts'
import type { RecoveredSummary } from './recover-log.ts'
import type { SpareCalls, SpareEvents } from './spare-thread.ts'

interface OpenLogOptions extends LogThreadData {
  /** Hidden option of tests; see util/fault-injection.ts. */
  readonly crashAt: string
}

/** An open log: what recovery found, and the way in. */
export interface OpenedLog {
  readonly summary: RecoveredSummary
  readonly commit: Commit
}

/** The log thread, which reads the log until `recover` tells it what is flushed. */
export interface StartedLog {
  /**
   * Recovers the log, replays what is above the flushed sequences, and opens it for appends.
   * Resolves when everything replayed is copied into the new generation and synced (W-3). Rejects
   * with Damaged, CannotRun (no room), or the error that `replay` threw; the thread has ended then.
   */
  recover(options: RecoverOptions): Promise<OpenedLog>
  /** Stops the log as Commit.stop does, or ends the thread where no log is open. */
  stop(): Promise<void>
}

/** Starts the log thread. The spare thread is started when the log is open. */
export function startLog(options: OpenLogOptions): StartedLog {
  const { crashAt, ...data } = options
  const threads = {
    log: startThread<LogCalls, LogEvents>({ name: 'log', data, crashAt }),
    startSpare: () => startThread<SpareCalls, SpareEvents>({ name: 'spare', data, crashAt }),
  }
  const reading = threads.log.call('read', undefined)
  reading.catch(() => {}) // `recover` reports it
  let opening: Promise<OpenedLog> | undefined
  return {
    recover: recover => {
      opening = openOver(threads, data, recover, reading)
      return opening
    },
    stop: async () => {
      // The caller of `recover` reports why it failed.
      const opened = await opening?.catch(() => undefined)
      await (opened === undefined ? threads.log.terminate() : opened.commit.stop())
    },
  }
}

/** The threads of a log that is not recovered yet. */
export interface LogThreads {
  readonly log: CommitThreads['log']
  startSpare(): CommitThreads['spare']
}

/**
 * Recovers over threads that run already.
 * @param reading the log thread's call `read`, where it was made
 */
export async function openOver(
  { log, startSpare }: LogThreads,
  data: LogThreadData,
  { flushed, replay }: RecoverOptions,
  reading?: Promise<void>,
): Promise<OpenedLog> {
  try {
    await reading
    let step = await log.call('recover', flushed)
    while ('chunk' in step) {
      await replay(step.chunk)
      step = await log.call('replayed', undefined)
    }
    const { recovered } = step
    const commit = new Commit({ log, spare: startSpare() }, data, recovered)
    return { summary: recovered.summary, commit }
  } catch (error) {
    await log.terminate()
    throw error
  }
}
