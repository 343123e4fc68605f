/**
 * One resolver for all questions: finds the pool, has the question answered, and tells what it
 * cost.
 */
import type { Pool } from '../../catalog/model.ts'
import { counter } from '../../query/counter.ts'
import type { BadQuery } from '../../query/query-types.ts'
import { type Answered, isGiven, type PoolReference, type Question } from '../../query/question.ts'
import { wallMs } from '../../util/clock.ts'
import { newId } from '../../util/ids.ts'
import { type Context, requireScope } from './context.ts'
import { badRequest, failure, notFound } from './errors.ts'

/**
 * Every kind of question. A new kind is one more entry, with its field and types in query.graphql.
 */
const QUESTIONS: readonly Question[] = [counter]

/** Resolvers of `Query`, by field. */
export const questionQueries = Object.fromEntries(
  QUESTIONS.map(question => [
    question.field,
    (_: unknown, { input }: { input: object }, context: Context) => resolve(question, input, context),
  ]),
)

async function resolve(question: Question, input: object, context: Context): Promise<object> {
  context.budget.query(input)
  await context.slices.step()
  const read = question.read(input)
  if ('badRequest' in read) throw badRequest(read.badRequest)
  const answered = await ask(question, poolToQuery(read.pool, context), read.query, context)
  if ('badRequest' in answered) throw badRequest(answered.badRequest)
  const { applicationId } = context.caller
  return { ...question.answer(answered.rows), query: queryInfo(question, answered, applicationId) }
}

/** NOT_FOUND if the pool was deleted meanwhile, whatever error the query met then. */
async function ask(
  question: Question,
  pool: Pool,
  query: unknown,
  { deps, caller }: Context,
): Promise<Answered | BadQuery> {
  try {
    return await deps.ask(question, pool, query, caller.applicationId)
  } catch (error) {
    throw deps.catalog.pool(pool.id) === undefined ? notFound('Data Pool') : error
  }
}

/**
 * The pool that a question names by id or by name. A name may hold an id, which wins, as in the
 * other routes. The scope is checked before the answer tells which pools exist.
 */
function poolToQuery({ id, name }: PoolReference, context: Context): Pool {
  if ([id, name].filter(isGiven).length !== 1)
    throw badRequest('"dataPool" must have exactly one of "id" and "name".')
  const { catalog } = context.deps
  const pool = isGiven(id) ? catalog.pool(id) : (catalog.pool(name ?? '') ?? catalog.poolByName(name ?? ''))
  // The message repeats the caller's words, so it is the same for a pool that does not exist.
  requireScope(context, `query Data Pool ${id ?? name}`, 'data_pool:query')
  if (pool === undefined) throw notFound('Data Pool')
  if (pool.accessControlEnabled)
    throw failure(
      'FORBIDDEN',
      `Application ${context.caller.applicationId} is not allowed to query Data Pool ${pool.id}, because the pool has access control and no Data Pool Access Policy is assigned`,
    )
  return pool
}

/** QueryInfo of the schema. */
function queryInfo({ type, subtype }: Question, answered: Answered, applicationId: string): object {
  const nowMs = wallMs()
  const at = new Date(nowMs).toISOString()
  const { rows } = answered
  return {
    id: newId('QRY', nowMs),
    createdAt: at,
    createdBy: applicationId,
    modifiedAt: at,
    modifiedBy: applicationId,
    bytesProcessed: String(answered.bytesProcessed),
    durationInMilliseconds: Math.round(answered.durationMs),
    recordsProcessed: String(answered.recordsProcessed),
    resultingBytes: rows.flat().reduce((sum, text) => sum + Buffer.byteLength(text ?? ''), 0),
    resultingRecords: rows.length,
    booster: null,
    propeller: null,
    status: 'COMPLETED',
    type,
    subtype,
    sql: answered.sql,
  }
}
