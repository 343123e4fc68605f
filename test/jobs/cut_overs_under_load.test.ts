import { afterAll, expect, test } from 'vitest'
import { casesOf, newSeed } from '../util/random.ts'
import { removeLeftovers } from '../util/server.ts'
import { CutOverRounds, POINTS } from './cut-over-rounds.ts'

afterAll(removeLeftovers)

const seed = newSeed()

test(`each event is parsed with the schema of its sequence, through kills (seed ${seed})`, async () => {
  // In the long run some come again.
  const again = casesOf(0, 3)
  const kills = [
    'none',
    'moment',
    'stop',
    ...POINTS,
    ...(['stop', 'moment', 'none'] as const).slice(0, again),
  ] as const
  const rounds = await CutOverRounds.begin(seed, kills.length)
  for (const kill of kills) await rounds.cutOver(kill)
  const cutOvers = await rounds.finish()
  expect([...cutOvers].sort((a, b) => a - b)).toEqual(cutOvers)
})
