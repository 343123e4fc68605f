/** The things that every planner gets beside the pool and the question. */

import { must } from '../../util/assert.ts'
import type { Expression } from '../expression/ast.ts'
import { type CheckOptions, checkCondition } from '../expression/check.ts'
import type { PoolView } from '../expression/operand.ts'
import type { Typed } from '../expression/typed.ts'
import type { BadQuery } from '../expression/values.ts'

export interface PlanContext {
  /** The time of the question: relative time ranges and now() are about it. */
  readonly nowMs: number
  /** Every SQL text of the question, parsed. */
  readonly expressions: ReadonlyMap<string, Expression | BadQuery>
}

/** The context of a plan without SQL texts of users, or with these. */
export function newContext(nowMs: number, expressions: PlanContext['expressions'] = new Map()): PlanContext {
  return { nowMs, expressions }
}

/**
 * The condition of a filterSql text, which the context has parsed; or BadQuery, whose sentence
 * begins with `name`.
 */
export function planFilterSql(
  name: string,
  text: string,
  view: PoolView,
  context: PlanContext,
  policyValues?: CheckOptions['policyValues'],
): Typed | BadQuery {
  const options = { view, nowMs: context.nowMs, ...(policyValues === undefined ? {} : { policyValues }) }
  const parsed = parsedText(text, context)
  const planned = 'badRequest' in parsed ? parsed : checkCondition(parsed, options)
  return 'badRequest' in planned ? { badRequest: `${name}: ${planned.badRequest}` } : planned
}

export function parsedText(text: string, { expressions }: PlanContext): Expression | BadQuery {
  return must(expressions.get(text), 'the parsed text')
}

/** True for a text that says something. Clients send null and '' for none. */
export function isGivenText(text: string | null | undefined): text is string {
  return text !== null && text !== undefined && text.trim() !== ''
}
