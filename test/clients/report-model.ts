/** Random reports of metrics, and what they answer, worked out over the rows of a model. */
import { PAYLOAD, RECEIVED_AT } from '../../src/format/schema.ts'
import { below, type Random } from '../util/random.ts'
import {
  compareCells,
  pick,
  print,
  type Row,
  randomFilter,
  randomSelection,
  TYPES,
  type View,
} from './rows-model.ts'
import type { Cell } from './values.ts'

type Direction = 'ASC' | 'DESC'

interface Metric {
  /** MetricInput. */
  readonly metric: object
  readonly of: (rows: readonly Row[]) => Cell
  /** The column whose values it has, where it has those of one. */
  readonly column?: string
}

export interface Report {
  readonly input: object
  readonly headers: readonly string[]
  /** The rows as JSON in order, each a group of its own. */
  readonly want: readonly (readonly string[])[]
}

/** @param predefined the id of a metric: the sum of i8 where tenant is a; null for none */
export function randomReport(random: Random, view: View, poolId: string, predefined: string | null): Report {
  const columns = view.columns.filter(name => name !== PAYLOAD)
  const isWhole = view.columns.includes(PAYLOAD)
  const dimensions = Array.from({ length: below(random, 4) }, () => ({
    columnName: pick(random, random() < 0.9 ? columns : view.columns),
    sort: pick(random, ['ASC', 'DESC', null] as const),
    displayName: pick(random, [null, '', 'shown']),
  }))
  const metrics = Array.from({ length: 1 + below(random, 3) }, () => {
    const chosen =
      predefined !== null && random() < 0.2
        ? predefinedSum(predefined)
        : randomMetric(random, columns, poolId)
    const filter = isWhole && random() < 0.5 ? randomFilter(random) : undefined
    const isSql = isWhole && random() < 0.2
    return {
      ...chosen,
      sort: pick(random, ['ASC', 'DESC', null] as const),
      filters: filter === undefined ? null : [filter.filter],
      filterSql: isSql ? 'flag' : null,
      has: (row: Row) => (filter?.has(row) ?? true) && (!isSql || row.cells.get('flag') === true),
    }
  })
  const { input, has } = isWhole ? randomSelection(random) : { input: {}, has: () => true }
  const orderByColumn = random() < 0.3 ? null : 1 + below(random, dimensions.length + metrics.length)

  const groups = new Map<string, Row[]>(dimensions.length === 0 ? [['[]', []]] : [])
  for (const row of view.rows.filter(has)) {
    const key = JSON.stringify(dimensions.map(each => print(each.columnName, cellOf(row, each.columnName))))
    groups.set(key, [...(groups.get(key) ?? []), row])
  }
  const rows = [...groups.values()].map(group => [
    ...dimensions.map(({ columnName }) => cellOf(group[0], columnName)),
    ...metrics.map(each => each.of(group.filter(each.has))),
  ])
  const names = [...dimensions.map(each => each.columnName), ...metrics.map(each => each.column ?? '')]
  const sorts = [...dimensions, ...metrics].map(({ sort }): Direction => sort ?? 'DESC')
  const order = [(orderByColumn ?? 1) - 1, ...dimensions.keys()]
  rows.sort((a, b) => {
    for (const at of order) {
      const found = compareCells(a[at] ?? null, b[at] ?? null, sorts[at]!)
      if (found !== 0) return found
    }
    return 0
  })
  return {
    input: {
      ...input,
      dimensions,
      metrics: metrics.map(({ metric, sort, filters, filterSql }) => ({ metric, sort, filters, filterSql })),
      orderByColumn,
    },
    headers: [
      ...dimensions.map(({ columnName, displayName }) => displayName || columnName),
      ...metrics.map(({ metric }) => ('id' in metric ? String(metric.id) : 'value')),
    ],
    want: rows.map(row => [JSON.stringify(row.map((cell, at) => print(names[at] ?? '', cell)))]),
  }
}

function cellOf(row: Row | undefined, name: string): Cell {
  return row?.cells.get(name) ?? null
}

function predefinedSum(id: string): Metric {
  const isA = (row: Row) => cellOf(row, 'tenant') === 'a'
  return { metric: { id }, of: rows => sumOf(rows.filter(isA), 'i8') }
}

function randomMetric(random: Random, columns: readonly string[], poolId: string): Metric {
  const dataPool = { id: poolId }
  const kind = pick(random, ['count', 'sum', 'average', 'min', 'max', 'countDistinct', 'custom'] as const)
  const numbers = columns.filter(name => ['i8', 'i64'].includes(name))
  if (kind === 'count' || numbers.length === 0)
    return { metric: { count: { dataPool } }, of: rows => BigInt(rows.length) }
  if (kind === 'custom')
    return {
      metric: { custom: { dataPool, expression: 'SUM(i8) FILTER (WHERE i8 > -3) + COUNT()' } },
      of: rows => {
        const sum = sumOf(
          rows.filter(row => ((cellOf(row, 'i8') ?? -9n) as bigint) > -3n),
          'i8',
        )
        return sum === null ? null : (sum as bigint) + BigInt(rows.length)
      },
    }
  if (kind === 'countDistinct') {
    const column = pick(random, columns)
    const values = (rows: readonly Row[]) => rows.map(row => print(column, cellOf(row, column)))
    return {
      metric: { countDistinct: { dataPool, dimension: { columnName: column } } },
      of: rows => BigInt(new Set(values(rows).filter(text => text !== null)).size),
    }
  }
  if (kind === 'sum') {
    const column = pick(random, numbers)
    return { metric: { sum: { dataPool, measure: { columnName: column } } }, of: rows => sumOf(rows, column) }
  }
  if (kind === 'average')
    return {
      metric: { average: { dataPool, measure: { columnName: 'i8' } } },
      of: rows => {
        const given = rows.filter(row => cellOf(row, 'i8') !== null)
        return given.length === 0 ? null : Number(sumOf(given, 'i8')) / given.length
      },
    }
  const column = pick(
    random,
    columns.filter(name => TYPES.get(name) !== 'JSON' && name !== RECEIVED_AT),
  )
  const direction = kind === 'min' ? 'ASC' : 'DESC'
  return {
    metric: { [kind]: { dataPool, measure: { columnName: column } } },
    of: rows => rows.map(row => cellOf(row, column)).sort((a, b) => compareCells(a, b, direction))[0] ?? null,
    column,
  }
}

function sumOf(rows: readonly Row[], column: string): Cell {
  const given = rows.map(row => cellOf(row, column)).filter(cell => cell !== null)
  return given.length === 0 ? null : (given as bigint[]).reduce((sum, cell) => sum + cell)
}
