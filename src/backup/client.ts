/**
 * Backups as the main thread runs them: one at a time, each in a thread of its own.
 *
 * The thread looks at the destination; then everything is sealed, so that little is copied from the log; then in ONE turn
 * the log is held, every pool's segments are pinned and the catalog's documents are taken: that is the backup's moment,
 * and its sequence is the last one synced. Whatever ends it, holds and pins are released. A backup with damaged segments is
 * kept, and ends with an error all the same.
 */
import { Worker } from 'node:worker_threads'
import { fromWire, type Refusal, Unavailable } from '../errors.ts'
import { BACKUP_BEGIN_MS_MAX, BACKUP_SEAL_MS_MAX } from '../limits.ts'
import { must } from '../util/assert.ts'
import { warn } from '../util/say.ts'
import { within } from '../util/within.ts'
import { damagedText } from './format.ts'
import type {
  BackupState,
  BackupSummary,
  BackupThreadData,
  FromBackup,
  Progress,
  ToBackup,
} from './protocol.ts'

/** What a backup needs of the running stages. */
interface BackupSources {
  /** Seals what every pool has. Where it fails, the log has the rest. */
  sealAll(): Promise<void>
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
  /** undefined: the destination can be used; else why it cannot. Rejects where the thread cannot start. */
  readonly accepted: Promise<string | undefined>
  /** Resolves when the thread has ended and nothing is held any more. */
  readonly ended: Promise<void>
  readonly #worker: Worker
  readonly #sources: BackupSources
  readonly #dataDir: string
  #accept: (why: string | undefined) => void = () => {}
  #line: BackupLine = { phase: 'seal', bytesDone: 0, bytesTotal: 0 }
  #isTold = false
  #onLine: () => void = () => {}
  #releases: (() => void)[] = []
  #begun = false
  #hasEnded = false
  /** How it ended, told once the thread has. */
  #outcome: BackupLine = { error: 'the backup was given up', code: 'backup_cancelled' }
  #unread: NodeJS.Timeout | undefined

  constructor(data: BackupThreadData, sources: BackupSources) {
    this.#sources = sources
    this.#dataDir = data.dataDir
    this.#worker = new Worker(new URL('../../workers/backup.js', import.meta.url), { workerData: data })
    this.accepted = new Promise(resolve => {
      this.#accept = resolve
    })
    this.#worker.on('message', (message: FromBackup) => this.#from(message))
    this.#worker.on('error', error => {
      warn(`the thread of a backup failed: ${error.stack ?? error.message}`)
      this.#outcome = { error: error.message, code: 'internal' }
    })
    this.ended = new Promise(resolve => {
      this.#worker.on('exit', () => {
        this.#hasEnded = true
        clearTimeout(this.#unread)
        for (const release of this.#releases.splice(0)) release()
        this.#accept('the thread of the backup has ended')
        resolve()
        // Last: who hears of the end may begin the next backup.
        void this.ended.then(() => this.#say(this.#outcome))
      })
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
    this.#post({ kind: 'cancel' })
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
    this.#copy().catch(error => {
      this.#outcome = { error: (error as Error).message, code: codeOf(error) }
      this.cancel()
    })
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

  #from(message: FromBackup): void {
    switch (message.kind) {
      case 'ready':
        this.#accept(undefined)
        this.#unread = setTimeout(() => {
          if (!this.#begun) this.cancel()
        }, BACKUP_BEGIN_MS_MAX)
        return
      case 'refused':
        this.#accept(message.why)
        return
      case 'progress':
        this.#say(message.progress)
        return
      case 'log_copied':
        must(this.#releases.shift(), 'the hold of the log')()
        return
      case 'done':
        this.#outcome = outcomeOf(message.summary, this.#dataDir)
        return
      case 'failed': {
        const error = fromWire(message.error)
        this.#outcome = { error: error.message, code: codeOf(error) }
      }
    }
  }

  async #copy(): Promise<void> {
    const isSealed = await within(BACKUP_SEAL_MS_MAX, this.#sources.sealAll())
    if (!isSealed) warn('not everything could be sealed before a backup: it copies the rest from the log')
    await this.#sources.syncLog()
    if (this.#hasEnded) return // given up meanwhile: nobody would release
    const { state, releaseLog, releasePools } = this.#sources.pin()
    this.#releases = [releaseLog, releasePools]
    this.#post({ kind: 'copy', state })
  }

  #say(line: BackupLine): void {
    this.#line = line
    this.#isTold = false
    this.#onLine()
  }

  #post(message: ToBackup): void {
    this.#worker.postMessage(message)
  }
}

function outcomeOf(summary: BackupSummary, dataDir: string): BackupLine {
  if (summary.damaged.length === 0) return { done: true, ...summary }
  const error = `the backup is incomplete, these files were damaged before: ${damagedText(summary.damaged, dataDir)}`
  return { error, code: 'backup_incomplete', ...summary }
}

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
