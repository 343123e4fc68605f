/**
 * Which questions are equal: those of one application whose statements are equal, with every bound
 * value, over the same pools with the same schemas. The policies and the visible columns are parts
 * of the statement, and so are relative times, which are instants in it.
 *
 * A statement in the engine's own SQL may differ over equal rows. One that reads the clock is equal
 * to those beside it, because their run reads the clock once; its answer is not kept. One that
 * draws lots is equal to none: two askers never get the same ids.
 */
import { hash } from 'node:crypto'
import type { Dialect, QueryPlan, Statement } from './plan/plan.ts'
import type { PoolsOfQuestion } from './plan/policy.ts'
import type { Askable } from './plan/question.ts'

export interface QuestionKey {
  /** Of the schemas' versions too: equal for questions that may share a run. */
  readonly shared: string
  /** A newer schema makes an answer that is kept untrue, and takes its place. */
  readonly kept: string
  readonly mayBeKept: boolean
}

export interface WrittenPlan {
  readonly plan: QueryPlan
  readonly statement: Statement
}

/** Undefined for a question that is equal to no other. */
export function questionKey(
  { rowsMax }: Pick<Askable, 'rowsMax'>,
  pools: PoolsOfQuestion,
  { plan, statement }: WrittenPlan,
  applicationId: string,
  dialect: Dialect,
): QuestionKey | undefined {
  const { native } = plan
  const varies = native?.statement.varies
  if (varies === 'lot' || (native !== undefined && native.form !== 'rows')) return undefined
  // Its conditions on times are about the moment of the plan. They only leave out segments.
  const equal =
    native !== undefined && varies === 'clock'
      ? dialect.write({ ...plan, native: { ...native, timesOf: [] } })
      : statement
  const numbers = pools.map(({ schema }) => schema.pool)
  const versions = pools.map(({ schema }) => schema.version)
  const kept = hash('sha256', JSON.stringify([applicationId, rowsMax, numbers, equal]), 'base64')
  return { shared: [kept, ...versions].join(' '), kept, mayBeKept: varies === undefined }
}
