/**
 * Changes of metrics. The callers have checked SQL texts and filters against the pool's columns
 * (query/); here the columns and the type are checked again, because the pool may have changed.
 */
import { NUMBER_TYPES, ORDERED_TYPES } from '../../format/schema.ts'
import { must } from '../../util/errors.ts'
import { METRIC_DIMENSIONS_MAX, SQL_TEXT_BYTES_MAX } from '../../util/limits.ts'
import type { IdOrName } from '../documents/catalog-types.ts'
import { keys, type Memory } from '../documents/memory.ts'
import type { Metric, MetricType, Pool, StoredFilter } from '../documents/model.ts'
import {
  changedFilterSql,
  creating,
  type Decide,
  deleting,
  forPool,
  modifying,
  type Named,
  replacing,
  unchanged,
} from './change.ts'
import { columnTypeOf, orNull, textProblem } from './rules.ts'

export interface NewMetric extends Named {
  readonly poolId: string
  readonly type: MetricType
  /** The measure, or the dimension of COUNT_DISTINCT. */
  readonly column?: string | null | undefined
  readonly expression?: string | null | undefined
  readonly filters?: readonly StoredFilter[] | null | undefined
  readonly filterSql?: string | null | undefined
  readonly dimensions?: readonly string[] | null | undefined
}

/** Absent and null leave a field as it is. */
export interface MetricChange extends Named, Pick<NewMetric, 'filters' | 'filterSql' | 'dimensions'> {
  readonly accessControlEnabled?: boolean | null | undefined
}

export function createMetric(input: NewMetric, by: string): Decide<Metric | null> {
  const column = orNull(input.column)
  const expression = orNull(input.expression)
  const dimensions = input.dimensions ?? []
  return forPool(input.poolId, pool =>
    creating('metrics', input, by, () => {
      const badRequest =
        textsProblem(input) ??
        measureProblem(pool, input.type, column, expression) ??
        dimensionsProblem(pool, dimensions)
      if (badRequest !== undefined) return { badRequest }
      return {
        poolId: pool.id,
        type: input.type,
        column,
        expression,
        filters: input.filters ?? [],
        filterSql: orNull(input.filterSql),
        dimensions,
        accessControlEnabled: false,
      }
    }),
  )
}

export function modifyMetric(which: IdOrName, input: MetricChange, by: string): Decide<Metric | null> {
  return modifying('metrics', which, input, by, (found, memory) => {
    const pool = must(memory.pools.get(found.poolId), `the pool of ${found.id}`)
    const badRequest = textsProblem(input) ?? dimensionsProblem(pool, input.dimensions ?? [])
    if (badRequest !== undefined) return { badRequest }
    return {
      filters: input.filters ?? found.filters,
      filterSql: changedFilterSql(found, input),
      dimensions: input.dimensions ?? found.dimensions,
      accessControlEnabled: input.accessControlEnabled ?? found.accessControlEnabled,
    }
  })
}

export function migrateMetric(metricId: string, poolId: string, by: string): Decide<Metric | null> {
  return (memory, nowMs) => {
    const metric = memory.metrics.find(metricId)
    const pool = memory.pools.find(poolId)
    if (metric === undefined || pool === undefined) return unchanged(null)
    const problem =
      measureProblem(pool, metric.type, metric.column, metric.expression) ??
      dimensionsProblem(pool, metric.dimensions)
    if (problem !== undefined) return { badRequest: problem }
    return replacing(keys.metric(metric.id), metric, { poolId: pool.id }, by, nowMs)
  }
}

export function deleteMetric(which: IdOrName): Decide<string | null> {
  return deleting('metrics', which)
}

export function metricKeysOf(memory: Memory, poolId: string): string[] {
  return memory.metrics.of(poolId).map(({ id }) => keys.metric(id))
}

function textsProblem(input: {
  readonly expression?: string | null | undefined
  readonly filterSql?: string | null | undefined
}): string | undefined {
  return (
    textProblem('expression', input.expression, SQL_TEXT_BYTES_MAX) ??
    textProblem('filterSql', input.filterSql, SQL_TEXT_BYTES_MAX)
  )
}

function measureProblem(
  pool: Pool,
  type: MetricType,
  column: string | null,
  expression: string | null,
): string | undefined {
  if (type === 'COUNT') return undefined
  if (type === 'CUSTOM') return expression === null ? 'A custom Metric needs an expression.' : undefined
  const what = type === 'COUNT_DISTINCT' ? 'dimension' : 'measure'
  if (column === null) return `A Metric of type ${type} needs a ${what}.`
  const columnType = columnTypeOf(pool, column)
  if (columnType === undefined) return noColumn(what, column)
  const fits =
    type === 'COUNT_DISTINCT' ||
    NUMBER_TYPES.includes(columnType) ||
    ((type === 'MIN' || type === 'MAX') && ORDERED_TYPES.includes(columnType))
  return fits
    ? undefined
    : `The measure "${column}" is a column of type ${columnType}, which cannot be the measure of a Metric of type ${type}.`
}

function dimensionsProblem(pool: Pool, names: readonly string[]): string | undefined {
  if (names.length > METRIC_DIMENSIONS_MAX)
    return `A Metric has at most ${METRIC_DIMENSIONS_MAX} dimensions, ${names.length} were given.`
  const missing = names.find(name => columnTypeOf(pool, name) === undefined)
  if (missing !== undefined) return noColumn('dimension', missing)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  return twice === undefined ? undefined : `The dimension "${twice}" is given more than once.`
}

function noColumn(what: string, name: string): string {
  return `The ${what} "${name}" names no column of the Data Pool.`
}
