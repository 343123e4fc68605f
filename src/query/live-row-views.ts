/**
 * Deletion vectors in the native module, where a condition of the scan skips deleted rows
 * (native/live_rows.cpp). The sets are outside of DuckDB, so all its instances share them.
 *
 * A segment never changes and its deleted rows only grow, so (file, number of deleted rows) names
 * one state of a vector, and one set.
 *
 *   W-9  The cached sets have a limit of bytes; the least recently used go first. Sets that a query
 *        uses live until it ends. Where those of one pool alone exceed the limit, the query uses
 *        tables, whose memory DuckDB limits (deletion-tables.ts).
 */
import type { DeletionVector, QuerySegment } from '../index/index-types.ts'
import { countDeletedRows, type DeletedRows, type HeldDeletedRows } from './live-rows.ts'

/** The routines of the native module. */
export interface NativeLiveRows {
  /** Copies the deleted rows of a segment. Returns the id of the set, until it is dropped. */
  keepDeletedRows(parts: readonly Uint32Array[]): number
  /** Queries that use the set keep it. */
  dropDeletedRows(set: number): void
  /** The id of a view: the sets of one query, by the position of their files. */
  beginLiveRows(sets: readonly number[]): number
  /** A statement that still names the view fails. */
  endLiveRows(view: number): void
  /** The bytes of all sets in memory, and the number of views that have not ended. */
  liveRowsHeld(): { readonly bytes: number; readonly views: number }
}

interface Entry {
  readonly deleted: number
  readonly set: number
}

/** The sets of all segments, shared by all instances of DuckDB. */
export class DeletedRowSets {
  readonly #native: NativeLiveRows
  readonly #bytesMax: number
  /** By file, the least recently used first. */
  readonly #entries = new Map<string, Entry>()
  #bytes = 0

  constructor(native: NativeLiveRows, bytesMax: number) {
    this.#native = native
    this.#bytesMax = bytesMax
  }

  /**
   * A view over these segments, which ends with `end`; undefined: they have too many deleted rows.
   */
  begin(segments: readonly QuerySegment[]): number | undefined {
    const bytes = segments.reduce(
      (sum, segment) => sum + bytesOf(countDeletedRows(segment.deletionVectors)),
      0,
    )
    if (bytes > this.#bytesMax) return undefined
    const older: number[] = []
    const sets = segments.map(segment => this.#setOf(segment, older))
    const view = this.#native.beginLiveRows(sets)
    for (const set of older) this.#native.dropDeletedRows(set)
    for (const file of [...this.#entries.keys()]) {
      if (this.#bytes <= this.#bytesMax) break
      this.#drop(file)
    }
    return view
  }

  end(view: number): void {
    this.#native.endLiveRows(view)
  }

  /** Drops the sets of these files. No manifest names them any more. */
  forget(files: readonly string[]): void {
    for (const file of files) this.#drop(file)
  }

  /**
   * The set of this state, made if there is none. A state older than the cached one serves only its
   * own query, and its set joins `older`.
   */
  #setOf({ file, deletionVectors }: QuerySegment, older: number[]): number {
    const deleted = countDeletedRows(deletionVectors)
    const known = this.#entries.get(file)
    if (known?.deleted === deleted) {
      this.#entries.delete(file)
      this.#entries.set(file, known) // now the most recently used
      return known.set
    }
    const set = this.#native.keepDeletedRows(deletionVectors.map(({ rows }: DeletionVector) => rows))
    if (known !== undefined && known.deleted > deleted) {
      older.push(set)
      return set
    }
    this.#drop(file)
    this.#entries.set(file, { deleted, set })
    this.#bytes += bytesOf(deleted)
    return set
  }

  #drop(file: string): void {
    const entry = this.#entries.get(file)
    if (entry === undefined) return
    this.#entries.delete(file)
    this.#bytes -= bytesOf(entry.deleted)
    this.#native.dropDeletedRows(entry.set)
  }
}

/** With a charge for the entry itself: many segments have few deleted rows. */
function bytesOf(deleted: number): number {
  return deleted * Uint32Array.BYTES_PER_ELEMENT + ENTRY_BYTES
}

const ENTRY_BYTES = 512

/** Live rows by views, in an instance of DuckDB that has the native function. */
export class LiveRowViews implements DeletedRows {
  readonly #sets: DeletedRowSets
  /** For more deleted rows than the sets may take. */
  readonly #tables: DeletedRows

  constructor(sets: DeletedRowSets, tables: DeletedRows) {
    this.#sets = sets
    this.#tables = tables
  }

  async hold(segments: readonly QuerySegment[]): Promise<HeldDeletedRows> {
    const view = this.#sets.begin(segments)
    if (view === undefined) return this.#tables.hold(segments)
    return {
      skipping: { by: 'view', view },
      release: async () => this.#sets.end(view),
    }
  }

  async forget(files: readonly string[]): Promise<void> {
    this.#sets.forget(files)
    await this.#tables.forget(files)
  }

  /** The sets are not DuckDB's memory: without them the query would not have more. */
  dropIdle(): Promise<boolean> {
    return this.#tables.dropIdle()
  }
}
