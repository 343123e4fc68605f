/** A time range → bounds and a condition: start inclusive, stop exclusive; rows without the timestamp are outside. */

import type { Plan } from '../batch/plan.ts'
import { quoteName } from '../util/sql.ts'
import type { Binder } from './binder.ts'
import { findColumn, type QueryColumn, timestampColumn } from './column.ts'
import type { BadQuery, TimeRange } from './protocol.ts'
import { parseInstant, quoted } from './value.ts'

const DAY_US = 86_400_000_000n
/** The first instant that a TIMESTAMP holds, 0001-01-01. Go clients send their zero time where they mean no bound. */
const ZERO_TIME_US = -62_135_596_800_000_000n

/** A range, understood. `null`: no bound on that side. */
export interface PlannedRange {
  /** '' where neither bound is given. */
  readonly condition: string
  readonly fromUs: bigint | null
  readonly toUs: bigint | null
  readonly isPrimary: boolean
}

/** The range over the column it names, else the pool's own timestamp; or what is wrong with it. */
export function planTimeRange(plan: Plan, range: TimeRange, binder: Binder): PlannedRange | BadQuery {
  if (range.relative !== null && range.relative !== undefined)
    return {
      badRequest: `timeRange.relative ${quoted(range.relative)} is not built yet: give start and stop`,
    }
  const column = rangeColumn(plan, range.timestamp)
  if ('badRequest' in column) return column
  const from = bound('start', range.start)
  if (from !== null && typeof from !== 'bigint') return from
  const to = bound('stop', range.stop)
  if (to !== null && typeof to !== 'bigint') return to
  const parts: string[] = []
  if (from !== null) parts.push(side(column, '>=', from, binder))
  if (to !== null) parts.push(side(column, '<', to, binder))
  const isPrimary = column.name === timestampColumn(plan).name
  return { condition: parts.join(' AND '), fromUs: from, toUs: to, isPrimary }
}

/** Why `zone` is no time zone, or undefined. It has no effect on absolute ranges. */
export function checkTimeZone(zone: string): BadQuery | undefined {
  try {
    // Offsets such as +05:00 are fine for newer Intl, but they are no IANA zones.
    if (/^[A-Za-z]/.test(zone)) {
      new Intl.DateTimeFormat('en', { timeZone: zone })
      return undefined
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
  }
  return { badRequest: `timeZone ${quoted(zone)} is not an IANA time zone` }
}

function rangeColumn(plan: Plan, name: string | null | undefined): QueryColumn | BadQuery {
  if (name === null || name === undefined || name === '') return timestampColumn(plan)
  const column = findColumn(plan, name)
  if (column === undefined) return { badRequest: `timeRange.timestamp: there is no column ${quoted(name)}` }
  if (column.type === 'TIMESTAMP' || column.type === 'DATE') return column
  return { badRequest: `timeRange.timestamp: ${quoted(name)} is neither TIMESTAMP nor DATE` }
}

function bound(side: 'start' | 'stop', text: string | null | undefined): bigint | null | BadQuery {
  if (text === null || text === undefined) return null
  const us = parseInstant(text)
  if (us === undefined) return { badRequest: `timeRange.${side}: ${quoted(text)} is not a time` }
  return us === ZERO_TIME_US ? null : us
}

/** A DATE is its midnight: midnight(d) >= x is d >= ceil(x in days), and the same with `<`. */
function side(column: QueryColumn, operator: '>=' | '<', us: bigint, binder: Binder): string {
  const left = quoteName(column.name)
  if (column.type !== 'DATE')
    return `${left} ${operator} ${binder.bind({ type: 'TIMESTAMP', value: String(us) })}`
  return `${left} ${operator} ${binder.bind({ type: 'DATE', value: String(ceilDays(us)) })}`
}

function ceilDays(us: bigint): bigint {
  const days = us / DAY_US
  return us > 0n && us % DAY_US !== 0n ? days + 1n : days
}
