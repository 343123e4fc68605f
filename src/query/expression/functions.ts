/**
 * The functions of users' SQL: names, arguments, results. A function that is not in this table does
 * not exist. All of them are free of side effects, and none but a replacement makes a text longer
 * than the texts it is given. docs/expressions.md shows this table, and a test compares the two.
 */
import type { ColumnType } from '../../format/schema.ts'
import { operation, type Typed, type ValueKind } from './typed.ts'

/**
 * What an argument may be.
 *
 *   boolean text number integer time json   a value of that kind; time is a DATE or a TIMESTAMP
 *   any       a value of any kind but an interval
 *   plain     any but JSON
 *   same      all arguments of this kind get one type
 *   part      the name of a date's part, written as a text
 *   fraction  a number from 0 to 1, digits a whole number from -18 to 18; both written as numbers
 *   path      a JSON path or key, written as a text
 *   search    a short text, written as a text: a search takes the product of both lengths at worst
 *   needle, literal   the same: `needle` is not empty, `literal` takes the place of what is found
 *   pattern   a regular expression, written as a text; options are its letters, group its number
 *   place     a whole number other than 0, format that of a time, width an interval; all written
 */
export type Argument =
  | 'boolean'
  | 'text'
  | 'number'
  | 'integer'
  | 'time'
  | 'json'
  | 'any'
  | 'plain'
  | 'same'
  | 'part'
  | 'fraction'
  | 'digits'
  | 'path'
  | 'search'
  | 'needle'
  | 'literal'
  | 'pattern'
  | 'options'
  | 'group'
  | 'place'
  | 'format'
  | 'width'

export interface FunctionSpec {
  /** In lower case. All mean the same. */
  readonly names: readonly string[]
  readonly arguments: readonly Argument[]
  /** The last arguments that may be left out. */
  readonly optional?: number
  /** The last argument may come more than once. */
  readonly repeats?: true
  readonly op: string
  /** `same`: the type of its first argument. */
  readonly result: ValueKind | 'same'
  readonly isAggregate?: true
  /** The last argument is the condition of its FILTER, as in ClickHouse's countIf. */
  readonly hasCondition?: true
  /** The date's part that the name says, as in toStartOfDay, or the format of strftime. */
  readonly part?: string
  /** The type of a conversion. */
  readonly type?: ColumnType
  readonly number?: number
}

/** Parts of a date, for date_trunc, date_part, EXTRACT and date_diff. */
export const DATE_PARTS = ['year', 'quarter', 'month', 'week', 'day', 'hour', 'minute', 'second'] as const
type DatePart = (typeof DATE_PARTS)[number]
/** Parts for date_part and EXTRACT alone. */
export const READ_PARTS = [...DATE_PARTS, 'dow', 'isodow', 'doy', 'epoch'] as const

/** A function whose operation has its first name, unless `op` says it. */
type Listed = Omit<FunctionSpec, 'op'> & Partial<Pick<FunctionSpec, 'op'>>

const AGGREGATES: readonly Listed[] = [
  { names: ['count'], arguments: ['any'], result: 'integer' },
  { names: ['count_star'], arguments: [], op: 'count_rows', result: 'integer' },
  { names: ['count_distinct', 'countdistinct', 'uniq', 'uniqexact'], arguments: ['any'], result: 'integer' },
  { names: ['sum'], arguments: ['number'], result: 'same' },
  { names: ['avg', 'average', 'mean'], arguments: ['number'], op: 'average', result: 'real' },
  { names: ['min'], arguments: ['plain'], result: 'same' },
  { names: ['max'], arguments: ['plain'], result: 'same' },
  { names: ['any_value'], arguments: ['plain'], op: 'min', result: 'same' },
  { names: ['arg_max', 'argmax', 'max_by'], arguments: ['plain', 'plain'], result: 'same' },
  { names: ['arg_min', 'argmin', 'min_by'], arguments: ['plain', 'plain'], result: 'same' },
  { names: ['bool_and'], arguments: ['boolean'], op: 'min', result: 'boolean' },
  { names: ['bool_or'], arguments: ['boolean'], op: 'max', result: 'boolean' },
  { names: ['median'], arguments: ['number'], op: 'quantile', result: 'real', number: 0.5 },
  { names: ['quantile', 'quantile_cont'], arguments: ['number', 'fraction'], result: 'real' },
  {
    names: ['stddev', 'stddev_samp', 'stddevsamp'],
    arguments: ['number'],
    op: 'stddev_samp',
    result: 'real',
  },
  { names: ['stddev_pop', 'stddevpop'], arguments: ['number'], result: 'real' },
  { names: ['variance', 'var_samp', 'varsamp'], arguments: ['number'], op: 'var_samp', result: 'real' },
  { names: ['var_pop', 'varpop'], arguments: ['number'], result: 'real' },
  ...withCondition([
    { names: ['countif', 'count_if'], arguments: [], op: 'count_rows', result: 'integer' },
    { names: ['uniqif'], arguments: ['any'], op: 'count_distinct', result: 'integer' },
    { names: ['sumif'], arguments: ['number'], op: 'sum', result: 'same' },
    { names: ['avgif'], arguments: ['number'], op: 'average', result: 'real' },
    { names: ['minif'], arguments: ['plain'], op: 'min', result: 'same' },
    { names: ['maxif'], arguments: ['plain'], op: 'max', result: 'same' },
  ]),
]

const SCALARS: readonly Listed[] = [
  { names: ['abs'], arguments: ['number'], result: 'same' },
  { names: ['round'], arguments: ['number', 'digits'], optional: 1, result: 'real' },
  { names: ['floor'], arguments: ['number'], result: 'real' },
  { names: ['ceil', 'ceiling'], arguments: ['number'], result: 'real' },
  { names: ['sqrt'], arguments: ['number'], result: 'real' },
  { names: ['power', 'pow'], arguments: ['number', 'digits'], result: 'real' },
  { names: ['sign'], arguments: ['number'], result: 'integer' },
  { names: ['coalesce', 'ifnull'], arguments: ['same'], repeats: true, result: 'same' },
  { names: ['nullif'], arguments: ['same', 'same'], result: 'same' },
  { names: ['greatest'], arguments: ['same'], repeats: true, result: 'same' },
  { names: ['least'], arguments: ['same'], repeats: true, result: 'same' },
  { names: ['lower', 'lcase'], arguments: ['text'], result: 'text' },
  { names: ['upper', 'ucase'], arguments: ['text'], result: 'text' },
  { names: ['trim'], arguments: ['text'], result: 'text' },
  { names: ['ltrim'], arguments: ['text'], result: 'text' },
  { names: ['rtrim'], arguments: ['text'], result: 'text' },
  { names: ['length', 'char_length', 'len'], arguments: ['text'], result: 'integer' },
  { names: ['substring', 'substr'], arguments: ['text', 'integer', 'integer'], optional: 1, result: 'text' },
  { names: ['concat'], arguments: ['text'], repeats: true, result: 'text' },
  { names: ['||'], arguments: ['text', 'text'], result: 'text' },
  { names: ['starts_with', 'startswith'], arguments: ['text', 'text'], result: 'boolean' },
  { names: ['ends_with', 'endswith'], arguments: ['text', 'text'], result: 'boolean' },
  { names: ['contains'], arguments: ['text', 'search'], result: 'boolean' },
  { names: ['strpos', 'position', 'instr'], arguments: ['text', 'needle'], result: 'integer' },
  { names: ['left'], arguments: ['text', 'integer'], result: 'text' },
  { names: ['right'], arguments: ['text', 'integer'], result: 'text' },
  { names: ['replace'], arguments: ['text', 'needle', 'literal'], result: 'text' },
  { names: ['split_part'], arguments: ['text', 'needle', 'place'], result: 'text' },
  { names: ['regexp_matches'], arguments: ['text', 'pattern', 'options'], optional: 1, result: 'boolean' },
  { names: ['regexp_extract'], arguments: ['text', 'pattern', 'group'], optional: 1, result: 'text' },
  {
    names: ['regexp_replace'],
    arguments: ['text', 'pattern', 'literal', 'options'],
    optional: 1,
    result: 'text',
  },
]

const TIMES: readonly Listed[] = [
  { names: ['now', 'current_timestamp'], arguments: [], result: 'instant' },
  { names: ['today', 'current_date'], arguments: [], result: 'date' },
  { names: ['date_trunc', 'datetrunc'], arguments: ['part', 'time'], result: 'instant' },
  { names: ['date_part', 'datepart'], arguments: ['part', 'time'], result: 'integer' },
  { names: ['date_diff', 'datediff'], arguments: ['part', 'time', 'time'], result: 'integer' },
  ...part('date_trunc', 'instant', {
    minute: ['tostartofminute'],
    hour: ['tostartofhour'],
    day: ['tostartofday'],
    week: ['tomonday'],
    month: ['tostartofmonth'],
    quarter: ['tostartofquarter'],
    year: ['tostartofyear'],
  }),
  ...part('date_part', 'integer', {
    year: ['year', 'toyear'],
    quarter: ['quarter', 'toquarter'],
    month: ['month', 'tomonth'],
    week: ['week'],
    day: ['day', 'todayofmonth'],
    hour: ['hour', 'tohour'],
    minute: ['minute', 'tominute'],
    second: ['second', 'tosecond'],
  }),
  { names: ['epoch'], arguments: ['time'], op: 'date_part', result: 'real', part: 'epoch' },
  { names: ['time_bucket'], arguments: ['width', 'time'], result: 'instant' },
  { names: ['strftime'], arguments: ['time', 'format'], result: 'text' },
  { names: ['dayname'], arguments: ['time'], op: 'strftime', result: 'text', part: '%A' },
  { names: ['monthname'], arguments: ['time'], op: 'strftime', result: 'text', part: '%B' },
]

const CONVERSIONS: readonly Listed[] = [
  conversion('tostring', 'STRING'),
  conversion('toint32', 'INT32'),
  conversion('toint64', 'INT64'),
  conversion('tofloat64', 'DOUBLE'),
  conversion('todate', 'DATE'),
  conversion('todatetime', 'TIMESTAMP'),
]

const JSON_FUNCTIONS: readonly Listed[] = [
  { names: ['json_array_length'], arguments: ['json', 'path'], optional: 1, result: 'integer' },
  { names: ['->>', 'json_extract_string'], arguments: ['json', 'path'], op: 'json_text', result: 'text' },
  { names: ['->', 'json_extract'], arguments: ['json', 'path'], op: 'json_value', result: 'json' },
  ...(
    [
      ['jsonextractstring', 'STRING', 'text'],
      ['jsonextractint', 'INT64', 'integer'],
      ['jsonextractfloat', 'DOUBLE', 'real'],
      ['jsonextractbool', 'BOOLEAN', 'boolean'],
    ] as const
  ).map(
    ([name, type, result]): Listed => ({
      names: [name],
      arguments: ['json', 'path'],
      repeats: true,
      op: 'json_text',
      result,
      type,
    }),
  ),
]

/** ClickHouse's aggregates over rows for which a further argument is true. */
function withCondition(aggregates: readonly Listed[]): Listed[] {
  return aggregates.map(spec => ({
    ...spec,
    arguments: [...spec.arguments, 'boolean'],
    hasCondition: true,
  }))
}

function part(op: string, result: ValueKind, names: Partial<Record<DatePart, readonly string[]>>): Listed[] {
  return Object.entries(names).map(([word, list]) => ({
    names: list,
    arguments: ['time'],
    op,
    result,
    part: word,
  }))
}

function conversion(name: string, type: ColumnType): Listed {
  return { names: [name], arguments: ['any'], op: 'cast', result: 'same', type }
}

export const FUNCTIONS: readonly FunctionSpec[] = [
  ...AGGREGATES.map(spec => ({ ...spec, isAggregate: true as const })),
  ...SCALARS,
  ...TIMES,
  ...CONVERSIONS,
  ...JSON_FUNCTIONS,
].map(spec => ({ op: spec.names[0] ?? '', ...spec }))

const BY_NAME: ReadonlyMap<string, FunctionSpec> = new Map(
  FUNCTIONS.flatMap(spec => spec.names.map(name => [name, spec] as const)),
)

export function functionOf(name: string): FunctionSpec | undefined {
  return BY_NAME.get(name)
}

const AGGREGATE_OPS: ReadonlySet<string> = new Set(
  FUNCTIONS.filter(spec => spec.isAggregate).map(({ op }) => op),
)

export function isAggregate(op: string): boolean {
  return AGGREGATE_OPS.has(op)
}

/** The expression with every aggregate over only those rows for which the condition is true. */
export function withFilter(typed: Typed, condition: Typed): Typed {
  if (!isAggregate(typed.op))
    return { ...typed, operands: typed.operands.map(operand => withFilter(operand, condition)) }
  const { filter } = typed
  if (filter === undefined) return { ...typed, filter: condition }
  return { ...typed, filter: operation('and', 'boolean', [filter, condition]) }
}
