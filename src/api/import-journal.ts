/**
 * The journal of imports: which one of which file is durable how far. It outlives a kill of the
 * server, so that whoever loads a file can go on where it ended.
 *
 *   W-9  An import writes to the journal when it begins and ends, and once in IMPORT_JOURNAL_MS
 *        between, never twice at once. Ends that could not be written wait for the next try. Each
 *        is a job in progress, of which the catalog has at most JOBS_UNFINISHED_MAX.
 */
import type { BadRequest } from '../catalog/catalog-types.ts'
import type { ImportInput, ImportProgress } from '../catalog/model.ts'
import { monotonicMs } from '../util/clock.ts'
import { Unavailable } from '../util/errors.ts'
import { IMPORT_JOURNAL_MS } from '../util/limits.ts'
import { warn } from '../util/say.ts'

/** An import as the journal has it. */
export interface JournaledImport extends ImportInput, ImportProgress {
  readonly id: string
  readonly status: string
  /** 0 to 1; 0 until the end where the length of the body is not known. */
  readonly progress: number
  readonly error: string | null
  readonly createdAt: string
  readonly modifiedAt: string
}

export interface ImportJournal {
  /** Resolves with the id of a new import that is in progress. Rejects with Unavailable. */
  begin(poolId: string, by: string, input: ImportInput): Promise<{ readonly id: string } | BadRequest>
  progress(id: string, done: ImportProgress, progress: number): Promise<{ readonly isCancelled: boolean }>
  /** @param error null: it succeeded */
  end(id: string, done: ImportProgress, error: string | null): Promise<void>
  /** The imports of a pool, newest first. */
  ofPool(poolId: string): readonly JournaledImport[]
}

type ReadProgress = () => { readonly done: ImportProgress; readonly progress: number }

/** The end of an import that the journal does not have yet. */
interface UnwrittenEnd {
  readonly id: string
  readonly done: ImportProgress
  readonly error: string | null
}

/** The entry of one import that runs. */
export class JournalEntry {
  readonly id: string
  readonly #journal: ImportJournal
  readonly #read: ReadProgress
  /** Called when a caller has cancelled the import. */
  onCancelled: () => void = () => {}
  #writtenMs = monotonicMs()
  #writing: Promise<void> | undefined
  #isEnding = false

  constructor(id: string, journal: ImportJournal, read: ReadProgress) {
    this.id = id
    this.#journal = journal
    this.#read = read
  }

  /** Something may have changed. */
  changed(): void {
    if (this.#isEnding || this.#writing !== undefined) return
    if (monotonicMs() - this.#writtenMs < IMPORT_JOURNAL_MS) return
    this.#writtenMs = monotonicMs()
    const { done, progress } = this.#read()
    this.#writing = this.#write(done, progress)
  }

  /**
   * Writes the end, or gives it to `unwritten`: a journal that cannot be written fails no import,
   * whose rows are durable.
   * @param error null: it succeeded
   */
  async end(error: string | null, unwritten: UnwrittenEnds): Promise<void> {
    this.#isEnding = true
    await this.#writing
    const end = { id: this.id, done: this.#read().done, error }
    try {
      await this.#journal.end(end.id, end.done, end.error)
    } catch (why) {
      if (!(why instanceof Unavailable)) throw why
      warn(`import ${this.id}: its end is not written yet: ${why.message}`)
      unwritten.add(end)
    }
  }

  async #write(done: ImportProgress, progress: number): Promise<void> {
    try {
      const { isCancelled } = await this.#journal.progress(this.id, done, progress)
      if (isCancelled) this.onCancelled()
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      warn(`import ${this.id}: its progress is not written: ${error.message}`)
    } finally {
      this.#writing = undefined
    }
  }
}

/**
 * Ends that could not be written. They are tried again until they are: until then the job is in
 * progress, a client that wants to resume waits for it, and it takes the place of another job.
 */
export class UnwrittenEnds {
  readonly #journal: Pick<ImportJournal, 'end'>
  readonly #ends = new Set<UnwrittenEnd>()
  #nextMs = 0
  #isWriting = false

  constructor(journal: Pick<ImportJournal, 'end'>) {
    this.#journal = journal
  }

  add(end: UnwrittenEnd): void {
    this.#ends.add(end)
  }

  tick(nowMs: number): void {
    if (this.#ends.size === 0 || this.#isWriting || nowMs < this.#nextMs) return
    this.#nextMs = nowMs + IMPORT_JOURNAL_MS
    this.#isWriting = true
    void this.#write().finally(() => {
      this.#isWriting = false
    })
  }

  /** Writes the ends, up to the first one that the journal does not take. Never rejects. */
  async #write(): Promise<void> {
    for (const end of this.#ends) {
      try {
        await this.#journal.end(end.id, end.done, end.error)
      } catch (error) {
        if (error instanceof Unavailable) return
        warn(`import ${end.id}: its end cannot be written: ${(error as Error).stack}`)
      }
      this.#ends.delete(end)
    }
  }
}
