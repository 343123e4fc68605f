import { expect, test } from 'vitest'
import { say } from '../../src/util/say.ts'
import { STATE_FOLDER } from './main.ts'
import { PowerCuts } from './power-cuts.ts'

const seed = Number(process.env['WEIR_TEST_SEED'] ?? Date.now() % 2 ** 31)
const STATES = 250
/**
 * A server makes two merges on average, and some make none. Servers are started until so many were
 * made.
 */
const MERGES = 6
const STATES_MAX = 4 * STATES

test(`nothing acknowledged is lost in ${STATES} states after power cuts (seed ${seed})`, async () => {
  const run = new PowerCuts(seed, STATE_FOLDER)
  try {
    await run.run(STATES)
    while (run.tally.merges < MERGES && run.tally.states < STATES_MAX) await run.run(run.tally.states + 1)
  } catch (error) {
    throw new Error(`seed ${seed}, states kept in ${run.folder}\n${(error as Error).stack}`)
  }
  const { starts, requests, merges, states, rebuilt } = run.tally
  say(
    `power cuts, seed ${seed}: ${states} states of ${starts} starts, ${requests} requests, ${merges} merges, ${rebuilt} rebuilt`,
  )
  expect(states).toBeGreaterThanOrEqual(STATES)
  expect(rebuilt).toBeGreaterThan(10)
  expect(merges).toBeGreaterThanOrEqual(MERGES)
  run.end()
}, 300_000)
