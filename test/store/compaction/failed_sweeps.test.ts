/** Lines about a sweep after which merges do not run: somebody must look at them. */
import { expect, test } from 'vitest'
import { sweepThenCompact } from '../../../src/database/compaction.ts'
import { recordLog } from '../../util/log-lines.ts'

type Parameter<N extends number> = Parameters<typeof sweepThenCompact>[N]

/** Sweeps the folder of one pool. Returns what the sweep did to compaction, and its lines. */
async function sweep(swept: () => Promise<unknown>) {
  const lines = recordLog()
  const done: string[] = []
  const pool = { id: 'P', number: 1 }
  const catalog = { pools: () => [pool], pool: () => pool, poolByNumber: () => pool }
  const compaction = {
    isStopping: () => false,
    neverStarts: () => done.push('never starts'),
    start: () => done.push('starts'),
  }
  const pools = { compaction, leaveAlone: (number: number) => done.push(`leaves ${number} alone`) }
  await sweepThenCompact(
    catalog as unknown as Parameter<0>,
    { opened: { pools: [] }, index: { sweep: swept } } as unknown as Parameter<1>,
    pools as unknown as Parameter<2>,
  )
  return { done, lines: lines.map(({ level, message }) => [level, message]) }
}

test('a sweep that fails: no merge until the next start', async () => {
  const { done, lines } = await sweep(() => Promise.reject(new Error('EIO')))
  expect(done).toEqual(['never starts'])
  expect(lines).toEqual([['error', expect.stringMatching(/^the sweep of old files failed; .*: EIO$/)]])
})

test('missing files beside unnamed ones: the pool is not merged', async () => {
  const found = { removed: [], missing: ['/s/P/2'], keptOrphans: ['/s/P/1'], poolsWithOrphans: [] }
  const { done, lines } = await sweep(async () => found)
  expect(done).toEqual(['leaves 1 alone', 'starts'])
  expect(lines).toEqual([
    ['error', expect.stringMatching(/^segment .s.P.2 is missing/)],
    ['warn', expect.stringMatching(/^.s.P.1 is named by no segment list/)],
    ['error', 'pool P is not compacted: stop Weir and run "weir repair"'],
  ])
})
