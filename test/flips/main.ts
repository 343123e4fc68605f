/**
 * `npm run crash -- flips [flips] [seed] [kind]`: single-bit flips over all kinds of files, or over
 * one (pool, log, index, catalog, backup).
 */
import { say } from '../../src/util/say.ts'
import { Flips, tableOf } from './flips.ts'

const FLIPS_DEFAULT = 1000

/** @param given the arguments after `flips` */
export async function runFlips(given: readonly string[]): Promise<void> {
  const wanted = Number(given[0] ?? FLIPS_DEFAULT)
  const seed = Number(given[1] ?? Date.now() % 2 ** 31)
  say(`seed ${seed}, ${wanted} flips`)
  const flips = await new Flips(seed).open()
  let told = 0
  const tell = (made: number) => {
    if (made - told < 25) return
    told = made
    say(`${made} flips, ${flips.run.failures.length} failures`)
  }
  const { failures, unpromised } = await flips.flip(wanted, tell, given[2])
  for (const line of [...failures, ...unpromised]) say(line)
  for (const line of tableOf(flips.run)) say(line)
  if (failures.length > 0) process.exitCode = 1
}
