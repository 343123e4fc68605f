/**
 * `npm run fuzz -- kernel [seed] [minutes]`: the native kernel against the TypeScript one, until
 * the time is over or they differ. Prints the seed that makes the case again; exit 1 on a
 * difference.
 */
import type { MakeKernel } from '../../src/parse/kernel.ts'
import { makeJsKernel } from '../../src/parse/kernel-js.ts'
import { tryNativeKernel } from '../../src/parse/kernel-native.ts'
import { monotonicMs } from '../../src/util/clock.ts'
import { say, warn } from '../../src/util/say.ts'
import { compareKernels, describeMismatch } from './differential.ts'

const CASES_A_TURN = 1000

/** Runs for `minutes` from `seed` on; returns the exit code. */
function fuzzKernel(native: MakeKernel, seed: number, minutes: number): number {
  const end = monotonicMs() + 60_000 * minutes
  let next = seed
  while (monotonicMs() < end) {
    const result = compareKernels(makeJsKernel, native, next, CASES_A_TURN)
    if (result.mismatch !== null) {
      warn(describeMismatch(result.mismatch))
      return 1
    }
    say(
      `seeds ${next} to ${next + result.cases - 1}: ${result.requests} requests agree, ` +
        `${result.accepted} rows, ${result.refused} refused, ${result.undecided} undecided`,
    )
    next += result.cases
  }
  return 0
}

async function main(words: readonly string[]): Promise<number> {
  const [what, seedText, minutesText] = words
  const seed = Number(seedText ?? Math.floor(Math.random() * 2 ** 31))
  const minutes = Number(minutesText ?? 1)
  if (what !== 'kernel' || !Number.isInteger(seed) || !(minutes > 0)) {
    warn('usage: npm run fuzz -- kernel [seed] [minutes]')
    return 2
  }
  const native = tryNativeKernel()
  if (native === undefined) {
    warn('there is no native kernel in this build')
    return 2
  }
  return fuzzKernel(native, seed, minutes)
}

process.exitCode = await main(process.argv.slice(2))
