/** The process's end without a goodbye. */
import { constants } from 'node:os'

/**
 * Ends the process at once, as a crash would: recovery is the same. Not exit(), which waits for threads, and has hung
 * and crashed while one was inside LMDB or DuckDB. From any thread.
 */
export function endNow(): never {
  process.kill(process.pid, 'SIGKILL')
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000) // the signal ends this
}

/** How long the signal may take: the first process of a container does not die of its own. */
const DIE_MS = 1_000

/**
 * Ends the process by the default action of `signal`, as if nobody had listened: a shell sees 128 + its number. Main thread.
 */
export function dieOf(signal: NodeJS.Signals): void {
  // Node ignores SIGPIPE; a signal that had a listener and lost it has the system's action again.
  process.on(signal, () => undefined)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
  setTimeout(() => process.exit(128 + constants.signals[signal]), DIE_MS)
}
