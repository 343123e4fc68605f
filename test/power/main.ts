/** `npm run crash -- power [states] [seed]`: power cuts until so many states were tried. */
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { say, warn } from '../../src/util/say.ts'
import { PowerCuts } from './power-cuts.ts'

const STATES_DEFAULT = 10_000
/**
 * Then a new folder begins, so that the power goes during first starts too and the number of rows
 * stays small.
 */
const STATES_PER_FOLDER = 2_000

/** The folder in which states become files: in memory, where there is such a folder. */
export const STATE_FOLDER = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

/** @param given the arguments after `power` */
export async function runPowerCuts(given: readonly string[]): Promise<void> {
  const wanted = Number(given[0] ?? STATES_DEFAULT)
  const seed = Number(given[1] ?? Date.now() % 2 ** 31)
  say(`seed ${seed}, ${wanted} states`)
  const at = new Map<string, number>()
  let [states, starts, requests, merges, rebuilt, doubted] = [0, 0, 0, 0, 0, 0]
  for (let part = 0; states < wanted; part++) {
    const run = new PowerCuts(seed + part, STATE_FOLDER)
    try {
      await run.run(Math.min(STATES_PER_FOLDER, wanted - states))
    } catch (error) {
      warn(
        `seed ${seed + part}, after ${states + run.tally.states} states; the last one is kept: ${run.folder}`,
      )
      throw error
    }
    run.end()
    states += run.tally.states
    starts += run.tally.starts
    requests += run.tally.requests
    merges += run.tally.merges
    rebuilt += run.tally.rebuilt
    doubted += run.tally.doubted
    for (const [what, count] of run.tally.at) at.set(what, (at.get(what) ?? 0) + count)
    say(
      `${states} states of ${starts} starts, ${requests} requests, ${merges} merges, ${rebuilt} with the index removed, ${doubted} delete files in doubt`,
    )
  }
  for (const [what, count] of [...at].sort()) say(`${String(count).padStart(6)}  before ${what}`)
  say(`${states} states after power cuts, nothing lost, nothing undone, nothing invented`)
}
