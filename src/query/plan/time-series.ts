/** The time series: a metric by intervals of time, for all rows and by groups of them. */
import { must } from '../../util/errors.ts'
import { TIME_SERIES_INTERVALS_MAX } from '../../util/limits.ts'
import { isNeverNull } from '../expression/operand.ts'
import { allOf, internal, type Output, type Select } from '../expression/select.ts'
import { boundValue, columnOf, operation, type Typed } from '../expression/typed.ts'
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
import { type Granularity, type Interval, Intervals } from './time-intervals.ts'
import { clockOf, loadClock, type ZoneClock } from './time-zone.ts'
import { badZone, type RangeBounds, timeColumn, zoneOf } from './where.ts'

/** Values of all groups of a time series, and those of all groups together. */
const TIME_SERIES_VALUES_MAX = 40_000
/** Groups of a time series. */
const TIME_SERIES_GROUPS_MAX = 1_000

interface TimeSeriesInput extends MetricQueryInput {
  readonly granularity: Granularity
  readonly groupBy?: readonly string[] | null
}

export interface TimeSeriesQuery extends MetricQuery {
  readonly granularity: Granularity
  /** Names of columns. */
  readonly groupBy: readonly string[]
}

/** One value for each label. */
export interface Series {
  /** The begin of each interval. */
  readonly labels: readonly string[]
  readonly values: readonly (string | null)[]
}

interface TimeSeriesAnswer extends Series {
  readonly groupBy: readonly string[]
  /** In the order of their values, null last. All have the same labels. */
  readonly groups: readonly (Series & { readonly group: readonly (string | null)[] })[]
}

export const timeSeries: Question<TimeSeriesInput, TimeSeriesQuery, TimeSeriesAnswer> = {
  type: 'METRIC',
  subtype: 'TIME_SERIES',
  rowsMax: TIME_SERIES_VALUES_MAX + 1,
  read(input, find) {
    const read = readMetric(input, find)
    const { granularity, groupBy } = input
    return { ...read, query: { ...read.query, granularity, groupBy: groupBy ?? [] } }
  },
  texts: metricTexts,
  prepare: (query, inTurn) => loadClock(zoneOf(query), inTurn),
  plan(view, query, context) {
    const rows = planMetric(view, query, context)
    const column = timeColumn(view, query)
    const dimensions = planDimensions(view, 'groupBy', query.groupBy)
    const clock = clockOf(zoneOf(query))
    if (clock === undefined) throw badZone(zoneOf(query))
    const intervals = new Intervals(query.granularity, clock)
    const known = knownIntervals(intervals, rows.range, clock)
    const isCount = COUNTS.has(query.metric.kind)
    const time = columnOf(column)
    const { fromUs, toUs } = rows.range
    const fromMs = fromUs === null ? -Infinity : msOf(fromUs)
    const toMs = toUs === null ? Infinity : msOf(toUs - 1n) + 1
    const timeKey =
      column.type === 'DATE'
        ? intervals.ruleOfDates(fromMs, toMs, known)
        : intervals.rule(fromMs, toMs, known)
    const key: Output = {
      name: internal('key'),
      value: operation('time_key', 'integer', [time], { bits: 62, timeKey }),
    }
    const hasTime = isNeverNull(view, column.name) ? undefined : operation('is_not_null', 'boolean', [time])
    const where = allOf([rows.where, hasTime])
    return {
      select: selectSeries(where, key, dimensions, isCount ? orZero(rows.metric) : rows.metric),
      ...rows.pruning,
      answer: printed => {
        if (printed.length > TIME_SERIES_VALUES_MAX) throw new Refused(TOO_MANY_VALUES)
        const found = known ?? foundIntervals(intervals, rows.range, printed, clock)
        return answerOf(found, printed, query.groupBy, isCount ? '0' : null)
      },
    }
  },
}

/** Metrics that are 0 over no values. Others have no value there. */
const COUNTS: ReadonlySet<string> = new Set(['count', 'countDistinct', 'sum'])

function orZero(metric: Typed): Typed {
  return operation('coalesce', metric.kind, [metric, boundValue({ type: 'INT8', value: '0' })])
}

const COARSER = 'Choose a coarser granularity, or a shorter timeRange'
const TOO_MANY_INTERVALS = `granularity: a time series has at most ${TIME_SERIES_INTERVALS_MAX} intervals. ${COARSER}.`
const TOO_MANY_VALUES = `groupBy: a time series has at most ${TIME_SERIES_VALUES_MAX} values in all of its groups. ${COARSER}, or filter.`
const TOO_MANY_GROUPS = `groupBy: a time series has at most ${TIME_SERIES_GROUPS_MAX} groups. Filter, or choose another column.`

/** Key, dimensions, whether the row is one of all groups together, value. Rows come by group. */
function selectSeries(
  where: Typed | undefined,
  key: Output,
  dimensions: readonly Output[],
  metric: Typed,
): Select {
  const value = { name: internal('value'), value: metric }
  const [first] = dimensions
  const limit = TIME_SERIES_VALUES_MAX + 1
  if (first === undefined) return { where, outputs: [key, value], groupBy: [key.value], limit }
  const ofAll = operation('is_absent', 'integer', [first.value])
  const columns = dimensions.map(dimension => dimension.value)
  return {
    where,
    outputs: [key, ...dimensions, { name: internal('all'), value: ofAll }, value],
    groupingSets: [[key.value], [key.value, ...columns]],
    orderBy: [
      { value: ofAll, direction: 'DESC' },
      ...columns.map(column => ({ value: column, direction: 'ASC' as const })),
    ],
    limit,
  }
}

/** The whole millisecond of an instant, whose microseconds may have more digits than a double. */
function msOf(us: bigint): number {
  return Number(floorDivide(us, 1000n))
}

/** The intervals of a range with two ends. The rows say where an open end is: undefined. */
function knownIntervals(
  intervals: Intervals,
  { fromUs, toUs }: RangeBounds,
  clock: ZoneClock,
): readonly Interval[] | undefined {
  if (fromUs === null || toUs === null) return undefined
  if (fromUs >= toUs) return []
  return listed(intervals, intervals.keyOf(msOf(fromUs)), intervals.keyOf(msOf(toUs - 1n)), clock, '')
}

/** An open end is in the interval of the first or the last row. Without rows there is none. */
function foundIntervals(
  intervals: Intervals,
  { fromUs, toUs }: RangeBounds,
  rows: PrintedRows,
  clock: ZoneClock,
): readonly Interval[] {
  if (rows.length === 0) return []
  let [first, last] = [Infinity, -Infinity]
  for (const row of rows) {
    const key = Number(row[0])
    first = Math.min(first, key)
    last = Math.max(last, key)
  }
  if (fromUs !== null) first = intervals.keyOf(msOf(fromUs))
  if (toUs !== null) last = intervals.keyOf(msOf(toUs - 1n))
  const begin = (key: number) => isoOf(must(intervals.between(key, key)?.[0], 'the interval of a row').fromMs)
  const ofFirst = ` The first event is in the interval of ${begin(first)}: a start leaves it out.`
  const ofLast = ` The last event is in the interval of ${begin(last)}: a stop leaves it out.`
  const ends = `${fromUs === null ? ofFirst : ''}${toUs === null ? ofLast : ''}`
  return listed(intervals, first, last, clock, ends)
}

/** @param ends about the events at open ends: one far from all others makes a series too long */
function listed(
  intervals: Intervals,
  firstKey: number,
  lastKey: number,
  clock: ZoneClock,
  ends: string,
): readonly Interval[] {
  const found = intervals.between(firstKey, lastKey)
  if (found === undefined) throw new Refused(`${TOO_MANY_INTERVALS}${ends}`)
  if ((found.at(-1)?.fromMs ?? 0) < clock.endMs) return found
  const end = isoOf(clock.endMs)
  throw new Refused(
    `timeRange: the changes of clocks in this timeZone are known until ${end}. Give a stop.${ends}`,
  )
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString()
}

/** As isoOf() does, where most are whole minutes: a Date for each takes 0.8 µs. */
function isosOf(intervals: readonly Interval[]): readonly string[] {
  let dayMs = Number.NaN
  let date = ''
  return intervals.map(({ fromMs }) => {
    if (fromMs % MINUTE_MS !== 0) return isoOf(fromMs)
    const minutes = (((fromMs % DAY_MS) + DAY_MS) % DAY_MS) / MINUTE_MS
    if (fromMs - minutes * MINUTE_MS !== dayMs) {
      dayMs = fromMs - minutes * MINUTE_MS
      date = isoOf(dayMs).slice(0, -MIDNIGHT.length)
    }
    return `${date}${TWO_DIGITS[Math.floor(minutes / 60)]}:${TWO_DIGITS[minutes % 60]}:00.000Z`
  })
}

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const MIDNIGHT = '00:00:00.000Z'
const TWO_DIGITS = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'))

/** @param empty the value of an interval without rows */
function answerOf(
  intervals: readonly Interval[],
  rows: PrintedRows,
  groupBy: readonly string[],
  empty: string | null,
): TimeSeriesAnswer {
  const dimensions = groupBy.length
  const labels = isosOf(intervals)
  const places = new Map(intervals.map(({ key }, index) => [key, index]))
  const blank = (): (string | null)[] => Array.from({ length: labels.length }, () => empty)
  const values = blank()
  const groups: {
    group: readonly (string | null)[]
    labels: readonly string[]
    values: (string | null)[]
  }[] = []
  for (const row of rows) {
    const place = must(places.get(Number(row[0])), 'the interval of a row')
    const value = row.at(-1) ?? null
    if (dimensions === 0 || row[1 + dimensions] === '1') {
      values[place] = value
      continue
    }
    const group = row.slice(1, 1 + dimensions)
    let last = groups.at(-1)
    if (last === undefined || group.some((text, index) => text !== last?.group[index])) {
      if (groups.length >= TIME_SERIES_GROUPS_MAX) throw new Refused(TOO_MANY_GROUPS)
      if ((groups.length + 2) * labels.length > TIME_SERIES_VALUES_MAX) throw new Refused(TOO_MANY_VALUES)
      last = { group, labels, values: blank() }
      groups.push(last)
    }
    last.values[place] = value
  }
  return { labels, values, groups, groupBy }
}

function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b
  return a % b < 0n ? quotient - 1n : quotient
}
