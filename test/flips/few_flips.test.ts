/** A few flips over each kind of file; `npm run crash -- flips` makes many. */
import { expect, test } from 'vitest'
import { newSeed } from '../util/random.ts'
import { Flips, tableOf } from './flips.ts'

test('a flipped bit in any kind of file is detected or harmless', async () => {
  const seed = newSeed()
  const flips = await new Flips(seed).open()
  const { failures } = await flips.flip(20)
  expect(failures, `seed ${seed}\n${tableOf(flips.run).join('\n')}`).toEqual([])
})
