/**
 * sqlV1 and describeSqlV1: finds the pools that a statement names, and has it answered.
 *
 * A pool that does not exist and one that the caller may not read answer with the same words, so
 * that statements tell nothing of other pools.
 */
import { quoted } from '../../query/expression/operand.ts'
import type { LimitedPool, PoolsOfQuestion } from '../../query/plan/policy.ts'
import type { SqlDialect } from '../../query/sql/check-statement.ts'
import { readClickHouseNames, type SqlQuestion, sql } from '../../query/sql/sql-question.ts'
import type { Context } from './context.ts'
import { badRequest, failure } from './graphql-errors.ts'
import { isHidden, limitedPool, queryInfo, readerOf } from './resolve-question.ts'
import type { Resolvers } from './schema-types.ts'

interface SqlInput {
  readonly query: string
  readonly dialect?: SqlDialect | null | undefined
}

export const sqlQueries = {
  sqlV1: async (_, { input }, context) => {
    const { question, pools } = await readSql(input, context)
    if (context.onStatement !== undefined)
      return await handOver(question, pools, context.onStatement, context)
    const { query: stage, reading } = context.deps
    const answered = await context.held.during(stage.ask(sql, pools, question, readerOf(context), reading))
    if ('badRequest' in answered) throw badRequest(answered.badRequest)
    context.held.rows(answered.rows)
    context.onAnswered?.(answered)
    const { columns, rows } = answered.answer
    return { columns, rows, info: queryInfo(sql, answered, context) }
  },
  describeSqlV1: async (_, { input }, context) => {
    const { question, pools } = await readSql(input, context)
    const planned = await planSql(question, pools, context)
    return { columns: planned.plan.answer([]).columns }
  },
} satisfies Partial<Resolvers['Query']>

async function planSql(question: SqlQuestion, pools: PoolsOfQuestion, context: Context) {
  const { query: stage, reading } = context.deps
  const planned = await context.held.during(
    stage.planQuestion(sql, pools, question, readerOf(context), reading.engine),
  )
  if ('badRequest' in planned) throw badRequest(planned.badRequest)
  return planned
}

/** Gives the statement to whoever copies its rows. */
async function handOver(
  question: SqlQuestion,
  pools: PoolsOfQuestion,
  take: NonNullable<Context['onStatement']>,
  context: Context,
) {
  const planned = await planSql(question, pools, context)
  take({ ...planned, pools, reader: readerOf(context) })
  return { columns: [], rows: [], info: queryInfo(sql, NOT_RUN, context) }
}

const NOT_RUN = {
  answer: null,
  outputs: [],
  sql: '',
  rows: [],
  recordsProcessed: 0,
  bytesProcessed: 0,
  durationMs: 0,
}

async function readSql(input: SqlInput, context: Context) {
  const { deps, caller } = context
  context.budget.query(input)
  await context.slices.step()
  const dialect = input.dialect ?? 'POSTGRESQL'
  const text = dialect === 'CLICKHOUSE' ? readClickHouseNames(input.query) : input.query
  const statement = await context.held.during(deps.reading.engine.parseStatement(text, caller.applicationId))
  if ('badRequest' in statement) throw badRequest(statement.badRequest)
  const pools: LimitedPool[] = []
  const poolOf = statement.pools.map(name => {
    const asked = poolToRead(name, context)
    const known = pools.findIndex(({ schema }) => schema.pool === asked.schema.pool)
    return known < 0 ? pools.push(asked) - 1 : known
  })
  const [first, ...others] = pools
  if (first === undefined) throw badRequest('The statement names no Data Pool after FROM.')
  const question: SqlQuestion = { statement, poolOf, dialect }
  return { question, pools: [first, ...others] as PoolsOfQuestion }
}

/** The pool of a unique name or an id. An id wins, as in the other questions. */
function poolToRead(name: string, context: Context): LimitedPool {
  const pool = context.deps.catalog.read.pools.find(name)
  if (pool === undefined || isHidden(pool, context))
    throw failure('NOT_FOUND', `Data Pool ${quoted(name)} not found`)
  return limitedPool(pool, context)
}
