/**
 * Checks of filters and SQL texts before the catalog stores them: BadQuery, or undefined if they
 * fit the pool. With `placeholders` they are an access policy's, in which `${{ name }}` stands for
 * any value.
 */
import type { PoolSchema } from '../format/schema.ts'
import { checkPatterns, duckdb } from './duckdb/write-statement.ts'
import type { PoolView } from './expression/operand.ts'
import type { Typed } from './expression/typed.ts'
import { type BadQuery, isBadQuery, refusable } from './expression/values.ts'
import { planAggregate } from './plan/metric.ts'
import { isGivenText, newContext, planFilterSql } from './plan/plan-context.ts'
import { type ParseTexts, planAnyValues, policyTexts } from './plan/policy.ts'
import { type Filter, planFilters } from './plan/where.ts'
import { planRowChanges, type RowChanges } from './plan-row-changes.ts'

/** `placeholders`: a value may stand for a policy value that comes with the token. */
export type TextForm = 'plain' | 'placeholders'

export function checkFilters(
  schema: PoolSchema,
  filters: readonly Filter[],
  form: TextForm,
): BadQuery | undefined {
  const context = newContext(0)
  if (form === 'placeholders')
    return refusal(() => planAnyValues(schema, { rows: filters, filterSql: null }, context))
  return refusal(() => planFilters(schema, filters))
}

/** A condition. None fits too. */
export async function checkFilterSql(
  schema: PoolSchema,
  text: string,
  form: TextForm,
  parse: ParseTexts,
): Promise<BadQuery | undefined> {
  if (!isGivenText(text)) return undefined
  const rows = { rows: [], filterSql: text }
  const texts = form === 'plain' ? [text] : policyTexts(rows)
  const context = newContext(0, texts.length === 0 ? undefined : await parse(texts))
  if (form === 'placeholders') return refusal(() => planAnyValues(schema, rows, context))
  return refusal(() => planFilterSql('filterSql', text, schema, context))
}

export async function checkMetricExpression(
  schema: PoolView,
  text: string,
  parse: ParseTexts,
): Promise<BadQuery | undefined> {
  const context = newContext(0, isGivenText(text) ? await parse([text]) : undefined)
  return refusal(() => planAggregate(schema, { kind: 'custom', expression: text }, context))
}

export async function checkRowChanges(
  schema: PoolSchema,
  changes: RowChanges,
  parse: ParseTexts,
): Promise<BadQuery | undefined> {
  const planned = await planRowChanges(schema, changes, 0, 0, parse, duckdb)
  return isBadQuery(planned) ? planned : undefined
}

/** Why no query can have the expression: as it was planned, or for the number of its patterns. */
function refusal(plan: () => Typed | undefined): BadQuery | undefined {
  const refused = refusable(() => {
    const planned = plan()
    if (planned !== undefined) checkPatterns(planned)
  })
  return isBadQuery(refused) ? refused : undefined
}
