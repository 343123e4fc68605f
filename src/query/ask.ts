/**
 * A question's way: parse its SQL, plan, find a kept answer, or else make acknowledged rows
 * visible, pin a manifest, prune, run; answer. Equal questions share a run (shared-runs.ts).
 *
 *   W-8  Everything acknowledged before the call is made visible first, or less where the operator
 *        allows staleness. The manifest stays pinned until the query ends.
 */
import type { PoolSchema } from '../format/schema.ts'
import { monotonicMs, wallMs } from '../util/clock.ts'
import { must, STATEMENT_FAILED, Unavailable } from '../util/errors.ts'
import { TraceStages } from '../util/trace-stages.ts'
import type { AnswerCache } from './answer-cache.ts'
import { kindOfType } from './expression/typed.ts'
import { type BadAnswer, type BadQuery, badQueryOf } from './expression/values.ts'
import type { PlannedOutput } from './plan/answer-table.ts'
import { countsAllRows, type QueryPlan, type Statement } from './plan/plan.ts'
import type { PlanContext } from './plan/plan-context.ts'
import { type PoolsOfQuestion, planFor } from './plan/policy.ts'
import type { Pruning } from './plan/prune-segments.ts'
import type { QueryDone, QueryEngine } from './plan/query-task.ts'
import { waitingBytes } from './plan/query-turns.ts'
import type { Askable, PlannedQuestion, Reader } from './plan/question.ts'
import { type QuestionKey, questionKey } from './question-key.ts'
import type { RepeatedQuestions } from './repeated-questions.ts'
import { type RunAskers, SharedRuns } from './shared-runs.ts'
import { placed } from './statement/read-form.ts'

export interface Answered<Answer = unknown> extends Omit<QueryDone, 'columns'> {
  readonly answer: Answer
  readonly outputs: readonly PlannedOutput[]
  readonly sql: string
  /** It was kept from an earlier question, of which the costs are. */
  readonly fromCache: boolean
}

/** Rows that stay as they are until `release`, which must be called. */
interface PinnedRows {
  /** See QueryTask. */
  readonly source: unknown
  /** The number of all of them, where no query needs to run for it. */
  readonly liveRows?: () => number
  /** Of the pools, where answers are kept: see AnswerCache.keep. */
  readonly versions?: readonly (number | undefined)[]
  release(): void
}

/** What is kept of questions that were asked. */
export interface KeptOfQuestions {
  /** Absent: no answer is kept. */
  readonly answers?: AnswerCache | undefined
  /** Absent: no partial groups are kept. */
  readonly repeated?: RepeatedQuestions | undefined
}

export interface QuestionDeps extends KeptOfQuestions {
  readonly engine: QueryEngine
  /** Absent: no question shares its run. */
  readonly runs?: SharedRuns<QueryDone>
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
  const { applicationId } = reader
  const key = questionKey(question, pools, planned, applicationId, deps.engine.dialect)
  // The costs tell of rows that the reader does not see, and so would an answer that is kept.
  const seesAll = pools.every(({ policy }) => policy === null)
  const answers = seesAll && key?.mayBeKept === true ? deps.answers : undefined
  const kept = key && answers?.find(applicationId, key.kept, pools)
  try {
    const asked = { pools, ...planned, rowsMax: question.rowsMax, key, answers }
    const done = kept ?? (await runShared(asked, reader, stages, deps))
    reader.verifyAgain(pools)
    deps.onQuery(monotonicMs() - beganMs)
    const columns = done.types?.map((type, at) => ({ name: done.columns[at] ?? '', type }))
    const answer = await reader.inTurn(() => plan.answer(done.rows, columns))
    const shown = done.rows.slice(0, plan.rowsShown)
    const outputs =
      columns?.map(({ name, type }) => ({ name, kind: kindOfType(type) })) ??
      plan.select.outputs.map(({ name, value }) => ({ name, kind: value.kind }))
    const fromCache = kept !== undefined
    const answered = { ...done, rows: shown, answer, outputs, sql: sqlOf(statement), fromCache }
    return seesAll ? answered : { ...answered, recordsProcessed: 0, bytesProcessed: 0 }
  } catch (error) {
    return badAnswerOf(error, plan.native?.text) ?? badQueryOf(error)
  }
}

/** A question that is to run. */
interface Asked {
  readonly pools: PoolsOfQuestion
  readonly plan: QueryPlan
  readonly statement: Statement
  readonly rowsMax: number
  readonly key: QuestionKey | undefined
  /** Where its answer may be kept. */
  readonly answers: AnswerCache | undefined
}

/** The rows of a question, which it may have of a run of an equal one. */
async function runShared(
  asked: Asked,
  reader: Reader,
  stages: TraceStages,
  deps: QuestionDeps,
): Promise<QueryDone> {
  const { pools, statement, key } = asked
  const { applicationId, gone } = reader
  const sharer = {
    applicationId,
    bytes: waitingBytes(statement),
    gone,
    verify: () => reader.verifyAgain(pools),
    onStage: (...stage: Parameters<TraceStages['end']>) => stages.end(...stage),
  }
  const runs = deps.runs ?? new SharedRuns<QueryDone>()
  return await runs.ask(key?.shared, sharer, askers => run(asked, applicationId, askers, deps))
}

/** The rows of the pools that a plan can select. */
export async function pinPools(
  pools: PoolsOfQuestion,
  plan: Omit<QueryPlan, 'select'>,
  pin: QuestionDeps['pin'],
): Promise<PinnedRows> {
  const prunings = [plan, ...(plan.others ?? [])]
  return await pin(
    pools.map(({ schema }, index) => ({ schema, pruning: must(prunings[index], 'a pruning') })),
  )
}

async function run(
  { pools, plan, statement, rowsMax, key, answers }: Asked,
  applicationId: string,
  { gone, verify, onStage }: RunAskers,
  { pin, engine, repeated }: QuestionDeps,
): Promise<QueryDone> {
  const pinned = await pinPools(pools, plan, pin)
  onStage('flush')
  const keep = (done: QueryDone) => {
    if (key !== undefined) answers?.keep(applicationId, key.kept, pools, pinned.versions ?? [undefined], done)
    return done
  }
  try {
    const rows = countsAllRows(plan) ? pinned.liveRows?.() : undefined
    if (rows !== undefined) return keep(countedRows(rows))
    const verifyInTurn = () => {
      onStage('wait')
      verify()
    }
    const live = pinned.liveRows?.() ?? 0
    const partials = key && repeated?.statementsOf(key.shared, applicationId, live, plan, engine.dialect)
    const task = { source: pinned.source, statement, rowsMax, partials }
    const done = await engine.run(task, applicationId, verifyInTurn, gone)
    repeated?.note(done)
    onStage('SELECT', {
      ...SELECT,
      'db.system.name': engine.dialect.system,
      'db.query.text': sqlOf(statement),
    })
    return keep(done)
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
