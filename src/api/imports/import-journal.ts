/**
 * The job of an import in the catalog: which file is durable how far. It outlives a kill of the
 * server, so that whoever loads a file can go on where it ended.
 *
 *   W-9  An import writes to the catalog when it begins and ends, and once in IMPORT_JOURNAL_MS
 *        between, never twice at once. Each is a job in progress, of which the catalog has at most
 *        JOBS_UNFINISHED_MAX.
 */
import { endImport, progressImport } from '../../catalog/change/change-import.ts'
import type { ImportJob, ImportProgress } from '../../catalog/documents/model.ts'
import { monotonicMs } from '../../util/clock.ts'
import { Unavailable } from '../../util/errors.ts'
import { warn } from '../../util/say.ts'
import type { ImportDeps } from '../api-types.ts'

/** Interval at which an import's progress is written to the catalog, at least. */
const IMPORT_JOURNAL_MS = 1_000

type ReadProgress = () => { readonly done: ImportProgress; readonly progress: number }

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
      if ('isCancelled' in job && job.isCancelled) this.onCancelled()
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      warn(`import ${id}: its progress is not written: ${error.message}`)
    } finally {
      this.#writing = undefined
    }
  }
}
