/** Random numbers from a seed, so that a failing test can be run again. */

export type Random = () => number

/** Numbers in [0, 1); the same for the same seed (mulberry32). */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000
  }
}

/** An integer in [0, below). */
export function below(random: Random, limit: number): number {
  return Math.floor(random() * limit)
}

/** A function that returns integers in [0, limit); the same for the same seed. */
export function integersFrom(seed: number): (limit: number) => number {
  const random = randomFrom(seed)
  return limit => below(random, limit)
}

/**
 * How often tests of random sequences repeat them: WEIR_TEST_RUNS, or 2. Sanitizers take 1, because
 * everything takes them several times as long.
 */
export const TEST_RUNS = Number(process.env['WEIR_TEST_RUNS'] ?? 2)

/**
 * The number of random cases: `more` in the long run and where WEIR_TEST_RUNS is set. `npm test`
 * takes a part of them, each time others, because their seeds are random.
 */
export function casesOf(few: number, more: number): number {
  const isLong = process.env['WEIR_TEST_LONG'] === '1' || process.env['WEIR_TEST_RUNS'] !== undefined
  return isLong ? more : few
}

/**
 * `few` of all cases, in their order: `npm test` takes others each time. The long run takes all, as
 * `casesOf` says.
 */
export function someOf<T>(all: readonly T[], few: number, seed: number): T[] {
  const integer = integersFrom(seed)
  const left = [...all]
  while (left.length > casesOf(few, all.length)) left.splice(integer(left.length), 1)
  return left
}

/** The random cases of a test: at least `least`, and up to `most` while `seconds` are not over. */
interface Budget {
  readonly what: string
  readonly seed: number
  readonly seconds: number
  readonly least: number
  readonly most: number
}

/**
 * Runs random cases, and prints their number and seed. The long run takes `most`, whatever time it
 * takes, and so does a run of a given seed, which must reach the case that failed.
 * @param one gets 0, 1, 2 and so on
 */
export async function casesWithin(
  { what, seed, seconds, least, most }: Budget,
  one: (index: number) => Promise<unknown>,
): Promise<number> {
  const end = performance.now() + seconds * 1000
  const enough = process.env['WEIR_TEST_SEED'] === undefined ? casesOf(least, most) : most
  let count = 0
  while (count < most && (count < enough || performance.now() < end)) await one(count++)
  process.stdout.write(`${what}: ${count} cases of at most ${most}, seed ${seed}\n`)
  return count
}

/** A new seed, or that of WEIR_TEST_SEED. Tests print it. */
export function newSeed(): number {
  return Number(process.env['WEIR_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
}
