/**
 * How deletion vectors come to the query process: each state of each vector once, not with every
 * query. A segment's deleted rows only grow, so (file, number of deleted rows) names one state.
 *
 *   main thread                             query process
 *   toSend(segments, {})       ──►   take(): all are known, and the query runs
 *                              ◄──   or the indexes of those that are missing
 *   toSend(segments, missing)  ──►   take()
 *
 *   W-9  The cache has a limit of bytes; the least recently used go first. A query whose vectors do
 *        not fit gets all of them: MISSING_TRIES_MAX.
 */
import type { PoolSchema } from '../format/schema.ts'
import type { DeletionVector, QuerySegment } from '../index/index-types.ts'
import { countDeletedRows } from './live-rows.ts'
import type { SentSegment } from './query-types.ts'

/** The pools of a task, with their segments in one form or another. */
interface PoolsOf<Segment> {
  readonly segments: readonly Segment[]
  readonly others?: readonly { readonly schema: PoolSchema; readonly segments: readonly Segment[] }[]
}

/** The segments of all pools of a task, in order. */
export function segmentsOf<Segment>({ segments, others = [] }: PoolsOf<Segment>): readonly Segment[] {
  return [...segments, ...others.flatMap(pool => pool.segments)]
}

/** The task with these segments, which come in the order of `segmentsOf`. */
export function withSegments<Task extends PoolsOf<unknown>, Segment>(
  task: Task,
  all: readonly Segment[],
): Omit<Task, 'segments' | 'others'> & PoolsOf<Segment> {
  const { segments, others, ...rest } = task
  let from = segments.length
  const pools = others?.map(pool => {
    const own = all.slice(from, from + pool.segments.length)
    from += own.length
    return { schema: pool.schema, segments: own }
  })
  const own = all.slice(0, segments.length)
  return pools === undefined ? { ...rest, segments: own } : { ...rest, segments: own, others: pools }
}

/** Answers after which a query's segments are sent with all their vectors. */
export const MISSING_TRIES_MAX = 2

/** The segments as they are sent, with the vectors of those whose indexes are in `missing`. */
export function toSend(
  segments: readonly QuerySegment[],
  missing: ReadonlySet<number> | 'all',
): readonly SentSegment[] {
  return segments.map(({ file, meta, deletionVectors }, index) => {
    const deleted = countDeletedRows(deletionVectors)
    const isSent = deleted > 0 && (missing === 'all' || missing.has(index))
    return isSent ? { file, meta, deleted, deletionVectors } : { file, meta, deleted }
  })
}

interface Entry {
  readonly deleted: number
  readonly vectors: readonly DeletionVector[]
}

export class DeletionVectorCache {
  readonly #bytesMax: number
  /** By file, the least recently used first. */
  readonly #entries = new Map<string, Entry>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** The bytes of all vectors. */
  get bytes(): number {
    return this.#bytes
  }

  /** The segments with their vectors, or the indexes of those whose vectors are missing. */
  take(
    segments: readonly SentSegment[],
  ): { readonly segments: readonly QuerySegment[] } | { readonly missing: readonly number[] } {
    const missing: number[] = []
    const taken = segments.map((segment, index) => {
      const vectors = this.#vectorsOf(segment)
      if (vectors === undefined) missing.push(index)
      return { file: segment.file, meta: segment.meta, deletionVectors: vectors ?? [] }
    })
    this.#dropBeyondLimit()
    return missing.length > 0 ? { missing } : { segments: taken }
  }

  /** Drops the vectors of these files. No manifest names them any more. */
  forget(files: readonly string[]): void {
    for (const file of files) this.#drop(file)
  }

  #vectorsOf({ file, deleted, deletionVectors }: SentSegment): readonly DeletionVector[] | undefined {
    if (deleted === 0) return []
    const known = this.#entries.get(file)
    if (known?.deleted === deleted) {
      this.#entries.delete(file)
      this.#entries.set(file, known) // now the most recently used
      return known.vectors
    }
    if (deletionVectors === undefined) return undefined
    // A query over an older manifest must not replace the newer state.
    if (known !== undefined && known.deleted > deleted) return deletionVectors
    return this.#keep(file, deleted, deletionVectors)
  }

  #keep(file: string, deleted: number, sent: readonly DeletionVector[]): readonly DeletionVector[] {
    this.#drop(file)
    // Copies: those that were sent are parts of their whole message.
    const vectors = sent.map(({ segment, rows }) => ({ segment, rows: rows.slice() }))
    this.#entries.set(file, { deleted, vectors })
    this.#bytes += bytesOf(deleted)
    return vectors
  }

  #dropBeyondLimit(): void {
    for (const file of [...this.#entries.keys()]) {
      if (this.#bytes <= this.#bytesMax) return
      this.#drop(file)
    }
  }

  #drop(file: string): void {
    const entry = this.#entries.get(file)
    if (entry === undefined) return
    this.#entries.delete(file)
    this.#bytes -= bytesOf(entry.deleted)
  }
}

/** With a charge for the entry itself: many segments have few deleted rows. */
function bytesOf(deleted: number): number {
  return deleted * Uint32Array.BYTES_PER_ELEMENT + ENTRY_BYTES
}

const ENTRY_BYTES = 512
