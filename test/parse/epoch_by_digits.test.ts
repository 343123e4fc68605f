/**
 * Epoch numbers with a fraction or an exponent against exact arithmetic. The native kernel is held
 * against this one by test/fuzz.
 */
import { expect, test } from 'vitest'
import { TimeReader } from '../../src/parse/timestamp.ts'
import { below, randomFrom } from '../util/random.ts'

const SEED = Date.now() >>> 0
const CASES = 20_000
/** The most decimal places of a literal in this test. */
const PLACES = 60

/** Digits with many zeros, fives and nines, which are where rounding goes wrong. */
function digits(random: () => number, count: number): string {
  return Array.from({ length: count }, () => '0123456789000555999'[below(random, 19)]).join('')
}

/**
 * The microseconds that docs/contract.md gives to a number, cut or rounded. It is undefined for a
 * number outside of the years 0001 to 9999.
 */
function exactMicros(
  cuts: boolean,
  negative: boolean,
  whole: string,
  fraction: string,
  exponent: number,
): bigint | undefined {
  const size = BigInt(whole + fraction) * 10n ** BigInt(PLACES + exponent - fraction.length)
  const isBelow = (order: number) => size < 10n ** BigInt(order + PLACES)
  const unit = isBelow(11) ? 6 : isBelow(14) ? 3 : isBelow(17) ? 0 : -3
  const signed = (negative ? -size : size) * 10n ** BigInt(6 + unit)
  const unitSize = 10n ** BigInt(PLACES + 6)
  const [twice, divisor] = [2n * signed + (cuts ? 0n : unitSize), 2n * unitSize]
  const micros = twice / divisor - (twice % divisor < 0n ? 1n : 0n)
  return micros >= -62_135_596_800_000_000n && micros < 253_402_300_800_000_000n ? micros : undefined
}

test(`${CASES} numbers are the microseconds that their digits say, seed ${SEED}`, () => {
  const random = randomFrom(SEED)
  const reader = new TimeReader()
  for (let n = 0; n < CASES; n++) {
    const [cuts, negative] = [random() < 0.5, random() < 0.5]
    const whole = digits(random, 1 + below(random, 22)).replace(/^0+(?=[0-9])/, '')
    const fraction = digits(random, below(random, 12))
    const exponent = below(random, 3) > 0 ? 0 : below(random, 30) - 15
    const literal = `${negative ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}e${exponent}`
    const isTime = reader.epoch(Buffer.from(literal), 0, literal.length, true, cuts)
    const micros = isTime ? 1_000_000n * BigInt(reader.seconds) + BigInt(reader.micros) : undefined
    const exact = exactMicros(cuts, negative, whole, fraction, exponent)
    if (micros !== exact) expect([cuts, literal, micros]).toEqual([cuts, literal, exact])
  }
})
