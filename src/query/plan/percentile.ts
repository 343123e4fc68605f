/**
 * Percentiles of a numeric column: a question of Weir, which the protocol lacks. Between two values
 * the answer is interpolated, as by the expression `quantile`.
 */
import { NUMBER_TYPES } from '../../format/schema.ts'
import { findColumn, quoted } from '../expression/operand.ts'
import { internal } from '../expression/select.ts'
import { columnOf, operation } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import type { PoolReference, Question } from './question.ts'
import { planWhere, type RowSelection, selectionOf, selectionTexts } from './where.ts'

/** Fractions of a question about percentiles. */
export const PERCENTILE_FRACTIONS_MAX = 20

interface PercentileInput extends RowSelection {
  readonly dataPool: PoolReference
  readonly columnName: string
  readonly fractions: readonly number[]
}

export interface PercentileQuery extends RowSelection {
  readonly column: string
  /** Each is 0 to 1: 0 is the minimum, 0.5 the median, 1 the maximum. */
  readonly fractions: readonly number[]
}

interface PercentileAnswer {
  readonly fractions: readonly number[]
  /** One for each fraction; null over no rows. */
  readonly values: readonly (string | null)[]
}

/** One row, with a column for each fraction. */
export const percentile: Question<PercentileInput, PercentileQuery, PercentileAnswer> = {
  type: 'STATS',
  subtype: null,
  rowsMax: 1,
  read(input) {
    const { dataPool, columnName: column, fractions } = input
    if (!(fractions.length >= 1 && fractions.length <= PERCENTILE_FRACTIONS_MAX))
      throw new Refused(`fractions: there are 1 to ${PERCENTILE_FRACTIONS_MAX}`)
    const wrong = fractions.find(fraction => !(fraction >= 0 && fraction <= 1))
    if (wrong !== undefined) throw new Refused(`fractions: ${wrong} is not between 0 and 1`)
    return { pool: dataPool, query: { column, fractions, ...selectionOf(input) }, isPredefined: false }
  },
  texts: selectionTexts,
  plan(view, query, context) {
    const column = findColumn(view, query.column)
    const { name, type } = column
    if (!NUMBER_TYPES.includes(type))
      throw new Refused(`column ${quoted(name)} is ${type}: only numbers have percentiles`)
    const rows = planWhere(view, query, context)
    const { fractions } = query
    return {
      select: {
        where: rows.where,
        outputs: fractions.map((number, index) => ({
          name: internal(`p${index}`),
          value: operation('quantile', 'real', [columnOf(column)], { number, numbers: fractions }),
        })),
      },
      ...rows.pruning,
      answer: ([row]) => ({ fractions, values: fractions.map((_, index) => row?.[index] ?? null) }),
    }
  },
}
