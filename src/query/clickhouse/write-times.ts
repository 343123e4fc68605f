/**
 * Times and dates as SQL of ClickHouse: a time is Int64 microseconds since 1970, a date Int32 days.
 * ClickHouse's calendar is exact for the years 1900 to 2299 alone. Dates repeat each 400 years, so
 * a date of any year is computed as that of these years.
 */
import { must } from '../../util/errors.ts'
import type { IntervalUnit } from '../expression/ast.ts'
import { READ_PARTS } from '../expression/functions.ts'
import { type KeyRule, ORIGIN_MS, type Step } from '../expression/time-key.ts'
import type { Typed } from '../expression/typed.ts'
import type { Let } from './write-lambda.ts'
import type { Binder } from './write-values.ts'

interface TimeWriter {
  readonly name: Let
  readonly binder: Binder
}

type Write = (typed: Typed, operands: readonly string[], writer: TimeWriter) => string

export const TIME_FUNCTIONS: Readonly<Record<string, Write>> = {
  date_trunc: (typed, [us = ''], { name }) => truncated(partOf(typed), us, name),
  date_part: (typed, [us = ''], { name }) => partOfTime(partOf(typed), us, name),
  date_diff: (typed, [from = '', to = ''], { name }) => difference(partOf(typed), from, to, name),
  time_key({ timeKey, operands }, [time = ''], { name }) {
    const us = operands[0]?.kind === 'date' ? `(toInt64(${time}) * ${DAY_US})` : time
    return keyOf(us, must(timeKey, 'a rule'), name)
  },
  shift: ({ interval }, [us = ''], { name }) => shifted(us, must(interval, 'an interval'), name),
  time_bucket: ({ interval }, [us = ''], { name }) => bucket(us, must(interval, 'an interval'), name),
  strftime: ({ word = '' }, [us = ''], writer) => formatted(word, us, writer),
}

/** A word of the list. */
function partOf({ word }: Typed): string {
  return must(
    READ_PARTS.find(part => part === word),
    'the part of a date',
  )
}

const DAY_US = 86_400_000_000
const [ERA_DAYS, ERA_MONTHS, ERA_YEAR, ERA_FROM] = [146_097, 4_800, 1_900, -25_567]
/** The years -90000 to 90000: a computed time beyond them is null. */
const [FROM_DAY, END_DAY] = [dayOf('-090000-01-01'), dayOf('+090001-01-01')]
export const IN_TIMES = (us: string) =>
  `((${us} >= ${BigInt(FROM_DAY) * BigInt(DAY_US)}) AND (${us} < ${BigInt(END_DAY) * BigInt(DAY_US)}))`
export const IN_DATES = (days: string) => `((${days} >= ${FROM_DAY}) AND (${days} < ${END_DAY}))`

function dayOf(iso: string): number {
  return Date.parse(`${iso}T00:00:00Z`) / 86_400_000
}

/** Rounded down, also below zero. */
function floorDivide(a: string, b: number | bigint): string {
  return `intDiv(${a} - positiveModulo(${a}, ${b}), ${b})`
}

/** The same day of the week and of the year, in the years that ClickHouse's calendar has. */
function safeDate(days: string): string {
  return `CAST(toInt32(positiveModulo(${days} - (${ERA_FROM}), ${ERA_DAYS})) + (${ERA_FROM}) AS Nullable(Date32))`
}

function yearOf(days: string): string {
  return `(toInt64(toYear(${safeDate(days)})) + 400 * ${floorDivide(`(${days} - (${ERA_FROM}))`, ERA_DAYS)})`
}

function monthOf(days: string): string {
  return `toInt64(toMonth(${safeDate(days)}))`
}

/** ClickHouse's own is wrong on the last of its days. */
function dayOfYear(days: string): string {
  const date = safeDate(days)
  return `(toInt64(toInt32(${date})) - toInt32(makeDate32(toYear(${date}), 1, 1)) + 1)`
}

/** The first day of a month, from the months since the year 0. */
export function firstOfMonth(months: string): string {
  const since = `(${months} - ${ERA_YEAR * 12})`
  const inEra = `positiveModulo(${since}, ${ERA_MONTHS})`
  const date = `makeDate32(${ERA_YEAR} + intDiv(${inEra}, 12), ${inEra} % 12 + 1, 1)`
  return `(toInt64(toInt32(${date})) + ${ERA_DAYS} * ${floorDivide(since, ERA_MONTHS)})`
}

const DAYS_OF: Readonly<Record<string, (days: string) => string>> = {
  week: days => `(${days} - positiveModulo(${days} + 3, 7))`,
  month: days => `(${days} - toInt64(toDayOfMonth(${safeDate(days)})) + 1)`,
  quarter: days => firstOfMonth(`(${yearOf(days)} * 12 + intDiv(${monthOf(days)} - 1, 3) * 3)`),
  year: days => `(${days} - ${dayOfYear(days)} + 1)`,
}
const UNIT_US: Readonly<Record<string, number>> = {
  day: DAY_US,
  hour: 3_600_000_000,
  minute: 60_000_000,
  second: 1_000_000,
}

/** The begin of the unit of a time. */
function truncated(part: string, us: string, name: Let): string {
  const unit = UNIT_US[part]
  if (unit !== undefined) return name([us], t => `(${t} - positiveModulo(${t}, ${unit}))`)
  const days = DAYS_OF[part]!
  return name([us], t => name([floorDivide(t, DAY_US)], day => `(${days(day)} * ${DAY_US})`))
}

const READ: Readonly<Record<string, (days: string) => string>> = {
  year: yearOf,
  quarter: days => `toInt64(toQuarter(${safeDate(days)}))`,
  month: monthOf,
  week: days => `toInt64(toISOWeek(${safeDate(days)}))`,
  day: days => `toInt64(toDayOfMonth(${safeDate(days)}))`,
  dow: days => `toInt64(toDayOfWeek(${safeDate(days)}) % 7)`,
  isodow: days => `toInt64(toDayOfWeek(${safeDate(days)}))`,
  doy: dayOfYear,
}
const WITHIN: Readonly<Record<string, readonly [unit: number, count: number]>> = {
  hour: [3_600_000_000, 24],
  minute: [60_000_000, 60],
  second: [1_000_000, 60],
}

/** The number that a part of a time is. */
function partOfTime(part: string, us: string, name: Let): string {
  if (part === 'epoch') return `(toFloat64(${us}) / 1000000)`
  const within = WITHIN[part]
  if (within !== undefined) {
    const [unit, count] = within
    return name([us], t => `toInt64(intDiv(positiveModulo(${t}, ${unit * count}), ${unit}))`)
  }
  const read = READ[part]!
  return name([us], t => name([floorDivide(t, DAY_US)], read))
}

/** How many begins of the unit lie between two times. */
function difference(part: string, from: string, to: string, name: Let): string {
  const numberOf = (us: string): string => {
    const unit = UNIT_US[part]
    if (unit !== undefined) return name([us], t => floorDivide(t, unit))
    return name([us], t =>
      name([floorDivide(t, DAY_US)], days => {
        if (part === 'week') return days
        if (part === 'year') return yearOf(days)
        const months = `(${yearOf(days)} * 12 + ${monthOf(days)} - 1)`
        return part === 'month' ? months : name([months], each => floorDivide(each, 3))
      }),
    )
  }
  const count = `(${numberOf(to)} - ${numberOf(from)})`
  // As DuckDB counts: seven days are a week, whatever day is its first.
  return part === 'week' ? `intDiv(${count}, 7)` : count
}

type Interval = NonNullable<Typed['interval']>

const MONTHS: Partial<Record<IntervalUnit, number>> = { years: 12, quarters: 3, months: 1 }
const MICROS: Partial<Record<IntervalUnit, number>> = {
  weeks: 7 * DAY_US,
  days: DAY_US,
  hours: 3_600_000_000,
  minutes: 60_000_000,
  seconds: 1_000_000,
}
/** 200,000 years lead from any time to none. */
const MONTHS_MAX = 200_000 * 12

/** A time and an interval; null beyond the times. Months keep the day where they have it. */
function shifted(us: string, { count, unit }: Interval, name: Let): string {
  const micros = MICROS[unit]
  if (micros !== undefined) return inTimes(`(${us} + (${BigInt(count) * BigInt(micros)}))`, name)
  const all = count * (MONTHS[unit] ?? 1)
  const months = Math.sign(all) * Math.min(Math.abs(all), MONTHS_MAX)
  return name([us], t =>
    name([floorDivide(t, DAY_US)], days =>
      name([`(${yearOf(days)} * 12 + ${monthOf(days)} - 1 + (${months}))`], month =>
        name([firstOfMonth(month)], first => {
          const length = `(${firstOfMonth(`(${month} + 1)`)} - ${first})`
          const day = `least(toInt64(toDayOfMonth(${safeDate(days)})), ${length})`
          return inTimes(`((${first} + ${day} - 1) * ${DAY_US} + positiveModulo(${t}, ${DAY_US}))`, name)
        }),
      ),
    ),
  )
}

/** The time, or null beyond the times. */
function inTimes(us: string, name: Let): string {
  return name([us], t => `if(${IN_TIMES(t)}, ${t}, NULL)`)
}

/** The Monday and the month from which buckets are counted, as in DuckDB. */
const [BUCKET_ORIGIN_US, BUCKET_ORIGIN_MONTHS] = [dayOf('2000-01-03') * DAY_US, 2_000 * 12]

/** The begin of the bucket of a time; null beyond the times. */
function bucket(us: string, { count, unit }: Interval, name: Let): string {
  const micros = MICROS[unit]
  if (micros !== undefined) {
    const width = BigInt(count) * BigInt(micros)
    return name([us], t => inTimes(`(${t} - positiveModulo(${t} - ${BUCKET_ORIGIN_US}, ${width}))`, name))
  }
  const months = count * (MONTHS[unit] ?? 1)
  return name([us], t =>
    name([floorDivide(t, DAY_US)], days =>
      name([`(${yearOf(days)} * 12 + ${monthOf(days)} - 1)`], month =>
        name([`(${month} - positiveModulo(${month} - ${BUCKET_ORIGIN_MONTHS}, ${months}))`], first =>
          inTimes(`(${firstOfMonth(first)} * ${DAY_US})`, name),
        ),
      ),
    ),
  )
}

const DAY_NAMES = 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split(' ')
const MONTH_NAMES =
  'January February March April May June July August September October November December'.split(' ')

/** A time by the letters of constant-arguments.ts. */
function formatted(format: string, us: string, { name, binder }: TimeWriter): string {
  const parts = [...format.matchAll(/%(.)|[^%]+/g)].map(([text, letter = '']) =>
    letter === '' || letter === '%' ? binder.text(letter || text) : LETTERS[letter]!,
  )
  return name([us], t => {
    const texts = parts.map(part => (typeof part === 'string' ? part : part(t, name)))
    return `if(${t} IS NULL, NULL, concat(${["''", "''", ...texts].join(', ')}))`
  })
}

type Letter = (us: string, name: Let) => string

const LETTERS: Readonly<Record<string, Letter>> = {
  Y: (us, name) =>
    name([partOfTime('year', us, name)], y => `if(${y} BETWEEN 0 AND 9999, ${padded(y, 4)}, toString(${y}))`),
  m: digits('month', 2),
  d: digits('day', 2),
  H: digits('hour', 2),
  M: digits('minute', 2),
  S: digits('second', 2),
  j: digits('doy', 3),
  I: (us, name) => padded(`((${partOfTime('hour', us, name)} + 11) % 12 + 1)`, 2),
  p: (us, name) => `if(${partOfTime('hour', us, name)} < 12, 'AM', 'PM')`,
  f: us => padded(`positiveModulo(${us}, 1000000)`, 6),
  A: listed('isodow', DAY_NAMES),
  a: listed('isodow', DAY_NAMES, 3),
  B: listed('month', MONTH_NAMES),
  b: listed('month', MONTH_NAMES, 3),
}

function padded(number: string, digits: number): string {
  return `leftPad(toString(${number}), ${digits}, '0')`
}

function digits(part: string, count: number): Letter {
  return (us, name) => padded(partOfTime(part, us, name), count)
}

/** The name of a number from 1 on. An array takes no number that may be null. */
function listed(part: string, names: readonly string[], letters = Infinity): Letter {
  const cut = names.map(word => word.slice(0, letters))
  const longest = Math.max(...cut.map(word => word.length))
  const text = cut.map(word => word.padEnd(longest)).join('')
  return (us, name) =>
    `trimRight(substring('${text}', (${partOfTime(part, us, name)} - 1) * ${longest} + 1, ${longest}))`
}

/** The key of the interval of a time, in milliseconds (expression/time-key.ts). */
function keyOf(us: string, rule: KeyRule, name: Let): string {
  return name([us], t => {
    switch (rule.form) {
      case 'listed':
        return steps(t, rule.keys, value => BigInt(value))
      case 'exact': {
        const since = `(${t} + ${steps(t, rule.offsets, value => usOf(value) - usOf(ORIGIN_MS))})`
        const begin = `(${t} - ${since} % ${usOf(rule.unitMs)})`
        return floorDivide(atLeast(t, begin, rule.floors), 1000)
      }
      case 'calendar': {
        const shown = atLeast(t, `(${t} + ${steps(t, rule.offsets, usOf)})`, rule.floors)
        const { unit } = rule
        if (typeof unit === 'string') return `intDiv(${truncated(unit, shown, name)}, 1000)`
        return `(intDiv(${shown} - (${usOf(ORIGIN_MS)}), ${usOf(unit)}) * ${unit} + (${ORIGIN_MS}))`
      }
    }
  })
}

function usOf(ms: number): bigint {
  return BigInt(ms) * 1000n
}

function atLeast(us: string, value: string, floors: readonly Step[]): string {
  const isNone = floors.every(floor => floor.value <= ORIGIN_MS)
  return isNone ? value : `greatest(${value}, ${steps(us, floors, usOf)})`
}

/** A balanced tree of comparisons: some hundred steps take no more than nine of them. */
function steps(us: string, all: readonly Step[], write: (value: number) => bigint): string {
  const middle = all.length >> 1
  const [first] = all
  const from = all[middle]
  if (first === undefined || from === undefined || middle === 0) return `toInt64(${write(first?.value ?? 0)})`
  const [before, after] = [all.slice(0, middle), all.slice(middle)]
  return `if(${us} < ${usOf(from.fromMs)}, ${steps(us, before, write)}, ${steps(us, after, write)})`
}
