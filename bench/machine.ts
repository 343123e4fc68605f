/**
 * The machine and the build that figures belong to, and the pause between runs, so that no run pays
 * for the one before.
 */
import { execFile, execFileSync } from 'node:child_process'
import { readFileSync, statfsSync, statSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { promisify } from 'node:util'
import { chooseNative } from '../src/util/native.ts'
import { short, sleep } from './measure.ts'
import { oneOf } from './options.ts'

const CHECK_MS = 250
/** The longest wait for a disk that other programs use. */
const SETTLE_MS_MAX = 30_000
const SECTOR_BYTES = 512
/** Most bytes per check on a quiet disk: journals and logs of the system always write a little. */
const QUIET_BYTES = 1e6
/** A minute of full batches leaves some 10 GB in each server's folder. */
const FREE_BYTES_MIN = 25e9

/** Returns the lines above the figures. `kernel` is the `--kernel` that the server gets. */
export function describeMachine(kernel: string | undefined): string[] {
  const choice = chooseNative(oneOf('kernel', kernel, ['native', 'js']) ?? '')
  const { bavail, blocks, bsize } = statfsSync(tmpdir())
  const free = bavail * bsize
  return [
    `machine: ${cpus().length} cores, ${cpus()[0]?.model.trim() ?? 'of an unknown model'}, Node ${process.version}, kernel ${choice}, commit ${commit()}`,
    `disk: ${tmpdir()}, ${short(free)}B of ${short(blocks * bsize)}B free${free < FREE_BYTES_MIN ? '; little: full disks slow writes' : ''}`,
  ]
}

function commit(): string {
  const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8', stdio: 'pipe' }).trim()
  try {
    return `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain') === '' ? '' : ' with changes'}`
  } catch {
    return 'unknown'
  }
}

/**
 * Waits until everything is written and the disk has been quiet for `pauseSeconds`, so that blocks
 * of removed folders are discarded too. After 30 s it resolves with the reason why the disk is not
 * quiet.
 */
export async function settleDisk(pauseSeconds: number): Promise<string | undefined> {
  await promisify(execFile)('sync')
  const file = statisticsOf(tmpdir())
  if (file === undefined) {
    await sleep(pauseSeconds * 1000) // the file system has no device of its own
    return undefined
  }
  const endMs = performance.now() + SETTLE_MS_MAX
  let last = readTraffic(file)
  for (let quietMs = 0; quietMs < pauseSeconds * 1000; ) {
    if (performance.now() > endMs) return `the disk is still busy after ${SETTLE_MS_MAX / 1000} s`
    await sleep(CHECK_MS)
    const now = readTraffic(file)
    const isQuiet = now.underWay === 0 && now.bytes - last.bytes < QUIET_BYTES
    quietMs = isQuiet ? quietMs + CHECK_MS : 0
    last = now
  }
  return undefined
}

/**
 * The file with Linux's counts for the device that holds a folder; undefined where there is none.
 */
function statisticsOf(folder: string): string | undefined {
  const { dev } = statSync(folder)
  const major = Math.floor(dev / 256) % 4096
  const minor = (dev % 256) + Math.floor(dev / 2 ** 20) * 256
  const file = `/sys/dev/block/${major}:${minor}/stat`
  try {
    readTraffic(file)
    return file
  } catch {
    return undefined
  }
}

/**
 * Bytes read, written and discarded so far, and requests under way (Documentation/block/stat.rst).
 */
function readTraffic(file: string): { readonly bytes: number; readonly underWay: number } {
  const fields = readFileSync(file, 'utf8').trim().split(/\s+/).map(Number)
  const sectors = (fields[2] ?? 0) + (fields[6] ?? 0) + (fields[13] ?? 0)
  return { bytes: sectors * SECTOR_BYTES, underWay: fields[8] ?? 0 }
}
