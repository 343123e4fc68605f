/**
 * A second dialect: plans as SQL of ClickHouse (25 and newer). It proves that a plan says all that
 * another engine needs. Nothing runs it, and it knows the operations of the questions in
 * second_dialect.test.ts alone: any other one is an assertion that names it.
 *
 *   names     Backticks, and every column with its table: an alias would hide a column of its name
 *   values    {p1:Int64}, {p2:String} and so on
 *   nulls     -OrNull: an aggregate over no rows is null, as in the plan
 *   integers  sums are Int128, which no 64-bit column overflows
 */

import type { Order, Output, Select } from '../../src/query/expression/select.ts'
import type { Typed } from '../../src/query/expression/typed.ts'
import type { Bound } from '../../src/query/expression/values.ts'
import type { Dialect } from '../../src/query/plan/plan.ts'
import { AssertionFailed, must } from '../../src/util/assert.ts'

export const clickhouse: Dialect = {
  write({ select, visible, commons = [], others = [] }) {
    if (commons.length > 0 || others.length > 0) throw unknown('a plan of several tables')
    const writer = new Writer()
    const sql = writer.select(select)
    if (visible === undefined) return { sql, bounds: writer.bounds }
    const { columns, where } = visible
    const restriction = { columns, where: where === undefined ? '' : writer.value(where) }
    return { sql, bounds: writer.bounds, restriction }
  },
}

const INFIX: Readonly<Record<string, string>> = {
  and: ' AND ',
  or: ' OR ',
  '=': ' = ',
  '<>': ' <> ',
  '<': ' < ',
  '<=': ' <= ',
  '>': ' > ',
  '>=': ' >= ',
}
const AGGREGATES: Readonly<Record<string, (operand: string, typed: Typed) => string>> = {
  count_rows: () => 'count()',
  count: operand => `count(${operand})`,
  count_distinct: operand => `uniqExact(${operand})`,
  min: operand => `minOrNull(${operand})`,
  max: operand => `maxOrNull(${operand})`,
  average: operand => `avgOrNull(toFloat64(${operand}))`,
  quantile: (operand, { number }) => `quantileExactInclusiveOrNull(${number})(toFloat64(${operand}))`,
  sum: (operand, { kind }) =>
    kind === 'integer' ? `sumOrNull(toInt128(${operand}))` : `sumKahanOrNull(${operand})`,
}
const TYPES: Readonly<Record<Bound['type'], string>> = {
  BOOLEAN: 'Bool',
  STRING: 'String',
  FLOAT: 'Float32',
  DOUBLE: 'Float64',
  INT8: 'Int8',
  INT16: 'Int16',
  INT32: 'Int32',
  INT64: 'Int64',
  DATE: 'Date32',
  TIMESTAMP: "DateTime64(6, 'UTC')",
  JSON: 'String',
}
const NULL_TYPES: Partial<Record<Typed['kind'], string>> = { text: 'String', real: 'Float64' }

/** Writes one statement, whose values it collects. */
class Writer {
  readonly bounds: Bound[] = []

  select({ groupingSets, having, isDistinct, ...select }: Select): string {
    const { from, where, outputs, groupBy = [], orderBy = [], limit, offset = 0 } = select
    if (groupingSets !== undefined || having !== undefined || isDistinct) throw unknown('this clause')
    return [
      `SELECT ${outputs.map(({ name, value }) => `${this.value(value)} AS ${quoted(name)}`).join(', ')}`,
      this.#from(from),
      where === undefined ? '' : `WHERE ${this.value(where)}`,
      list('GROUP BY', groupBy, key => this.#position(key, outputs)),
      list('ORDER BY', orderBy, order => this.#order(order, outputs)),
      limit === undefined ? '' : `LIMIT ${limit}`,
      offset === 0 ? '' : `OFFSET ${offset}`,
    ]
      .filter(clause => clause !== '')
      .join(' ')
  }

  #from(from: Select['from']): string {
    if (from === undefined) return 'FROM rows AS r'
    if ('kind' in from) throw unknown(`a source of kind ${from.kind}`)
    if ('outputs' in from) return `FROM (${this.select(from)}) AS s`
    return `FROM (${from.map(each => `(${this.select(each)})`).join(' UNION ALL ')}) AS s`
  }

  #order({ value, direction, nulls = undefined }: Order, outputs: readonly Output[]): string {
    return `${this.#position(value, outputs)} ${direction} NULLS ${nulls ?? 'LAST'}`
  }

  #position(value: Typed, outputs: readonly Output[]): string {
    const index = outputs.findIndex(output => output.value === value)
    return index < 0 ? this.value(value) : String(index + 1)
  }

  value(typed: Typed): string {
    const { op, kind, filter, word = '' } = typed
    const aggregate = AGGREGATES[op]
    const infix = INFIX[op]
    const all = () => typed.operands.map(each => this.value(each))
    const one = () => must(all()[0], 'an operand')
    if (aggregate !== undefined) {
      const sql = aggregate(typed.operands.length === 0 ? '' : one(), typed)
      return filter === undefined ? sql : `${sql} FILTER (WHERE ${this.value(filter)})`
    }
    if (infix !== undefined) return `(${all().join(infix)})`
    switch (op) {
      case 'column':
        return `r.${quoted(must(typed.column, 'a column').name)}`
      case 'output':
        return `s.${quoted(word)}`
      case 'value':
        return this.#bind(must(typed.bound, 'a value'))
      case 'null':
        return `CAST(NULL AS Nullable(${must(NULL_TYPES[kind], kind)}))`
      case 'not':
        return `(NOT ${one()})`
      case 'is_null':
      case 'is_not_null':
        return `(${one()} IS ${op === 'is_null' ? '' : 'NOT '}NULL)`
      case 'is_finite':
        return `isFinite(${one()})`
      case 'like':
        // A backslash escapes in both engines.
        return `(${one()} LIKE ${this.#bind({ type: 'STRING', value: word })})`
      case 'case': {
        const [condition, then, otherwise] = all()
        return `if(${condition}, ${then}, ${otherwise})`
      }
      case 'cast':
        // Its rules for offsets, and for texts that say nan, differ from the plan's.
        if (typed.operands[0]?.kind === 'text') throw unknown('a cast of a text')
        return `accurateCastOrNull(${one()}, '${TYPES[must(typed.type, 'a type')]}')`
      case 'hash':
        return `toString(sipHash64(toJSONString(tuple(${all().join(', ')}))))`
      default:
        throw unknown(`the operation ${op}`)
    }
  }

  /** A DATE is bound as its days and a TIMESTAMP as its microseconds, as everywhere in Weir. */
  #bind(bound: Bound): string {
    const name = `p${this.bounds.push(bound)}`
    if (bound.type === 'DATE') return `toDate32({${name}:Int32})`
    if (bound.type === 'TIMESTAMP') return `fromUnixTimestamp64Micro({${name}:Int64}, 'UTC')`
    return `{${name}:${TYPES[bound.type]}}`
  }
}

function quoted(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``
}

function list<T>(clause: string, items: readonly T[], write: (item: T) => string): string {
  return items.length === 0 ? '' : `${clause} ${items.map(write).join(', ')}`
}

function unknown(what: string): AssertionFailed {
  return new AssertionFailed(`the ClickHouse dialect of the tests does not know ${what}`)
}
