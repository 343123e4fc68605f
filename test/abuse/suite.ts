/**
 * Makes a test of each attack over each HTTP library, with the limits that a well-behaved producer
 * relies on.
 */
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import type { Attack } from './attack.ts'
import { choosing, frontEndsOf, runAttack } from './run.ts'

/** No ack of the producer is later during an attack, on a machine that is otherwise idle. */
const ACK_MS_MAX = 1_000
/**
 * On a loaded machine acks are late without an attack too. During one they are at most this many
 * times as late.
 */
const CALM_FACTOR = 10
const GROWTH_MIB_MAX = 200
const MAIN = fileURLToPath(new URL('../../src/app/main.js', import.meta.url))

/**
 * One test for each attack, over the HTTP library that a server would choose; in `npm
 * run test:long` one for each library.
 */
export function abuse(attacks: readonly Attack[]): void {
  const frontEnds = frontEndsOf(MAIN)
  const tested = process.env['WEIR_TEST_LONG'] === '1' ? frontEnds : frontEnds.slice(0, 1)
  describe.each(tested)('over %s', frontEnd => {
    test.each(attacks)('$name', async attack => {
      const outcome = await runAttack(attack, { args: choosing(frontEnd, frontEnds) })
      const { worstMs, calmMs, growthMiB, ...rest } = outcome
      expect(rest, JSON.stringify(outcome)).toMatchObject({ failed: {}, probesFailed: [], ended: undefined })
      expect(outcome.requests).toBeGreaterThan(0)
      expect(growthMiB, JSON.stringify(outcome)).toBeLessThan(GROWTH_MIB_MAX)
      expect(worstMs, JSON.stringify(outcome)).toBeLessThan(Math.max(ACK_MS_MAX, CALM_FACTOR * calmMs))
    })
  })
}
