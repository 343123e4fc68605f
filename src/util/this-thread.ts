/** The calling thread and its process, as the operating system and V8 know them. */
import { readdirSync, writeFileSync } from 'node:fs'
import { constants, getPriority, setPriority } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { assert } from './errors.ts'
import { tryNative } from './native.ts'

/** Time for all threads of libuv's pool to set their nice value. It takes about 1 ms. */
const NICE_POOL_MS_MAX = 2_000

/** Linux keeps 15 bytes of a thread's name. */
const NAME_BYTES_MAX = 15

/**
 * Names this thread `weir-<role>`, for `top -H`, `perf` and the bench's report. Threads that it
 * starts later (DuckDB's) inherit the name.
 *
 * It writes to /proc instead of calling prctl(2), so it needs no native module: /proc/thread-self
 * is the thread that resolves it, and Node makes a synchronous call on the calling thread.
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
  niceThread(nice: number): void
  nicePool(nice: number, msMax: number): Promise<void>
  readonly threadCpuMs: () => number
  dieWithParent(): void
}

/** Adds to the nice value of this thread, where the module can. New threads inherit it. */
export function niceThread(nice: number): void {
  tryNative<NativeThread>()?.niceThread(nice)
}

/**
 * Adds to the nice value of every thread in libuv's pool. DuckDB runs parts of a merge on them and
 * on threads that it starts from there. Call it once, before DuckDB starts its threads.
 */
export async function nicePool(nice: number): Promise<void> {
  await tryNative<NativeThread>()?.nicePool(nice, NICE_POOL_MS_MAX)
}

/** Adds to the nice value of every thread of this process. Call it first, while there are few. */
export function niceProcess(nice: number): void {
  setNice(before => Math.min(constants.priority.PRIORITY_LOW, before + nice))
}

/**
 * Gives every thread of this process the nice value of its main thread. Linux lets root do so, and
 * others as far as their RLIMIT_NICE goes.
 */
export function endNice(): void {
  const nice = getPriority()
  setNice(() => nice)
}

/**
 * Linux takes the id of a thread where POSIX has that of a process, so no native module is needed.
 */
function setNice(niceOf: (before: number) => number): void {
  for (const task of readdirSync('/proc/self/task')) {
    const id = Number(task)
    try {
      setPriority(id, niceOf(getPriority(id)))
    } catch {} // the thread has ended, or must stay as it is
  }
}

/** The highest value: the kernel ends this process before any other one. */
const OOM_SCORE_MAX = 1000

/** Where memory runs out, the kernel ends this process first. Any process may raise its score. */
export function offerToOutOfMemoryKiller(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', String(OOM_SCORE_MAX))
  } catch {}
}

/** The kernel kills this process when the thread that started it ends. Needs the native module. */
export function dieWithParent(): void {
  tryNative<NativeThread>()?.dieWithParent()
}

/** A clock of this thread's processor time in ms; undefined without the native module. */
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
