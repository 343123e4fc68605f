/**
 * The deleted rows of a query's segments where its statement can skip them (live-rows.ts), in one
 * of two forms:
 *
 *   sets     in the native module, where a condition of the scan skips them (native/live_rows.cpp).
 *            They are outside of DuckDB, so all its instances share them.
 *   a table  of the query's own connection, with which the scan is joined: without the native
 *            module, and for more deleted rows than the sets may take
 *
 *   W-9  The cached sets have a limit of bytes (deleted-rows-cache.ts). Sets that a query uses live
 *        until it ends. DuckDB limits the memory of a table, which ends with its connection.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import type { QuerySegment } from '../../index/index-types.ts'
import { DuckDBDataChunk, UINTEGER } from '../../util/duckdb.ts'
import { CHUNK_ROWS } from '../../util/limits.ts'
import { bytesOf, DeletedRowsCache } from './deleted-rows-cache.ts'
import { countDeletedRows } from './live-rows.ts'

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

export class DeletedRowSets {
  readonly #native: NativeLiveRows
  readonly #bytesMax: number
  readonly #cache: DeletedRowsCache<number>

  constructor(native: NativeLiveRows, bytesMax: number) {
    this.#native = native
    this.#bytesMax = bytesMax
    this.#cache = new DeletedRowsCache(bytesMax, set => native.dropDeletedRows(set))
  }

  /** A view, which ends with `end`, or undefined if the segments have too many deleted rows. */
  begin(segments: readonly QuerySegment[]): number | undefined {
    const counts = segments.map(({ deletionVectors }) => countDeletedRows(deletionVectors))
    if (counts.reduce((sum, deleted) => sum + bytesOf(deleted), 0) > this.#bytesMax) return undefined
    /** Sets of this query alone: the cache has a newer state. */
    const older: number[] = []
    const sets = segments.map(({ file, deletionVectors }, index) => {
      const deleted = counts[index] as number
      const known = this.#cache.find(file, deleted)
      if (known !== undefined) return known
      const set = this.#native.keepDeletedRows(deletionVectors.map(({ rows }) => rows))
      if (!this.#cache.add(file, deleted, set)) older.push(set)
      return set
    })
    const view = this.#native.beginLiveRows(sets)
    for (const set of older) this.#native.dropDeletedRows(set)
    this.#cache.dropBeyondLimit()
    return view
  }

  end(view: number): void {
    this.#native.endLiveRows(view)
  }

  forget(files: readonly string[]): void {
    this.#cache.forget(files)
  }
}

/**
 * Makes a table of deleted rows, in place of an earlier one of the query: `f` is the position of
 * the file, `r` the row.
 */
export async function makeDeletedTable(
  connection: DuckDBConnection,
  table: string,
  segments: readonly QuerySegment[],
): Promise<void> {
  await connection.run(`CREATE OR REPLACE TEMP TABLE ${table} (f UINTEGER, r UINTEGER)`)
  const appender = await connection.createAppender(table)
  const chunk = DuckDBDataChunk.create([UINTEGER, UINTEGER])
  try {
    for (const [file, { deletionVectors }] of segments.entries())
      for (const { rows } of deletionVectors)
        for (let from = 0; from < rows.length; from += CHUNK_ROWS) {
          // Four times as fast as value by value: an update may delete rows in many segments.
          const numbers = [...rows.subarray(from, from + CHUNK_ROWS)]
          chunk.setColumns([numbers.map(() => file), numbers])
          appender.appendDataChunk(chunk)
        }
  } finally {
    appender.closeSync()
  }
}
