/**
 * The clock of a time zone: its offsets from UTC and the instants at which they change.
 *
 * Temporal finds a change in some tenths of a millisecond, and a zone may have hundreds. So a zone
 * is loaded once, in pieces between which other work gets its turn (W-11), and stays in memory:
 * there are some 600 zones with up to 30 kilobytes each.
 */
import type { Temporal } from 'temporal-polyfill'
import { assert, must } from '../../util/errors.ts'
import type { Step } from '../expression/time-key.ts'

/** Time zones in memory: IANA has some 600 names. */
const ZONES_MAX = 1_000
/** Changes of a zone's clock until 2100. The most are some 370. */
const ZONE_CHANGES_MAX = 1_000

export interface ZoneClock {
  /** Milliseconds to add to an instant for what the clock shows, in the order of time. */
  readonly offsets: readonly Step[]
  /** The offsets hold before this instant; Infinity: the last one holds for ever. */
  readonly endMs: number
}

/** The first change of any zone is on 31 December 1844. */
const FIRST_MS = Date.UTC(1840, 0, 1)
/** No law says how clocks change so long ahead. */
const END_MS = Date.UTC(2100, 0, 1)
const NS_PER_MS = 1_000_000
const DAY_MS = 86_400_000

/** By name in lower case, as zones are known in any case. */
const clocks = new Map<string, ZoneClock>()
/** Zones of which not all changes are read yet. All who wait for one read on. */
const begun = new Map<string, { at: Temporal.ZonedDateTime; readonly offsets: Step[] }>()

let loaded: typeof Temporal | undefined

/** Loads Temporal, once, for `loadedTemporal`. At the start it would take 30 ms. */
export async function loadTemporal(): Promise<typeof Temporal> {
  loaded ??= (await import('temporal-polyfill')).Temporal
  return loaded
}

/** Temporal, which `loadTemporal` has loaded. */
export function loadedTemporal(): typeof Temporal {
  return must(loaded, 'the calendar')
}

/** Runs a piece of work when it is its turn on the main thread. */
type InTurn = <T>(work: () => T) => Promise<T>

/** IANA's names of three letters. Intl knows others, such as IST, whose meaning is not one zone. */
const SHORT_NAMES = 'CET EET EST GMT HST MET MST PRC ROC ROK UCT UTC WET'.split(' ')

/** Names that Intl knows, in lower case: Intl takes 0.5 ms for each. */
const knownZones = new Set<string>()

/**
 * True for an IANA name, in any case. A newer Intl, and Temporal, accept offsets such as +05:00
 * too, of which there are more than ZONES_MAX.
 */
export function isTimeZone(zone: string): boolean {
  if (!/^[A-Za-z]/.test(zone)) return false
  if (zone.length === 3 && !SHORT_NAMES.includes(zone.toUpperCase())) return false
  const name = zone.toLowerCase()
  if (knownZones.has(name)) return true
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone })
    assert(knownZones.size < ZONES_MAX, 'there are fewer zones than ZONES_MAX')
    knownZones.add(name)
    return true
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

/**
 * The first day, counted from 1970, that begins at an instant or later on the clock of a zone. A
 * day begins where its midnight is, or would be. One that a zone skipped begins with the next one.
 */
export function firstDay(us: bigint, zone: string): bigint {
  const begin = (date: Temporal.PlainDate) => BigInt(date.toZonedDateTime(zone).epochMilliseconds) * 1000n
  const { Instant } = loadedTemporal()
  let date = Instant.fromEpochMilliseconds(Number(us / 1000n))
    .toZonedDateTimeISO(zone)
    .toPlainDate()
  while (begin(date) < us) date = date.add({ days: 1 })
  for (let before = date.subtract({ days: 1 }); begin(before) >= us; before = before.subtract({ days: 1 }))
    date = before
  return BigInt(date.toZonedDateTime('UTC').epochMilliseconds / DAY_MS)
}

/** Loads the clock of a zone for `clockOf`. A name that is no zone has none afterwards. */
export async function loadClock(zone: string, inTurn: InTurn): Promise<void> {
  const name = zone.toLowerCase()
  if (clocks.has(name) || !isTimeZone(zone)) return
  const calendar = await loadTemporal()
  // One by one: the search for a change may take some milliseconds.
  while (!clocks.has(name)) await inTurn(() => readOn(name, calendar))
}

/** The clock of a zone that `loadClock` has loaded; undefined where there is no such zone. */
export function clockOf(zone: string): ZoneClock | undefined {
  return clocks.get(zone.toLowerCase())
}

function readOn(name: string, calendar: typeof Temporal): void {
  // Somebody else may have read the last one meanwhile.
  if (clocks.has(name)) return
  const reading = begun.get(name) ?? beginReading(name, calendar)
  const { at, offsets } = reading
  const next = at.getTimeZoneTransition('next')
  if (next === null || next.epochMilliseconds >= END_MS) {
    clocks.set(name, { offsets, endMs: next === null ? Infinity : END_MS })
    begun.delete(name)
    return
  }
  offsets.push({ fromMs: next.epochMilliseconds, value: offsetMs(next) })
  assert(offsets.length <= ZONE_CHANGES_MAX, 'a zone has at most ZONE_CHANGES_MAX changes')
  reading.at = next
}

function beginReading(name: string, { Instant }: typeof Temporal) {
  const at = Instant.fromEpochMilliseconds(FIRST_MS).toZonedDateTimeISO(name)
  const reading = { at, offsets: [{ fromMs: -Infinity, value: offsetMs(at) }] }
  assert(clocks.size + begun.size < ZONES_MAX, 'there are fewer zones than ZONES_MAX')
  begun.set(name, reading)
  return reading
}

function offsetMs(at: Temporal.ZonedDateTime): number {
  return at.offsetNanoseconds / NS_PER_MS
}

/** The steps with a value other than the one before. */
export function withoutRepeats(steps: readonly Step[]): readonly Step[] {
  return steps.filter((step, index) => index === 0 || step.value !== steps[index - 1]?.value)
}

/** The place of the step that holds at an instant. */
export function stepAt(steps: readonly Step[], ms: number): number {
  let [low, high] = [0, steps.length - 1]
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (must(steps[middle], 'a step').fromMs <= ms) low = middle
    else high = middle - 1
  }
  return low
}

export function valueAt(steps: readonly Step[], ms: number): number {
  return must(steps[stepAt(steps, ms)], 'a step').value
}

/** The steps that hold from one instant to another, the first of them without a begin. */
export function stepsBetween(
  steps: readonly Step[],
  fromMs: number,
  toMs: number,
): readonly [Step, ...Step[]] {
  const later = steps.filter(step => step.fromMs > fromMs && step.fromMs < toMs)
  return [{ fromMs: -Infinity, value: valueAt(steps, fromMs) }, ...later]
}
