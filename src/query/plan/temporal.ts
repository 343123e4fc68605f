/** Temporal, the calendar of all time zones: loaded when the first question needs it. */
import type { Temporal } from 'temporal-polyfill'
import { must } from '../../util/assert.ts'

let loaded: typeof Temporal | undefined

/**
 * Loads the calendar, once. Await this before `loadedTemporal`. It is not loaded at the start, of
 * which it would take 30 ms.
 */
export async function loadCalendar(): Promise<void> {
  await temporal()
}

/** The calendar, loaded. */
export async function temporal(): Promise<typeof Temporal> {
  loaded ??= (await import('temporal-polyfill')).Temporal
  return loaded
}

/** The calendar, which `loadCalendar` has loaded. */
export function loadedTemporal(): typeof Temporal {
  return must(loaded, 'the calendar')
}
