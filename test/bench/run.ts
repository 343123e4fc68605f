/** Runs the bench as a user does, on a temporary folder of its own: what it leaves behind is what is in there afterwards. */
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { vi } from 'vitest'
import { temporaryFolder } from '../util/server.ts'

const MAIN = fileURLToPath(new URL('../../bench/main.js', import.meta.url))
/** What Weir and the bench call, whatever else is installed. */
const PROGRAMS = ['sync', 'flock', 'which', 'git', 'id', 'find', 'bash', 'sh']

export interface BenchEnd {
  readonly code: number | null
  readonly output: string
  /** Names in its temporary folder. */
  readonly left: readonly string[]
}

export interface RunningBench {
  readonly child: ChildProcess
  readonly ended: Promise<BenchEnd>
  output(): string
}

/** Starts `npm run bench -- ARGS` without npm. `path`: instead of the PATH. */
export function startBench(args: readonly string[], path = process.env['PATH'] ?? ''): RunningBench {
  const folder = temporaryFolder('weir-bench-test-')
  chmodSync(folder, 0o755) // PostgreSQL's user goes through it
  const child = spawn(process.execPath, [MAIN, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TMPDIR: folder, PATH: path },
  })
  let output = ''
  child.stdout.on('data', data => (output += String(data)))
  child.stderr.on('data', data => (output += String(data)))
  const ended = new Promise<BenchEnd>(resolve => {
    child.once('close', code => resolve({ code, output, left: readdirSync(folder) }))
  })
  return { child, ended, output: () => output }
}

/** A PATH on which there is neither wrk nor a peer. */
export function barePath(): string {
  const folder = join(temporaryFolder('weir-bench-path-'), 'bin')
  mkdirSync(folder)
  for (const name of PROGRAMS) {
    const found = ['/bin', '/usr/bin', '/sbin', '/usr/sbin'].map(at => join(at, name)).find(existsSync)
    if (found !== undefined) symlinkSync(found, join(folder, name))
  }
  return folder
}

/** Ids and command lines of a process and of all that it started, the deepest last. */
export function familyOf(pid: number): { readonly pid: number; readonly command: string }[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const parent = /\) \S (\d+)/.exec(read(`/proc/${name}/stat`))?.[1]
    parents.set(Number(name), Number(parent))
  }
  const family = [pid]
  for (const one of family)
    for (const [child, parent] of parents) if (parent === one && !family.includes(child)) family.push(child)
  return family.map(one => ({ pid: one, command: read(`/proc/${one}/cmdline`).replaceAll('\0', ' ') }))
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // it has ended
  }
}

/** What `look` answers, once it answers something. */
export function eventually<T>(look: () => T | undefined): Promise<T> {
  const find = () => {
    const found = look()
    if (found === undefined) throw new Error('it did not come about')
    return found
  }
  return vi.waitFor(find, { timeout: 120_000, interval: 20 })
}

/** A bench's processes, once one of them is `wanted`. */
export function familyWith(bench: RunningBench, wanted: RegExp): Promise<ReturnType<typeof familyOf>> {
  return eventually(() => {
    const family = familyOf(bench.child.pid as number)
    return family.some(one => wanted.test(one.command)) ? family : undefined
  })
}

/** Those of them that still run: not ended, and no zombie. */
export function alive(family: readonly { readonly pid: number; readonly command: string }[]): string[] {
  return family
    .filter(
      ({ pid, command }) => command !== '' && read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ') === command,
    )
    .map(one => one.command)
}
