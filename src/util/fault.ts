/**
 * Faults of the disk, on order: a test may make the nth write, sync, rename, … of some files fail, in every thread.
 *
 * Off unless the hidden option `--fault-at "OPERATION PATTERN NTH CODE FILE"` names one: while FILE exists, the NTH
 * call of the Disk's OPERATION whose path matches the regular expression PATTERN, and every one after it, throws CODE.
 * A write that fails has written the first half. Several are parted by `;`. When FILE is removed, all works again.
 */
import { existsSync } from 'node:fs'
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'
import { CannotRun } from '../errors.ts'
import type { Disk, FileHandle } from './disk.ts'

/** Threads that start later inherit it. */
const KEY = 'weir.fault-at'

type Operation = Exclude<keyof Disk, 'exists' | 'size' | 'close'>
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

interface Fault {
  readonly operation: string
  readonly path: RegExp
  readonly nth: number
  readonly code: string
  readonly file: string
  seen: number
}

/** For the threads that start from now on. @throws CannotRun where `spec` is not as above */
export function orderFaults(spec: string): void {
  faultsOf(spec)
  setEnvironmentData(KEY, spec)
}

/** Makes the calls of this thread's `disk` fail as ordered; nothing else changes where nothing is. */
export function armFaults(disk: Disk): void {
  const faults = faultsOf((getEnvironmentData(KEY) as string | undefined) ?? '')
  if (faults.length > 0) Object.assign(disk, faulty({ ...disk }, faults))
}

function faultsOf(spec: string): Fault[] {
  if (spec === '') return []
  return spec.split(';').map(text => {
    const [operation = '', pattern = '', nth = '', code = '', file = ''] = text.trim().split(/ +/)
    if (!OPERATIONS.includes(operation) || !/^[1-9]\d*$/.test(nth) || !/^E[A-Z]+$/.test(code) || file === '')
      throw new CannotRun(`--fault-at takes "OPERATION PATTERN NTH CODE FILE", not "${text}"`)
    return { operation, path: new RegExp(pattern), nth: Number(nth), code, file, seen: 0 }
  })
}

function faulty(real: Disk, faults: readonly Fault[]): Disk {
  /** A file that is renamed while it is open goes by its new name. */
  const paths = new Map<FileHandle, string>()
  const check = (operation: Operation, path: string, before: () => void = () => undefined): void => {
    const code = faults.map(fault => codeOf(fault, operation, path)).find(one => one !== undefined)
    if (code === undefined) return
    before()
    throw Object.assign(new Error(`${code}: ordered by a test, ${operation} '${path}'`), {
      code,
      syscall: operation,
      path,
    })
  }
  const pathOf = (file: FileHandle) => paths.get(file) ?? ''
  return {
    ...real,
    open: (path, flags, mode) => {
      check('open', path)
      const file = real.open(path, flags, mode)
      paths.set(file, path)
      return file
    },
    read: (file, into, position) => {
      check('read', pathOf(file))
      return real.read(file, into, position)
    },
    write: (file, buffers, position, past) => {
      check('write', pathOf(file), () => real.write(file, firstHalf(buffers), position, past))
      real.write(file, buffers, position, past)
    },
    fdatasync: file => {
      check('fdatasync', pathOf(file))
      real.fdatasync(file)
    },
    fsync: file => {
      check('fsync', pathOf(file))
      real.fsync(file)
    },
    truncate: (file, bytes) => {
      check('truncate', pathOf(file))
      real.truncate(file, bytes)
    },
    rename: (from, to) => {
      check('rename', to)
      real.rename(from, to)
      for (const [file, path] of paths) if (path === from) paths.set(file, to)
    },
    unlink: path => {
      check('unlink', path)
      real.unlink(path)
    },
    mkdir: path => {
      if (!real.exists(path)) check('mkdir', path)
      real.mkdir(path)
    },
    rmdir: path => {
      check('rmdir', path)
      real.rmdir(path)
    },
    readdir: path => {
      check('readdir', path)
      return real.readdir(path)
    },
  }
}

/** The code that this call fails with; undefined: it does not. */
function codeOf(fault: Fault, operation: Operation, path: string): string | undefined {
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
