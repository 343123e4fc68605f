/** The counter: one metric over the rows that a question selects, answered as one value. */
import {
  type MetricRows,
  type MetricRowsInput,
  metricRowsTexts,
  planMetricRows,
  readMetricRows,
} from './metric-rows.ts'
import type { Question } from './question.ts'

/** CounterInput of the GraphQL schema. */
type CounterInput = MetricRowsInput

export type CounterQuery = MetricRows

/** null: an aggregate other than a count over no rows. */
interface CounterAnswer {
  readonly value: string | null
}

/** One row with one column, `value`. */
export const counter: Question<CounterInput, CounterQuery, CounterAnswer> = {
  type: 'METRIC',
  subtype: 'COUNTER',
  rowsMax: 1,
  read: readMetricRows,
  texts: metricRowsTexts,
  plan(view, query, context) {
    const rows = planMetricRows(view, query, context)
    if ('badRequest' in rows) return rows
    return {
      select: { where: rows.where, outputs: [{ name: 'value', value: rows.metric }] },
      ...rows.pruning,
      answer: ([row]) => ({ value: row?.[0] ?? null }),
    }
  },
}
