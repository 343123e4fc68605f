/**
 * sqlV1 and describeSqlV1: finds the pools that a statement names, and has it answered. Where the
 * engine takes statements in its own SQL they are guarded, else they are typed.
 *
 * A pool that does not exist and one that the caller may not read answer with the same words, so
 * that statements tell nothing of other pools.
 */
import type { Answered } from '../../query/ask.ts'
import { quoted } from '../../query/expression/operand.ts'
import { isBadQuery, refusable } from '../../query/expression/values.ts'
import type { AnswerForm } from '../../query/plan/plan.ts'
import type { LimitedPool } from '../../query/plan/policy.ts'
import type { PrintedRows } from '../../query/plan/query-task.ts'
import type { Askable } from '../../query/plan/question.ts'
import { boundParameters, nativeSql, type Parameter } from '../../query/sql/native-question.ts'
import { readClickHouseNames, type SqlAnswer, sql } from '../../query/sql/sql-question.ts'
import type { SqlDialect } from '../../query/statement/guard-statement.ts'
import { readForm } from '../../query/statement/read-form.ts'
import { must } from '../../util/errors.ts'
import type { Context } from './context.ts'
import { badRequest, failure } from './graphql-errors.ts'
import { isHidden, limitedPool, queryInfo, readerOf } from './resolve-question.ts'
import type { Resolvers } from './schema-types.ts'

interface SqlInput {
  readonly query: string
  readonly dialect?: SqlDialect | null | undefined
  readonly parameters?: readonly Parameter[] | null | undefined
}

type SqlAnswered = Answered<SqlAnswer>

export const sqlQueries = {
  sqlV1: async (_, { input }, context) => {
    const { form, text } = readForm(input.query)
    const answered =
      form === 'tables'
        ? tables(input, context)
        : form === 'describe'
          ? described(await columnsOf({ ...input, query: text }, context))
          : await answerTo({ ...input, query: text }, form, context)
    if (answered === HANDED_OVER) return { columns: [], rows: [], info: queryInfo(sql, answered, context) }
    context.held.rows(answered.rows)
    context.onAnswered?.(answered)
    const { columns, rows } = answered.answer
    return { columns, rows, info: queryInfo(sql, answered, context) }
  },
  describeSqlV1: async (_, { input }, context) => ({ columns: await columnsOf(input, context) }),
} satisfies Partial<Resolvers['Query']>

/** The columns that a statement would have. No row is read. */
async function columnsOf(input: SqlInput, context: Context): Promise<SqlAnswer['columns']> {
  if (context.deps.reading.engine.guard !== undefined)
    return (await answerTo(input, 'columns', context)).answer.columns
  const { question, pools } = await readTyped(input, context)
  return (await planned(sql, pools, question, context)).plan.answer([]).columns
}

async function planned<Query>(
  question: Askable<Query, SqlAnswer>,
  pools: readonly LimitedPool[],
  query: Query,
  context: Context,
) {
  const { query: stage, reading } = context.deps
  const plan = await context.held.during(
    stage.planQuestion(question, pools, query, readerOf(context), reading.engine),
  )
  if ('badRequest' in plan) throw badRequest(plan.badRequest)
  return plan
}

async function answerTo(input: SqlInput, form: AnswerForm, context: Context): Promise<SqlAnswered> {
  if (context.deps.reading.engine.guard === undefined) {
    if (form === 'explain') throw badRequest('EXPLAIN has no form on a cluster.')
    const { question, pools } = await readTyped(input, context)
    return await answer(sql, pools, question, context)
  }
  const { native, pools } = await readNative(input, form, context)
  return await answer(
    nativeSql,
    pools,
    native,
    form === 'rows' ? context : { ...context, onStatement: undefined },
  )
}

async function answer<Query>(
  question: Askable<Query, SqlAnswer>,
  pools: readonly LimitedPool[],
  query: Query,
  context: Context,
): Promise<SqlAnswered> {
  const { query: stage, reading } = context.deps
  if (context.onStatement !== undefined) {
    // Whoever takes the statement copies its rows.
    const taken = await planned(question, pools, query, context)
    context.onStatement({ ...taken, pools, reader: readerOf(context) })
    return HANDED_OVER
  }
  const answered = await context.held.during(stage.ask(question, pools, query, readerOf(context), reading))
  if ('badRequest' in answered) throw badRequest(answered.badRequest)
  return answered
}

async function readNative(input: SqlInput, form: AnswerForm, context: Context) {
  const { text, dialect } = await begin(input, context)
  const { engine } = context.deps.reading
  const guarded = must(engine.guard?.(text, dialect, context.caller.applicationId), 'an engine that guards')
  const statement = await context.held.during(guarded)
  if ('badRequest' in statement) throw badRequest(statement.badRequest)
  const { pools, poolOf } = poolsToRead(statement.pools, context)
  if (form === 'explain' && pools.some(({ policy }) => policy !== null))
    throw badRequest('EXPLAIN is for readers without a Data Pool Access Policy.')
  // Without values, a description takes all of them for NULL.
  const nulls = form === 'columns' ? statement.parameters.map(name => ({ name })) : []
  const given: readonly Parameter[] = input.parameters ?? nulls
  const bounds = bound(statement.parameters, given)
  return { native: { statement, poolOf, bounds, form, text }, pools }
}

function bound(names: readonly string[], given: readonly Parameter[]) {
  const bounds = refusable(() => boundParameters(names, given))
  if (isBadQuery(bounds)) throw badRequest(bounds.badRequest)
  return bounds
}

async function readTyped(input: SqlInput, context: Context) {
  const { text, dialect } = await begin(input, context)
  if (input.parameters?.length) throw badRequest('Parameters have no form on a cluster: write their values.')
  const { deps, caller } = context
  const parsed = deps.reading.engine.parseStatement(text, caller.applicationId)
  const statement = await context.held.during(parsed)
  if ('badRequest' in statement) throw badRequest(statement.badRequest)
  const { pools, poolOf } = poolsToRead(statement.pools, context)
  if (pools.length === 0) throw badRequest('The statement names no Data Pool after FROM.')
  return { question: { statement, poolOf, dialect }, pools }
}

/** Every statement counts against the limits of its request. */
async function begin(input: SqlInput, { budget, slices }: Context) {
  budget.query(input)
  await slices.step()
  const dialect = input.dialect ?? 'POSTGRESQL'
  return { text: dialect === 'CLICKHOUSE' ? readClickHouseNames(input.query) : input.query, dialect }
}

function poolsToRead(names: readonly string[], context: Context) {
  const pools: LimitedPool[] = []
  const poolOf = names.map(name => {
    const asked = poolToRead(name, context)
    const known = pools.findIndex(({ schema }) => schema.pool === asked.schema.pool)
    return known < 0 ? pools.push(asked) - 1 : known
  })
  return { pools, poolOf }
}

/** The pool of a unique name or an id. An id wins, as in the other questions. */
function poolToRead(name: string, context: Context): LimitedPool {
  const pool = context.deps.catalog.read.pools.find(name)
  if (pool === undefined || isHidden(pool, context))
    throw failure('NOT_FOUND', `Data Pool ${quoted(name)} not found`)
  return limitedPool(pool, context)
}

/** SHOW TABLES: the pools that the caller may read. */
function tables(input: SqlInput, context: Context): SqlAnswered {
  bound([], input.parameters ?? [])
  const { read } = context.deps.catalog
  const names = [...read.pools.all()]
    .filter(pool => !isHidden(pool, context))
    .map(({ uniqueName }) => [uniqueName])
  return answerOf(['name'], names.sort())
}

/** DESCRIBE: columns as rows. */
function described(columns: SqlAnswer['columns']): SqlAnswered {
  const rows = columns.map(({ columnName, type, isNullable }) => [
    columnName,
    type,
    isNullable ? 'YES' : 'NO',
  ])
  return answerOf(['column_name', 'column_type', 'null'], rows)
}

/** The answer of a statement that no engine ran. */
function answerOf(names: readonly string[], rows: PrintedRows): SqlAnswered {
  const columns = names.map(columnName => ({ columnName, type: 'STRING' as const, isNullable: false }))
  const outputs = names.map(name => ({ name, kind: 'text' as const }))
  const none = { recordsProcessed: 0, bytesProcessed: 0, durationMs: 0, sql: '', fromCache: false }
  return { ...none, rows, outputs, answer: { columns, rows } }
}

/** The rows of a statement that streams are not in its answer. */
const HANDED_OVER = answerOf([], [])
