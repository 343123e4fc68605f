/**
 * Filters and SQL texts that a caller gives with a metric or a policy. They are checked against the
 * pool before the catalog stores them, so that each later query can rely on them.
 */
import type { Pool, StoredFilter } from '../../catalog/documents/model.ts'
import { parseTexts } from '../../query/ask.ts'
import type { TextForm } from '../../query/check-texts.ts'
import type { ParseTexts } from '../../query/plan/policy.ts'
import type { Filter } from '../../query/plan/where.ts'
import type { Context } from './context.ts'
import { badRequest } from './graphql-errors.ts'
import type { Enums, Inputs } from './schema-types.ts'

/** What a caller may give besides an object's own fields. null and "" mean not given. */
interface Texts {
  readonly filters?: readonly Inputs['FilterInput'][] | null | undefined
  readonly filterSql?: string | null | undefined
  readonly expression?: string | null | undefined
}

/** Throws BAD_REQUEST where a text does not fit the pool. @param form allows placeholders */
export async function checkTexts(
  pool: Pool,
  texts: Texts,
  context: Context,
  form: TextForm = 'plain',
): Promise<void> {
  const { deps, budget } = context
  const { checkFilters, checkFilterSql, checkMetricExpression } = deps.query
  const { filters, filterSql, expression } = texts
  budget.query(texts)
  const schema = deps.catalog.read.currentSchema(pool)
  const parse = parserOf(context)
  const checks = [
    filters && filters.length > 0 ? checkFilters(schema, filters as readonly Filter[], form) : undefined,
    filterSql ? await checkFilterSql(schema, filterSql, form, parse) : undefined,
    expression ? await checkMetricExpression(schema, expression, parse) : undefined,
  ]
  for (const refused of checks) if (refused !== undefined) throw badRequest(refused.badRequest)
}

/** Parses SQL texts that are stored. They take turns with each other, whoever gives them. */
export function parserOf({ deps }: Context): ParseTexts {
  return texts => parseTexts(texts, deps.reading.engine, 'management')
}

/** Filters as the catalog stores them; undefined where none are given. The nesting was checked. */
export function storedFilters(
  filters: readonly Inputs['FilterInput'][] | null | undefined,
): readonly StoredFilter[] | undefined {
  return filters?.map(({ column, operator, value, and, or }) => ({
    column,
    operator,
    value: value ?? null,
    and: storedFilters(and) ?? [],
    or: storedFilters(or) ?? [],
  }))
}

/** A stored filter, whose operator was checked when it was given. */
interface ShownFilter extends Omit<StoredFilter, 'operator' | 'and' | 'or'> {
  readonly operator: Enums['FilterOperator']
  readonly and: readonly ShownFilter[]
  readonly or: readonly ShownFilter[]
}

export function shownFilters(filters: readonly StoredFilter[]): readonly ShownFilter[] {
  return filters as readonly ShownFilter[]
}
