/** The columns and the order of questions whose answer is rows of a pool. */
import { KEY_RECEIVED_AT, RECEIVED_AT } from '../../format/schema.ts'
import { GRID_COLUMNS_MAX } from '../../util/limits.ts'
import {
  exactColumn,
  findColumn,
  type PoolView,
  type QueryColumn,
  timestampColumn,
} from '../expression/operand.ts'
import { partOf, Refused } from '../expression/values.ts'

export interface ColumnOrder {
  readonly column: QueryColumn
  readonly direction: 'ASC' | 'DESC'
}

/** The columns of these names, repeated ones included. Throws Refused. */
export function findGridColumns(view: PoolView, names: readonly string[]): readonly QueryColumn[] {
  return partOf('columns', () => {
    if (names.length > GRID_COLUMNS_MAX) throw new Refused(`a question takes at most ${GRID_COLUMNS_MAX}`)
    return names.map(name => findColumn(view, name))
  })
}

/**
 * The order of records: the newest first, then by the key; in a pool without a key by arrival. A
 * column that the reader does not see orders nothing.
 */
export function recordOrder(view: PoolView, timestamp: 'ASC' | 'DESC' = 'DESC'): readonly ColumnOrder[] {
  const time = timestampColumn(view).name
  const ties = view.key === null ? [RECEIVED_AT] : keyNames(view)
  const names = [...new Set([time, ...ties])]
  return names.flatMap(name => {
    const column = exactColumn(view, name)
    if (column === undefined) return []
    return { column, direction: name === time ? timestamp : 'ASC' } as const
  })
}

/**
 * The order of a list that names no column. A pool without a timestamp column whose `orderBy` makes
 * the key is listed by that key, ascending unless `sort` says DESC. Every other pool is listed by
 * time, the newest first unless `sort` says ASC.
 */
export function listOrder(view: PoolView, sort: 'ASC' | 'DESC' | null): readonly ColumnOrder[] {
  const { timestamp, key } = view
  const isByKey = timestamp < 0 && key !== null && key.columns[0] !== KEY_RECEIVED_AT
  const byKey = isByKey ? keyNames(view) : []
  const seen = byKey.flatMap(name => {
    const column = exactColumn(view, name)
    return column === undefined ? [] : { column, direction: sort ?? 'ASC' }
  })
  if (seen.length === 0) return recordOrder(view, sort ?? 'DESC')
  if (isOrderTotal(view)) return seen
  // Rows that the visible part of the key does not tell apart.
  const ties = recordOrder(view).filter(({ column }) => !byKey.includes(column.name))
  return [...seen, ...ties]
}

/**
 * True where `orderBy` names the key of a pool without a timestamp column. Other keys of such pools
 * begin with the time of arrival.
 */
/** True if no two rows have the same values in the columns of recordOrder, or of listOrder. */
export function isOrderTotal(view: PoolView): boolean {
  return view.key !== null && keyNames(view).every(name => exactColumn(view, name) !== undefined)
}

function keyNames({ key, columns }: PoolView): readonly string[] {
  return (key?.columns ?? []).flatMap(index =>
    index === KEY_RECEIVED_AT ? RECEIVED_AT : (columns[index]?.name ?? []),
  )
}
