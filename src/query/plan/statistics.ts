/** Statistics of a column over the rows of a metric: values, minimum, maximum and average. */
import { UNIQUE_VALUES_MAX } from '../../util/limits.ts'
import { findColumn, type PoolView, type QueryColumn } from '../expression/operand.ts'
import { allOf, internal, type Select } from '../expression/select.ts'
import { columnOf, nullOf, operation } from '../expression/typed.ts'
import { isBadQuery, refusable } from '../expression/values.ts'
import { planAggregate } from './metric.ts'
import type { PlanContext } from './plan-context.ts'
import type { PrintedRows } from './query-task.ts'
import type { Askable } from './question.ts'
import { type OwnFilters, type PlannedWhere, planWhere, selectionTexts } from './where.ts'

export interface ColumnQuery {
  readonly column: string
  /** The filters of the metric; absent for all rows. */
  readonly own?: OwnFilters
}

function textsOf({ own }: ColumnQuery): readonly string[] {
  return own === undefined ? [] : selectionTexts(own)
}

/** The column, and the rows of the metric that it is a dimension of. Throws Refused. */
function planColumn(
  view: PoolView,
  { column: name, own }: ColumnQuery,
  context: PlanContext,
): { readonly column: QueryColumn; readonly rows: PlannedWhere } {
  return { column: findColumn(view, name), rows: planWhere(view, {}, context, own) }
}

/** One more value than are answered shows that there are too many. */
export const columnValues: Askable<ColumnQuery, PrintedRows> = {
  type: 'STATS',
  subtype: null,
  rowsMax: UNIQUE_VALUES_MAX + 1,
  texts: textsOf,
  plan(view, query, context) {
    const { column, rows } = planColumn(view, query, context)
    const value = columnOf(column)
    const distinct: Select = {
      isDistinct: true,
      where: allOf([rows.where, operation('is_not_null', 'boolean', [value])]),
      outputs: [{ name: internal('value'), value }],
      limit: UNIQUE_VALUES_MAX + 1,
    }
    const found = columnOf({ name: internal('value'), type: column.type })
    const select = {
      from: distinct,
      outputs: [{ name: internal('value'), value: found }],
      orderBy: [{ value: found, direction: 'ASC' }],
    } as const
    return { select, ...rows.pruning, answer: printed => printed }
  },
}

/** The column's different values in their order, at most `limit`; none if there are too many. */
export function uniqueValuesOf(rows: PrintedRows, limit: number): readonly string[] {
  return rows.length > UNIQUE_VALUES_MAX ? [] : rows.slice(0, limit).map(([value]) => value ?? '')
}

/** One row: minimum, maximum, average. Null where the column's type has none. */
export const columnRange: Askable<ColumnQuery, PrintedRows> = {
  type: 'STATS',
  subtype: null,
  rowsMax: 1,
  texts: textsOf,
  plan(view, query, context) {
    const { column, rows } = planColumn(view, query, context)
    const outputs = (['min', 'max', 'average'] as const).map(kind => {
      const value = refusable(() => planAggregate(view, { kind, column: column.name }, context))
      return { name: kind, value: isBadQuery(value) ? operation('max', 'text', [nullOf('text')]) : value }
    })
    return { select: { where: rows.where, outputs }, ...rows.pruning, answer: printed => printed }
  },
}
