/**
 * The rows that a job deletes or sets columns of: the plan that finds them in one segment, with
 * their new values. The engine copies its answer to a file, and a merge applies it
 * (store/compaction/merge-changes.ts). A cluster writes its own statements of the same values
 * (clickhouse/write-row-changes.ts).
 *
 * The answer has ROW_NUMBER, and for each column that is set its new value under `changedName`. An
 * expression cannot fail: a number or time that does not fit is null.
 */
import { changedName, ROW_NUMBER } from '../format/row-changes.ts'
import { type PoolSchema, SEQUENCE } from '../format/schema.ts'
import { checkValue } from './expression/check.ts'
import { findColumn } from './expression/operand.ts'
import { allOf } from './expression/select.ts'
import { boundValue, columnOf, operation, type Typed } from './expression/typed.ts'
import { type BadQuery, partOf, Refused, refusable } from './expression/values.ts'
import type { Dialect, QueryPlan, Statement } from './plan/plan.ts'
import { isGivenText, newContext, type PlanContext, parsedText } from './plan/plan-context.ts'
import type { ParseTexts } from './plan/policy.ts'
import { loadTemporal } from './plan/time-zone.ts'
import { type Filter, planWhere, selectionTexts } from './plan/where.ts'

/** What a job does with the rows that match: it deletes them where `set` is empty. */
export interface RowChanges {
  readonly filters: readonly Filter[]
  readonly filterSql: string | null
  readonly set: readonly { readonly column: string; readonly expression: string }[]
}

export interface PlannedChanges {
  readonly plan: QueryPlan
  readonly statement: Statement
  /** The condition without that on the sequence; undefined for all rows. */
  readonly where: Typed | undefined
  /** The new values, in the order of `set`. */
  readonly values: readonly Typed[]
}

/**
 * Plans changes of the rows with sequences below `beforeSequence`, or BadQuery.
 * @param nowMs the time of now(), which is the same for every segment
 * @param dialect of the engine, which may refuse what another one takes
 */
export async function planRowChanges(
  schema: PoolSchema,
  changes: RowChanges,
  beforeSequence: number,
  nowMs: number,
  parse: ParseTexts,
  dialect: Dialect,
): Promise<PlannedChanges | BadQuery> {
  await loadTemporal()
  const texts = [...selectionTexts(changes), ...changes.set.map(({ expression }) => expression)]
  const context = newContext(nowMs, await parse(texts.filter(isGivenText)))
  return refusable(() => planParsed(schema, changes, beforeSequence, context, dialect))
}

function planParsed(
  schema: PoolSchema,
  changes: RowChanges,
  beforeSequence: number,
  context: PlanContext,
  dialect: Dialect,
): PlannedChanges {
  const where = planWhere(schema, changes, context)
  const values = partOf('set', () => changes.set.map(each => planValue(schema, each, context)))
  const position = (name: string) => columnOf({ name, type: 'INT64' })
  const bound = boundValue({ type: 'INT64', value: String(beforeSequence) })
  const plan: QueryPlan = {
    select: {
      where: allOf([operation('<', 'boolean', [position(SEQUENCE), bound]), where.where]),
      outputs: [
        { name: ROW_NUMBER, value: position(ROW_NUMBER) },
        ...values.map((value, index) => ({ name: changedName(index), value })),
      ],
    },
    hasPositions: true,
    ...where.pruning,
  }
  return { plan, statement: dialect.write(plan), where: where.where, values }
}

function planValue(
  schema: PoolSchema,
  { column: name, expression }: RowChanges['set'][number],
  context: PlanContext,
): Typed {
  const column = findColumn(schema, name)
  if (!isGivenText(expression)) throw new Refused('the expression is empty: give NULL to clear a column')
  const options = { view: schema, nowMs: context.nowMs }
  const value = checkValue(parsedText(expression, context), column, options)
  return column.type === 'TIMESTAMP' ? operation('zoned', 'instant', [value]) : value
}
