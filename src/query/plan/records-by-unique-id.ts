/**
 * The records whose unique id is one of a list, in the order of the list. One id may be that of
 * several records: the key has other columns too.
 */
import { must } from '../../util/errors.ts'
import { GRAPHQL_VALUES_MAX, RECORDS_MAX, UNIQUE_IDS_MAX } from '../../util/limits.ts'
import { exactColumn, type PoolView, parseValue, type QueryColumn } from '../expression/operand.ts'
import { internal, outputName } from '../expression/select.ts'
import { boundValue, columnOf, operation, type Typed } from '../expression/typed.ts'
import { type Bound, partOf, Refused } from '../expression/values.ts'
import { findGridColumns, recordOrder } from './grid-columns.ts'
import { EVERY_SEGMENT } from './prune-segments.ts'
import type { PrintedRows } from './query-task.ts'
import type { PoolReference, Question } from './question.ts'

interface RecordsByUniqueIdInput {
  readonly dataPool: PoolReference
  readonly columns: readonly string[]
  readonly uniqueIds: readonly string[]
}

export interface RecordsQuery {
  readonly columns: readonly string[]
  readonly uniqueIds: readonly string[]
}

export interface RecordsAnswer {
  readonly columns: readonly string[]
  /** One row for each record. */
  readonly values: PrintedRows
}

export const recordsByUniqueId: Question<RecordsByUniqueIdInput, RecordsQuery, RecordsAnswer> = {
  type: 'RECORDS_BY_UNIQUE_ID',
  subtype: null,
  rowsMax: RECORDS_MAX + 1,
  read({ dataPool, columns, uniqueIds }) {
    if (uniqueIds.length > UNIQUE_IDS_MAX)
      throw new Refused(`uniqueIds: a question takes at most ${UNIQUE_IDS_MAX}`)
    return { pool: dataPool, query: { columns, uniqueIds }, isPredefined: false }
  },
  texts: () => [],
  plan(view, { columns: names, uniqueIds }) {
    const columns = findGridColumns(view, names)
    const idColumn = uniqueIdColumn(view)
    if (idColumn === undefined)
      throw new Refused('the Data Pool has no unique id: ask "dataGrid" with a filter')
    const ids = readIds(idColumn, uniqueIds)
    const id = columnOf(idColumn)
    const place = placeIn(id, ids)
    const order = recordOrder(view).map(({ column, direction }) => ({ value: columnOf(column), direction }))
    const limit = Math.min(RECORDS_MAX, Math.floor(GRAPHQL_VALUES_MAX / (columns.length + 1)))
    const outputs = columns.map((column, index) => ({ name: outputName(index), value: columnOf(column) }))
    return {
      select: {
        where: isOneOf(id, ids),
        outputs: [...outputs, { name: internal('place'), value: place }],
        orderBy: [{ value: place, direction: 'ASC' }, ...order],
        limit: limit + 1,
      },
      ...EVERY_SEGMENT,
      answer(rows) {
        if (rows.length > limit)
          throw new Refused(`the ids have more than ${limit} records: ask for fewer ids or columns`)
        return { columns: names, values: rows.map(row => row.slice(0, names.length)) }
      },
    }
  },
}

/** The unique id, else the last column of the key. Undefined if there is none, or it is hidden. */
function uniqueIdColumn(view: PoolView): QueryColumn | undefined {
  const column = view.columns[view.uniqueId ?? view.key?.columns.at(-1) ?? -1]
  return column && exactColumn(view, column.name)
}

/** The different values, in the order of the texts. Throws Refused. */
function readIds(column: QueryColumn, texts: readonly string[]): readonly Bound[] {
  const ids = new Map<Bound['value'], Bound>()
  for (const text of texts) {
    const id = partOf('uniqueIds', () => parseValue(column.type, text, column.roundsEpochs))
    if (!ids.has(id.value)) ids.set(id.value, id)
  }
  return [...ids.values()]
}

function isOneOf(id: Typed, ids: readonly Bound[]): Typed {
  if (ids.length === 0) return boundValue({ type: 'BOOLEAN', value: false })
  return operation('in', 'boolean', [id, ...ids.map(boundValue)])
}

/** The place of a row's id in the list. */
function placeIn(id: Typed, ids: readonly Bound[]): Typed {
  const branches = ids.flatMap((each, index) => [
    operation('=', 'boolean', [id, boundValue(each)]),
    placeValue(index),
  ])
  return branches.length === 0
    ? placeValue(0)
    : operation('case', 'integer', [...branches, must(branches.at(-1), 'a place')])
}

function placeValue(index: number): Typed {
  return boundValue({ type: 'INT32', value: String(index) })
}
