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
  const total = new Map<string, number>()
  const at = new Map<string, number>()
  const around = new Map<string, number>()
  for (let part = 0; (total.get('states') ?? 0) < wanted; part++) {
    const states = total.get('states') ?? 0
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
    const { at: ats, around: arounds, ...counts } = run.tally
    addAll(total, Object.entries(counts))
    addAll(at, ats)
    addAll(around, arounds)
    say([...total].map(([what, count]) => `${count} ${what}`).join(', '))
  }
  for (const [what, count] of [...at].sort()) say(`${String(count).padStart(6)}  before ${what}`)
  for (const [what, count] of [...around].sort()) say(`${String(count).padStart(6)}  around ${what}`)
  say(`${total.get('states')} states after power cuts, nothing lost, nothing undone, nothing invented`)
}

function addAll(into: Map<string, number>, counts: Iterable<readonly [string, number]>): void {
  for (const [what, count] of counts) into.set(what, (into.get(what) ?? 0) + count)
}
