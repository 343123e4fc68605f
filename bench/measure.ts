/** Figures of a process from the operating system, and small arithmetic for the reports. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Ticks per second in which Linux reports CPU time, on every architecture that Weir runs on. */
const TICKS_PER_SECOND = 100

/** CPU seconds of a process and of all processes below it, ended ones included. */
export function cpuSeconds(pid: number): number {
  let sum = 0
  for (const one of treeOf(pid)) {
    const fields = statOf(`/proc/${one}`)
    // utime and stime of the process, cutime and cstime of its ended children.
    for (const at of [11, 12, 13, 14]) sum += Number(fields?.[at] ?? 0)
  }
  return sum / TICKS_PER_SECOND
}

/** The ids of a process and of all processes below it. */
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

/**
 * The fields of a stat file after the name in brackets (state, parent, …); undefined after its end.
 */
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

/** Those of a process and of all processes below it. */
export function threadTimes(pid: number): ThreadTimes {
  const times = new Map<string, number>()
  for (const one of treeOf(pid))
    for (const task of tasksOf(one)) {
      const fields = statOf(`/proc/${one}/task/${task}`)
      if (fields !== undefined) times.set(task, (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND)
    }
  return times
}

function tasksOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return [] // it has ended
  }
}

/**
 * A server's CPU time since `before` by thread name, largest first, without those below a hundredth
 * of all. Threads of one name are added up. The main thread is `main`; Node's own threads (garbage
 * collection, compiling, its pool) are `node`.
 */
export function cpuByThread(pid: number, before: ThreadTimes = new Map()): string {
  const names = new Map<string, { seconds: number; threads: number }>()
  let all = 0
  for (const [task, seconds] of threadTimes(pid)) {
    const used = seconds - (before.get(task) ?? 0)
    const name = task === String(pid) ? 'main' : nameOf(task)
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

function nameOf(task: string): string {
  try {
    return readFileSync(`/proc/${task}/comm`, 'utf8').trim()
  } catch {
    return 'ended'
  }
}

/** Resident memory in bytes. */
interface Memory {
  readonly anonymous: number
  readonly shared: number
}

/**
 * The resident memory of a process and all processes below it, without mapped files. Shared memory
 * counts once.
 */
export function memory(pid: number): Memory {
  let [anonymous, shared] = [0, 0]
  for (const one of treeOf(pid)) {
    try {
      const text = readFileSync(`/proc/${one}/status`, 'utf8')
      const bytes = (name: string) =>
        Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
      anonymous += bytes('RssAnon')
      shared = Math.max(shared, bytes('RssShmem'))
    } catch {} // it has ended
  }
  return { anonymous, shared }
}

/**
 * Reads a process's memory at an interval.
 * @returns a function that stops and returns the largest sum of `of`
 */
export function watchMemory(pid: number, intervalMs: number, of: (memory: Memory) => number): () => number {
  let largest = 0
  const read = () => {
    try {
      largest = Math.max(largest, of(memory(pid)))
    } catch {} // the process has ended, which its owner reports
  }
  read()
  const timer = setInterval(read, intervalMs).unref()
  return () => {
    clearInterval(timer)
    read()
    return largest
  }
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

/** The median; 0 for an empty list. */
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

/** A line of a name and its value. */
export function row(name: string, value: string): string {
  return `  ${name.padEnd(46)} ${value}`
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

export function sleep(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, Math.max(0, ms)))
}

/**
 * Calls `work` at a steady rate, one call at a time. Late calls follow at once, but none begins
 * after `end`.
 */
export async function everyMs(ms: number, end: number, work: () => Promise<void>): Promise<void> {
  for (let due = performance.now() + ms; due < end && performance.now() < end; due += ms) {
    const wait = due - performance.now()
    if (wait > 0) await sleep(wait)
    await work()
  }
}

/** A quantile from 0 to 1; 0 for an empty list. It sorts the values. */
export function quantileOf(values: number[], quantile: number): number {
  values.sort((a, b) => a - b)
  return values[Math.min(values.length - 1, Math.floor(values.length * quantile))] ?? 0
}

/** Median, 99th percentile and largest of some ms. */
export function latencies(ms: readonly number[]): string {
  const sorted = [...ms]
  const at = (quantile: number) => `${quantileOf(sorted, quantile).toFixed(0)} ms`
  return `p50 ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)}`
}

/**
 * The trend of a figure: its largest value, its mean over the last third of a run, and its change
 * over that third by a straight line.
 */
export function trendOf<T extends { readonly minutes: number }>(
  samples: readonly T[],
  of: (sample: T) => number,
) {
  const end = samples.at(-1)?.minutes ?? 0
  const third = samples.filter(({ minutes }) => minutes >= (2 * end) / 3)
  const change = (slope(third.map(sample => [sample.minutes, of(sample)])) * end) / 3
  const mean = third.reduce((sum, sample) => sum + of(sample), 0) / Math.max(1, third.length)
  return { largest: Math.max(...samples.map(of)), mean, change }
}

/** The slope of the straight line through the points, by least squares. */
export function slope(points: readonly (readonly [number, number])[]): number {
  const mean = (of: (point: readonly [number, number]) => number) =>
    points.reduce((sum, point) => sum + of(point), 0) / Math.max(1, points.length)
  const [x, y] = [mean(([at]) => at), mean(([, value]) => value)]
  const spread = points.reduce((sum, [at]) => sum + (at - x) ** 2, 0)
  return spread === 0 ? 0 : points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0) / spread
}
