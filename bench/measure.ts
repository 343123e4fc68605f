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

/** CPU seconds by thread name, largest first: where the server's time goes. */
export function cpuByThread(pid: number): { name: string; seconds: number }[] {
  const threads = readdirSync(`/proc/${pid}/task`).map(task => {
    const text = readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8')
    const fields = text.replace(/^.*\) /, '').split(' ')
    return {
      name: /\((.*)\)/.exec(text)?.[1] ?? '?',
      task,
      seconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
    }
  })
  return threads.sort((a, b) => b.seconds - a.seconds)
}

/** Resident memory in bytes: anonymous and shared, mapped files apart. */
export function memory(pid: number): { anonymous: number; shared: number; files: number } {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8')
  const kilobytes = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
  return { anonymous: kilobytes('RssAnon'), shared: kilobytes('RssShmem'), files: kilobytes('RssFile') }
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

export function median(values: readonly number[]): number {
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
