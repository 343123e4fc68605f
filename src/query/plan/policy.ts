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
import type { AccessPolicy, Pool } from '../../catalog/documents/model.ts'
import type { PoolSchema } from '../../format/schema.ts'
import { checkCondition, type PolicyValue } from '../expression/check.ts'
import { NO_JSON_VALUE } from '../expression/kinds.ts'
import { exactColumn, type PoolView, queryColumns, quoted } from '../expression/operand.ts'
import {
  hasMarkers,
  hasPlaceholder,
  placeholderName,
  type Replaced,
  replacePlaceholders,
} from '../expression/placeholders.ts'
import { allOf } from '../expression/select.ts'
import type { Typed } from '../expression/typed.ts'
import { isBadQuery, partOf, Refused, refusable, reworded } from '../expression/values.ts'
import type { PoolPart, QueryPlan, VisibleRows } from './plan.ts'
import { isGivenText, newContext, type PlanContext, parsedText } from './plan-context.ts'
import { pruningOf } from './prune-segments.ts'
import { loadTemporal } from './time-zone.ts'
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
 * @param isAdmin the caller has the scope `admin`: it sees a built-in pool without a policy
 */
export function accessOf(
  pool: Pick<Pool, 'accessControlEnabled'> & { readonly builtIn?: Pool['builtIn'] },
  assigned: Pick<AccessPolicy, 'columns' | 'rows' | 'filterSql'> | undefined,
  values: Readonly<Record<string, unknown>> | undefined,
  isAdmin: boolean,
): Access {
  if (!pool.accessControlEnabled) return { policy: null }
  if (assigned === undefined)
    return pool.builtIn !== undefined && isAdmin
      ? { policy: null }
      : { forbidden: 'the pool has access control and no Data Pool Access Policy is assigned' }
  const { columns, rows, filterSql } = assigned
  const policy = { columns, rows: rows as readonly Filter[], filterSql, values: values ?? {} }
  const missing = missingValue(policy)
  return missing === undefined ? { policy } : { forbidden: missing }
}

/** The SQL texts that must be parsed before the policy is planned. */
export function policyTexts(policy: Pick<RowPolicy, 'filterSql'> | null): readonly string[] {
  const replaced = readableSql(policy?.filterSql ?? null)
  return replaced === undefined ? [] : [replaced.sql]
}

/** The view of a reader. `null`: the pool has no access control. Throws Refused. */
function planPolicy(schema: PoolSchema, policy: RowPolicy | null, context: PlanContext): PlannedPolicy {
  if (policy === null) return { view: schema, visible: undefined, tenantEquals: null }
  const missing = missingValue(policy)
  if (missing !== undefined) throw new Refused(missing)
  return reworded(
    () => planPolicyRows(schema, policy, context),
    () => UNFIT,
  )
}

function planPolicyRows(schema: PoolSchema, policy: RowPolicy, context: PlanContext): PlannedPolicy {
  const filters = policy.rows.map(filter => withValues(filter, policy.values))
  const sql = planPolicySql(schema, policy.filterSql, context, names =>
    names.map(name => givenValue(policy.values, name) as PolicyValue),
  )
  const where = allOf([planFilters(schema, filters), sql])
  const isAll = policy.columns.includes('*')
  const view: PoolView = isAll ? schema : { ...schema, visible: new Set(policy.columns) }
  const columns = isAll ? null : queryColumns(view).map(({ name }) => name)
  return {
    view,
    visible: columns === null && where === undefined ? undefined : { columns, where },
    tenantEquals: pruningOf(schema, where).tenantEquals,
  }
}

/**
 * The condition of a policy's filterSql; undefined if it has none.
 * @param valuesOf the values of the placeholders of these names
 */
function planPolicySql(
  schema: PoolSchema,
  filterSql: string | null,
  context: PlanContext,
  valuesOf: (names: readonly string[]) => readonly PolicyValue[] | 'unknown',
): Typed | undefined {
  return partOf('filterSql', () => {
    const replaced = replacedSql(filterSql)
    if (replaced === undefined) return undefined
    const parsed = parsedText(replaced.sql, context)
    if (!hasMarkers(parsed, replaced.names.length))
      throw new Refused('a placeholder stands where no value can stand')
    const { nowMs } = context
    return checkCondition(parsed, { view: schema, nowMs, policyValues: valuesOf(replaced.names) })
  })
}

/**
 * The condition of a policy for this pool, where the values of tokens are not known. It is
 * undefined where no condition is. `context` has the parsed texts of policyTexts. Throws Refused.
 */
export function planAnyValues(
  schema: PoolSchema,
  { rows, filterSql }: Pick<RowPolicy, 'rows' | 'filterSql'>,
  context: PlanContext,
): Typed | undefined {
  const planned = partOf('rows', () => {
    const filters = rows.map(filter => withValues(filter, undefined))
    refuseJson(schema, rows)
    return planFilters(schema, filters)
  })
  return allOf([planned, planPolicySql(schema, filterSql, context, () => 'unknown')])
}

function replacedSql(filterSql: string | null): Replaced | undefined {
  return isGivenText(filterSql) ? replacePlaceholders(filterSql) : undefined
}

/** The same; undefined too where the placeholders are refused, which the planner says. */
function readableSql(filterSql: string | null): Replaced | undefined {
  const replaced = refusable(() => replacedSql(filterSql))
  return isBadQuery(replaced) ? undefined : replaced
}

function placeholdersOf({ rows, filterSql }: Pick<RowPolicy, 'rows' | 'filterSql'>): readonly string[] {
  const ofFilter = (filter: Filter): readonly string[] => [
    ...[placeholderOf(filter.value ?? '')].filter(name => name !== undefined),
    ...[...(filter.and ?? []), ...(filter.or ?? [])].flatMap(ofFilter),
  ]
  return [...(readableSql(filterSql)?.names ?? []), ...rows.flatMap(ofFilter)]
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
function withValues(filter: Filter, values: RowPolicy['values'] | undefined): Filter {
  const and = (filter.and ?? []).map(each => withValues(each, values))
  const or = (filter.or ?? []).map(each => withValues(each, values))
  const value = filter.value ?? ''
  const name = placeholderOf(value)
  if (name === undefined) {
    if (!hasPlaceholder(value)) return { ...filter, and, or }
    throw new Refused(`a placeholder is the whole value of a filter, not a part of ${quoted(value)}`)
  }
  // A value with % would match other values.
  if (filter.operator === 'LIKE' || filter.operator === 'NOT_LIKE')
    throw new Refused('the pattern of LIKE cannot be a placeholder')
  if (values === undefined) return { column: filter.column, operator: 'IS_NOT_NULL', and, or }
  return { ...filter, and, or, value: String(givenValue(values, name)) }
}

/** Throws Refused where a filter compares a JSON column with a placeholder. */
function refuseJson(schema: PoolSchema, filters: readonly Filter[]): void {
  for (const { column: name, value, and, or } of filters) {
    if (placeholderOf(value ?? '') !== undefined && exactColumn(schema, name)?.type === 'JSON')
      throw new Refused(`column ${quoted(name)}: ${NO_JSON_VALUE}`)
    refuseJson(schema, [...(and ?? []), ...(or ?? [])])
  }
}

/** The details would tell the reader of columns that it cannot see. */
const UNFIT = 'the Data Pool Access Policy cannot be applied with the policy values of this token'

export type ParseTexts = (texts: readonly string[]) => Promise<PlanContext['expressions']>

export interface LimitedPool {
  readonly schema: PoolSchema
  /** Null where the pool has no access control. */
  readonly policy: RowPolicy | null
}

/** The question's own pool, then others that it reads too. */
export type PoolsOfQuestion = readonly LimitedPool[]

/** Plans over the view of the question's own pool, and of others that it reads too. */
type Planner<Plan> = (view: PoolView, context: PlanContext, others: readonly PoolView[]) => Plan

/**
 * Plans a question for one reader: the policies first, then the question over what is visible.
 * Rejects with Refused.
 * @param texts the question's SQL texts
 */
export async function planFor<Plan extends QueryPlan>(
  pools: PoolsOfQuestion,
  texts: readonly string[],
  parse: ParseTexts,
  nowMs: number,
  plan: Planner<Plan>,
  inTurn: <T>(work: () => T) => Promise<T> = async work => work(),
): Promise<Plan> {
  const all = [...pools.flatMap(({ policy }) => policyTexts(policy)), ...texts]
  await loadTemporal()
  const context = newContext(nowMs, await parse(all))
  return await inTurn(() => planParsed(pools, context, plan))
}

const NO_POOL: PlannedPolicy = {
  view: { pool: 0, version: 1, columns: [], timestamp: -1, tenant: -1, key: null },
  visible: undefined,
  tenantEquals: null,
}

function planParsed<Plan extends QueryPlan>(
  pools: readonly LimitedPool[],
  context: PlanContext,
  plan: Planner<Plan>,
): Plan {
  const limits = pools.map(({ schema, policy }) => planPolicy(schema, policy, context))
  // A native statement may read no pool, and looks at no view.
  const [first = NO_POOL, ...others] = limits
  const own = plan(
    first.view,
    context,
    others.map(other => other.view),
  )
  const [limited, ...more] = [own, ...(own.others ?? [])].map((part, index) =>
    limit(part, limits[index] ?? first),
  )
  return { ...own, ...limited, ...(own.others === undefined ? {} : { others: more }) }
}

/**
 * The part of a plan about one pool, limited to what its policy shows. Where the policy hides rows,
 * the question's tenant leaves out no segment: whether one was read would tell of a hidden tenant.
 */
function limit<Part extends PoolPart>(part: Part, { visible, tenantEquals }: PlannedPolicy): Part {
  if (visible === undefined) return part
  return { ...part, tenantEquals: visible.where === undefined ? part.tenantEquals : tenantEquals, visible }
}
