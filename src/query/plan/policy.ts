/**
 * Access policies: the rows and columns of a pool that exist for a reader.
 *
 *   columns     Any other column is unknown to every part of a question.
 *   rows        Filters and filterSql, joined by AND. They may name any column of the pool.
 *   ${{ name }} A value of the token's `policy_values`. It is bound, whatever it is.
 *
 * The engine applies a policy below the question: `rows`, which the statement reads, has only the
 * visible columns of the visible rows. So a kind of question cannot forget it, and no condition of
 * the question can weaken it, or run on a row that it hides (duckdb/live-rows.ts).
 */
import type { AccessPolicy } from '../../catalog/documents/model.ts'
import type { PoolSchema } from '../../format/schema.ts'
import { must } from '../../util/assert.ts'
import type { PolicyValue } from '../expression/check.ts'
import { NO_JSON_VALUE } from '../expression/kinds.ts'
import { findColumn, type PoolView, queryColumns, quoted } from '../expression/operand.ts'
import {
  hasMarkers,
  hasPlaceholder,
  placeholderName,
  type Replaced,
  replacePlaceholders,
} from '../expression/placeholders.ts'
import { allOf } from '../expression/select.ts'
import type { Typed } from '../expression/typed.ts'
import { type BadQuery, isBadQuery } from '../expression/values.ts'
import type { PoolPart, QueryPlan, VisibleRows } from './plan.ts'
import { isGivenText, newContext, type PlanContext, parsedText, planFilterSql } from './plan-context.ts'
import { tenantOf, tenantOfCondition } from './prune-segments.ts'
import { loadCalendar } from './temporal.ts'
import { type Filter, planFilters } from './where.ts'

/** The limits of one reader, as its policy states them. */
export interface RowPolicy {
  /** Names, or `*` alone for all. Names without a column are ignored: columns are never removed. */
  readonly columns: readonly string[]
  readonly rows: readonly Filter[]
  readonly filterSql: string | null
  /** The `policy_values` of the reader's token. */
  readonly values: Readonly<Record<string, unknown>>
}

/** The tenant that a policy names, for pruning, and its part of the statement. */
interface PlannedPolicy {
  readonly view: PoolView
  readonly visible: VisibleRows | undefined
  readonly tenantEquals: string | null
}

/** A sentence if the token lacks a value that the policy needs. Nothing is visible then. */
function missingValue(policy: Pick<RowPolicy, 'rows' | 'filterSql' | 'values'>): string | undefined {
  const missing = placeholdersOf(policy).find(name => givenValue(policy.values, name) === undefined)
  if (missing === undefined) return undefined
  return `the token has no policy value ${quoted(missing)} (a text, number or boolean), which the Data Pool Access Policy needs`
}

/** The policy that limits a reader, null for none; or why the reader sees nothing. */
export type Access = { readonly policy: RowPolicy | null } | { readonly forbidden: string }

/**
 * @param assigned the policy that is assigned to the application on this pool
 * @param values the `policy_values` of its token
 */
export function accessOf(
  pool: { readonly accessControlEnabled: boolean },
  assigned: Pick<AccessPolicy, 'columns' | 'rows' | 'filterSql'> | undefined,
  values: Readonly<Record<string, unknown>> | undefined,
): Access {
  if (!pool.accessControlEnabled) return { policy: null }
  if (assigned === undefined)
    return { forbidden: 'the pool has access control and no Data Pool Access Policy is assigned' }
  const { columns, rows, filterSql } = assigned
  const policy = { columns, rows: rows as readonly Filter[], filterSql, values: values ?? {} }
  const missing = missingValue(policy)
  return missing === undefined ? { policy } : { forbidden: missing }
}

/** The SQL texts that must be parsed before the policy is planned. */
export function policyTexts(policy: Pick<RowPolicy, 'filterSql'> | null): readonly string[] {
  const replaced = replacedSql(policy?.filterSql ?? null)
  return replaced === undefined || 'badRequest' in replaced ? [] : [replaced.sql]
}

/** The view of a reader, or BadQuery. `null`: the pool has no access control. */
function planPolicy(
  schema: PoolSchema,
  policy: RowPolicy | null,
  context: PlanContext,
): PlannedPolicy | BadQuery {
  if (policy === null) return { view: schema, visible: undefined, tenantEquals: null }
  const missing = missingValue(policy)
  if (missing !== undefined) return { badRequest: missing }
  const filters = policy.rows.map(filter => withValues(filter, policy.values))
  const bad = filters.find(isBadQuery)
  if (bad !== undefined) return UNFIT
  const rows = planFilters(schema, filters as readonly Filter[])
  const sql = planPolicySql(schema, policy, context)
  if (isBadQuery(rows) || isBadQuery(sql)) return UNFIT
  const where = allOf([rows, sql])
  const isAll = policy.columns.includes('*')
  const view: PoolView = isAll ? schema : { ...schema, visible: new Set(policy.columns) }
  const columns = isAll ? null : queryColumns(view).map(({ name }) => name)
  const tenant = tenantOf(schema, filters as readonly Filter[])
  return {
    view,
    visible: columns === null && where === undefined ? undefined : { columns, where },
    tenantEquals: tenant ?? (sql === undefined ? null : tenantOfCondition(schema, sql)),
  }
}

/** The condition of the policy's filterSql, or undefined if it has none. */
function planPolicySql(
  schema: PoolSchema,
  { filterSql, values }: RowPolicy,
  context: PlanContext,
): Typed | undefined | BadQuery {
  const replaced = replacedSql(filterSql)
  if (replaced === undefined || 'badRequest' in replaced) return replaced
  const bound = replaced.names.map(name => givenValue(values, name) as PolicyValue)
  return planMarked(schema, replaced, context, bound)
}

/**
 * The condition of a policy for this pool, or BadQuery, where the values of tokens are not known.
 * It is undefined where no condition is. `context` has the parsed texts of policyTexts.
 */
export function planAnyValues(
  schema: PoolSchema,
  { rows, filterSql }: Pick<RowPolicy, 'rows' | 'filterSql'>,
  context: PlanContext,
): Typed | undefined | BadQuery {
  const filters = rows.map(filter => withValues(filter, undefined))
  const bad = filters.find(isBadQuery)
  if (bad !== undefined) return bad
  const json = jsonOfPlaceholder(schema, rows)
  if (json !== undefined) return { badRequest: `rows: column ${quoted(json)}: ${NO_JSON_VALUE}` }
  const planned = planFilters(schema, filters as readonly Filter[])
  if (isBadQuery(planned)) return { badRequest: `rows: ${planned.badRequest}` }
  const replaced = replacedSql(filterSql)
  if (replaced === undefined) return planned
  if ('badRequest' in replaced) return { badRequest: `filterSql: ${replaced.badRequest}` }
  const sql = planMarked(schema, replaced, context, 'unknown')
  return isBadQuery(sql) ? sql : allOf([planned, sql])
}

function planMarked(
  schema: PoolSchema,
  { sql, names }: Replaced,
  context: PlanContext,
  values: readonly PolicyValue[] | 'unknown',
): Typed | BadQuery {
  const parsed = parsedText(sql, context)
  if (!('badRequest' in parsed) && !hasMarkers(parsed, names.length))
    return { badRequest: 'filterSql: a placeholder stands where no value can stand' }
  return planFilterSql('filterSql', sql, schema, context, values)
}

function replacedSql(filterSql: string | null) {
  return isGivenText(filterSql) ? replacePlaceholders(filterSql) : undefined
}

function placeholdersOf({ rows, filterSql }: Pick<RowPolicy, 'rows' | 'filterSql'>): readonly string[] {
  const replaced = replacedSql(filterSql)
  const ofSql = replaced === undefined || 'badRequest' in replaced ? [] : replaced.names
  const ofFilter = (filter: Filter): readonly string[] => [
    ...[placeholderOf(filter.value ?? '')].filter(name => name !== undefined),
    ...[...(filter.and ?? []), ...(filter.or ?? [])].flatMap(ofFilter),
  ]
  return [...ofSql, ...rows.flatMap(ofFilter)]
}

function placeholderOf(value: string): string | undefined {
  const text = value.trim()
  const isQuoted = text.length > 1 && /^['"]/.test(text) && text.endsWith(text.charAt(0))
  return placeholderName(isQuoted ? text.slice(1, -1) : text)
}

/** The value of a token, if it is one that can be bound. Own properties only. */
function givenValue(values: RowPolicy['values'], name: string): PolicyValue | undefined {
  const value = Object.hasOwn(values, name) ? values[name] : undefined
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined
  return typeof value === 'string' || typeof value === 'boolean' ? value : undefined
}

/** A filter with its values filled in. `undefined`: its form is checked, and its column stays. */
function withValues(filter: Filter, values: RowPolicy['values'] | undefined): Filter | BadQuery {
  const inner = [filter.and, filter.or].map(list => (list ?? []).map(each => withValues(each, values)))
  const bad = inner.flat().find(isBadQuery)
  if (bad !== undefined) return bad
  const [and = [], or = []] = inner as Filter[][]
  const value = filter.value ?? ''
  const name = placeholderOf(value)
  if (name === undefined) {
    if (!hasPlaceholder(value)) return { ...filter, and, or }
    return {
      badRequest: `rows: a placeholder is the whole value of a filter, not a part of ${quoted(value)}`,
    }
  }
  // A value with % would match other values.
  if (filter.operator === 'LIKE' || filter.operator === 'NOT_LIKE')
    return { badRequest: 'rows: the pattern of LIKE cannot be a placeholder' }
  if (values === undefined) return { column: filter.column, operator: 'IS_NOT_NULL', and, or }
  return { ...filter, and, or, value: String(givenValue(values, name)) }
}

/** The JSON column that a filter compares with a placeholder; undefined where none does. */
function jsonOfPlaceholder(schema: PoolSchema, filters: readonly Filter[]): string | undefined {
  for (const { column: name, value, and, or } of filters) {
    const column = placeholderOf(value ?? '') === undefined ? undefined : findColumn(schema, name)
    if (column !== undefined && 'type' in column && column.type === 'JSON') return name
    const inner = jsonOfPlaceholder(schema, [...(and ?? []), ...(or ?? [])])
    if (inner !== undefined) return inner
  }
  return undefined
}

/** The details would tell the reader of columns that it cannot see. */
const UNFIT: BadQuery = {
  badRequest: 'the Data Pool Access Policy cannot be applied with the policy values of this token',
}

/** Parses SQL texts, in the query process. */
export type ParseTexts = (texts: readonly string[]) => Promise<PlanContext['expressions']>

/** A pool, and the limits of the reader on it. */
export interface LimitedPool {
  readonly schema: PoolSchema
  /** Null where the pool has no access control. */
  readonly policy: RowPolicy | null
}

/** The question's own pool, then others that it reads too. */
export type PoolsOfQuestion = readonly [LimitedPool, ...LimitedPool[]]

/** Plans over the view of the question's own pool, and of others that it reads too. */
type Planner<Plan> = (view: PoolView, context: PlanContext, others: readonly PoolView[]) => Plan | BadQuery

/**
 * Plans a question for one reader: the policies first, then the question over what is visible.
 * @param texts the question's SQL texts
 */
export async function planFor<Plan extends QueryPlan>(
  pools: PoolsOfQuestion,
  texts: readonly string[],
  parse: ParseTexts,
  nowMs: number,
  plan: Planner<Plan>,
  inTurn: <T>(work: () => T) => Promise<T> = async work => work(),
): Promise<Plan | BadQuery> {
  const all = [...pools.flatMap(({ policy }) => policyTexts(policy)), ...texts]
  await loadCalendar()
  const context = newContext(nowMs, await parse(all))
  return await inTurn(() => planParsed(pools, context, plan))
}

function planParsed<Plan extends QueryPlan>(
  pools: readonly LimitedPool[],
  context: PlanContext,
  plan: Planner<Plan>,
): Plan | BadQuery {
  const limits: PlannedPolicy[] = []
  for (const { schema, policy } of pools) {
    const planned = planPolicy(schema, policy, context)
    if ('badRequest' in planned) return planned
    limits.push(planned)
  }
  const [{ view }, ...others] = limits as [PlannedPolicy, ...PlannedPolicy[]]
  const own = plan(
    view,
    context,
    others.map(other => other.view),
  )
  if ('badRequest' in own) return own
  const [limited, ...more] = [own, ...(own.others ?? [])].map((part, index) => limit(part, limits[index]))
  return { ...own, ...limited, ...(own.others === undefined ? {} : { others: more }) }
}

/**
 * The part of a plan about one pool, limited to what its policy shows. Where the policy hides rows,
 * the question's tenant leaves out no segment: whether one was read would tell of a hidden tenant.
 */
function limit<Part extends PoolPart>(part: Part, policy: PlannedPolicy | undefined): Part {
  const { visible, tenantEquals } = must(policy, 'the policy of a pool')
  if (visible === undefined) return part
  return { ...part, tenantEquals: visible.where === undefined ? part.tenantEquals : tenantEquals, visible }
}
