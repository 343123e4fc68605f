import { afterAll, expect, test } from 'vitest'
import { below, newSeed } from '../util/random.ts'
import { removeLeftovers } from '../util/server.ts'
import { CutOverRounds, POINTS } from './cut-over-rounds.ts'

afterAll(removeLeftovers)

const CUT_OVERS = 60
const seed = newSeed()

test(`${CUT_OVERS} random cut-overs with kills leave no mixed row (seed ${seed})`, async () => {
  const rounds = await CutOverRounds.begin(seed, CUT_OVERS)
  for (let round = 0; round < CUT_OVERS; round++) {
    const choice = below(rounds.random, 10)
    const point = POINTS[below(rounds.random, POINTS.length)]!
    await rounds.cutOver(choice < 4 ? 'none' : choice < 7 ? 'moment' : choice < 8 ? 'stop' : point)
  }
  await rounds.finish()
  expect(rounds.kills).toBeGreaterThan(10)
  const { acknowledged } = rounds.load
  process.stdout.write(
    `${CUT_OVERS} cut-overs, ${rounds.kills} with a kill or a stop, ${acknowledged} acknowledged requests\n`,
  )
}, 1_800_000)
