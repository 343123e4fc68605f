/**
 * The form of a kind of question. One kind is one file (counter.ts is one) with everything that is
 * its own: the input's form, the plan and the answer's fields. Its GraphQL field and input types
 * stand in api/graphql/query.graphql, and api/graphql/resolve-question.ts has its resolver.
 */
import type { ColumnType } from '../../format/schema.ts'
import type { TraceSpan } from '../../util/tracing.ts'
import type { PoolView } from '../expression/operand.ts'
import type { FindMetric } from './metric.ts'
import type { QueryPlan } from './plan.ts'
import type { PlanContext } from './plan-context.ts'
import type { PoolsOfQuestion } from './policy.ts'
import type { PrintedRows } from './query-task.ts'

export interface PoolReference {
  readonly id?: string | null
  readonly name?: string | null
}

/** True for a value that is neither absent nor null: clients send explicit nulls. */
export function isGiven<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined
}

interface ReadQuestion<Query> {
  readonly pool: PoolReference
  readonly query: Query
  /** The question is about a metric that the catalog holds. */
  readonly isPredefined: boolean
  /** Pools that must be `pool`, because the question is about one. */
  readonly alsoOf?: readonly PoolReference[]
}

/** A column that only the engine knows. */
interface AnsweredColumn {
  readonly name: string
  readonly type: ColumnType
}

export interface PlannedQuestion<Answer = unknown> extends QueryPlan {
  /**
   * The answer that the rows stand for. It may cost no more than a pass over them. Throws Refused
   * where only they show that the answer would be too large.
   * @param columns of a native statement alone
   */
  answer(rows: PrintedRows, columns?: readonly AnsweredColumn[]): Answer
  /** Rows that the answer shows at most; further ones only tell it that there are more. */
  readonly rowsShown?: number
}

/** A query of a kind, which `ask` answers. */
export interface Askable<Query = unknown, Answer = unknown> {
  /** QueryInfo's `type` and `subtype`. */
  readonly type: 'METRIC' | 'STATS' | 'REPORT' | 'RECORDS' | 'RECORDS_BY_UNIQUE_ID' | 'SQL' | 'TOP_VALUES'
  readonly subtype: 'COUNTER' | 'TIME_SERIES' | 'LEADERBOARD' | null
  /** An answer with more rows is refused: BadQuery. */
  readonly rowsMax: number
  /** The SQL texts of users in the query. `plan` finds all of them parsed. */
  texts(query: Query): readonly string[]
  /** Loads what `plan` needs beside the texts, in pieces that take turns (W-11). */
  prepare?(query: Query, inTurn: Reader['inTurn']): Promise<void>
  /**
   * What is computed over the columns of `view`. The rows are limited below it (policy.ts). Throws
   * Refused.
   * @param others the further pools of a question about several
   */
  plan(
    view: PoolView,
    query: Query,
    context: PlanContext,
    others?: readonly PoolView[],
  ): PlannedQuestion<Answer>
}

/**
 * A kind of question. `Input` is the GraphQL input as the schema coerces it, `Answer` the fields of
 * the response, all but `query`.
 */
export interface Question<Input, Query, Answer> extends Askable<Query, Answer> {
  /** Checks the input's form and finds the pool that it names. Throws Refused. */
  read(input: Input, find: FindMetric): ReadQuestion<Query>
}

export interface Reader {
  readonly applicationId: string
  /**
   * Throws AccessEnded where the application may not ask any more, and Unavailable where it may not
   * see of these pools what it saw.
   */
  readonly verifyAgain: (pools: PoolsOfQuestion) => void
  /** Aborted when the client disconnects: its queries end then. */
  readonly gone?: AbortSignal | undefined
  /** The span of its request, in which its queries are shown. */
  readonly span?: TraceSpan | undefined
  /** Plans in the main thread's time (W-11): the questions of a request one by one. */
  readonly inTurn: <T>(plan: () => T) => Promise<T>
}
