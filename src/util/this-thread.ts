/**
 * The calling thread and its process, as the operating system and V8 know them: name, priority,
 * processor time, garbage, and when the system ends it.
 */
import { readdirSync, writeFileSync } from 'node:fs'
import { constants, getPriority, setPriority } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { assert } from './assert.ts'
import { tryNative } from './native.ts'
import { warn } from './say.ts'

/**
 * Time for all threads of libuv's pool to set their nice value at the start. It takes about 1 ms.
 */
const NICE_POOL_MS_MAX = 2_000

/** Linux keeps 15 bytes of a thread's name. */
const NAME_BYTES_MAX = 15

/**
 * Names this thread `weir-<role>`, so that `top -H`, `perf` and the bench's report tell the threads
 * apart.
 *
 * It writes to /proc instead of calling prctl(2), so it needs no native module: /proc/thread-self
 * is the thread that resolves it, and Node makes a synchronous call on the calling thread. Threads
 * that this thread starts later (DuckDB's) inherit the name. Without a writable /proc the old name
 * stays.
 */
export function nameThread(role: string): void {
  const name = `weir-${role}`
  assert(Buffer.byteLength(name) <= NAME_BYTES_MAX, 'the kernel keeps 15 bytes of a name')
  try {
    writeFileSync('/proc/thread-self/comm', name)
  } catch {}
}

/** See native/thread.cpp. */
interface NativeThread {
  niceThread(nice: number): boolean
  nicePool(nice: number, msMax: number): Promise<number>
  readonly threadCpuMs: () => number
  dieWithParent(): boolean
}

/**
 * Adds to the nice value of the calling thread, where the native module can set it. A higher value
 * is a smaller share of the processor. A thread inherits the value of the thread that starts it.
 */
export function niceThread(nice: number): void {
  tryNative<NativeThread>()?.niceThread(nice)
}

/**
 * Adds to the nice value of every thread in libuv's pool. DuckDB runs parts of a merge on
 * them and on threads that it starts from there, so this sets their priority. Call it once, before
 * DuckDB starts its threads. Asynchronous calls of `fs` and `crypto` run in the same pool.
 */
export async function nicePool(nice: number): Promise<void> {
  const refused = await tryNative<NativeThread>()?.nicePool(nice, NICE_POOL_MS_MAX)
  if (refused !== undefined && refused > 0)
    warn(`merges may delay acks: the system refused to lower the priority of ${refused} threads`)
}

/**
 * Adds to the nice value of every thread of this process. Threads that they start later inherit
 * it. Call it first, while the process has few threads.
 *
 * Linux takes the id of a thread where POSIX has that of a process, so no native module is needed.
 */
export function niceProcess(nice: number): void {
  for (const task of readdirSync('/proc/self/task')) {
    const id = Number(task)
    try {
      setPriority(id, Math.min(constants.priority.PRIORITY_LOW, getPriority(id) + nice))
    } catch {} // the thread has ended
  }
}

/** The highest value: the kernel ends this process before any other one. */
const OOM_SCORE_MAX = 1000

/**
 * Where memory runs out, the kernel ends this process first. Any process may raise its own score;
 * where /proc cannot be written the kernel takes the process with the most memory.
 */
export function offerToOutOfMemoryKiller(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', String(OOM_SCORE_MAX))
  } catch {}
}

/**
 * The kernel kills this process when the thread that started it ends. Does nothing where the native
 * module is missing.
 */
export function dieWithParent(): void {
  tryNative<NativeThread>()?.dieWithParent()
}

/**
 * A clock of the calling thread's processor time in ms; undefined where the native module is
 * missing.
 */
export function threadCpuClock(): (() => number) | undefined {
  return tryNative<NativeThread>()?.threadCpuMs
}

type Collect = (options: { readonly type: 'minor' }) => void

let collect: Collect | undefined

/**
 * Runs a minor garbage collection now; it takes about 0.2 ms.
 *
 * DuckDB's binding frees a chunk of rows (a megabyte or more) when V8 collects the object that
 * stands for it. V8 counts a few bytes for the object and would let hundreds of megabytes pile up.
 * The binding has no call that frees. Where V8 gives no access to its collector, V8 collects when
 * it decides to.
 */
export function runMinorGc(): void {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc')
    collect = (runInNewContext('globalThis.gc') as Collect | undefined) ?? (() => undefined)
  }
  collect({ type: 'minor' })
}
