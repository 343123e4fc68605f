/** Questions of jobs about one pool. */
import type { Memory } from '../catalog/documents/memory.ts'
import type { Pool } from '../catalog/documents/model.ts'
import { ask, type QuestionDeps } from '../query/ask.ts'
import { type BadQuery, isBadQuery } from '../query/expression/values.ts'
import { counter } from '../query/plan/counter.ts'
import type { PoolReference, Question } from '../query/plan/question.ts'
import type { Filter } from '../query/plan/where.ts'

interface AskingDeps {
  readonly catalog: { readonly read: Memory }
  readonly reading: QuestionDeps
}

/**
 * Asks about all rows of a pool, whatever policies say. Rejects as `ask` does.
 * @param inputOf the question's input about the pool
 * @param by the application in whose line it waits
 */
export async function askPool<Input, Query, Answer>(
  question: Question<Input, Query, Answer>,
  pool: Pool,
  inputOf: (pool: PoolReference) => Input,
  by: string,
  { catalog, reading }: AskingDeps,
): Promise<Answer | BadQuery> {
  const { query } = question.read(inputOf({ id: pool.id }), noMetric)
  const pools = [{ schema: catalog.read.currentSchema(pool), policy: null }] as const
  const reader = {
    applicationId: by,
    verifyAgain: () => undefined,
    inTurn: async <T>(plan: () => T): Promise<T> => plan(),
  }
  const answered = await ask(question, pools, query, reader, reading)
  return isBadQuery(answered) ? answered : answered.answer
}

interface Selected {
  readonly filters: readonly Filter[]
  readonly filterSql: string | null
}

/** The number of rows. */
export async function countRows(
  pool: Pool,
  selection: Selected,
  by: string,
  deps: AskingDeps,
): Promise<number | BadQuery> {
  const inputOf = (dataPool: PoolReference) => ({ metric: { count: { dataPool } }, ...selection })
  const answer = await askPool(counter, pool, inputOf, by, deps)
  return isBadQuery(answer) ? answer : Number(answer.value ?? 0)
}

function noMetric(): never {
  throw new Error('a job asks for no metric')
}
