/** The leaderboard: a metric by the values of columns, in the order of the metric. */
import { internal, type Order, outputOf, type Select } from '../expression/select.ts'
import { operation, type Typed } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import {
  type MetricQuery,
  type MetricQueryInput,
  metricTexts,
  planDimensions,
  planMetric,
  readMetric,
} from './metric.ts'
import type { PrintedRows } from './query-task.ts'
import type { Question } from './question.ts'

/** Rows of a leaderboard. */
const LEADERBOARD_ROWS_MAX = 1_000

interface LeaderboardInput extends MetricQueryInput {
  readonly dimensions: readonly { readonly columnName: string }[]
  readonly sort?: Order['direction'] | null
  readonly rowLimit: number
}

export interface LeaderboardQuery extends MetricQuery {
  /** The header of the metric. */
  readonly name: string
  /** Names of columns. */
  readonly dimensions: readonly string[]
  readonly sort: Order['direction']
  readonly rowLimit: number
}

/** Each row has the values of the dimensions, then that of the metric, which is never null. */
interface LeaderboardAnswer {
  readonly headers: readonly string[]
  readonly rows: PrintedRows
}

export const leaderboard: Question<LeaderboardInput, LeaderboardQuery, LeaderboardAnswer> = {
  type: 'METRIC',
  subtype: 'LEADERBOARD',
  rowsMax: LEADERBOARD_ROWS_MAX,
  read(input, find) {
    const read = readMetric(input, find)
    const { sort, rowLimit } = input
    if (!(rowLimit >= 1 && rowLimit <= LEADERBOARD_ROWS_MAX))
      throw new Refused(`rowLimit: it is between 1 and ${LEADERBOARD_ROWS_MAX}`)
    const { name, query, ...rest } = read
    const dimensions = input.dimensions.map(({ columnName }) => columnName)
    return { ...rest, query: { ...query, name, dimensions, sort: sort ?? 'DESC', rowLimit } }
  },
  texts: metricTexts,
  plan(view, query, context) {
    const rows = planMetric(view, query, context)
    const dimensions = planDimensions(view, 'dimensions', query.dimensions)
    const groups: Select = {
      where: rows.where,
      outputs: [...dimensions, { name: internal('value'), value: rows.metric }],
      groupBy: dimensions.map(({ value }) => value),
    }
    const outputs = groups.outputs.map(output => ({ name: output.name, value: outputOf(output) }))
    const values = outputs.map(({ value }) => value)
    const [metric, ...ties] = [...values.slice(-1), ...values.slice(0, -1)] as [Typed, ...Typed[]]
    return {
      select: {
        from: groups,
        where: hasValue(metric),
        outputs,
        // The dimensions decide between equal values, so that an answer does not change by itself.
        orderBy: [
          { value: metric, direction: query.sort },
          ...ties.map(value => ({ value, direction: 'ASC' as const })),
        ],
        limit: query.rowLimit,
      },
      ...rows.pruning,
      answer: printed => ({
        headers: [...query.dimensions, query.name],
        // A time beyond the calendar prints as null.
        rows: printed.filter(row => row.at(-1) !== null),
      }),
    }
  },
}

/** False for null, and for numbers that print as null: a sum beyond the range of a double. */
function hasValue(metric: Typed): Typed {
  return operation(metric.kind === 'real' ? 'is_finite' : 'is_not_null', 'boolean', [metric])
}
