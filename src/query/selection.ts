/** The statement of a selection of rows, which the Arrow stream and exports read. */
import { isObject, jsonIn } from '../util/json.ts'
import { findColumn, type PoolView, type QueryColumn, queryColumns, quoted } from './expression/operand.ts'
import { columnOf, operation } from './expression/typed.ts'
import { type BadQuery, badQueryOf, partOf, Refused, reworded } from './expression/values.ts'
import type { Dialect, QueryPlan, Statement } from './plan/plan.ts'
import type { PlanContext } from './plan/plan-context.ts'
import { type LimitedPool, type ParseTexts, planFor } from './plan/policy.ts'
import { type Filter, type FilterOperator, planWhere } from './plan/where.ts'

/** The rows and columns to read. Absent for all of them. */
export interface Selection {
  readonly columns?: readonly string[] | undefined
  /** A list of filters as the API takes them, as JSON text. */
  readonly filters?: string | undefined
  /** On the primary timestamp: from `start` (inclusive) to `stop` (exclusive). */
  readonly start?: string | undefined
  readonly stop?: string | undefined
}

export interface PlannedSelection extends QueryPlan {
  /** In the order of the answer. */
  readonly columns: readonly QueryColumn[]
  /** No filter and no range: every live row is selected. */
  readonly selectsAll: boolean
}

/** The plan of a selection. The sentence of a Refused begins with the part that is wrong. */
export function planSelection(view: PoolView, selection: Selection, context: PlanContext): PlannedSelection {
  const columns = partOf('columns', () => columnsOf(view, selection.columns))
  const { filters: text, start = null, stop = null } = selection
  const filters = text === undefined ? [] : partOf('filters', () => readFilters(text))
  const rows = reworded(() => planWhere(view, { timeRange: { start, stop }, filters }, context), withPart)
  const outputs = columns.map(column => {
    const value = columnOf(column)
    // The nulls of a column that was added later have no zone. With the operation every file says
    // UTC.
    return {
      name: column.name,
      value: column.type === 'TIMESTAMP' ? operation('zoned', 'instant', [value]) : value,
    }
  })
  return {
    select: { where: rows.where, outputs },
    columns,
    selectsAll: rows.where === undefined,
    ...rows.pruning,
  }
}

export interface WrittenSelection extends PlannedSelection {
  readonly statement: Statement
}

export async function writeSelection(
  pool: LimitedPool,
  selection: Selection,
  parse: ParseTexts,
  nowMs: number,
  dialect: Dialect,
): Promise<WrittenSelection | BadQuery> {
  try {
    const plan = (view: PoolView, context: PlanContext) => planSelection(view, selection, context)
    const planned = await planFor([pool], [], parse, nowMs, plan)
    return { ...planned, statement: dialect.write(planned) }
  } catch (error) {
    return badQueryOf(error)
  }
}

/** The planner's sentence in the words of this route, where `start` and `stop` are parameters. */
function withPart(sentence: string): string {
  // No other column can be chosen here, so its absence is the only problem with it.
  if (sentence.startsWith('timeRange.timestamp:'))
    return 'start and stop: the application may read no primary timestamp; give filters on another column'
  const prefix = 'timeRange.'
  return sentence.startsWith(prefix) ? sentence.slice(prefix.length) : `filters: ${sentence}`
}

function columnsOf(view: PoolView, names: readonly string[] | undefined): readonly QueryColumn[] {
  if (names === undefined) return queryColumns(view)
  return names.map((name, index) => {
    const column = findColumn(view, name)
    if (names.indexOf(name) < index) throw new Refused(`${quoted(name)} is given more than once`)
    return column
  })
}

/** Reads column names: separated by commas, or a JSON list, for names with a comma or `[`. */
export function readColumns(text: string): readonly string[] | BadQuery {
  if (!text.startsWith('[')) return text.split(',')
  const names = jsonIn(text)
  if (Array.isArray(names) && names.length > 0 && names.every(name => typeof name === 'string'))
    return names as string[]
  return {
    badRequest: `columns: give names separated by commas, or a JSON list of them as in ["a","b, with a comma"], not ${quoted(text)}`,
  }
}

const KEYS: ReadonlySet<string> = new Set(['column', 'operator', 'value', 'and', 'or'])

/** Reads filters in JSON and checks their shape. planFilters checks the rest. */
function readFilters(text: string): readonly Filter[] {
  const json = jsonIn(text)
  if (json === undefined) throw new Refused('this is not JSON')
  return shapeOf(json)
}

function shapeOf(json: unknown): readonly Filter[] {
  if (!Array.isArray(json)) throw new Refused('a list of {"column", "operator", "value"} is needed')
  const filters: Filter[] = []
  for (const item of json as unknown[]) {
    if (!isObject(item)) throw new Refused('each filter is an object')
    const unknown = Object.keys(item).find(key => !KEYS.has(key))
    if (unknown !== undefined) throw new Refused(`a filter has no ${quoted(unknown)}`)
    const { column, operator, value = null } = item
    if (typeof column !== 'string' || typeof operator !== 'string')
      throw new Refused('a filter needs "column" and "operator", both strings')
    if (value !== null && typeof value !== 'string')
      throw new Refused(`column ${quoted(column)}: the value is a string`)
    const and = shapeOf(item['and'] ?? [])
    const or = shapeOf(item['or'] ?? [])
    filters.push({ column, operator: operator as FilterOperator, value, and, or })
  }
  return filters
}
