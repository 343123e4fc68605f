/**
 * A checked expression as SQL of DuckDB. Every value of a caller is bound; the only texts of the
 * caller in the SQL are quoted names of columns that the schema has. A dialect of another engine is
 * another file like this one.
 *
 *   integers   BIGINT up to 62 bits, HUGEINT up to 126. The checker makes larger ones real.
 *   casts      TRY_CAST: a value that does not fit is null
 *   times      of the years -90000 to 90000. A computed one beyond them is null, since DuckDB's
 *              calendar ends with errors: its years are -290308 to 294247.
 */
import { COLUMN_TYPE } from '../../format/schema.ts'
import { AssertionFailed, assert, must } from '../../util/errors.ts'
import { QUANTILES_MAX } from '../../util/limits.ts'
import { quoteName } from '../../util/sql.ts'
import type { IntervalUnit } from '../expression/ast.ts'
import { READ_PARTS } from '../expression/functions.ts'
import type { Select } from '../expression/select.ts'
import { type Typed, typeOfKind } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import { EXACT_AVERAGE, EXACT_SUM, quotient } from './exact-sums.ts'
import { TextWorkCounter } from './text-work.ts'
import { Binder, planLike } from './write-like.ts'
import { intervalNumberSql, timeKeySql } from './write-time-key.ts'

/** Operations that are a function of this name. */
const UPPER_CASE: readonly string[] = ['coalesce', 'greatest', 'least', 'min', 'max', 'count']
const LOWER_CASE: ReadonlySet<string> = new Set(
  'lower upper trim ltrim rtrim length concat starts_with ends_with contains strpos replace'.split(' '),
)
const COMPARISONS: ReadonlySet<string> = new Set(['=', '<>', '<', '<=', '>', '>='])
const DEVIATIONS: readonly string[] = ['stddev_samp', 'stddev_pop', 'var_samp', 'var_pop']
/** Beyond it DuckDB's squares overflow, which is an error there. */
const DEVIATION_MAX = '1e150'
/** Beyond it DuckDB refuses the offsets of substring. */
const OFFSET_MAX = '1000000000'
/** An offset of so many bits is never beyond it. */
const OFFSET_BITS = 29
/** All of them can be printed. The year before 1 is `0001 (BC)`. */
const IN_TIMES = "BETWEEN '90001-01-01 (BC) 00:00:00'::TIMESTAMP AND '90000-12-31 23:59:59.999999'::TIMESTAMP"
const IN_DATES = "BETWEEN '90001-01-01 (BC)'::DATE AND '90000-12-31'::DATE"
/** 200,000 years lead from any of these times to none of them, and not out of DuckDB's calendar. */
const SHIFT_MAX: Partial<Record<IntervalUnit, number>> = { years: 200_000, quarters: 800_000 }

const JSON_FUNCTIONS: Readonly<Record<string, readonly [name: string, type: string]>> = {
  json_text: ['json_extract_string', 'VARCHAR'],
  json_value: ['json_extract', 'VARCHAR'],
  json_array_length: ['json_array_length', 'BIGINT'],
}

/** Writes the expressions of one statement, whose values it collects. */
export class DuckdbWriter {
  readonly work = new TextWorkCounter()
  readonly binder = new Binder()
  readonly #selectSql: (select: Select) => string
  /** The SQL of values that are written once; '' before that. */
  readonly #shared = new Map<Typed, string>()
  /** The SQL of the quantiles, of which equal ones are computed once. */
  readonly #quantiles = new Set<string>()

  /** @param selectSql the SQL of a subquery, written by this writer */
  constructor(selectSql: (select: Select) => string) {
    this.#selectSql = selectSql
  }

  /** Writes a group's value once: DuckDB does not take two placeholders for equal. */
  share(typed: Typed): void {
    if (!this.#shared.has(typed)) this.#shared.set(typed, '')
  }

  /** The SQL of an expression. Throws Refused where it has too many patterns or quantiles. */
  write(typed: Typed): string {
    const shared = this.#shared.get(typed)
    if (shared === undefined) return this.#write(typed)
    const sql = shared === '' ? this.#write(typed) : shared
    this.#shared.set(typed, sql)
    return sql
  }

  /** What stands in GROUP BY for a value; undefined for the value itself. */
  groupKey(typed: Typed): string | undefined {
    const { op, timeKey } = typed
    return op === 'time_key' && timeKey ? intervalNumberSql(this.#microseconds(typed), timeKey) : undefined
  }

  #write(typed: Typed): string {
    this.work.note(typed)
    if (typed.op === 'quantile') return this.#quantile(typed)
    if (typed.op === 'average' && operand(typed).kind === 'integer' && operand(typed).bits <= 63)
      return quotient(`SUM(${this.#one(typed)})`, `COUNT(${this.#one(typed)})`, this.#filter(typed))
    if (typed.op === 'average_of_sums') {
      const [sum, count] = this.#all(typed.operands)
      return quotient(`SUM(${sum})`, `SUM(${count})`, '')
    }
    if (typed.op === 'arg_max' || typed.op === 'arg_min') return this.#valueOfExtreme(typed)
    return DEVIATIONS.includes(typed.op)
      ? this.#deviation(typed)
      : `${this.#plain(typed)}${this.#filter(typed)}`
  }

  #filter({ filter }: Typed): string {
    return filter === undefined ? '' : ` FILTER (WHERE ${this.write(filter)})`
  }

  #plain(typed: Typed): string {
    const { op, operands } = typed
    if (LOWER_CASE.has(op)) return `${op}(${this.#all(operands).join(', ')})`
    if (UPPER_CASE.includes(op)) return `${op.toUpperCase()}(${this.#all(operands).join(', ')})`
    if (COMPARISONS.has(op)) return `(${this.#all(operands).join(` ${op} `)})`
    switch (op) {
      case 'DISTINCT_FROM':
      case 'NOT_DISTINCT_FROM':
        return `(${this.#all(operands).join(` IS ${op.replaceAll('_', ' ')} `)})`
      case 'column':
        return columnSql(typed)
      case 'output':
        return quoteName(must(typed.word, 'the name of an output'))
      case 'scalar':
        return `(${this.#query(typed)})`
      case 'exists':
        return `EXISTS (${this.#query(typed)})`
      case 'in_select':
        return `(${this.#one(typed)} IN (${this.#query(typed)}))`
      case 'value':
        return this.binder.bind(must(typed.bound, 'a value'))
      case 'null':
        return `NULL::${typed.kind === 'null' ? 'BOOLEAN' : COLUMN_TYPE[typeOfKind(typed.kind)].duckdb}`
      case 'and':
      case 'or':
        return `(${this.#all(operands).join(` ${op.toUpperCase()} `)})`
      case 'not':
        return `(NOT ${this.#one(typed)})`
      case 'is_null':
      case 'is_not_null':
        return `(${this.#one(typed)} IS ${op === 'is_null' ? '' : 'NOT '}NULL)`
      case 'is_absent':
        return `GROUPING(${this.#one(typed)})`
      case 'is_finite':
        return `isfinite((${this.#one(typed)})::DOUBLE)`
      case 'in': {
        const [operand, ...list] = this.#all(operands)
        return `(${operand} IN (${list.join(', ')}))`
      }
      case 'nullif':
        return this.#once(operands, ([a, b]) => `CASE WHEN ${a} = ${b} THEN NULL ELSE ${a} END`)
      case 'between': {
        const write = ([value, low, high]: readonly string[]) => `(${value} BETWEEN ${low} AND ${high})`
        // DuckDB joins by a range that it sees, in a hundredth of the time of one in a lambda.
        return isDoubling(operand(typed)) ? this.#once(operands, write) : write(this.#all(operands))
      }
      case 'like':
      case 'ilike':
        return this.#like(typed)
      case 'case':
        return this.#case(typed)
      case 'hash':
        return `hash(${this.#all(operands).join(', ')})::VARCHAR`
      case 'cast':
        return this.#cast(typed)
      case 'zoned':
        return `${this.#one(typed)}::TIMESTAMPTZ`
      default:
        return this.#number(typed) ?? this.#text(typed) ?? this.#time(typed) ?? this.#aggregate(typed)
    }
  }

  /**
   * SQL over values of which the first is copied, here or by DuckDB. A lambda names them where that
   * one is more than a column: its size would double at each level otherwise.
   */
  #once(operands: readonly Typed[], write: (values: readonly string[]) => string): string {
    const all = this.#all(operands)
    if (isCopied(operands[0])) return write(all)
    const fields = all.map((value, index) => `'v${index}': ${value}`)
    const names = all.map((_, index) => `struct_extract(v, 'v${index}')`)
    return `list_transform([{${fields.join(', ')}}], lambda v: ${write(names)})[1]`
  }

  #query({ select }: Typed): string {
    return this.#selectSql(must(select, 'a subquery'))
  }

  #one(typed: Typed): string {
    return this.write(operand(typed))
  }

  #all(operands: readonly Typed[]): string[] {
    return operands.map(each => this.write(each))
  }

  #like(typed: Typed): string {
    const text = this.#one(typed)
    return `(${planLike(text, typed.word ?? '', this.binder, typed.op === 'ilike')})`
  }

  /** Conditions and values in turn, then the value of ELSE. */
  #case({ operands }: Typed): string {
    const all = this.#all(operands)
    const branches: string[] = []
    for (let i = 0; i + 1 < all.length; i += 2) branches.push(`WHEN ${all[i]} THEN ${all[i + 1]}`)
    return `CASE ${branches.join(' ')} ELSE ${all.at(-1)} END`
  }

  #cast(typed: Typed): string {
    const type = COLUMN_TYPE[must(typed.type, 'a type')].duckdb
    // Files have a TIMESTAMP WITH TIME ZONE: `+00` would stand behind its texts. Its functions, and
    // its cast to a TIMESTAMP, take six times as long as those of this value.
    const isTime = operand(typed).kind === 'instant' && (typed.kind === 'text' || typed.kind === 'instant')
    const from = isTime ? `make_timestamp(epoch_us(${this.#one(typed)}))` : this.#one(typed)
    if (isTime && typed.kind === 'instant') return from
    if (operand(typed).kind === 'json') return from
    const isText = operand(typed).kind === 'text'
    if (isText && typed.kind === 'instant') return textAsInstant(from)
    const sql = `TRY_CAST(${from} AS ${type})`
    // A text may say infinity and nan, which are no values here.
    if (isText && typed.kind === 'date') return only(sql, `v ${IN_DATES}`)
    return isText && typed.kind === 'real' ? only(sql, 'isfinite(v)') : sql
  }

  #number(typed: Typed): string | undefined {
    const [a, b] = typed.operands
    const wide = typed.kind === 'real' ? 'DOUBLE' : integerType(typed, a, b)
    const as = (each: Typed | undefined, type = wide) => `(${this.write(must(each, 'an operand'))})::${type}`
    switch (typed.op) {
      case '+':
      case '-':
      case '*':
        return `(${as(a)} ${typed.op} ${as(b)})`
      case '/':
      case '%':
        return `(${as(a)} ${typed.op} ${isCopied(b) ? `NULLIF(${as(b)}, 0)` : only(as(b), 'v <> 0')})`
      case 'negate':
        return `(-${as(a)})`
      case 'abs':
        return `abs(${as(a)})`
      case 'floor':
      case 'ceil':
        return `${typed.op}(${as(a, 'DOUBLE')})`
      case 'sqrt':
        return `sqrt(${only(as(a, 'DOUBLE'), 'v >= 0')})`
      case 'power':
        return mapped(as(a, 'DOUBLE'), power(must(typed.number, 'an exponent')))
      case 'sign':
        return `sign(${as(a, a?.kind === 'real' ? 'DOUBLE' : integerType(a))})`
      case 'round':
        return typed.number === undefined
          ? `round(${as(a, 'DOUBLE')})`
          : `round(${as(a, 'DOUBLE')}, ${this.#whole(typed.number)})`
      default:
        return undefined
    }
  }

  #text(typed: Typed): string | undefined {
    switch (typed.op) {
      case '||':
        return `(${this.#all(typed.operands).join(' || ')})`
      case 'substring': {
        const [text, ...offsets] = typed.operands
        const bounded = offsets.map(each => this.#offset(each))
        return `substring(${[this.write(must(text, 'a text')), ...bounded].join(', ')})`
      }
      case 'left':
      case 'right': {
        const [text, size] = typed.operands
        return `${typed.op}(${this.write(must(text, 'a text'))}, ${this.#offset(must(size, 'a size'))})`
      }
      case 'json_text':
      case 'json_value':
      case 'json_array_length': {
        const column = this.#one(typed)
        const path = this.#word(typed)
        const [read, type] = JSON_FUNCTIONS[typed.op]!
        // A text that is no JSON for DuckDB has no parts, and is no error.
        return `CASE WHEN json_valid(${column}) THEN ${read}(${column}, ${path})::${type} END`
      }
      default:
        return typed.op.startsWith('regexp_') ? this.#regex(typed) : undefined
    }
  }

  #regex(typed: Typed): string {
    const [text = '', replacement] = this.#all(typed.operands)
    this.binder.countPattern()
    if (typed.op === 'regexp_matches')
      // DuckDB makes its own LIKE of some patterns, which is not linear, but of no group.
      return `regexp_matches(${text}, ${this.#word({ ...typed, word: `(${typed.word})` })})`
    const pattern = this.#word(typed)
    switch (typed.op) {
      case 'regexp_extract':
        return `regexp_extract(${text}, ${pattern}, ${typed.number ?? 0})`
      default: {
        const all = typed.op === 'regexp_replace_all' ? ", 'g'" : ''
        return `regexp_replace(${text}, ${pattern}, ${replacement}${all})`
      }
    }
  }

  #word({ word = '' }: Typed): string {
    return this.binder.bind({ type: 'STRING', value: word })
  }

  /**
   * Where the offset may be too large, the nearest one that DuckDB takes. LEAST and GREATEST leave
   * nulls out. The lambda names the offset, which would double in size at each level otherwise.
   */
  #offset(offset: Typed): string {
    const sql = this.write(offset)
    if (offset.bits <= OFFSET_BITS) return `(${sql})::BIGINT`
    const bounded = `GREATEST(-${OFFSET_MAX}, LEAST(${OFFSET_MAX}, o))::BIGINT`
    return `list_transform([${sql}], lambda o: CASE WHEN o IS NOT NULL THEN ${bounded} END)[1]`
  }

  #time(typed: Typed): string | undefined {
    switch (typed.op) {
      case 'date_trunc':
      case 'date_part':
      case 'date_diff':
        return `${typed.op}('${datePart(typed)}', ${this.#all(typed.operands).join(', ')})`
      case 'time_key':
        return timeKeySql(this.#microseconds(typed), must(typed.timeKey, 'a rule'))
      case 'shift': {
        const { count, unit } = must(typed.interval, 'an interval')
        const within = Math.sign(count) * Math.min(Math.abs(count), SHIFT_MAX[unit] ?? Infinity)
        return only(`${this.#one(typed)} + to_${unit}(${this.#whole(within)})`, `v ${IN_TIMES}`)
      }
      case 'time_bucket': {
        const { count, unit } = must(typed.interval, 'an interval')
        return only(`time_bucket(to_${unit}(${this.#whole(count)}), ${this.#one(typed)})`, `v ${IN_TIMES}`)
      }
      case 'strftime':
        return `strftime(${this.#one(typed)}, ${this.#word(typed)})`
      default:
        return undefined
    }
  }

  /** Microseconds of a DATE are those of its midnight in UTC. */
  #microseconds(typed: Typed): string {
    const time = this.#one(typed)
    return operand(typed).kind === 'date' ? `epoch_us(${time}::TIMESTAMP)` : `epoch_us(${time})`
  }

  #aggregate(typed: Typed): string {
    const { op, kind } = typed
    if (op === 'count_rows') return 'COUNT(*)'
    const sql = this.#one(typed)
    switch (op) {
      case 'count_distinct':
        return `COUNT(DISTINCT ${sql})`
      case 'sum':
        return kind === 'integer' ? `SUM(${sql})` : `${EXACT_SUM}((${sql})::DOUBLE)`
      case 'average':
        return `${EXACT_AVERAGE}((${sql})::DOUBLE)`
      case 'sum_state':
        return `${EXACT_SUM}_state((${sql})::DOUBLE)`
      case 'sum_of_states':
        return `${EXACT_SUM}_of_states(${sql})`
      case 'average_of_states':
        return `${EXACT_AVERAGE}_of_states(${sql})`
      default:
        throw new AssertionFailed(`the dialect has no operation ${op}`)
    }
  }

  /**
   * Each aggregate keeps all values, outside of the engine's memory limit. Equal aggregates are
   * one, so the fractions of one operand are written as one list of which each takes its element.
   */
  #quantile(typed: Typed): string {
    const fraction = must(typed.number, 'a fraction')
    const value = `(${this.#one(typed)})::DOUBLE`
    const filter = this.#filter(typed)
    if (typed.numbers === undefined)
      return this.#counted(`quantile_cont(${value}, ${doubleSql(fraction)})${filter}`)
    const place = typed.numbers.indexOf(fraction)
    assert(place >= 0, 'the fraction is one of those computed together')
    const sql = this.#counted(
      `quantile_cont(${value}, [${typed.numbers.map(doubleSql).join(', ')}])${filter}`,
    )
    return `(${sql})[${place + 1}]`
  }

  #counted(quantile: string): string {
    this.#quantiles.add(quantile)
    if (this.#quantiles.size > QUANTILES_MAX)
      throw new Refused(
        `a query computes at most ${QUANTILES_MAX} different medians and quantiles, because each keeps all of its values in memory`,
      )
    return quantile
  }

  /**
   * Null where a square would overflow, which is an error in DuckDB. The value is written three
   * times, so it holds no subquery, in which the next deviation could be.
   */
  #deviation(typed: Typed): string {
    if ([operand(typed), typed.filter].some(one => one !== undefined && holdsQuery(one)))
      throw new Refused(
        'the values and the FILTER of a STDDEV or VARIANCE hold no subquery: select from a query that has its value as a column',
      )
    const value = `(${this.#one(typed)})::DOUBLE`
    const isLarge = `abs(${value}) >= ${DEVIATION_MAX}`
    const any = `bool_or(${isLarge})${this.#filter(typed)}`
    const small = `${typed.op}(CASE WHEN NOT (${isLarge}) THEN ${value} END)${this.#filter(typed)}`
    return `CASE WHEN ${any} THEN NULL ELSE ${small} END`
  }

  /** Of equal keys the one with the greatest value, or the least: no order of rows decides. */
  #valueOfExtreme(typed: Typed): string {
    const [value, key] = this.#all(typed.operands)
    // `v.k` would be a field of a column named v.
    const isKnown = "struct_extract(v, 'k') IS NOT NULL AND struct_extract(v, 'v') IS NOT NULL"
    const known = only(`{'k': ${key}, 'v': ${value}}`, isKnown)
    return `struct_extract(${typed.op.slice(4)}(${known})${this.#filter(typed)}, 'v')`
  }

  #whole(value: number): string {
    return `${this.binder.bind({ type: 'INT32', value: String(value) })}::INTEGER`
  }
}

/** The result of a lambda, whose `v` is the value: its SQL is written once. */
function mapped(value: string, result: string): string {
  return `list_transform([${value}], lambda v: ${result})[1]`
}

/** A power of `v` by multiplications, which are the same everywhere. */
function power(exponent: number): string {
  if (exponent === 0) return 'CASE WHEN v IS NOT NULL THEN 1::DOUBLE END'
  const product = Array.from({ length: Math.abs(exponent) }, () => 'v').join(' * ')
  return exponent > 0 ? product : `1::DOUBLE / NULLIF(${product}, 0)`
}

/**
 * The value where the condition holds, else null. The lambda names the value, so that its SQL is
 * written once: with NULLIF or BETWEEN DuckDB would write it twice, and the text would double at
 * each level.
 * @param condition on `v`
 */
function only(value: string, condition: string): string {
  return `list_filter([${value}], lambda v: ${condition})[1]`
}

/**
 * A text without an offset is UTC. TIMESTAMP ignores an offset, and TIMESTAMPTZ adds it. It takes
 * names of zones too, and fails near the ends of DuckDB's calendar in spite of TRY_CAST, so it only
 * sees what TIMESTAMP takes. The offset may lead out of the times again.
 */
function textAsInstant(text: string): string {
  const safe = only(text, `TRY_CAST(v AS TIMESTAMP) ${IN_TIMES}`)
  // A cast from TIMESTAMPTZ to TIMESTAMP takes as much time as all of this.
  return only(`make_timestamp(epoch_us(TRY_CAST(${safe} AS TIMESTAMPTZ)))`, `v ${IN_TIMES}`)
}

function columnSql({ column, table }: Typed): string {
  const name = quoteName(must(column, 'a column').name)
  return table === undefined ? name : `${table}.${name}`
}

function operand(typed: Typed): Typed {
  return must(typed.operands[0], 'an operand')
}

/** True of a value in which DuckDB copies an operand: within another such one it doubles again. */
function isDoubling(typed: Typed): boolean {
  return DOUBLING.has(typed.op) || typed.select !== undefined || typed.operands.some(isDoubling)
}

const DOUBLING: ReadonlySet<string> = new Set(['between', 'nullif'])

function holdsQuery(typed: Typed): boolean {
  return typed.select !== undefined || typed.operands.some(holdsQuery)
}

/** A number as a DOUBLE. Digits without an exponent are a DECIMAL, which is rounded twice. */
function doubleSql(number: number): string {
  return number.toExponential()
}

/** A column or a value, which is as short as a name of it. */
function isCopied(typed: Typed | undefined): boolean {
  return typed?.op === 'column' || typed?.op === 'value'
}

/** A word of the list. DuckDB knows all of them by these names. */
function datePart({ word }: Typed): string {
  return must(
    READ_PARTS.find(part => part === word),
    'the part of a date',
  )
}

/** The type in which neither an operand nor the result overflows. */
function integerType(...values: readonly (Typed | undefined)[]): string {
  return Math.max(...values.map(value => value?.bits ?? 0)) <= 62 ? 'BIGINT' : 'HUGEINT'
}
