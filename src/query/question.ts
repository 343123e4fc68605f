/**
 * A question's way: plan, flush the pool's memtable, pin a manifest, prune, run, answer.
 *
 * One kind of question is one file (counter.ts is one) with everything that is its own: the input's
 * form, the plan and the answer's fields. Its GraphQL field and input types stand in
 * api/graphql/query.graphql, and QUESTIONS in api/graphql/resolve-question.ts lists it.
 *
 *   W-8  Everything acknowledged before the call is flushed first. The manifest stays pinned until
 *        the query ends.
 */
import type { PoolSchema } from '../format/schema.ts'
import type { QuerySegment } from '../index/index-types.ts'
import { monotonicMs } from '../util/clock.ts'
import type { BadQuery, PrintedRows, Pruning, QueryDone, QueryEngine, QueryPlan } from './query-types.ts'
import { prune } from './where.ts'

/** A pool as a question names it. */
export interface PoolReference {
  readonly id?: string | null
  readonly name?: string | null
}

/** True for a value that is neither absent nor null: clients send explicit nulls. */
export function isGiven<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined
}

/** A kind of question. `Input` is the GraphQL input as the schema coerces it. */
export interface Question<Input = unknown, Query = unknown> {
  /** The field of `Query` in the GraphQL schema. Its one argument is `input`. */
  readonly field: string
  /** QueryInfo's `type` and `subtype`. */
  readonly type: 'METRIC' | 'REPORT' | 'RECORDS' | 'RECORDS_BY_UNIQUE_ID' | 'SQL' | 'TOP_VALUES'
  readonly subtype: 'COUNTER' | 'TIME_SERIES' | 'LEADERBOARD' | null
  /** An answer with more rows is refused. */
  readonly rowsMax: number
  /** Checks the input's form and finds the pool that it names. */
  read(input: Input): { readonly pool: PoolReference; readonly query: Query } | BadQuery
  plan(schema: PoolSchema, query: Query): QueryPlan | BadQuery
  /** The response's fields, all but `query`. */
  answer(rows: PrintedRows): Readonly<Record<string, unknown>>
}

/** The rows of an answer, and its cost. */
export interface Answered extends Omit<QueryDone, 'columns'> {
  readonly sql: string
}

/** The functions that pin the manifest of a pool. */
export interface PinDeps {
  /** Flushes everything acknowledged before the call. */
  flushNow(pool: number): Promise<void>
  /** Pins the pool's manifest until `release`. */
  snapshot(pool: number): Promise<PinnedSegments>
}

export interface QuestionDeps extends PinDeps {
  readonly engine: QueryEngine
  /** Called with the duration of each query, its waiting and the flush included. */
  onQuery(ms: number): void
}

/** Segments whose files stay until `release`, which must be called. */
export interface PinnedSegments {
  readonly segments: readonly QuerySegment[]
  release(): void
}

/**
 * Answers one question about one pool. Rejects with Unavailable or SegmentDamaged, never with a
 * short count.
 */
export async function ask<Query>(
  question: Question<never, Query>,
  schema: PoolSchema,
  query: Query,
  fairKey: string,
  deps: QuestionDeps,
): Promise<Answered | BadQuery> {
  const beganMs = monotonicMs()
  const plan = question.plan(schema, query)
  if ('badRequest' in plan) return plan
  const { statement } = plan
  const { rowsMax } = question
  const { segments, release } = await pinSegments(schema, plan, deps)
  try {
    const done = await deps.engine.run({ schema, segments, statement, rowsMax }, fairKey)
    deps.onQuery(monotonicMs() - beganMs)
    return { ...done, sql: statement.sql }
  } finally {
    release()
  }
}

/** Pins the segments that can hold the plan's rows. */
export async function pinSegments(
  schema: PoolSchema,
  pruning: Pruning,
  deps: PinDeps,
): Promise<PinnedSegments> {
  await deps.flushNow(schema.pool)
  const snapshot = await deps.snapshot(schema.pool)
  return { segments: prune(schema, pruning, snapshot.segments), release: () => snapshot.release() }
}
