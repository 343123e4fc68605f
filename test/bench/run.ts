/**
 * Runs the bench as a user does, with a temporary folder of its own. Files in that folder
 * afterwards are files that it left behind.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, vi } from 'vitest'
import { temporaryFolder } from '../util/server.ts'

const MAIN = fileURLToPath(new URL('../../bench/main.js', import.meta.url))
/** The programs that Weir and the bench call, whatever else is installed. */
const PROGRAMS = ['sync', 'flock', 'which', 'git', 'id', 'find', 'bash', 'sh']

interface BenchEnd {
  readonly code: number | null
  readonly output: string
  /** The names that are left in its temporary folder. */
  readonly left: readonly string[]
}

export interface RunningBench {
  readonly child: ChildProcess
  readonly ended: Promise<BenchEnd>
  output(): string
}

/** Starts `npm run bench -- ARGS` without npm. `path` replaces PATH. */
export function startBench(args: readonly string[], path = process.env['PATH'] ?? ''): RunningBench {
  // It is no test: what it starts ends with it.
  const { VITEST: _, ...env } = process.env
  const folder = temporaryFolder('weir-bench-test-')
  chmodSync(folder, 0o755) // the user of PostgreSQL enters it
  benchFolders.push(folder)
  const child = spawn(process.execPath, [MAIN, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...env, TMPDIR: folder, PATH: path },
  })
  let output = ''
  child.stdout.on('data', data => (output += String(data)))
  child.stderr.on('data', data => (output += String(data)))
  const ended = new Promise<BenchEnd>(resolve => {
    child.once('close', code => resolve({ code, output, left: readdirSync(folder) }))
  })
  return { child, ended, output: () => output }
}

/** A PATH without wrk and without a peer. */
export function barePath(): string {
  const folder = join(temporaryFolder('weir-bench-path-'), 'bin')
  mkdirSync(folder)
  for (const name of PROGRAMS) {
    const found = ['/bin', '/usr/bin', '/sbin', '/usr/sbin'].map(at => join(at, name)).find(existsSync)
    if (found !== undefined) symlinkSync(found, join(folder, name))
  }
  return folder
}

/** A process. Its id may be used again, so `began` tells the two processes apart. */
export interface Member {
  readonly pid: number
  readonly command: string
  readonly began: string
}

/** A process and its descendants, as long as each has its parent. */
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

/** The fields of /proc/…/stat after the name: state, parent, …; the 20th is the start time. */
function fieldsOf(pid: number): string[] {
  return read(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ')
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // the process has ended
  }
}

/** The processes of the family that still run. */
export function alive(family: readonly Member[]): Member[] {
  return family.filter(({ pid, began }) => {
    const fields = fieldsOf(pid)
    return fields[0] !== 'Z' && began !== '' && fields[19] === began
  })
}

const benchFolders: string[] = []

/**
 * Kills processes that a failed test left running: they have the test's folder in their
 * environment.
 */
afterAll(() => {
  for (const pid of all()) {
    const environment = read(`/proc/${pid}/environ`).split('\0')
    if (benchFolders.some(folder => environment.includes(`TMPDIR=${folder}`))) process.kill(pid, 'SIGKILL')
  }
})

/** Waits until `find` returns a value. */
export function eventually<T>(find: () => T | undefined): Promise<T> {
  const attempt = () => {
    const found = find()
    if (found === undefined) throw new Error('the state did not come within the time limit')
    return found
  }
  return vi.waitFor(attempt, { timeout: 120_000, interval: 20 })
}

/** The processes of a bench, as soon as one of them is `wanted`. */
export function familyWith(bench: RunningBench, wanted: RegExp): Promise<Member[]> {
  return eventually(() => {
    const family = familyOf(bench.child.pid as number)
    return family.some(one => wanted.test(one.command)) ? family : undefined
  })
}
