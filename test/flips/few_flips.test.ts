/** A few flips; `npm run crash -- flips` makes many, over all kinds of files. */
import { expect, test, vi } from 'vitest'
import { say } from '../../src/util/say.ts'
import { newSeed, someOf } from '../util/random.ts'
import { Flips, tableOf } from './flips.ts'

// Each trial runs several processes, one after the other.
vi.setConfig({ testTimeout: 600_000 })

test('a flipped bit in files of pools, in the log and in the catalog is detected or harmless', async () => {
  const seed = newSeed()
  say(`seed ${seed}`)
  const flips = await new Flips(seed).open()
  await flips.flip(process.env['WEIR_TEST_LONG'] === '1' ? 12 : 4, undefined, 'pool')
  // Each is a trial of its own. CI takes one of the two.
  for (const kind of someOf(['log', 'catalog'] as const, 1, seed)) await flips.flip(1, undefined, kind)
  expect(flips.run.failures, `seed ${seed}\n${tableOf(flips.run).join('\n')}`).toEqual([])
})
