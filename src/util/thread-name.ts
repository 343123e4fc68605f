/**
 * Gives the calling thread a name that the kernel knows, so that `top -H`, `perf` and a bench's report tell the threads apart.
 *
 * Through /proc instead of prctl(2): /proc/thread-self is the thread that resolves it, and a synchronous call of Node runs on the
 * calling thread. So it needs no native module. Threads that a named thread starts later (DuckDB's) inherit its name.
 */
import { writeFileSync } from 'node:fs'
import { assert } from './assert.ts'

/** Linux keeps 15 bytes and cuts off the rest. */
const NAME_BYTES_MAX = 15

/** Names this thread `weir-<role>`. Without a writable /proc the name stays: it is a help to readers and nothing else. */
export function nameThread(role: string): void {
  const name = `weir-${role}`
  assert(Buffer.byteLength(name) <= NAME_BYTES_MAX, 'the kernel keeps 15 bytes of a name')
  try {
    writeFileSync('/proc/thread-self/comm', name)
  } catch {}
}
