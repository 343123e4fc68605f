import { afterEach, expect, test, vi } from 'vitest'
import { RisingClock } from '../../src/util/clock.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** Values of a clock while the wall clock shows each of `atMs`. */
function valuesAt(clock: RisingClock, ...atMs: number[]): number[] {
  const now = vi.spyOn(Date, 'now')
  return atMs.map(ms => {
    now.mockReturnValue(ms)
    return clock.next()
  })
}

test('it shows the wall clock, and one microsecond more where that stands or goes back', () => {
  const clock = new RisingClock()
  expect(valuesAt(clock, 5, 5, 6, 3, 6, 7)).toEqual([5000, 5001, 6000, 6001, 6002, 7000])
})

test('more than 1,000 values a millisecond run ahead until the wall clock is there', () => {
  const clock = new RisingClock()
  const burst = valuesAt(clock, ...Array.from({ length: 2500 }, () => 5))
  expect([burst[0], burst.at(-1)]).toEqual([5000, 7499])
  expect(valuesAt(clock, 6, 7, 8)).toEqual([7500, 7501, 8000])
})

test('it begins above what it is raised to, and is never lowered', () => {
  const clock = new RisingClock()
  clock.raise(9_000_000)
  clock.raise(1)
  expect(valuesAt(clock, 5, 9_500)).toEqual([9_000_001, 9_500_000])
})

test('it rises by whole microseconds where the wall clock is beyond what a number can count', () => {
  const clock = new RisingClock()
  const [first, second] = valuesAt(clock, 8.64e15, 8.64e15) as [number, number]
  expect([second - first, Number.isSafeInteger(second)]).toEqual([1, true])
})
