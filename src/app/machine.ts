/**
 * The disk of the data folder, the memory of the server and of its processes, and the limit of that
 * memory.
 *
 *   W-11  The main thread does not wait: libuv's threads read /proc and ask the disk. The limit of
 *         memory alone is read at once, from files that the kernel makes up and that never block.
 */
import { readdir, readFile, statfs } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { monotonicMs } from '../util/clock.ts'

/** Longest wait for a disk or for /proc. A scrape of Prometheus has ten seconds in all. */
const MACHINE_ANSWER_MS = 1_000

interface DiskSpace {
  readonly bytes: number
  /** For a process without root's reserve, as `df` shows it. */
  readonly freeBytes: number
}

export async function diskSpace(folder: string): Promise<DiskSpace> {
  const { blocks, bavail, bsize } = await statfs(folder)
  return { bytes: blocks * bsize, freeBytes: bavail * bsize }
}

/** The fields of /proc/<pid>/status by the words of the kernel's memory.stat. */
const MEMORY_FIELDS = { RssAnon: 'anon', RssFile: 'file', RssShmem: 'shmem' } as const

/**
 * The resident memory of one kind in one process. `process` is `server`, or the name of a process
 * that the server started (`query`, `penalty`, `parquet`).
 *
 * `file` is mapped pages, such as those of the index. The kernel takes them back when it needs
 * memory, so they do not count towards a limit.
 */
type Resident = readonly [process: string, kind: 'anon' | 'file' | 'shmem', bytes: number]

/** Processes of one name are added up. On a system without /proc the list is empty. */
export async function residentMemory(): Promise<Resident[]> {
  const statuses = await Promise.all(['self', ...(await childIds())].map(statusOf))
  const sums = new Map<string, number>()
  for (const [index, status] of statuses.entries()) {
    if (status === undefined) continue
    // A process that is about to start has not named itself yet.
    const name = index === 0 ? 'server' : /^weir-(.*)/.exec(fieldOf(status, 'Name'))?.[1]
    if (name === undefined) continue
    for (const [field, kind] of Object.entries(MEMORY_FIELDS)) {
      const bytes = Number.parseInt(fieldOf(status, field), 10) * 1024
      const key = `${name} ${kind}`
      if (bytes >= 0) sums.set(key, (sums.get(key) ?? 0) + bytes)
    }
  }
  return [...sums].map(([key, bytes]) => [...(key.split(' ') as [string, Resident[1]]), bytes] as const)
}

/**
 * The memory that Weir may use: that of the container or of the service manager's unit, or else
 * that of the machine.
 */
export function memoryLimit(): number {
  const limit = process.constrainedMemory() // 0, undefined or a huge number where there is none
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** The processes that the threads of this one have started. Each thread has a list of its own. */
async function childIds(): Promise<string[]> {
  const threads = await readdir('/proc/self/task').catch(() => [])
  const lists = await Promise.all(
    threads.map(thread => readFile(`/proc/self/task/${thread}/children`, 'latin1').catch(() => '')),
  )
  return lists.flatMap(list => list.split(' ')).filter(id => id !== '')
}

/** Undefined for a process that has ended. */
function statusOf(id: string): Promise<string | undefined> {
  return readFile(`/proc/${id}/status`, 'latin1').catch(() => undefined)
}

function fieldOf(status: string, field: string): string {
  const line = status.split('\n').find(one => one.startsWith(`${field}:`)) ?? ''
  return line.slice(field.length + 1).trim()
}

/**
 * A reading that is taken at most once in `ms`, whoever asks. Where it fails, the next one who asks
 * gets another try.
 */
export function keptReading<T>(read: () => Promise<T>, ms: number): () => Promise<T> {
  let last: { readonly atMs: number; readonly value: Promise<T> } | undefined
  return async () => {
    if (last === undefined || monotonicMs() - last.atMs > ms) last = { atMs: monotonicMs(), value: read() }
    const asked = last
    try {
      return await asked.value
    } catch (error) {
      if (last === asked) last = undefined
      throw error
    }
  }
}

/**
 * A reading that several gauges of a page share. It is undefined where it fails or takes longer
 * than `msMax`: a disk that does not answer must not hold up the page. One that hangs is not asked
 * a second time, since each question occupies one of libuv's few threads.
 */
export function sharedReading<T>(
  read: () => Promise<T>,
  msMax = MACHINE_ANSWER_MS,
): () => Promise<T | undefined> {
  let underWay: Promise<T | undefined> | undefined
  return () => {
    underWay ??= read()
      .catch(() => undefined)
      .finally(() => {
        underWay = undefined
      })
    return Promise.race([underWay, wait(msMax, undefined, { ref: false })])
  }
}
