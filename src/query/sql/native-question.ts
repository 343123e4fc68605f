/** sqlV1 and describeSqlV1 where statements are the engine's own SELECT: as they are, guarded. */
import { type ColumnType, RECEIVED_AT } from '../../format/schema.ts'
import { must } from '../../util/errors.ts'
import { STATEMENT_ROWS_MAX } from '../../util/limits.ts'
import {
  type PoolView,
  parseValue,
  queryColumns,
  quoted,
  similarColumn,
  timestampColumn,
  tryValue,
} from '../expression/operand.ts'
import { allOf } from '../expression/select.ts'
import { boundValue, columnOf, operation, type Typed } from '../expression/typed.ts'
import { type Bound, Refused } from '../expression/values.ts'
import type { NativeSelect } from '../plan/plan.ts'
import { NO_COLUMN } from '../plan/plan.ts'
import { EVERY_SEGMENT, pruningOf } from '../plan/prune-segments.ts'
import type { Askable } from '../plan/question.ts'
import type { NativeStatement } from '../statement/guard-statement.ts'
import type { OrderedColumn } from '../statement/guard-values.ts'
import type { ReadCondition } from '../statement/read-conditions.ts'
import type { SqlAnswer } from './sql-question.ts'

/** A statement that is read and not planned. */
export type NativeQuestion = Omit<NativeSelect, 'columnsOf' | 'timesOf'>

export const nativeSql: Askable<NativeQuestion, SqlAnswer> = {
  type: 'SQL',
  subtype: null,
  rowsMax: STATEMENT_ROWS_MAX,
  texts: () => [],
  plan(view, native, { nowMs }, others = []) {
    const views = [view, ...others]
    const { poolOf } = native
    const conditions = poolOf.map((pool, at) => conditionsOf(native, must(views[pool], 'a view'), at, nowMs))
    const prunings = views.map((each, pool) => {
      const [at, ...again] = poolOf.flatMap((named, index) => (named === pool ? [index] : []))
      // A pool with two names is read twice.
      return at === undefined || again.length > 0
        ? EVERY_SEGMENT
        : pruningOf(each, allOf(conditions[at] ?? []))
    })
    const [own, ...more] = prunings
    const timesOf = conditions.map(typed =>
      allOf(typed.filter(({ operands }) => operands[0]?.kind === 'instant')),
    )
    return {
      select: { from: { kind: 'nothing' }, outputs: [] },
      native: {
        ...native,
        statement: withoutNulls(native, views),
        columnsOf: views.map(queryColumns),
        timesOf,
      },
      ...must(own, 'a pool'),
      others: more,
      answer: (rows, columns = []) => ({
        columns: columns.map(({ name, type }) => {
          // A relation without columns has this one.
          if (name === NO_COLUMN) throw new Refused('the Data Pool Access Policy shows no column')
          return { columnName: name, type, isNullable: true }
        }),
        rows,
      }),
    }
  },
}

/** The statement for columns without nulls, where they are times that every event has. */
function withoutNulls({ statement, poolOf }: NativeQuestion, views: readonly PoolView[]): NativeStatement {
  const { withoutNulls: other } = statement
  const never = ({ pool, name }: OrderedColumn) => {
    const view = must(views[must(poolOf[pool], 'a pool')], 'a view')
    return [timestampColumn(view).name, RECEIVED_AT].some(each => each.toLowerCase() === name.toLowerCase())
  }
  return other?.columns.every(never) === true ? { ...statement, sql: other.sql } : statement
}

/** What is true of all rows that a name stands for, as far as it is read. */
function conditionsOf(
  { statement, bounds }: NativeQuestion,
  view: PoolView,
  at: number,
  nowMs: number,
): readonly Typed[] {
  const bound = (name: string) => bounds[statement.parameters.indexOf(name)]
  return (statement.conditions[at] ?? []).flatMap(each => typedCondition(each, view, bound, nowMs) ?? [])
}

/** A time without zone, or in UTC: DuckDB and Weir read it alike. */
const PLAIN_TIME = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?Z?)?$/

/** The condition as a typed one; undefined where it may mean something else here. */
function typedCondition(
  { column: name, operator, value }: ReadCondition,
  view: PoolView,
  boundOf: (name: string) => Bound | undefined,
  nowMs: number,
): Typed | undefined {
  const column = similarColumn(view, name)
  if (column === undefined) return undefined
  const given = value.kind === 'parameter' ? boundOf(value.name) : undefined
  const text = 'text' in value ? value.text : given?.type === 'STRING' ? given.value : undefined
  const isTime = column.type === 'TIMESTAMP' || column.type === 'DATE'
  let bound = given?.type === column.type && given.value !== null ? given : undefined
  if (value.kind === 'ago' && column.type === 'TIMESTAMP')
    bound = { type: 'TIMESTAMP', value: String(nowMs * 1000 - value.us) }
  // A number or a time would make such values of the texts of a column.
  const isTyped = value.kind === 'number' || value.kind === 'time'
  if (typeof text === 'string' && !(isTyped && column.type === 'STRING'))
    if (!isTime || (PLAIN_TIME.test(text) && (column.type === 'TIMESTAMP' || text.length === 10)))
      bound = tryValue(column.type, text)
  return bound && operation(operator, 'boolean', [columnOf(column), boundValue(bound)])
}

export interface Parameter {
  readonly name?: string | null | undefined
  readonly value?: string | null | undefined
  /** CLICKHOUSE is a type of the protocol that no value has. */
  readonly type?: ColumnType | 'CLICKHOUSE' | null | undefined
}

const NULL: Bound = { type: 'STRING', value: null }

/** The values of the parameters of these names, in their order. Throws Refused. */
export function boundParameters(names: readonly string[], given: readonly Parameter[]): readonly Bound[] {
  const values = new Map<string, Bound>()
  for (const [at, { name, value, type }] of given.entries()) {
    const own = name ?? String(at + 1)
    if (values.has(own)) throw new Refused(`the parameter ${quoted(own)} is given more than once`)
    if (type === 'CLICKHOUSE') throw new Refused('no value has the type CLICKHOUSE')
    if (!names.includes(own)) throw new Refused(`the statement has no parameter ${quoted(own)}`)
    values.set(own, value === null || value === undefined ? NULL : parseValue(type ?? 'STRING', value))
  }
  return names.map(name => {
    const bound = values.get(name)
    if (bound === undefined) throw new Refused(`the parameter ${quoted(name)} has no value`)
    return bound
  })
}
