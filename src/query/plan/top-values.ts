/** The values that are most frequent in a column. */
import { TOP_VALUES_DEFAULT, TOP_VALUES_MAX } from '../../util/limits.ts'
import { findColumn } from '../expression/operand.ts'
import { internal } from '../expression/select.ts'
import { columnOf, operation } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import type { PoolReference, Question } from './question.ts'
import { planWhere, type RowSelection } from './where.ts'

type TimeSelection = Pick<RowSelection, 'timeRange' | 'timeZone'>

interface TopValuesInput extends TimeSelection {
  readonly dataPool: PoolReference
  readonly columnName: string
  readonly maxValues?: number | null
}

export interface TopValuesQuery extends TimeSelection {
  readonly column: string
  readonly maxValues: number
}

interface TopValuesAnswer {
  readonly values: readonly string[]
}

export const topValues: Question<TopValuesInput, TopValuesQuery, TopValuesAnswer> = {
  type: 'TOP_VALUES',
  subtype: null,
  rowsMax: TOP_VALUES_MAX,
  read({ dataPool, columnName: column, maxValues: given, timeRange = null, timeZone = null }) {
    const maxValues = given ?? TOP_VALUES_DEFAULT
    if (!(maxValues >= 1 && maxValues <= TOP_VALUES_MAX))
      throw new Refused(`maxValues: it is between 1 and ${TOP_VALUES_MAX}`)
    return { pool: dataPool, query: { column, maxValues, timeRange, timeZone }, isPredefined: false }
  },
  texts: () => [],
  /** Values that are equally frequent come in their own order. Null is no value. */
  plan(view, query, context) {
    const column = findColumn(view, query.column)
    const rows = planWhere(view, query, context)
    const value = columnOf(column)
    // Of the group of null, which the answer leaves out, this count is 0. A condition on the values
    // takes a sixth of the time of this question.
    const count = operation('count', 'integer', [value])
    return {
      select: {
        where: rows.where,
        outputs: [
          { name: internal('value'), value },
          { name: internal('count'), value: count },
        ],
        groupBy: [value],
        orderBy: [
          { value: count, direction: 'DESC' },
          { value, direction: 'ASC' },
        ],
        limit: query.maxValues,
      },
      ...rows.pruning,
      answer: printed => ({ values: printed.flatMap(([text]) => text ?? []) }),
    }
  },
}
