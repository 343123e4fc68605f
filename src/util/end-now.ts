/** The process's end without a goodbye. */

/**
 * Ends the process at once, as a crash would: recovery is the same. Not exit(), which waits for threads, and has hung
 * and crashed while one was inside LMDB or DuckDB. From any thread.
 */
export function endNow(): never {
  process.kill(process.pid, 'SIGKILL')
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000) // the signal ends this
}
