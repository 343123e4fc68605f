/** The things that every planner gets beside the pool and the question. */
import { must } from '../../util/errors.ts'
import type { Expression } from '../expression/ast.ts'
import { checkCondition } from '../expression/check.ts'
import type { PoolView } from '../expression/operand.ts'
import type { Typed } from '../expression/typed.ts'
import { type BadQuery, partOf, Refused } from '../expression/values.ts'

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

/** The condition of a parsed filterSql. The sentence of a Refused begins with `name`. */
export function planFilterSql(name: string, text: string, view: PoolView, context: PlanContext): Typed {
  return partOf(name, () => checkCondition(parsedText(text, context), { view, nowMs: context.nowMs }))
}

/** The expression of a text, which the context has parsed. Throws Refused. */
export function parsedText(text: string, { expressions }: PlanContext): Expression {
  const parsed = must(expressions.get(text), 'the parsed text')
  if ('badRequest' in parsed) throw new Refused(parsed.badRequest)
  return parsed
}

/** True for a text that says something. Clients send null and '' for none. */
export function isGivenText(text: string | null | undefined): text is string {
  return text !== null && text !== undefined && text.trim() !== ''
}
