/** The counter: one metric over the rows that a question selects, answered as one value. */
import { internal } from '../expression/select.ts'
import { type MetricQuery, type MetricQueryInput, metricTexts, planMetric, readMetric } from './metric.ts'
import type { Question } from './question.ts'

type CounterInput = MetricQueryInput

export type CounterQuery = MetricQuery

/** The value is null for an aggregate other than a count over no rows. */
interface CounterAnswer {
  readonly value: string | null
}

/** One row with one column, `value`. */
export const counter: Question<CounterInput, CounterQuery, CounterAnswer> = {
  type: 'METRIC',
  subtype: 'COUNTER',
  rowsMax: 1,
  read: readMetric,
  texts: metricTexts,
  plan(view, query, context) {
    const rows = planMetric(view, query, context)
    return {
      select: { where: rows.where, outputs: [{ name: internal('value'), value: rows.metric }] },
      ...rows.pruning,
      answer: ([row]) => ({ value: row?.[0] ?? null }),
    }
  },
}
