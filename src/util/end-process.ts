/** How the process ends: the signals that ask it to stop, and the two ways to end at once. */
import { constants } from 'node:os'
import { isMainThread } from 'node:worker_threads'
import { monotonicMs } from './clock.ts'

/** Time in which a second signal is a copy of the first, which npm forwarded. */
export const SIGNAL_ECHO_MS = 300

/** The signals that ask a process to stop. */
export const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const

/**
 * A listener that ignores the second copy of a signal: under `npm start` a terminal and npm both
 * send Ctrl-C. Use one result for both signals.
 */
export function withoutEchoes(listener: (signal: NodeJS.Signals) => void): (signal: NodeJS.Signals) => void {
  let lastMs = Number.NEGATIVE_INFINITY
  return signal => {
    const nowMs = monotonicMs()
    if (nowMs - lastMs < SIGNAL_ECHO_MS) return
    lastMs = nowMs
    listener(signal)
  }
}

/** Time for a signal to end the process. The first process of a container ignores its own. */
const DIE_MS = 1_000

let writeLast: () => void = () => undefined

/** Sets what endNow() does first on this thread: lines.ts writes the last lines. */
export function beforeEnd(last: () => void): void {
  writeLast = last
}

/**
 * Ends the process as a crash would; recovery is the same. exit() waits for threads, and it has
 * hung and crashed while a thread was inside LMDB or DuckDB. Any thread may call this.
 */
export function endNow(): never {
  writeLast()
  killProcess()
}

/** The same without the last lines. */
export function killProcess(): never {
  process.kill(process.pid, 'SIGKILL')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, DIE_MS)
  // The kernel ignores the signal where this is the first process of a container. abort() ends in a
  // fault of the processor, which the kernel never ignores. No thread but the main one has abort();
  // another one ends alone, and the main thread calls this when it sees that.
  if (isMainThread) process.abort()
  process.exit(1)
}

/** Ends the process by `signal`, for a shell to see 128 + its number. Main thread only. */
export function dieOf(signal: NodeJS.Signals): void {
  // Node ignores SIGPIPE. The system's default action returns when a signal loses its last
  // listener.
  process.on(signal, () => undefined)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
  setTimeout(() => process.exit(128 + constants.signals[signal]), DIE_MS)
}
