/**
 * A question's way: parse its SQL, plan, make acknowledged rows visible, pin a manifest, prune,
 * run, answer.
 *
 *   W-8  Everything acknowledged before the call is made visible first, or less where the operator
 *        allows staleness. The manifest stays pinned until the query ends.
 */
import type { PoolSchema } from '../format/schema.ts'
import { monotonicMs, wallMs } from '../util/clock.ts'
import { must, STATEMENT_FAILED, Unavailable } from '../util/errors.ts'
import { TraceStages } from '../util/trace-stages.ts'
import { kindOfType } from './expression/typed.ts'
import { type BadAnswer, type BadQuery, badQueryOf } from './expression/values.ts'
import type { PlannedOutput } from './plan/answer-table.ts'
import { countsAllRows, type Statement } from './plan/plan.ts'
import type { PlanContext } from './plan/plan-context.ts'
import { type PoolsOfQuestion, planFor } from './plan/policy.ts'
import type { Pruning } from './plan/prune-segments.ts'
import type { QueryDone, QueryEngine } from './plan/query-task.ts'
import type { Askable, PlannedQuestion, Reader } from './plan/question.ts'
import { placed } from './statement/read-form.ts'

export interface Answered<Answer = unknown> extends Omit<QueryDone, 'columns'> {
  readonly answer: Answer
  readonly outputs: readonly PlannedOutput[]
  readonly sql: string
}

/** Rows that stay as they are until `release`, which must be called. */
interface PinnedRows {
  /** See QueryTask. */
  readonly source: unknown
  /** The number of all of them, where no query needs to run for it. */
  readonly liveRows?: () => number
  release(): void
}

export interface QuestionDeps {
  readonly engine: QueryEngine
  /**
   * The rows of pools that a question can select. Everything acknowledged before the call is there,
   * or less where staleness is allowed.
   */
  pin(pools: readonly { readonly schema: PoolSchema; readonly pruning: Pruning }[]): Promise<PinnedRows>
  /** Called with the duration of each query, its waiting and the flush included. */
  onQuery(ms: number): void
}

/** Parses SQL texts. Rejects with Unavailable. */
export async function parseTexts(
  texts: readonly string[],
  engine: Pick<QueryEngine, 'parse'>,
  fairKey: string,
): Promise<PlanContext['expressions']> {
  return new Map(
    await Promise.all(texts.map(async text => [text, await engine.parse(text, fairKey)] as const)),
  )
}

/** Answers one question. Rejects with Unavailable, SegmentDamaged or AccessEnded. */
export async function ask<Query, Answer>(
  question: Askable<Query, Answer>,
  pools: PoolsOfQuestion,
  query: Query,
  reader: Reader,
  deps: QuestionDeps,
): Promise<Answered<Answer> | BadQuery> {
  const span = reader.span?.child(`query ${question.type}`)
  try {
    const answered = await answerIn(question, pools, query, { ...reader, span }, deps)
    span?.end('badRequest' in answered ? 'BAD_REQUEST' : undefined)
    return answered
  } catch (error) {
    span?.end(error instanceof Unavailable ? error.code : (error as Error).name)
    throw error
  }
}

/** Its stages are shown in the span of the reader. */
async function answerIn<Query, Answer>(
  question: Askable<Query, Answer>,
  pools: PoolsOfQuestion,
  query: Query,
  reader: Reader,
  deps: QuestionDeps,
): Promise<Answered<Answer> | BadQuery> {
  const beganMs = monotonicMs()
  const stages = new TraceStages([reader.span])
  const planned = await planQuestion(question, pools, query, reader, deps.engine)
  stages.end('plan')
  if ('badRequest' in planned) return planned
  const { plan, statement } = planned
  const prunings = [plan, ...(plan.others ?? [])]
  const pinned = await deps.pin(
    pools.map(({ schema }, index) => ({ schema, pruning: must(prunings[index], 'a pruning') })),
  )
  stages.end('flush')
  try {
    const task = { source: pinned.source, statement, rowsMax: question.rowsMax }
    const verify = () => {
      stages.end('wait')
      reader.verifyAgain(pools)
    }
    const sql = sqlOf(statement)
    const rows = countsAllRows(plan) ? pinned.liveRows?.() : undefined
    const done =
      rows !== undefined
        ? countedRows(rows)
        : await deps.engine.run(task, reader.applicationId, verify, reader.gone)
    const { system } = deps.engine.dialect
    if (rows === undefined)
      stages.end('SELECT', { ...SELECT, 'db.system.name': system, 'db.query.text': sql })
    reader.verifyAgain(pools)
    deps.onQuery(monotonicMs() - beganMs)
    const columns = done.types?.map((type, at) => ({ name: done.columns[at] ?? '', type }))
    const answer = await reader.inTurn(() => plan.answer(done.rows, columns))
    const shown = done.rows.slice(0, plan.rowsShown)
    const outputs =
      columns?.map(({ name, type }) => ({ name, kind: kindOfType(type) })) ??
      plan.select.outputs.map(({ name, value }) => ({ name, kind: value.kind }))
    const answered = { ...done, rows: shown, answer, outputs, sql }
    // The costs tell of rows that the reader does not see.
    const seesAll = pools.every(({ policy }) => policy === null)
    return seesAll ? answered : { ...answered, recordsProcessed: 0, bytesProcessed: 0 }
  } catch (error) {
    return badAnswerOf(error, plan.native?.text) ?? badQueryOf(error)
  } finally {
    pinned.release()
  }
}

/** In a trace. Every value of the caller is bound, so the text has none. */
const SELECT = { 'db.operation.name': 'SELECT' }

/** The statement as it is shown: `rows` and `rows_1` are the pools' visible rows. */
function sqlOf({ sql, commons, native }: Statement): string {
  if (native !== undefined) return native.shown
  return commons === undefined ? sql : `WITH ${commons} ${sql}`
}

/** The plan of a question and its statement, or BadQuery. No row is read. */
export async function planQuestion<Query, Answer>(
  question: Askable<Query, Answer>,
  pools: PoolsOfQuestion,
  query: Query,
  { applicationId, inTurn }: Pick<Reader, 'applicationId' | 'inTurn'>,
  engine: Pick<QueryEngine, 'parse' | 'dialect'>,
): Promise<{ readonly plan: PlannedQuestion<Answer>; readonly statement: Statement } | BadQuery> {
  try {
    await question.prepare?.(query, inTurn)
    const plan = await planFor(
      pools,
      question.texts(query),
      texts => parseTexts(texts, engine, applicationId),
      wallMs(),
      (view, context, others) => question.plan(view, query, context, others),
      inTurn,
    )
    return { plan, statement: engine.dialect.write(plan) }
  } catch (error) {
    return badQueryOf(error)
  }
}

/** The number of live rows, from the manifest: no file is read, so no damage is found. */
function countedRows(rows: number): QueryDone {
  return {
    columns: ['value'],
    rows: [[String(rows)]],
    recordsProcessed: rows,
    bytesProcessed: 0,
    durationMs: 0,
  }
}

/** The engine's codes for a question that no later try makes better. */
const TOO_LARGE: readonly string[] = ['too_many_rows', 'answer_too_large', 'too_much_work', STATEMENT_FAILED]

/** @param text of a native statement, in which its message may name a place */
export function badAnswerOf(error: unknown, text?: string): BadAnswer | undefined {
  if (!(error instanceof Unavailable) || !TOO_LARGE.includes(error.code)) return undefined
  const { code, message } = error
  const isPlaced = code === STATEMENT_FAILED && text !== undefined
  return { badRequest: isPlaced ? placed(message, text) : message, code }
}
