/** The segments that a job reserves hold all acknowledged rows, and no flush replaces one. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Pools, type PoolsOptions } from '../../src/database/pools.ts'

const POOL = 1
let pools: Pools

beforeEach(() => {
  const options = {
    config: { crashAt: '', scrubBeginMs: 1, compactTickMs: 1, retentionDaysAhead: 0, stalenessMs: 0 },
    paths: { segment: 'segments' },
    catalog: { poolByNumber: (number: number) => ({ number, id: 'pool' }) },
    index: { opened: { pools: [], lastCommit: 0 }, index: {} },
    kernel: 'js',
    onFatal: (error: Error) => {
      throw error
    },
  }
  pools = new Pools(options as unknown as PoolsOptions)
})
afterEach(async () => {
  await pools.stop(1_000)
  vi.restoreAllMocks()
})

test('a job waits for the flush that replaces a segment, and reserves what it wrote', async () => {
  const reserve = vi.spyOn(pools.compaction, 'reserve')
  const flush = vi.spyOn(pools.flusher, 'flushNow')
  const forget = vi.spyOn(pools.flusher, 'forgetRecent')
  vi.spyOn(pools.flusher, 'replaceableSegments')
    .mockReturnValueOnce(new Set([1]))
    .mockReturnValueOnce(new Set([1]))
    .mockReturnValue(new Set())
  const below = await pools.reserveSegments(POOL)
  expect([flush.mock.calls, forget.mock.calls]).toEqual([
    [[POOL], [POOL], [POOL]],
    [[POOL], [POOL], [POOL]],
  ])
  expect(reserve.mock.calls).toEqual([
    [POOL, Number.POSITIVE_INFINITY],
    [POOL, below],
  ])
  expect(pools.flusher.takeSegmentNumber(POOL)).toBeGreaterThan(below)
})

test('a job tries again later where flushes replace segments without a pause', async () => {
  vi.spyOn(pools.flusher, 'replaceableSegments').mockReturnValue(new Set([1]))
  await expect(pools.reserveSegments(POOL)).rejects.toMatchObject({ code: 'flushes_overlap' })
})

test('after a start the same segments are reserved, and later ones have higher numbers', () => {
  const reserve = vi.spyOn(pools.compaction, 'reserve')
  pools.reserveAgain(POOL, 7)
  expect(reserve.mock.calls).toEqual([[POOL, 7]])
  expect(pools.flusher.takeSegmentNumber(POOL)).toBe(7)
})
