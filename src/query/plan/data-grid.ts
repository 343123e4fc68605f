/**
 * The grid: records of a pool by page, ordered by a column, by the key, or the newest first.
 *
 * Ties are ordered by the record's key. Without a key that the reader sees whole, by the time of
 * arrival and then by a hash of the cells shown, so that rows with equal keys look the same.
 */
import { RECEIVED_AT } from '../../format/schema.ts'
import { PAGE_ROWS_MAX } from '../../util/limits.ts'
import type { PoolView, QueryColumn } from '../expression/operand.ts'
import { internal, type Output, outputName } from '../expression/select.ts'
import { boundValue, columnOf, nullOf, operation } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import { type ColumnOrder, findGridColumns, isOrderTotal, listOrder, recordOrder } from './grid-columns.ts'
import type { OrderKey } from './keyset.ts'
import { type Page, type PageInput, type PlannedPage, planPage, readPage } from './page.ts'
import type { Pruning } from './prune-segments.ts'
import type { PlannedQuestion, PoolReference, Question } from './question.ts'
import { planWhere, type RowSelection, selectionOf, selectionTexts } from './where.ts'

interface DataGridInput extends RowSelection, PageInput {
  readonly dataPool: PoolReference
  readonly columns: readonly string[]
  readonly orderByColumn?: number | null
  readonly sort?: 'ASC' | 'DESC' | null
}

export interface GridQuery extends RowSelection {
  readonly columns: readonly string[]
  /** Counted from 1. Null where the rows are in the order of listOrder. */
  readonly orderByColumn: number | null
  readonly sort: 'ASC' | 'DESC' | null
  readonly page: Page
}

export type GridAnswer = { readonly headers: readonly string[] } & ReturnType<PlannedPage['answer']>

export const dataGrid: Question<DataGridInput, GridQuery, GridAnswer> = {
  type: 'RECORDS',
  subtype: null,
  rowsMax: PAGE_ROWS_MAX + 1,
  read(input) {
    const page = readPage(input)
    const { dataPool, columns, orderByColumn = null, sort = null } = input
    const query = { columns, orderByColumn, sort, ...selectionOf(input), page }
    return { pool: dataPool, query, isPredefined: false }
  },
  texts: selectionTexts,
  plan(view, query, context) {
    const columns = findGridColumns(view, query.columns)
    const rows = planWhere(view, query, context)
    if (columns.length === 0) return emptyGrid(rows.pruning)
    const order = gridOrder(view, columns, query)
    const outputs = columns.map((column, index) => ({ name: outputName(index), value: columnOf(column) }))
    const keys = [
      ...order.map(each => keyOf(view, each, columns, outputs)),
      ...(isOrderTotal(view) ? [] : cellsKey(order, columns, outputs)),
    ]
    const name = JSON.stringify(['grid', view.pool, order, isOrderTotal(view) ? null : query.columns])
    const list = { name, rows: { where: rows.where }, outputs, keys, isTotal: isOrderTotal(view) }
    const page = planPage(list, query.page)
    return {
      select: page.select,
      rowsShown: query.page.count,
      ...rows.pruning,
      answer: printed => ({ headers: query.columns, ...page.answer(query.columns, printed) }),
    }
  },
}

/** A client asks for it before it knows the columns. */
function emptyGrid(pruning: Pruning): PlannedQuestion<GridAnswer> {
  const pageInfo = { startCursor: null, endCursor: null, hasNextPage: false, hasPreviousPage: false }
  return {
    ...pruning,
    select: {
      where: boundValue({ type: 'BOOLEAN', value: false }),
      outputs: [{ name: internal('none'), value: nullOf('text') }],
    },
    answer: () => ({ headers: [], rows: [], edges: [], nodes: [], pageInfo }),
  }
}

/** The chosen column, then the order of records. Throws Refused. */
function gridOrder(
  view: PoolView,
  columns: readonly QueryColumn[],
  { orderByColumn, sort }: GridQuery,
): readonly ColumnOrder[] {
  if (orderByColumn === null) return listOrder(view, sort)
  const column = columns[orderByColumn - 1]
  if (column === undefined)
    throw new Refused(`orderByColumn: it is 1 to ${columns.length}, the number of columns`)
  const ties = recordOrder(view).filter(each => each.column.name !== column.name)
  return [{ column, direction: sort ?? 'DESC' }, ...ties]
}

function keyOf(
  view: PoolView,
  { column, direction }: ColumnOrder,
  columns: readonly QueryColumn[],
  outputs: readonly Output[],
): OrderKey {
  const shown = outputs[columns.findIndex(({ name }) => name === column.name)]
  const isRequired = view.columns.some(({ name, required }) => required && name === column.name)
  return {
    value: shown?.value ?? columnOf(column),
    type: column.type,
    direction,
    isNullable: column.name !== RECEIVED_AT && !isRequired,
  }
}

/** The hash of the cells by which no other key orders the rows; none if there are none. */
function cellsKey(
  order: readonly ColumnOrder[],
  columns: readonly QueryColumn[],
  outputs: readonly Output[],
): readonly OrderKey[] {
  const ordered = new Set(order.map(({ column }) => column.name))
  const cells = outputs.flatMap(({ value }, index) => (ordered.has(columns[index]?.name ?? '') ? [] : value))
  if (cells.length === 0) return []
  return [{ value: operation('hash', 'text', cells), type: 'STRING', direction: 'ASC', isNullable: false }]
}
