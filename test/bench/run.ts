/** Runs the bench as a user does, on a temporary folder of its own: what it leaves behind is what is in there afterwards. */
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, vi } from 'vitest'
import { temporaryFolder } from '../util/server.ts'

const MAIN = fileURLToPath(new URL('../../bench/main.js', import.meta.url))
/** What Weir and the bench call, whatever else is installed. */
const PROGRAMS = ['sync', 'flock', 'which', 'git', 'id', 'find', 'bash', 'sh']

interface BenchEnd {
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
  benchFolders.push(folder)
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

/** A process; its id may be another's later, `began` says whose. */
export interface Member {
  readonly pid: number
  readonly command: string
  readonly began: string
}

/** A process and all that it started, and theirs, as long as each has its parent. */
function familyOf(pid: number): Member[] {
  const parents = new Map(all().map(one => [one, Number(fieldsOf(one)[1])]))
  const family = [pid]
  for (const one of family)
    for (const [child, parent] of parents) if (parent === one && !family.includes(child)) family.push(child)
  return family.map(member)
}

function all(): number[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(Number)
}

function member(pid: number): Member {
  return {
    pid,
    command: read(`/proc/${pid}/cmdline`).replaceAll('\0', ' '),
    began: fieldsOf(pid)[19] ?? '',
  }
}

/** Of /proc/…/stat, after the name: state, parent, …, and the 20th when it began. */
function fieldsOf(pid: number): string[] {
  return read(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ')
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // it has ended
  }
}

/** Those of them that still run. */
export function alive(family: readonly Member[]): Member[] {
  return family.filter(({ pid, began }) => {
    const fields = fieldsOf(pid)
    return fields[0] !== 'Z' && began !== '' && fields[19] === began
  })
}

const benchFolders: string[] = []

/** What a failed test left running: it has the test's folder in its environment. */
afterAll(() => {
  for (const pid of all()) {
    const environment = read(`/proc/${pid}/environ`).split('\0')
    if (benchFolders.some(folder => environment.includes(`TMPDIR=${folder}`))) process.kill(pid, 'SIGKILL')
  }
})

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
export function familyWith(bench: RunningBench, wanted: RegExp): Promise<Member[]> {
  return eventually(() => {
    const family = familyOf(bench.child.pid as number)
    return family.some(one => wanted.test(one.command)) ? family : undefined
  })
}
