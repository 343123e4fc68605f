/**
 * A cache of the deleted rows of segments in one form, in the query process: as deletion vectors
 * (sent-segments.ts), or as sets of the native module (deleted-rows.ts).
 *
 * A segment never changes and its deleted rows only grow, so (file, number of deleted rows) names
 * one state. A file has one state in the cache: a newer state replaces it, an older one does not.
 *
 *   W-9  The cache has a limit of bytes; the least recently used states go first.
 */

interface Entry<Form> {
  readonly deleted: number
  readonly form: Form
}

export class DeletedRowsCache<Form> {
  readonly #bytesMax: number
  readonly #onDropped: (form: Form) => void
  /** By file, the least recently used first. */
  readonly #entries = new Map<string, Entry<Form>>()
  #bytes = 0

  /** @param onDropped is called with each form that leaves the cache */
  constructor(bytesMax: number, onDropped: (form: Form) => void = () => {}) {
    this.#bytesMax = bytesMax
    this.#onDropped = onDropped
  }

  get bytes(): number {
    return this.#bytes
  }

  /** The form of this state, which is now the most recently used, or undefined. */
  find(file: string, deleted: number): Form | undefined {
    const known = this.#entries.get(file)
    if (known?.deleted !== deleted) return undefined
    this.#entries.delete(file)
    this.#entries.set(file, known)
    return known.form
  }

  /**
   * Adds a state that `find` did not find. Returns false where a newer one is there, because the
   * query reads an older manifest. The form then serves that query alone. Nothing is dropped for
   * want of room.
   */
  add(file: string, deleted: number, form: Form): boolean {
    if ((this.#entries.get(file)?.deleted ?? 0) > deleted) return false
    this.#drop(file)
    this.#entries.set(file, { deleted, form })
    this.#bytes += bytesOf(deleted)
    return true
  }

  /** Drops what is beyond the limit. A query calls it when it has found or added its own states. */
  dropBeyondLimit(): void {
    for (const file of [...this.#entries.keys()]) {
      if (this.#bytes <= this.#bytesMax) return
      this.#drop(file)
    }
  }

  forget(files: readonly string[]): void {
    for (const file of files) this.#drop(file)
  }

  #drop(file: string): void {
    const entry = this.#entries.get(file)
    if (entry === undefined) return
    this.#entries.delete(file)
    this.#bytes -= bytesOf(entry.deleted)
    this.#onDropped(entry.form)
  }
}

/** The bytes of a state, with a charge for its entry: many segments have few deleted rows. */
export function bytesOf(deleted: number): number {
  return deleted * Uint32Array.BYTES_PER_ELEMENT + ENTRY_BYTES
}

const ENTRY_BYTES = 512
