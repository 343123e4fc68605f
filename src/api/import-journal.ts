/**
 * The journal of imports: which one of which file is durable how far. It outlives a kill of the
 * server, so that whoever loads a file can go on where it ended.
 *
 *   W-9  An import writes to the journal when it begins and ends, and once in IMPORT_JOURNAL_MS
 *        between, never twice at once.
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
    this.#writing = this.#write(
      this.#journal.progress(this.id, done, progress).then(({ isCancelled }) => {
        if (isCancelled) this.onCancelled()
      }),
    )
  }

  /** Writes the end. @param error null: it succeeded */
  async end(error: string | null): Promise<void> {
    this.#isEnding = true
    await this.#writing
    await this.#write(this.#journal.end(this.id, this.#read().done, error))
  }

  /** A journal that cannot be written ends no import: the rows themselves are durable. */
  async #write(written: Promise<void>): Promise<void> {
    try {
      await written
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      warn(`import ${this.id}: its progress is not written: ${error.message}`)
    } finally {
      this.#writing = undefined
    }
  }
}
