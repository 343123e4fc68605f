/**
 * Backups as the main thread runs them: one at a time, each in a thread of its own.
 *
 * The thread looks at the destination; then everything is flushed, so that little is copied from the log; then in ONE turn
 * the log is held, every pool's segments are pinned and the catalog's documents are taken: that is the backup's moment,
 * and its sequence is the last one synced. Whatever ends it, holds and pins are released. A backup with damaged segments is
 * kept, and ends with an error all the same.
 */
import { must } from '../../util/assert.ts'
import { resolvesWithin } from '../../util/clock.ts'
import { type Refusal, Unavailable } from '../../util/errors.ts'
import { BACKUP_BEGIN_MS_MAX, BACKUP_FLUSH_MS_MAX } from '../../util/limits.ts'
import { warn } from '../../util/say.ts'
import { startThread, type Thread } from '../../util/thread-kit.ts'
import { damagedText } from './backup-format.ts'
import type {
  BackupCalls,
  BackupEvents,
  BackupState,
  BackupSummary,
  BackupThreadData,
  Progress,
} from './backup-types.ts'

/** What a backup needs of the running stages. */
interface BackupSources {
  /** Flushes what every pool has. Where it fails, the log has the rest. */
  flushAll(): Promise<void>
  /** Syncs everything appended before the call. */
  syncLog(): Promise<void>
  /** The state of this turn. Its files stay until the releases, each called once. */
  pin(): { readonly state: BackupState; releaseLog(): void; releasePools(): void }
}

/** What a client is told, one after the other. The last one is `done` or `error`. */
export type BackupLine =
  | Progress
  | ({ readonly done: true } & BackupSummary)
  | { readonly error: string; readonly code: string }
  /** Code `backup_incomplete`: the folder holds a backup, but for what was damaged before. */
  | ({ readonly error: string; readonly code: string } & BackupSummary)

export class Backups {
  readonly #sources: BackupSources
  #running: Backup | undefined
  #stopped = false

  constructor(sources: BackupSources) {
    this.#sources = sources
  }

  /** Starts one. A value: 409 where one runs, 400 where the destination cannot be used. */
  async begin(data: BackupThreadData): Promise<Backup | Refusal> {
    if (this.#stopped) return refusal(503, 'stopping', 'the server is stopping')
    if (this.#running !== undefined) return refusal(409, 'backup_running', 'a backup is under way')
    const backup = new Backup(data, this.#sources)
    this.#running = backup
    void backup.ended.finally(() => {
      this.#running = undefined
    })
    const why = await backup.accepted
    if (why === undefined) return backup
    await backup.ended // the next one must not find this one still running
    return refusal(400, 'bad_folder', why)
  }

  /** Gives up the running one and starts no other. Resolves when its thread has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#running?.cancel()
    await this.#running?.ended
  }
}

class Backup {
  /** undefined: the destination can be used. Else: why it cannot. */
  readonly accepted: Promise<string | undefined>
  /** Resolves when the thread has ended and nothing is held any more. */
  readonly ended: Promise<void>
  readonly #thread: Thread<BackupCalls, BackupEvents>
  readonly #sources: BackupSources
  readonly #dataDir: string
  #line: BackupLine = { phase: 'flush', bytesDone: 0, bytesTotal: 0 }
  #isTold = false
  #onLine: () => void = () => {}
  #releases: (() => void)[] = []
  #begun = false
  #isCancelled = false
  #hasEnded = false
  /** How it ended, told once the thread has. */
  #outcome: BackupLine = { error: GIVEN_UP, code: 'backup_cancelled' }
  #unread: NodeJS.Timeout | undefined

  constructor(data: BackupThreadData, sources: BackupSources) {
    this.#sources = sources
    this.#dataDir = data.dataDir
    this.#thread = startThread<BackupCalls, BackupEvents>({
      name: 'backup',
      data,
      crashAt: data.crashAt,
      on: {
        progress: progress => this.#say(progress),
        logCopied: () => must(this.#releases.shift(), 'the hold of the log')(),
      },
      lost: error => (this.#isCancelled ? new Unavailable('backup_cancelled', GIVEN_UP) : error),
      onCrash: error => {
        warn(`the thread of a backup failed: ${error.stack ?? error.message}`)
        this.#outcome = { error: error.message, code: 'internal' }
      },
    })
    this.accepted = this.#check()
    this.ended = this.#thread.exited.then(() => {
      this.#hasEnded = true
      clearTimeout(this.#unread)
      for (const release of this.#releases.splice(0)) release()
      // Last: who hears of the end may begin the next backup.
      void this.ended.then(() => this.#say(this.#outcome))
    })
  }

  /**
   * What there is to tell, as lines of JSON: the latest progress, at least each second, and the end. Copying begins when the
   * first is asked for. A reader that is slow gets fewer lines and holds nothing up; one that goes away gives the backup up.
   */
  lines(): AsyncIterableIterator<Uint8Array> {
    const lines = this.#tell()
    const iterator: AsyncIterableIterator<Uint8Array> = {
      next: () => {
        this.#begin()
        return lines.next()
      },
      // Not the generator's own: that would wait for a line, and do nothing before the first.
      return: async () => {
        this.cancel()
        return { done: true, value: undefined }
      },
      [Symbol.asyncIterator]: () => iterator,
    }
    return iterator
  }

  /** Stops at the next piece and removes what was written. */
  cancel(): void {
    this.#isCancelled = true
    this.#thread.stop().catch(() => {}) // a thread that failed meanwhile is told by onCrash
  }

  async #check(): Promise<string | undefined> {
    let why: string | undefined
    try {
      why = await this.#thread.call('check', undefined)
    } catch {
      return 'the thread of the backup has ended'
    }
    if (why !== undefined) this.cancel()
    else this.#unread = setTimeout(() => this.#begun || this.cancel(), BACKUP_BEGIN_MS_MAX)
    return why
  }

  async *#tell(): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.#isTold) await this.#changed()
      this.#isTold = true
      const line = this.#line
      yield Buffer.from(`${JSON.stringify(line)}\n`)
      if (isEnd(line)) return
    }
  }

  /** Once, and only after the destination was accepted. */
  #begin(): void {
    if (this.#begun) return
    this.#begun = true
    this.#copy()
      .catch(error => {
        this.#outcome = { error: (error as Error).message, code: codeOf(error) }
      })
      .finally(() => this.cancel())
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
    const isFlushed = await resolvesWithin(BACKUP_FLUSH_MS_MAX, this.#sources.flushAll())
    if (!isFlushed) warn('not everything could be flushed before a backup: it copies the rest from the log')
    await this.#sources.syncLog()
    if (this.#hasEnded) return // given up meanwhile: nobody would release
    const { state, releaseLog, releasePools } = this.#sources.pin()
    this.#releases = [releaseLog, releasePools]
    this.#outcome = outcomeOf(await this.#thread.call('copy', state), this.#dataDir)
  }

  #say(line: BackupLine): void {
    this.#line = line
    this.#isTold = false
    this.#onLine()
  }
}

function outcomeOf(summary: BackupSummary, dataDir: string): BackupLine {
  if (summary.damaged.length === 0) return { done: true, ...summary }
  const error = `the backup is incomplete, these files were damaged before: ${damagedText(summary.damaged, dataDir)}`
  return { error, code: 'backup_incomplete', ...summary }
}

const GIVEN_UP = 'the backup was given up'

/** A line at least this often: who waits sees that it is alive. */
const LINE_MS_MAX = 1_000

function isEnd(line: BackupLine): boolean {
  return 'done' in line || 'error' in line
}

function codeOf(error: unknown): string {
  if (error instanceof Unavailable) return error.code
  const { name } = error as Error
  return name === 'SegmentDamaged' ? 'segment_damaged' : name === 'Damaged' ? 'damaged' : 'internal'
}

function refusal(status: number, code: string, message: string): Refusal {
  return { status, code, message, retryable: status !== 400 }
}
