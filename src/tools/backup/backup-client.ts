/**
 * Runs backups of a running server on the main thread: one at a time, each in a thread of its own.
 *
 * The thread checks the destination. Then everything is flushed, so that little is copied from the
 * log. Then, in ONE turn, the log and every pool's segments are pinned and the catalog's
 * documents are taken. This is the moment of the backup, and its sequence is the last synced one.
 * Pins are released however the backup ends. A backup with damaged segments is kept, and
 * still ends with an error.
 */
import { refuse } from '../../api/problem.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import type { Pools } from '../../database/pools.ts'
import type { Commit } from '../../log/commit-log.ts'
import { resolvesWithin } from '../../util/clock.ts'
import { must, type Refusal, Unavailable } from '../../util/errors.ts'
import { fail, warn } from '../../util/say.ts'
import { startThread, type Thread } from '../../util/thread-kit.ts'
import { damagedText } from './backup-format.ts'
import type { BackupCalls, BackupEvents, BackupThreadData, Written } from './backup-thread.ts'
import type { CopyProgress } from './copy-file.ts'
import type { BackupPool, BackupState } from './write-backup.ts'

const RUNNING: Refusal = {
  ...refuse(409, 'backup_running', 'another backup is running: try again when it has ended'),
  retryable: true,
}

/** Time for the flushes before a backup. Rows that are not flushed then are copied from the log. */
const BACKUP_FLUSH_MS_MAX = 30_000

/** The parts of a running server that a backup is taken of. */
interface BackedUp {
  readonly catalog: Catalog
  readonly pools: Pools
  readonly commit: Commit
}

/** A line of the answer. The last line is `done` or `error`. */
export type BackupLine =
  | CopyProgress
  | ({ readonly done: true } & Written)
  | { readonly error: string; readonly code: string }
  /** Code `backup_incomplete`: there is a backup, with damaged files. */
  | ({ readonly error: string; readonly code: string } & Written)

/**
 * What a backup holds: the state of catalog, pools and log in this turn of the event loop.
 * @param stateOf the flushed part of a pool: none where it never got a row
 */
export function backupState(
  catalog: Catalog,
  stateOf: (pool: number) => Pick<BackupPool, 'flushedSequence' | 'segments'> | undefined,
  log: BackupState['log'],
): BackupState {
  return {
    pools: catalog.pools().map(({ number, id }) => {
      const { flushedSequence = 0, segments = [] } = stateOf(number) ?? {}
      return { pool: number, poolId: id, flushedSequence, segments }
    }),
    documents: catalog.read.documents(),
    deletedPools: catalog.tombstones().map(({ number }) => number),
    log,
  }
}

export class Backups {
  readonly #of: BackedUp
  #running: Backup | undefined
  #stopped = false

  constructor(of: BackedUp) {
    this.#of = of
  }

  /**
   * Starts a backup. Returns a refusal, 409, where one runs, and 400 where the destination cannot
   * be used.
   */
  async begin(data: BackupThreadData): Promise<Backup | Refusal> {
    if (this.#stopped) return refuse(503, 'stopping', 'the server is stopping')
    if (this.#running !== undefined) return RUNNING
    const backup = new Backup(data, this.#of)
    this.#running = backup
    void backup.ended.finally(() => {
      this.#running = undefined
    })
    const why = await backup.begin()
    if (why === undefined) return backup
    await backup.ended // so that the next call does not find this backup running
    return refuse(400, 'bucket' in data.to ? 'bad_bucket' : 'bad_folder', why)
  }

  /** Cancels the running backup and starts no other. Resolves when its thread has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#running?.cancel()
    await this.#running?.ended
  }
}

class Backup {
  /** Resolves when the thread has ended and everything is released. */
  readonly ended: Promise<void>
  readonly #thread: Thread<BackupCalls, BackupEvents>
  readonly #of: BackedUp
  readonly #dataDir: string
  #line: BackupLine = { phase: 'flush', bytesDone: 0, bytesTotal: 0 }
  #isSent = false
  #onLine: () => void = () => {}
  #releases: (() => void)[] = []
  #isCancelled = false
  #hasEnded = false
  /** The last line, sent when the thread has ended. */
  #outcome: BackupLine = { error: CANCELLED, code: 'backup_cancelled' }

  constructor(data: BackupThreadData, of: BackedUp) {
    this.#of = of
    this.#dataDir = data.dataDir
    this.#thread = startThread<BackupCalls, BackupEvents>({
      name: 'backup',
      data,
      crashAt: data.crashAt,
      on: {
        progress: progress => this.#tell(progress),
        logCopied: () => must(this.#releases.shift(), 'the pin of the log')(),
      },
      lost: error => (this.#isCancelled ? new Unavailable('backup_cancelled', CANCELLED) : error),
      onCrash: error => {
        fail(`the thread of a backup failed, so there is no backup: ${error.stack ?? error.message}`)
        this.#outcome = { error: error.message, code: 'internal' }
      },
    })
    this.ended = this.#thread.exited.then(() => {
      this.#hasEnded = true
      for (const release of this.#releases.splice(0)) release()
      // Last, because a client that reads the end may begin the next backup.
      void this.ended.then(() => this.#tell(this.#outcome))
    })
  }

  /** Resolves with the reason for refusing the destination. Without one the copy has begun. */
  async begin(): Promise<string | undefined> {
    const why = await this.#thread
      .call('check', undefined)
      .catch(() => 'the thread of the backup ended before it had checked the folder')
    if (why !== undefined) {
      this.cancel()
      return why
    }
    this.#copy()
      .catch(error => {
        this.#outcome = { error: (error as Error).message, code: codeOf(error) }
      })
      .finally(() => this.cancel())
    return undefined
  }

  /**
   * The answer as lines of JSON: the latest progress, at least each second, and the end. A slow
   * reader gets fewer lines and does not delay the backup. A reader that leaves cancels it.
   */
  lines(): AsyncIterable<Uint8Array> {
    // The generator's own return() would wait for a line, and do nothing before the first.
    const leave = async () => {
      this.cancel()
      return { done: true, value: undefined } as const
    }
    return Object.assign(this.#lines(), { return: leave })
  }

  /** Stops the copy at the next chunk. The thread removes what it wrote. */
  cancel(): void {
    this.#isCancelled = true
    this.#thread.stop().catch(() => {}) // onCrash reports a thread that fails
  }

  async *#lines(): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.#isSent) await this.#changed()
      this.#isSent = true
      const line = this.#line
      yield Buffer.from(`${JSON.stringify(line)}\n`)
      if ('done' in line || 'error' in line) return
    }
  }

  #changed(): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, LINE_MS_MAX)
      this.#onLine = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  async #copy(): Promise<void> {
    const { catalog, pools, commit } = this.#of
    const isFlushed = await resolvesWithin(BACKUP_FLUSH_MS_MAX, pools.flusher.flushAll())
    if (!isFlushed) warn('a backup began before everything was flushed: it copies the rest from the log')
    await commit.syncAll()
    if (this.#hasEnded) return // cancelled meanwhile: nobody would release the pins
    const log = commit.pin()
    this.#releases = [log.release, pools.manifest.pinAll()]
    // The manifest may have a deleted pool, and lacks pools that never got a row.
    const state = backupState(catalog, pool => pools.manifest.pool(pool), log.span)
    this.#outcome = outcomeOf(await this.#thread.call('copy', state), this.#dataDir)
  }

  #tell(line: BackupLine): void {
    this.#line = line
    this.#isSent = false
    this.#onLine()
  }
}

function outcomeOf(summary: Written, dataDir: string): BackupLine {
  if (summary.damaged.length === 0) return { done: true, ...summary }
  const error = `the backup is incomplete, these files were damaged before it was made: ${damagedText(summary.damaged, dataDir)}`
  return { error, code: 'backup_incomplete', ...summary }
}

const CANCELLED = 'the backup was cancelled'

/** Longest time between two lines, so that a client sees that the backup goes on. */
const LINE_MS_MAX = 1_000

function codeOf(error: unknown): string {
  if (error instanceof Unavailable) return error.code
  const { name } = error as Error
  return name === 'SegmentDamaged' ? 'segment_damaged' : name === 'Damaged' ? 'damaged' : 'internal'
}
