import { expect, test } from 'vitest'
import { say } from '../../src/util/say.ts'
import { casesWithin, newSeed } from '../util/random.ts'
import { STATE_FOLDER } from './main.ts'
import { PowerCuts } from './power-cuts.ts'

const seed = newSeed()
const STATES = { what: 'states after power cuts', seed, seconds: 6, least: 100, most: 250 }
/** Servers are started until there are so many states around each of these. */
const LEAST = 3
const KINDS = ['compaction commits', 'rewrites of jobs', 'catalog changes', 'log recycling']
const STATES_MAX = 1_000

test(`nothing acknowledged is lost in ${STATES.least} to ${STATES.most} states after power cuts (seed ${seed})`, async () => {
  const run = new PowerCuts(seed, STATE_FOLDER)
  try {
    // The states of one server come together.
    await casesWithin(STATES, index => run.run(index + 1))
    const isThin = () => KINDS.some(kind => (run.tally.around.get(kind) ?? 0) < LEAST)
    while (isThin() && run.tally.states < STATES_MAX) await run.run(run.tally.states + 1)
  } catch (error) {
    throw new Error(`seed ${seed}, states kept in ${run.folder}\n${(error as Error).stack}`)
  }
  const { at: _, around, ...counts } = run.tally
  say(`power cuts, seed ${seed}: ${JSON.stringify({ ...counts, ...Object.fromEntries(around) })}`)
  expect(counts.states).toBeGreaterThanOrEqual(STATES.least)
  expect(counts.rebuilt).toBeGreaterThan(counts.states / 25)
  for (const kind of KINDS) expect(around.get(kind), kind).toBeGreaterThanOrEqual(LEAST)
  run.end()
}, 300_000)
