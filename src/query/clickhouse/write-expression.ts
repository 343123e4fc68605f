/**
 * A checked expression as SQL of ClickHouse, with the answers of the local store
 * (duckdb/write-expression.ts). Every value of a caller is bound. No expression fails on a row.
 *
 *   integers   Int64 up to 62 bits, Int128 up to 126
 *   times      Int64 microseconds since 1970, dates Int32 days (write-times.ts); columns of pools
 *              are DateTime64(6, 'UTC') and Date32
 *   reals      DuckDB's order: -0 is 0, NaN equals itself and is beyond all others. Only arithmetic
 *              makes NaN, so only its results are compared in that way.
 *   nulls      -OrNull: an aggregate over no rows is null
 */
import { AssertionFailed, assert, must } from '../../util/errors.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import type { Select } from '../expression/select.ts'
import type { Typed } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import { INNER, POOL } from './rows.ts'
import { castSql, isWide, NULLABLE } from './write-casts.ts'
import { newLet } from './write-lambda.ts'
import {
  averageOfBigints,
  beyondAll,
  isBigint,
  mayBeNan,
  orderedReals,
  power,
  squareRoot,
} from './write-reals.ts'
import { TEXT_FUNCTIONS } from './write-texts.ts'
import { TIME_FUNCTIONS } from './write-times.ts'
import { Binder, DATE32_MAX, DATE32_MIN } from './write-values.ts'

const COMPARISONS: ReadonlySet<string> = new Set(['=', '<>', '<', '<=', '>', '>='])
const DEVIATIONS: Readonly<Record<string, string>> = {
  stddev_samp: 'stddevSampStable',
  stddev_pop: 'stddevPopStable',
  var_samp: 'varSampStable',
  var_pop: 'varPopStable',
}
/** The local store has none of larger values. */
const DEVIATION_MAX = '1e150'

export class ClickHouseWriter {
  readonly binder = new Binder()
  readonly name = newLet()
  /** Aliases of pools: their columns have the types of tables. */
  readonly pools = new Set([POOL])
  /** The only table of the SELECT that is written, where columns name none: POOL is a pool's. */
  table = POOL
  /** The alias of the subquery that has the columns of a table (write-sources.ts). */
  readonly renamed = new Map<string, string>()
  /** The SQL of a subquery, written by this writer. */
  readonly select: (select: Select) => string
  /** The SQL of groups' values, which outputs repeat; '' before it is written. */
  readonly #shared = new Map<Typed, string>()

  constructor(select: (select: Select) => string) {
    this.select = select
  }

  /** Writes a group's value once, so that ClickHouse finds it in the outputs. */
  group(typed: Typed): string {
    if (this.isStored(typed)) return this.#columnSql(typed)
    const sql = this.#shared.get(typed) ?? this.distinct(typed)
    this.#shared.set(typed, sql)
    return sql
  }

  /** The SQL of an expression. Throws Refused. */
  write(typed: Typed): string {
    return this.#shared.get(typed) ?? this.#write(typed)
  }

  /** The same, where equal values have equal bytes. */
  distinct(typed: Typed): string {
    const sql = this.write(typed)
    if (typed.kind !== 'real') return sql
    // Arithmetic makes one NaN, of both signs. abs() leaves a FLOAT one.
    const isEither = (x: string) => `${x} = 0${this.nan(typed) ? ` OR isNaN(${x})` : ''}`
    return this.name([sql], x => `if(${isEither(x)}, abs(${x}), ${x})`)
  }

  all(operands: readonly Typed[]): string[] {
    return operands.map(each => this.write(each))
  }

  /** True where one of the values may be NaN. */
  nan(...values: readonly Typed[]): boolean {
    return values.some(each => mayBeNan(each, column => this.#isOfPool(column)))
  }

  /** An operand as a column of its table has it; undefined where it is no column and no value. */
  raw(typed: Typed): string | undefined {
    if (typed.op === 'column') return this.#columnSql(typed)
    if (typed.op !== 'value') return undefined
    const { bound } = typed
    if (bound?.type === 'TIMESTAMP') return `fromUnixTimestamp64Micro(${this.binder.bind(bound)}, 'UTC')`
    if (bound?.type !== 'DATE') return undefined
    const days = Number(bound.value)
    return days < DATE32_MIN || days > DATE32_MAX ? undefined : `toDate32(${this.binder.bind(bound)})`
  }

  /** True of a column that a pool's table stores as a time or a date. */
  isStored(typed: Typed): boolean {
    const { op, kind } = typed
    return op === 'column' && this.#isOfPool(typed) && (kind === 'instant' || kind === 'date')
  }

  #isOfPool({ table = this.table }: Typed): boolean {
    return this.pools.has(table)
  }

  #columnSql({ column, table = this.table }: Typed): string {
    const { name } = must(column, 'a column')
    const around = this.renamed.get(table)
    return around === undefined
      ? `${table}.${quoteClickHouseName(name)}`
      : `${around}.${quoteClickHouseName(`${table}.${name}`)}`
  }

  #write(typed: Typed): string {
    const { op, operands } = typed
    const written = TEXT_FUNCTIONS[op] ?? TIME_FUNCTIONS[op]
    if (written !== undefined) return written(typed, this.all(operands), this)
    switch (op) {
      case 'column': {
        const sql = this.#columnSql(typed)
        if (!this.isStored(typed)) return sql
        return typed.kind === 'date' ? `toInt32(${sql})` : `toUnixTimestamp64Micro(${sql})`
      }
      case 'output':
        return `${INNER}.${quoteClickHouseName(must(typed.word, 'the name of an output'))}`
      case 'value':
        return this.binder.bind(must(typed.bound, 'a value'))
      case 'null':
        return `CAST(NULL AS ${NULLABLE[typed.kind]})`
      case 'scalar':
        return `(${this.#query(typed)})`
      case 'exists':
        return `exists(${this.#query(typed)})`
      case 'in_select':
        return this.#inSelect(typed)
      case 'cast':
        return castSql(typed, this.#one(typed), this)
      case 'zoned':
        return this.#one(typed)
      case 'hash':
        return this.#hash(operands)
      default:
        return this.#condition(typed) ?? this.#number(typed) ?? this.#aggregate(typed)
    }
  }

  #one(typed: Typed): string {
    return this.write(operand(typed))
  }

  #query({ select }: Typed): string {
    return this.select(must(select, 'a subquery'))
  }

  // ── conditions ────────────────────────────────────────────────────────────────────────────────

  #condition(typed: Typed): string | undefined {
    const { op, operands } = typed
    if (COMPARISONS.has(op)) return this.#compare(op, operands)
    switch (op) {
      case 'DISTINCT_FROM':
        return `(NOT ${this.#isSame(operands)})`
      case 'NOT_DISTINCT_FROM':
        return this.#isSame(operands)
      case 'and':
      case 'or':
        return `(${this.all(operands).join(` ${op.toUpperCase()} `)})`
      case 'not':
        return `(NOT ${this.#one(typed)})`
      case 'is_null':
      case 'is_not_null': {
        const one = operand(typed)
        const sql = this.isStored(one) ? must(this.raw(one), 'a column') : this.write(one)
        return `(${sql} IS ${op === 'is_null' ? '' : 'NOT '}NULL)`
      }
      case 'is_finite':
        return `isFinite(${this.#one(typed)})`
      case 'in':
        return this.#in(operands)
      case 'between': {
        const [value, low, high] = operands.map(each => each)
        const ends = [must(low, 'a low end'), must(high, 'a high end')]
        const all = this.all([must(value, 'a value'), ...ends])
        return this.name(all, (v = '', a = '', b = '') => {
          const [one, two] = ends.map(end => this.nan(must(value, 'a value'), end))
          return `(${ordered('>=', v, a, one)} AND ${ordered('<=', v, b, two)})`
        })
      }
      case 'case':
        return this.#case(typed)
      case 'coalesce':
        return `coalesce(${this.all(operands).join(', ')})`
      case 'nullif': {
        const [a, b] = operands
        const isNan = this.nan(must(a, 'a value'), must(b, 'a value'))
        return this.name(
          this.all(operands),
          (x = '', y = '') => `if(${ordered('=', x, y, isNan)}, NULL, ${x})`,
        )
      }
      case 'greatest':
      case 'least': {
        const all = this.all(operands)
        if (!operands.some(each => this.nan(each))) return `${op}(${all.join(', ')})`
        return `arraySort(arrayFilter(x -> x IS NOT NULL, [${all.join(', ')}]))[${op === 'least' ? 1 : -1}]`
      }
      default:
        return undefined
    }
  }

  #compare(op: string, operands: readonly Typed[]): string {
    const [a, b] = [must(operands[0], 'an operand'), must(operands[1], 'an operand')]
    if (this.isStored(a) || this.isStored(b)) {
      // As the table has it, so that its index is used.
      const mark = this.binder.bounds.length
      const both = [this.#rawOf(a, b), this.#rawOf(b, a)]
      if (both.every(each => each !== undefined)) return `(${both.join(` ${op} `)})`
      this.binder.bounds.length = mark
    }
    const [x = '', y = ''] = this.all(operands)
    if (this.nan(a, b)) return this.name([x, y], (v = '', w = '') => ordered(op, v, w, true))
    return `(${x} ${op} ${y})`
  }

  /** A stored column, or a value beside one. */
  #rawOf(typed: Typed, other: Typed): string | undefined {
    if (typed.op === 'column' && !this.isStored(typed)) return undefined
    return typed.kind === other.kind ? this.raw(typed) : undefined
  }

  #isSame(operands: readonly Typed[]): string {
    const [a, b] = [must(operands[0], 'an operand'), must(operands[1], 'an operand')]
    return this.name(
      this.all([a, b]),
      (x = '', y = '') => `ifNull(${ordered('=', x, y, this.nan(a, b))}, (${x} IS NULL) AND (${y} IS NULL))`,
    )
  }

  /** ClickHouse's IN takes constants alone, and leaves nulls out. */
  #in([first, ...list]: readonly Typed[]): string {
    const one = must(first, 'an operand')
    const type = one.kind === 'integer' ? 'toInt64' : one.kind === 'real' ? 'toFloat64' : ''
    const isWhole = !isWide(one)
    const constants = list.filter(each => each.op === 'value' && isWhole)
    const others = list.filter(each => !constants.includes(each))
    const constantSql = this.all(constants)
    const otherSql = this.all(others.filter(({ op }) => op !== 'null'))
    const nan = others.filter(({ op }) => op !== 'null').map(each => this.nan(one, each))
    return this.name([this.write(one), ...otherSql], (x = '', ...rest) => {
      const conditions = rest.map((each, index) => ordered('=', x, each, nan[index]))
      if (constantSql.length > 0) conditions.unshift(`(${type}(${x}) IN (${constantSql.join(', ')}))`)
      if (list.some(({ op }) => op === 'null')) conditions.push(`if(${x} = ${x}, NULL, NULL)`)
      return conditions.length === 1 ? (conditions[0] ?? '') : `(${conditions.join(' OR ')})`
    })
  }

  /** ClickHouse's IN takes a null on its right for no value: `2 NOT IN (…, NULL)` would be true. */
  #inSelect(typed: Typed): string {
    const one = operand(typed)
    // It is written twice: a lambda holds no subquery.
    if (holdsQuery(one)) throw new Refused('the value before IN (SELECT …) holds no subquery in a cluster')
    const { name, value: column } = must(must(typed.select, 'a subquery').outputs[0], 'a column')
    const x = `${INNER}.${quoteClickHouseName(name)}`
    const isReal = one.kind === 'real'
    const as = isReal
      ? 'toFloat64'
      : one.kind !== 'integer'
        ? ''
        : isWide(one, column)
          ? 'toInt128'
          : 'toInt64'
    const key = isReal ? `multiIf(isNaN(${x}), nan, ${x} = 0, abs(${x}), ${x})` : x
    const rows = `(${this.#query(typed)}) AS ${INNER}`
    const value = this.distinct(one)
    const found = `${as}(${value}) IN (SELECT ${as}(${key}) FROM ${rows} WHERE ${x} IS NOT NULL)`
    const hasNull = `(SELECT countIf(${x} IS NULL) FROM ${rows}) > 0`
    const hasRows = `(SELECT count() FROM ${rows}) > 0`
    return `multiIf((${value}) IS NULL, if(${hasRows}, NULL, 0), ${found}, 1, ${hasNull}, NULL, 0)`
  }

  /** Conditions and values in turn, then the value of ELSE. */
  #case({ operands }: Typed): string {
    return `multiIf(${this.all(operands).join(', ')})`
  }

  #hash(operands: readonly Typed[]): string {
    const parts = this.all(operands).flatMap(each => [`ifNull(toString(${each}), '')`, `${each} IS NULL`])
    return `hex(sipHash128(${parts.join(', ')}))`
  }

  // ── numbers ───────────────────────────────────────────────────────────────────────────────────

  #number(typed: Typed): string | undefined {
    const { op, kind, operands } = typed
    const [a, b] = operands
    const type = kind === 'real' ? 'toFloat64' : isWide(...operands, typed) ? 'toInt128' : 'toInt64'
    const as = (each: Typed | undefined, to = type) => {
      const one = must(each, 'an operand')
      return one.kind === 'integer' && to === 'toFloat64'
        ? castSql(
            { ...one, op: 'cast', kind: 'real', type: 'DOUBLE', operands: [one] },
            this.write(one),
            this,
          )
        : `${to}(${this.write(one)})`
    }
    switch (op) {
      case '+':
      case '-':
      case '*':
        return `(${as(a)} ${op} ${as(b)})`
      case '%':
        // ClickHouse's takes a rounded product away.
        if (kind === 'real') throw new Refused('% takes whole numbers in a cluster')
        return `(${as(a)} % nullIf(${as(b)}, 0))`
      case '/':
        return `(${as(a)} ${op} nullIf(${as(b)}, 0))`
      case 'negate':
        return `(-${as(a)})`
      case 'abs':
        return `${type}(abs(${as(a)}))`
      case 'sqrt':
        return this.name([as(a, 'toFloat64')], squareRoot)
      case 'power':
        return this.name([as(a, 'toFloat64')], v => power(v, must(typed.number, 'an exponent')))
      case 'sign':
        return this.name([this.#one(typed)], v => `(toInt64(${v} > 0) - toInt64(${v} < 0))`)
      case 'floor':
      case 'ceil':
        return `${op}(${as(a, 'toFloat64')})`
      case 'round':
        return this.#round(as(a, 'toFloat64'), typed.number)
      default:
        return undefined
    }
  }

  /** Half away from zero, as in C. ClickHouse's rounds half to even. */
  #round(value: string, digits: number | undefined): string {
    const whole = (x: string) =>
      this.name([x], v => `(trunc(${v}) + if(abs(${v} - trunc(${v})) >= 0.5, sign(${v}), 0))`)
    if (digits === undefined) return this.name([value], v => `if(isFinite(${v}), ${whole(v)}, ${v})`)
    const scale = `toFloat64(${10 ** Math.abs(digits)})`
    if (digits < 0)
      return this.name([value], v =>
        this.name([`(${whole(`(${v} / ${scale})`)} * ${scale})`], x => `if(NOT isFinite(${x}), 0, ${x})`),
      )
    return this.name([value], v =>
      this.name([`(${whole(`(${v} * ${scale})`)} / ${scale})`], x => `if(isFinite(${x}), ${x}, ${v})`),
    )
  }

  // ── aggregates ────────────────────────────────────────────────────────────────────────────────

  #aggregate(typed: Typed): string {
    const { op, kind } = typed
    if (op === 'is_absent') return `toInt64(grouping(${this.group(operand(typed))}))`
    const filter = typed.filter === undefined ? undefined : this.write(typed.filter)
    const of: Of = (call, condition) => {
      const all = [filter, condition].filter(each => each !== undefined)
      return all.length === 0 ? call : `${call} FILTER (WHERE ${all.join(' AND ')})`
    }
    if (op === 'count_rows') return `toInt64(${of('count()')})`
    const sql = this.#one(typed)
    const real = operand(typed).kind === 'integer' ? undefined : `toFloat64(${sql})`
    switch (op) {
      case 'count':
        return `toInt64(${of(`count(${sql})`)})`
      case 'count_distinct':
        return `toInt64(${of(`uniqExact(${this.distinct(operand(typed))})`)})`
      case 'min':
      case 'max':
        return this.#extreme(typed, sql, of)
      case 'sum':
        return of(kind === 'integer' ? `sumOrNull(toInt128(${sql}))` : `sumKahanOrNull(toFloat64(${sql}))`)
      case 'average':
        return this.#average(typed, sql, real, of)
      case 'quantile':
        return this.#quantile(typed, sql, of)
      case 'arg_max':
      case 'arg_min':
        return this.#valueOfExtreme(typed, sql, of)
      default:
        return this.#deviation(typed, `toFloat64(${sql})`, of)
    }
  }

  #extreme(typed: Typed, sql: string, of: Of): string {
    const plain = of(`${typed.op}OrNull(${sql})`)
    if (!this.nan(operand(typed))) return plain
    const numbers = of(`${typed.op}OrNull(${sql})`, `NOT isNaN(${sql})`)
    // One of them, as `nan` is a DOUBLE.
    const nan = of(`anyOrNull(${sql})`, `isNaN(${sql})`)
    return typed.op === 'max' ? `ifNull(${nan}, ${numbers})` : `ifNull(${numbers}, ${nan})`
  }

  /** Of equal keys the one with the greatest value, or the least (duckdb/write-expression.ts). */
  #valueOfExtreme(typed: Typed, sql: string, of: Of): string {
    const key = must(typed.operands[1], 'a key')
    const keySql = this.write(key)
    const isNan = [key, operand(typed)].map(each => this.nan(each))
    const order = this.name([keySql, sql], (...both) => {
      const parts = both.map((x, index) => (isNan[index] ? beyondAll(x) : `assumeNotNull(${x})`))
      return `tuple(${parts.join(', ')})`
    })
    const call = typed.op === 'arg_max' ? 'argMaxOrNull' : 'argMinOrNull'
    return of(`${call}(${sql}, ${order})`, `(${keySql}) IS NOT NULL`)
  }

  #average(typed: Typed, sql: string, real: string | undefined, of: Of): string {
    const one = operand(typed)
    const count = of(`count(${sql})`)
    if (real !== undefined || one.bits > 63) {
      const value =
        real ?? castSql({ ...one, op: 'cast', kind: 'real', type: 'DOUBLE', operands: [one] }, sql, this)
      return `(${of(`sumKahanOrNull(${value})`)} / ${count})`
    }
    const sum = of(`sumOrNull(toInt128(${sql}))`)
    return isBigint(one) ? averageOfBigints(sum, count, this.name) : `(toFloat64(${sum}) / ${count})`
  }

  /** All values, sorted: ClickHouse's own quantiles round in another way than DuckDB's. */
  #quantile(typed: Typed, sql: string, of: Of): string {
    const fraction = must(typed.number, 'a fraction')
    assert(typed.numbers?.includes(fraction) !== false, 'the fraction is one of those computed together')
    const one = operand(typed)
    const value = castSql({ ...one, op: 'cast', kind: 'real', type: 'DOUBLE', operands: [one] }, sql, this)
    const values = of(`groupArray(${value})`)
    this.binder.countQuantile(values)
    const place = `((length(a) - 1) * toFloat64(${fraction}))`
    const [low, high] = [`a[toUInt64(floor(${place})) + 1]`, `a[toUInt64(ceil(${place})) + 1]`]
    const part = `(${place} - floor(${place}))`
    const between = `${low} * (1 - ${part}) + ${high} * ${part}`
    const found = `if(floor(${place}) = ceil(${place}), ${low}, ${between})`
    return `arrayMap(a -> if(empty(a), NULL, ${found}), [arraySort(${values})])[1]`
  }

  #deviation(typed: Typed, value: string, of: Of): string {
    const call = DEVIATIONS[typed.op]
    if (call === undefined) throw new AssertionFailed(`the dialect has no operation ${typed.op}`)
    if ([operand(typed), typed.filter].some(one => one !== undefined && holdsQuery(one)))
      throw new Refused(
        'the values and the FILTER of a STDDEV or VARIANCE hold no subquery: select from a query that has its value as a column',
      )
    const large = of('count()', `NOT (abs(${value}) < ${DEVIATION_MAX})`)
    const least = typed.op.endsWith('_pop') ? 1 : 2
    return `if(${large} > 0 OR ${of(`count(${value})`)} < ${least}, NULL, ${of(`${call}OrNull(${value})`)})`
  }
}

/** A call of an aggregate over the rows of its FILTER, and for which a condition holds. */
type Of = (call: string, condition?: string) => string

export function operand(typed: Typed): Typed {
  return must(typed.operands[0], 'an operand')
}

function ordered(op: string, a: string, b: string, isNan = false): string {
  return isNan ? orderedReals(op, a, b) : `(${a} ${op} ${b})`
}

function holdsQuery(typed: Typed): boolean {
  return typed.select !== undefined || typed.operands.some(holdsQuery)
}
