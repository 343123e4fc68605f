/** What the operating system says of a process, and small arithmetic for the reports. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Kernel ticks per second, as Linux reports CPU time to programs on every architecture that Weir runs on. */
const TICKS_PER_SECOND = 100

/** CPU seconds (user + system, all threads) that a process has used so far. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** CPU seconds of a process, of all that it started, and of those of them that have ended. */
export function treeCpuSeconds(pid: number): number {
  let sum = 0
  for (const one of treeOf(pid)) {
    const fields = statOf(`/proc/${one}`)
    // utime, stime, and both of the children that were waited for.
    for (const at of [11, 12, 13, 14]) sum += Number(fields?.[at] ?? 0)
  }
  return sum / TICKS_PER_SECOND
}

/** A process and all that it started, as ids. */
function treeOf(pid: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const parent = Number(statOf(`/proc/${name}`)?.[1])
    children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  const tree = [pid]
  for (const one of tree) tree.push(...(children.get(one) ?? []))
  return tree
}

/** The fields of a stat file after the name in brackets (state, parent, …); undefined where it has ended. */
function statOf(folder: string): string[] | undefined {
  try {
    return readFileSync(`${folder}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
  } catch {
    return undefined
  }
}

/** CPU seconds of each thread so far, by its id. */
export type ThreadTimes = ReadonlyMap<string, number>

export function threadTimes(pid: number): ThreadTimes {
  const times = new Map<string, number>()
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const fields = statOf(`/proc/${pid}/task/${task}`)
    if (fields !== undefined) times.set(task, (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND)
  }
  return times
}

/**
 * Where a server's CPU time went since `before`: by name, largest first, those below a hundredth of all left out. Threads of
 * one name are one line; Node's own (garbage collection, compiling, its pool) are `node`, the main thread `main`.
 */
export function cpuByThread(pid: number, before: ThreadTimes = new Map()): string {
  const names = new Map<string, { seconds: number; threads: number }>()
  let all = 0
  for (const [task, seconds] of threadTimes(pid)) {
    const used = seconds - (before.get(task) ?? 0)
    const name = task === String(pid) ? 'main' : nameOf(pid, task)
    const sum = names.get(name) ?? { seconds: 0, threads: 0 }
    names.set(name, { seconds: sum.seconds + used, threads: sum.threads + (used > 0 ? 1 : 0) })
    all += used
  }
  const sorted = [...names].sort(([, a], [, b]) => b.seconds - a.seconds)
  return sorted
    .filter(([, { seconds }]) => seconds >= all / 100 && seconds > 0)
    .map(
      ([name, { seconds, threads }]) =>
        `${name}${threads > 1 ? ` (${threads} threads)` : ''} ${seconds.toFixed(1)} s`,
    )
    .join(', ')
}

function nameOf(pid: number, task: string): string {
  try {
    return readFileSync(`/proc/${pid}/task/${task}/comm`, 'utf8').trim()
  } catch {
    return 'ended'
  }
}

/** Resident memory in bytes: anonymous and shared, mapped files apart. */
export function memory(pid: number): { anonymous: number; shared: number; files: number } {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8')
  const kilobytes = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
  return { anonymous: kilobytes('RssAnon'), shared: kilobytes('RssShmem'), files: kilobytes('RssFile') }
}

/** The same of a process and all that it started; what they share is counted once. */
export function treeMemory(pid: number): { anonymous: number; shared: number } {
  let [anonymous, shared] = [0, 0]
  for (const one of treeOf(pid)) {
    try {
      const of = memory(one)
      anonymous += of.anonymous
      shared = Math.max(shared, of.shared)
    } catch {} // it has ended
  }
  return { anonymous, shared }
}

/** Bytes of all files below a folder. */
export function folderBytes(folder: string): number {
  let bytes = 0
  for (const name of readdirSync(folder, { recursive: true }) as string[]) {
    try {
      const stat = statSync(join(folder, name))
      if (stat.isFile()) bytes += stat.blocks * 512
    } catch {}
  }
  return bytes
}

/** Of nothing: 0. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return 0
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** 1234567 → `1.23M`. */
export function short(value: number): string {
  if (value >= 1e9) return `${(value / 1e9).toFixed(2)}G`
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)}M`
  if (value >= 1e3) return `${(value / 1e3).toFixed(1)}k`
  return value.toFixed(value < 10 ? 2 : 0)
}

/** A line `name  value`. */
export function row(name: string, value: string): string {
  return `  ${name.padEnd(46)} ${value}`
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

export function sleep(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, Math.max(0, ms)))
}

/** Calls `work` at a steady rate, one call at a time; late calls follow at once. None begins after `end`, however many are late. */
export async function everyMs(ms: number, end: number, work: () => Promise<void>): Promise<void> {
  for (let due = performance.now() + ms; due < end && performance.now() < end; due += ms) {
    const wait = due - performance.now()
    if (wait > 0) await sleep(wait)
    await work()
  }
}

/** Sorts the values. Of nothing: 0. */
export function quantileOf(values: number[], quantile: number): number {
  values.sort((a, b) => a - b)
  return values[Math.floor(values.length * quantile)] ?? 0
}

/** Of the straight line through the points, by least squares. */
export function slope(points: readonly (readonly [number, number])[]): number {
  const mean = (of: (point: readonly [number, number]) => number) =>
    points.reduce((sum, point) => sum + of(point), 0) / Math.max(1, points.length)
  const [x, y] = [mean(([at]) => at), mean(([, value]) => value)]
  const spread = points.reduce((sum, [at]) => sum + (at - x) ** 2, 0)
  return spread === 0 ? 0 : points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0) / spread
}
