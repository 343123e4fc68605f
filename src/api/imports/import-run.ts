/**
 * One import: body → thread (parse/import/) → batches → ingest → durable.
 *
 *   W-1   A row counts as durable after the answer of its batch, which comes after the sync.
 *   W-9   IMPORT_BATCHES_MAX batches are with ingest. The thread makes the next one meanwhile, and
 *         takes no further bytes; then the socket is paused (upload-body.ts).
 *         An import writes to the catalog when it begins and ends, and once in IMPORT_JOURNAL_MS
 *         between, never twice at once. Each is a job in progress, of which the catalog has at most
 *         JOBS_UNFINISHED_MAX.
 *   W-11  This thread moves bytes and counts. It loops over refused rows only.
 *
 * Batches keep the order of the file: a batch is given to ingest when the one before it has its
 * sequence. So of two rows with one key the later one wins, and what is durable is always the
 * beginning of the file.
 *
 * The thread converts CSV and Parquet by the columns that the pool had at the begin. When the pool
 * gets another schema version, such an import ends before the first batch that would be parsed with
 * it. Whoever resumes it gets the new columns.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Identity } from '../../catalog/access/token.ts'
import { endImport, progressImport } from '../../catalog/change/change-import.ts'
import { isUnfinished } from '../../catalog/change/change-job.ts'
import type { ImportJob, ImportProgress, Scope } from '../../catalog/documents/model.ts'
import type { ImportCalls, ImportOptions, NextAnswer, RowBatch } from '../../parse/import/import-types.ts'
import { monotonicMs } from '../../util/clock.ts'
import { type Refusal, Unavailable } from '../../util/errors.ts'
import { IMPORT_BATCHES_MAX } from '../../util/limits.ts'
import type { RequestIds } from '../../util/request-id.ts'
import { warn } from '../../util/say.ts'
import type { Thread } from '../../util/thread-kit.ts'
import type { ApiDeps, ImportDeps, IngestTarget } from '../api-types.ts'
import { nothing } from '../http/responder.ts'
import type { RateLimit } from '../ingest/admission.ts'
import type { Ingest } from '../ingest/ingest.ts'
import type { Answer } from '../ingest/ingest-answer.ts'
import { refusalOfError, refuse } from '../problem.ts'
import { ImportReport } from './import-report.ts'
import { type UploadBody, UploadEnded } from './upload-body.ts'

/** Interval at which an import's progress is written to the catalog, at least. */
const IMPORT_JOURNAL_MS = 1_000
/** Wait before a batch that found no room is tried again. It waited WAIT_MS_MAX for it already. */
const IMPORT_RETRY_MS = 100

interface RunDeps {
  readonly api: Pick<ApiDeps, 'target' | 'health'>
  readonly ingest: Pick<Ingest, 'submit'>
  readonly rate: RateLimit
  readonly thread: Thread<ImportCalls>
}

export interface RunOptions extends ImportOptions {
  readonly webhookId: string
  /** The version of the pool's schema that has `columns`. */
  readonly schemaVersion: number
  readonly caller: Identity
  readonly ids: RequestIds
  readonly body: UploadBody
}

/** An import needs one of them, until its end. */
export const IMPORT_SCOPES: readonly Scope[] = ['data_pool:write', 'admin']
const DELETED = refuse(404, 'pool_deleted', 'the Data Pool was deleted during the import')
const COLUMNS_CHANGED = refuse(
  503,
  'columns_changed',
  "the pool's columns changed during the import: resume, and the next rows are read by the new columns",
)

export class ImportRun {
  readonly report: ImportReport
  onChanged: () => void = nothing
  readonly #options: RunOptions
  readonly #deps: RunDeps
  #failure: Refusal | undefined
  /** Batches that ingest has. */
  #given = 0
  #onAnswered: () => void = () => {}
  /** A batch was not stored. Later ones do not count: they are not the beginning of the file. */
  #isBroken = false
  /** Memory of a batch that ingest has copied. */
  #spare: ArrayBuffer | undefined
  /** Resolves when the batches so far are counted, in their order. */
  #counted: Promise<void> = Promise.resolve()

  constructor(options: RunOptions, deps: RunDeps) {
    this.#options = options
    this.#deps = deps
    this.report = new ImportReport(options)
  }

  /** Resolves with the reason why the import ended early, if it did. */
  async run(): Promise<Refusal | undefined> {
    void this.#feed()
    try {
      await this.#batches()
    } catch (error) {
      this.#failure ??=
        error instanceof UploadEnded ? error.refusal : refusalOfError(error, 'import', this.#options.ids)
    }
    await this.#counted
    return this.#failure
  }

  async close(): Promise<void> {
    await this.#deps.thread.terminate()
  }

  fail(why: Refusal): void {
    this.#failure ??= why
    this.#options.body.end(why)
    this.#onAnswered()
    void this.#deps.thread.terminate() // ends the calls that wait
  }

  async #feed(): Promise<void> {
    const { body } = this.#options
    const { thread } = this.#deps
    try {
      for (let piece = await body.next(); piece !== undefined; piece = await body.next())
        await thread.call('give', piece, [piece.buffer])
      await thread.call('end', undefined)
    } catch (error) {
      // Errors of the thread reach run() by its other calls.
      if (error instanceof UploadEnded) this.fail(error.refusal)
    }
  }

  async #batches(): Promise<void> {
    const { thread } = this.#deps
    const { format, encoding, skipRows, errorsMax, columns, naming, spoolFile } = this.#options
    await thread.call('open', { format, encoding, skipRows, errorsMax, columns, naming, spoolFile })
    let ahead = this.#next(undefined)
    for (;;) {
      const answer = await ahead
      if ('done' in answer) {
        await this.#counted
        if (this.#failure === undefined) this.report.end(answer.done)
        return
      }
      const { batch } = answer
      const room = this.#spare
      this.#spare = undefined
      ahead = this.#next(room)
      await this.#give(batch)
      if (batch.body.byteLength > 0) this.#spare = batch.body.buffer as ArrayBuffer
    }
  }

  #next(room: ArrayBuffer | undefined): Promise<NextAnswer> {
    const answer = this.#deps.thread.call('next', room, room === undefined ? [] : [room])
    answer.catch(() => {}) // awaited after the batch before it
    return answer
  }

  /** Resolves when ingest has the batch, and the next one will come after it. */
  async #give(batch: RowBatch): Promise<void> {
    if (batch.body.byteLength === 0) {
      this.#count(batch, Promise.resolve(undefined), false)
      return
    }
    while (this.#given >= IMPORT_BATCHES_MAX && this.#failure === undefined) await this.#answered()
    for (;;) {
      const target = await this.#target()
      const { sequenced, answered } = this.#submit(target, batch.body)
      const first = await Promise.race([sequenced, answered])
      const version = typeof first === 'number' ? first : undefined
      if (typeof first === 'object' && first.refusal?.status === 429) {
        await sleep(IMPORT_RETRY_MS)
        continue
      }
      this.#given += 1
      this.#count(batch, answered, version !== undefined && this.#isOtherSchema(version))
      return
    }
  }

  /** The pool's target once events may be sent to it. @throws UploadEnded or AccessEnded */
  async #target(): Promise<IngestTarget> {
    const { api, rate } = this.#deps
    for (;;) {
      if (this.#failure !== undefined) throw new UploadEnded(this.#failure)
      this.#options.caller.verifyAgain(...IMPORT_SCOPES)
      const { refuse: refused } = api.health()
      if (refused !== undefined) throw new UploadEnded(refuse(503, refused.code, refused.message))
      const target = api.target(this.#options.webhookId)
      if (target === undefined) throw new UploadEnded(DELETED)
      // A batch that is given to a paused pool would be parsed with the next schema.
      if (!target.pool.isPaused) {
        if (this.#isOtherSchema(target.pool.schema.version)) throw new UploadEnded(COLUMNS_CHANGED)
        if (rate.retryAfterSeconds(target.poolNumber) === 0) return target
      }
      await sleep(IMPORT_RETRY_MS)
    }
  }

  /** The rows were converted for another schema. NDJSON is not converted. */
  #isOtherSchema(version: number): boolean {
    const { format, schemaVersion } = this.#options
    return format !== 'ndjson' && version !== schemaVersion
  }

  #submit(target: IngestTarget, body: Uint8Array) {
    let [onSequenced, onAnswered] = [(_: number) => {}, (_: Answer) => {}]
    const sequenced = new Promise<number>(resolve => {
      onSequenced = resolve
    })
    const answered = new Promise<Answer>(resolve => {
      onAnswered = resolve
    })
    const { ids } = this.#options
    this.#deps.ingest.submit(target, body, { ids, sequenced: onSequenced, answered: onAnswered })
    return { sequenced, answered }
  }

  #answered(): Promise<void> {
    return new Promise(resolve => {
      this.#onAnswered = resolve
    })
  }

  /** @param isOtherSchema the batch was parsed with another schema than it was converted for */
  #count(batch: RowBatch, answered: Promise<Answer | undefined>, isOtherSchema: boolean): void {
    this.#counted = this.#counted.then(async () => {
      const answer = await answered
      if (answer !== undefined) this.#given -= 1
      if (!this.#isBroken) {
        const isRefused = answer?.refusal !== undefined && !isAboutRows(answer.refusal)
        this.#isBroken = isRefused || isOtherSchema
        if (this.#isBroken) this.fail(isRefused ? failureOf(answer.refusal) : COLUMNS_CHANGED)
        else this.report.add(batch, answer)
      }
      this.#onAnswered()
      this.onChanged()
    })
  }
}

/** Refusals of the events of a batch. Any other one ends the import. */
function isAboutRows({ status }: Refusal): boolean {
  return status === 400 || status === 413
}

function failureOf(refusal: Refusal | undefined): Refusal {
  return refusal === undefined || refusal.status === 404 ? DELETED : refusal
}

type ReadProgress = () => { readonly done: ImportProgress; readonly progress: number }

/**
 * The job of an import in the catalog: how far the file is durable. It outlives a kill of the
 * server, so that whoever loads the file can go on where it ended.
 */
export class JournalEntry {
  readonly #job: ImportJob
  readonly #deps: Pick<ImportDeps, 'catalog' | 'jobs'>
  readonly #read: ReadProgress
  onCancelled: () => void = () => {}
  #writtenMs = monotonicMs()
  #writing: Promise<void> | undefined
  #isEnding = false

  constructor(job: ImportJob, deps: Pick<ImportDeps, 'catalog' | 'jobs'>, read: ReadProgress) {
    this.#job = job
    this.#deps = deps
    this.#read = read
  }

  changed(): void {
    if (this.#isEnding || this.#writing !== undefined) return
    if (monotonicMs() - this.#writtenMs < IMPORT_JOURNAL_MS) return
    this.#writtenMs = monotonicMs()
    this.#writing = this.#write()
  }

  /**
   * Writes the end. A catalog that cannot be written fails no import, whose rows are durable: the
   * jobs try again. Until then the job is in progress, a client that wants to resume waits for it,
   * and it takes the slot of another job.
   * @param error null where it succeeded
   */
  async end(error: string | null): Promise<void> {
    this.#isEnding = true
    await this.#writing
    const { catalog, jobs } = this.#deps
    const { id } = this.#job
    const end = endImport(id, this.#read().done, error)
    try {
      await catalog.change(end)
    } catch (why) {
      if (!(why instanceof Unavailable)) throw why
      jobs.end(this.#job, async () => {
        await catalog.change(end)
      })
    }
  }

  async #write(): Promise<void> {
    const { id } = this.#job
    const { done, progress } = this.#read()
    try {
      const job = await this.#deps.catalog.change(progressImport(id, done, progress))
      // Another node of a cluster ended it where it took this one for dead.
      if (!('badRequest' in job) && (job.isCancelled || !isUnfinished(job))) this.onCancelled()
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      warn(`import ${id}: its progress is not written: ${error.message}`)
    } finally {
      this.#writing = undefined
    }
  }
}
