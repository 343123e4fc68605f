/**
 * How deletion vectors come to the query process: each state of each vector once, not with every
 * query.
 *
 *   main thread                             query process
 *   toSend(segments, {})       ──►   take(): all are known, and the query runs
 *                              ◄──   or the indexes of those that are missing
 *   toSend(segments, missing)  ──►   take()
 *
 *   W-9  The process keeps vectors in a cache with a limit (deleted-rows-cache.ts). A query whose
 *        vectors do not fit gets all of them: MISSING_TRIES_MAX.
 */
import type { DeletionVector, QuerySegment } from '../../index/index-types.ts'
import type { SegmentRows } from '../plan/segment-task.ts'
import type { DeletedRowsCache } from './deleted-rows-cache.ts'
import type { SentSegment } from './engine-calls.ts'
import { countDeletedRows } from './live-rows.ts'

/** The segments of all pools, in order. */
export function segmentsOf<Segment>({ pools }: SegmentRows<Segment>): readonly Segment[] {
  return pools.flatMap(({ segments }) => segments)
}

/** The task with these segments, which come in the order of `segmentsOf`. */
export function withSegments<Task extends { readonly source: SegmentRows<unknown> }, Segment>(
  task: Task,
  all: readonly Segment[],
): Omit<Task, 'source'> & { readonly source: SegmentRows<Segment> } {
  let from = 0
  const pools = task.source.pools.map(({ schema, segments }) => {
    from += segments.length
    return { schema, segments: all.slice(from - segments.length, from) }
  })
  return { ...task, source: { ...task.source, pools } }
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

export type DeletionVectorCache = DeletedRowsCache<readonly DeletionVector[]>

/** The segments with their vectors, or the indexes of those whose vectors are missing. */
export function take(
  segments: readonly SentSegment[],
  cache: DeletionVectorCache,
): { readonly segments: readonly QuerySegment[] } | { readonly missing: readonly number[] } {
  const missing: number[] = []
  const taken = segments.map((segment, index) => {
    const vectors = vectorsOf(segment, cache)
    if (vectors === undefined) missing.push(index)
    return { file: segment.file, meta: segment.meta, deletionVectors: vectors ?? [] }
  })
  cache.dropBeyondLimit()
  return missing.length > 0 ? { missing } : { segments: taken }
}

function vectorsOf(
  { file, deleted, deletionVectors: sent }: SentSegment,
  cache: DeletionVectorCache,
): readonly DeletionVector[] | undefined {
  if (deleted === 0) return []
  const known = cache.find(file, deleted)
  if (known !== undefined || sent === undefined) return known
  // Copies: those that were sent are parts of their whole message.
  const vectors = sent.map(({ segment, rows }) => ({ segment, rows: rows.slice() }))
  cache.add(file, deleted, vectors)
  return vectors
}
