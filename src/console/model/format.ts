/** Numbers, sizes and times as people of the reader's locale write them. */

const whole = new Intl.NumberFormat()
const short = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })
const one = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 })

/** A count with separators. Counts of GraphQL are texts, because they may pass 2^53. */
export function count(value: number | string | null): string {
  if (value === null) return '–'
  return typeof value === 'string' && value.length > 15 ? whole.format(BigInt(value)) : whole.format(+value)
}

export function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0)
}

export function shortCount(value: number | string): string {
  return short.format(+value)
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']

export function bytes(value: number): string {
  const step = value < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(value) / 3))
  return `${one.format(value / 1000 ** step)} ${UNITS[step]}`
}

export function percent(part: number): string {
  return new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 0 }).format(part)
}

export function decimal(value: number): string {
  return one.format(value)
}

const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const second = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' })
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })

/** In the reader's zone. Returns the text unchanged where it is no time of the years 1 to 9999. */
export function localTime(iso: string): string {
  const date = dateOf(iso)
  return date === undefined ? iso : local.format(date)
}

/** As short as a span of so many seconds allows: seconds, minutes or days. */
export function localTick(ms: number, spanSeconds: number): string {
  if (spanSeconds < 900) return second.format(ms)
  return spanSeconds < 172_800 ? clock.format(ms) : day.format(ms)
}

export function utcTime(iso: string): string {
  const date = dateOf(iso)
  return date === undefined ? iso : `${date.toISOString().replace('T', ' ').slice(0, 19)} UTC`
}

/** Fields of the browser have times of these years. */
const YEARS = { first: 1970, last: 9999 }

/** As a field of the browser has it: the reader's zone, whole seconds. "" where it is no time. */
export function localInput(iso: string): string {
  const date = dateOf(iso)
  if (date === undefined || !isOfYears(date)) return ''
  const two = (number: number) => String(number).padStart(2, '0')
  const [month, day] = [date.getMonth() + 1, date.getDate()]
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')
  return `${date.getFullYear()}-${two(month)}-${two(day)}T${clock}`
}

/** The time of such a field, ISO 8601 in UTC; "" for an empty one, undefined where it is none. */
export function isoOf(localText: string): string | undefined {
  if (localText === '') return ''
  const date = new Date(localText)
  return Number.isNaN(date.getTime()) || !isOfYears(date) ? undefined : date.toISOString()
}

function isOfYears(date: Date): boolean {
  return date.getFullYear() >= YEARS.first && date.getFullYear() <= YEARS.last
}

function dateOf(iso: string): Date | undefined {
  // Weir prints "2026-11-26 08:00:00.000000" for a TIMESTAMP, which is UTC.
  const utc = /[zZ]|[+-]\d\d:?\d\d$/.test(iso) ? iso : `${iso.replace(' ', 'T')}Z`
  const date = new Date(utc)
  return Number.isNaN(date.getTime()) ? undefined : date
}

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })
const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
]

/** Such as "2 minutes ago". */
export function ago(iso: string, nowMs = Date.now()): string {
  const date = dateOf(iso)
  if (date === undefined) return iso
  const seconds = Math.round((date.getTime() - nowMs) / 1000)
  const [unit, size] = STEPS.find(([, step]) => Math.abs(seconds) >= step) ?? STEPS.at(-1)!
  return relative.format(Math.trunc(seconds / size), unit)
}

/** Such as "3 columns". */
export function plural(number: number, singular: string, many = `${singular}s`): string {
  return `${count(number)} ${number === 1 ? singular : many}`
}
