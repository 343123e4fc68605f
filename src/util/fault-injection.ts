/**
 * The seam of the crash and fault tests: named points where the process dies, and injected disk
 * errors. Two hidden options control it; without them nothing here changes anything.
 *
 * `--crash-at name[:nth]` kills the process with SIGKILL when a thread passes the crash point
 * `name` the nth time.
 *
 * `--fault-at "OPERATION PATTERN NTH CODE FILE"` injects disk errors. While FILE exists, the NTH
 * call of the Disk's OPERATION whose path matches the regular expression PATTERN throws CODE, and
 * so does every later one. A write that fails has written the first half of its bytes. `;`
 * separates several faults. The disk works again when FILE is gone.
 */
import { existsSync } from 'node:fs'
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'
import { type Disk, disk, type FileHandle } from './disk.ts'
import { killProcess } from './end-process.ts'
import { CannotRun } from './errors.ts'

let armedPoint = ''
let countdown = 0

/** Arms this thread's injected faults, and the crash point `name` or `name:nth`; '' for none. */
export function armCrash(spec: string): void {
  armFaults()
  const [name = '', nth = '1'] = spec.split(':')
  armedPoint = name
  countdown = Number(nth)
}

/** Kills the process with SIGKILL if `name` is the armed point and this is its nth passing. */
export function crashPoint(name: string): void {
  if (armedPoint !== name) return
  countdown -= 1
  if (countdown > 0) return
  killProcess()
}

/** Key of the environment data that threads inherit. */
const KEY = 'weir.fault-at'

type Operation = Exclude<keyof Disk, 'exists' | 'size' | 'kind' | 'close'>
const OPERATIONS: readonly string[] = [
  'open',
  'read',
  'write',
  'fdatasync',
  'fsync',
  'truncate',
  'rename',
  'unlink',
  'mkdir',
  'rmdir',
  'readdir',
] satisfies readonly Operation[]

interface InjectedFault {
  readonly operation: string
  readonly path: RegExp
  readonly nth: number
  readonly code: string
  readonly file: string
  seen: number
}

/** Sets the faults of threads and processes that start from now on. @throws CannotRun */
export function setFaults(spec: string): void {
  faultsOf(spec)
  setEnvironmentData(KEY, spec)
}

/** Makes the calls of this thread's `disk` fail as `setFaults` says. */
function armFaults(): void {
  const faults = faultsOf(faultSpec())
  if (faults.length > 0) Object.assign(disk, faulty({ ...disk }, faults))
}

/** The faults that `setFaults` has set, for a process that is started from here. */
export function faultSpec(): string {
  return (getEnvironmentData(KEY) as string | undefined) ?? ''
}

function faultsOf(spec: string): InjectedFault[] {
  if (spec === '') return []
  return spec.split(';').map(text => {
    const [operation = '', pattern = '', nth = '', code = '', file = ''] = text.trim().split(/ +/)
    if (!OPERATIONS.includes(operation) || !/^[1-9]\d*$/.test(nth) || !/^E[A-Z]+$/.test(code) || file === '')
      throw new CannotRun(`--fault-at takes "OPERATION PATTERN NTH CODE FILE", not "${text}"`)
    return { operation, path: new RegExp(pattern), nth: Number(nth), code, file, seen: 0 }
  })
}

function faulty(real: Disk, faults: readonly InjectedFault[]): Disk {
  /** Paths of open files. A rename changes the path of an open file. */
  const paths = new Map<FileHandle, string>()
  const check = (operation: Operation, path: string, before: () => void = () => undefined): void => {
    const code = faults.map(fault => codeOf(fault, operation, path)).find(one => one !== undefined)
    if (code === undefined) return
    before()
    throw Object.assign(new Error(`${code}: injected by --fault-at, ${operation} '${path}'`), {
      code,
      syscall: operation,
      path,
    })
  }
  const pathOf = (of: FileHandle | string) => (typeof of === 'string' ? of : (paths.get(of) ?? ''))
  const checked =
    <Of extends FileHandle | string, More extends unknown[], Result>(
      operation: Operation,
      call: (of: Of, ...more: More) => Result,
    ) =>
    (of: Of, ...more: More): Result => {
      check(operation, pathOf(of))
      return call(of, ...more)
    }
  return {
    ...real,
    open: (path, flags, mode) => {
      check('open', path)
      const file = real.open(path, flags, mode)
      paths.set(file, path)
      return file
    },
    write: (file, buffers, position, past) => {
      check('write', pathOf(file), () => real.write(file, firstHalf(buffers), position, past))
      real.write(file, buffers, position, past)
    },
    rename: (from, to) => {
      check('rename', to)
      real.rename(from, to)
      for (const [file, path] of paths) if (path === from) paths.set(file, to)
    },
    mkdir: path => {
      if (!real.exists(path)) check('mkdir', path)
      real.mkdir(path)
    },
    read: checked('read', real.read),
    fdatasync: checked('fdatasync', real.fdatasync),
    fsync: checked('fsync', real.fsync),
    truncate: checked('truncate', real.truncate),
    unlink: checked('unlink', real.unlink),
    rmdir: checked('rmdir', real.rmdir),
    readdir: checked('readdir', real.readdir),
  }
}

/** The code that this call fails with; undefined where it succeeds. */
function codeOf(fault: InjectedFault, operation: Operation, path: string): string | undefined {
  if (fault.operation !== operation || !fault.path.test(path)) return undefined
  fault.seen = existsSync(fault.file) ? fault.seen + 1 : 0
  return fault.seen >= fault.nth ? fault.code : undefined
}

function firstHalf(buffers: readonly Uint8Array[]): Uint8Array[] {
  let bytes = Math.floor(buffers.reduce((sum, { byteLength }) => sum + byteLength, 0) / 2)
  const half: Uint8Array[] = []
  for (const buffer of buffers) {
    half.push(buffer.subarray(0, bytes))
    bytes -= Math.min(bytes, buffer.byteLength)
  }
  return half
}
