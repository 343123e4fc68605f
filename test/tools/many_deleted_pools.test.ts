/** A folder keeps a record of every deleted pool; their number has no limit. */
import { expect, test } from 'vitest'
import { highestFlushed } from '../../src/log/read-log.ts'

/** More than a call can take arguments. */
const POOLS = 1_000_000

test('the last flushed sequence is found among a million deleted pools', () => {
  const flushed = new Map(Array.from({ length: POOLS }, (_, number) => [number, -1]))
  expect(highestFlushed(flushed)).toBe(0)
  flushed.set(POOLS / 2, 7)
  expect(highestFlushed(flushed)).toBe(7)
})
