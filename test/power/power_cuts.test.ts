import { expect, test } from 'vitest'
import { say } from '../../src/util/say.ts'
import { newSeed } from '../util/random.ts'
import { STATE_FOLDER } from './main.ts'
import { PowerCuts } from './power-cuts.ts'

const seed = newSeed()
const STATES = 250
/** Servers are started until there are so many states around each of these. */
const LEAST = 3
const KINDS = ['compaction commits', 'rewrites of jobs', 'catalog changes', 'log recycling']
const STATES_MAX = 4 * STATES

test(`nothing acknowledged is lost in ${STATES} states after power cuts (seed ${seed})`, async () => {
  const run = new PowerCuts(seed, STATE_FOLDER)
  try {
    await run.run(STATES)
    const isThin = () => KINDS.some(kind => (run.tally.around.get(kind) ?? 0) < LEAST)
    while (isThin() && run.tally.states < STATES_MAX) await run.run(run.tally.states + 1)
  } catch (error) {
    throw new Error(`seed ${seed}, states kept in ${run.folder}\n${(error as Error).stack}`)
  }
  const { at: _, around, ...counts } = run.tally
  say(`power cuts, seed ${seed}: ${JSON.stringify({ ...counts, ...Object.fromEntries(around) })}`)
  expect(counts.states).toBeGreaterThanOrEqual(STATES)
  expect(counts.rebuilt).toBeGreaterThan(10)
  for (const kind of KINDS) expect(around.get(kind), kind).toBeGreaterThanOrEqual(LEAST)
  run.end()
}, 300_000)
