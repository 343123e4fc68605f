/** When the scheduler merges what, and what it does when something fails. */
import { beforeEach, describe, expect, it } from 'vitest'
import { SegmentDamaged, SegmentsDisagree, Unavailable } from '../../src/errors.ts'
import {
  COMPACT_LOOK_MS_MAX,
  COMPACT_LOOKS_PER_TICK,
  COMPACT_QUIET_TICKS,
  COMPACT_SLOW_SEGMENTS_MAX,
  COMPACT_TAIL_BYTES_MAX,
  COMPACT_WAIT_MS_MAX,
  SWAP_COST_MS,
  SWAP_ROWS_UNKNOWN,
} from '../../src/limits.ts'
import { AssertionFailed } from '../../src/util/assert.ts'
import { Bench, TICK_MS } from './bench.ts'
import { DAY_US, segment } from './model.ts'

let bench: Bench
beforeEach(() => {
  bench = new Bench()
})

/** `count` segments of a pool that are worth one merge, numbered from `from` on. */
const small = (from = 1, count = 4) => Array.from({ length: count }, (_, i) => segment(from + i, 5000))

describe('merges', () => {
  it('join what there is at start, one after the other, and then rest', async () => {
    bench.add(1, [
      segment(1, 600_000),
      ...small(2),
      segment(6, 600_000),
      segment(7, 600_000, { marked: 200_000 }),
    ])
    bench.scheduler.start()
    await bench.pass()
    expect(bench.left(1)).toBe('1:600000 1001:20000 6:600000 1000:400000')
    expect(bench.swaps.map(swap => swap.remove)).toEqual([[7], [2, 3, 4, 5]])
    expect(bench.figures.map(one => [one.rowsRead, one.rowsWritten])).toEqual([
      [600_000, 400_000],
      [20_000, 20_000],
    ])
    expect([bench.pins, bench.unlinked, bench.scheduler.stats().debt.bytesToMerge]).toEqual([0, [], 0])
    const { looks } = bench
    await bench.pass(100 * TICK_MS)
    expect([bench.swaps.length, bench.looks]).toEqual([2, looks])
  })

  it('tell the merger of older rows, and of marks as of the pinned state', async () => {
    const older = { timestampFromUs: 3, timestampToUs: 4 }
    bench.add(1, [
      segment(1, 600_000, older),
      segment(2, 0, { deletes: 5 }),
      segment(3, 9000, { marked: 5000 }),
    ])
    bench.scheduler.start()
    await bench.pass()
    const job = bench.jobs[0]
    expect(job?.inputs.map(({ meta, marks }) => [meta.segment, marks.length])).toEqual([
      [2, 0],
      [3, 1],
    ])
    expect([job?.older, job?.expireBeforeUs]).toEqual([[{ fromUs: 3, toUs: 4 }], undefined])
  })

  it('come in turn: no pool waits for all merges of another', async () => {
    for (const pool of [1, 2, 3]) bench.add(pool, [...small(), segment(5, 600_000), ...small(6)])
    bench.scheduler.start()
    await bench.pass()
    expect(bench.swaps.map(swap => swap.pool)).toEqual([1, 2, 3, 1, 2, 3])
  })

  it('cost a look where something happened, and none where nothing did', async () => {
    for (let pool = 1; pool <= 2000; pool++) bench.add(pool, [segment(1, 100)])
    bench.scheduler.start()
    expect(bench.looks).toBe(0)
    await bench.pass()
    expect(bench.looks).toBe(COMPACT_LOOKS_PER_TICK)
    await bench.pass(10 * TICK_MS)
    expect(bench.looks).toBe(2000)
    bench.scheduler.sealed(7)
    bench.scheduler.sealed(7)
    await bench.pass(10 * TICK_MS)
    expect(bench.looks).toBe(2001)
  })

  it('take only so much of a tick: other pools wait for the next', async () => {
    for (let pool = 1; pool <= 30; pool++) bench.add(pool, [segment(1, 100)])
    bench.lookMs = COMPACT_LOOK_MS_MAX / 4
    bench.scheduler.start()
    await bench.pass()
    expect(bench.looks).toBe(4)
    bench.lookMs = 2 * COMPACT_LOOK_MS_MAX
    await bench.pass()
    expect(bench.looks).toBe(5)
    bench.lookMs = 0
    await bench.pass()
    expect(bench.looks).toBe(30)
  })

  it('W-6: keep deletes for what a rebuild would still find, and drop them when it is gone', async () => {
    bench.add(1, [segment(2, 0, { deletes: 5 })])
    bench.emptied = [segment(1, 100, { timestampFromUs: 3, timestampToUs: 4 })]
    bench.scheduler.start()
    await bench.pass(10 * TICK_MS)
    const { looks } = bench
    expect([bench.jobs, looks]).toEqual([[], 1])
    bench.pools.get(1)?.segments.push(...small(3))
    bench.scheduler.sealed(1)
    await bench.pass(TICK_MS)
    expect(bench.jobs.map(job => job.older)).toEqual([[{ fromUs: 3, toUs: 4 }]])
    bench.pools.get(1)!.segments = [segment(2, 0, { deletes: 5 })]
    bench.emptied = []
    bench.scheduler.changed(1)
    await bench.pass(TICK_MS)
    expect([bench.jobs[1]?.older, bench.left(1)]).toEqual([[], ''])
  })

  it('leave pools alone that they are not told of, and their kept rows', async () => {
    bench.add(1, small()).held = new Set([1])
    bench.add(2, small())
    bench.leftAlone.add(1)
    bench.scheduler.start()
    bench.scheduler.sealed(1)
    await bench.pass(2 * COMPACT_QUIET_TICKS * TICK_MS)
    expect([bench.swaps.map(swap => swap.pool), bench.forgotten]).toEqual([[2], []])
  })

  it('leave held segments alone until their pool was quiet, and only then if it is worth it', async () => {
    const pool = bench.add(1, small())
    const idle = bench.add(2, small(1, 3))
    pool.held = new Set([3, 4])
    idle.held = new Set([1])
    bench.scheduler.start()
    bench.scheduler.sealed(1)
    bench.scheduler.sealed(2)
    await bench.pass((COMPACT_QUIET_TICKS - 1) * TICK_MS)
    expect(bench.jobs).toEqual([])
    bench.scheduler.sealed(1)
    await bench.pass((COMPACT_QUIET_TICKS - 1) * TICK_MS)
    expect([bench.jobs, bench.forgotten]).toEqual([[], []])
    await bench.pass(2 * TICK_MS)
    expect([bench.forgotten, bench.left(1)]).toEqual([[1], '1000:20000'])
  })
})

describe('a look and a merge that see different things', () => {
  it('do not follow each other at once: a tick is between them', async () => {
    bench.add(1, [segment(1, 5000, { marked: 4000 })])
    bench.pinsUnmarked = true
    bench.scheduler.start()
    await bench.pass(3 * TICK_MS)
    expect([bench.jobs.length, bench.looks]).toEqual([0, 3])
    bench.pinsUnmarked = false
    await bench.pass(TICK_MS)
    expect(bench.left(1)).toBe('1000:1000')
  })
})

it('a pool that is busy does not hide a quiet one', async () => {
  for (const number of [1, 2]) bench.add(number, small()).held = new Set([1, 2, 3, 4])
  bench.scheduler.start()
  bench.scheduler.sealed(1)
  bench.scheduler.sealed(2)
  await bench.pass(COMPACT_QUIET_TICKS * TICK_MS - TICK_MS)
  bench.scheduler.sealed(1)
  await bench.pass(3 * TICK_MS)
  expect(bench.forgotten).toEqual([2])
})

describe('beside everything else', () => {
  it('the pace follows ingest', async () => {
    bench.isHeld = true
    bench.add(1, small())
    bench.load = { ...bench.load, ingestAgoMs: 100 }
    bench.scheduler.start()
    await bench.pass()
    expect(bench.paces).toEqual(['beside'])
    bench.load = { ...bench.load, ingestAgoMs: 6000 }
    await bench.pass()
    expect(bench.paces).toEqual(['beside', 'alone'])
  })

  it('nothing starts beside a full tail, but for what has waited too long', async () => {
    bench.add(1, small())
    bench.load = { ...bench.load, tailBytes: COMPACT_TAIL_BYTES_MAX + 1 }
    bench.scheduler.start()
    await bench.pass(COMPACT_WAIT_MS_MAX - TICK_MS)
    expect(bench.jobs).toEqual([])
    await bench.pass(2 * TICK_MS)
    expect(bench.jobs.length).toBe(1)
  })

  it('nothing starts while seals wait for the index, but for what has waited too long, or has become too much', async () => {
    bench.add(1, small())
    bench.load = { ...bench.load, ingestAgoMs: 0, sealsAreSlow: true }
    bench.scheduler.start()
    await bench.pass(COMPACT_WAIT_MS_MAX - TICK_MS)
    expect(bench.jobs).toEqual([])
    await bench.pass(2 * TICK_MS)
    expect(bench.jobs.length).toBe(1)
    for (let pool = 2; pool < 2 + COMPACT_SLOW_SEGMENTS_MAX; pool++) {
      bench.add(pool, small())
      bench.scheduler.sealed(pool)
    }
    await bench.pass(COMPACT_WAIT_MS_MAX / 2)
    expect(bench.jobs.length).toBeGreaterThan(1)
  })

  it('merges do not wait for slow seals that nobody sends any more', async () => {
    bench.add(1, small())
    bench.load = { ...bench.load, ingestAgoMs: 6000, sealsAreSlow: true }
    bench.scheduler.start()
    await bench.pass()
    expect(bench.jobs.length).toBe(1)
  })

  it('nothing starts while seals fail or the disk is full', async () => {
    bench.add(1, small())
    bench.load = { ...bench.load, isRefusing: true }
    bench.scheduler.start()
    await bench.pass(2 * COMPACT_WAIT_MS_MAX)
    expect(bench.jobs).toEqual([])
    bench.load = { ...bench.load, isRefusing: false }
    await bench.pass()
    expect(bench.jobs.length).toBe(1)
  })
})

describe('failures', () => {
  it('a damaged segment is left alone, said once, and the rest goes on', async () => {
    bench.isHeld = true
    bench.add(1, [...small(1, 5), ...small(6, 5)])
    bench.add(2, small())
    bench.scheduler.start()
    await bench.pass()
    await bench.end(new SegmentDamaged('/1/0000000005.parquet', 'no magic'))
    expect(bench.warnings).toEqual([
      'segment /1/0000000005.parquet cannot be read: no magic; compaction leaves it alone, queries that need it answer SEGMENT_DAMAGED',
    ])
    bench.isHeld = false
    await bench.end()
    await bench.pass(5 * TICK_MS)
    expect(bench.left(2)).toBe('1000:20000')
    expect(bench.left(1)).toMatch(/^100\d:20000 5:5000 100\d:25000$/)
    expect([bench.failures, bench.warnings.length]).toEqual([1, 1])
    expect(bench.scheduler.stats().debt).toMatchObject({ quarantined: 1, smallSegments: 0 })
    expect(bench.pins).toBe(0)
  })

  it('W-7: where the index does not agree with the segments, they are left alone, and it is said', async () => {
    bench.add(1, [...small(1, 5), segment(6, 600_000), ...small(7, 4)])
    bench.failSwap = new SegmentsDisagree([2, 3], 'of 5 visible rows of segment 2 it has the keys of 4')
    bench.scheduler.start()
    await bench.pass()
    expect(bench.warnings).toEqual([
      'a merge of pool P1 was given up: of 5 visible rows of segment 2 it has the keys of 4; compaction leaves them alone, run "weir verify" on the stopped folder',
    ])
    expect([bench.unlinked, bench.failures, bench.pins]).toEqual([[1000], 1, 0])
    bench.failSwap = undefined
    await bench.pass(5 * TICK_MS)
    expect(bench.left(1)).toBe('1:5000 2:5000 3:5000 4:5000 5:5000 6:600000 1001:20000')
    expect(bench.scheduler.stats().debt).toMatchObject({ quarantined: 2, smallSegments: 0 })
  })

  it('a full disk is tried again after one second, two, … a minute', async () => {
    bench.add(1, small())
    bench.failMerge = new Unavailable('disk_full', 'no space')
    bench.scheduler.start()
    const tries: number[] = []
    for (let second = 0; second < 200; second++) {
      if (bench.jobs.length > tries.length) tries.push(second)
      await bench.pass()
    }
    expect(tries.map((at, i) => at - (tries[i - 1] ?? at))).toEqual([0, 1, 2, 4, 8, 16, 32, 60, 60])
    bench.failMerge = undefined
    await bench.pass(60 * TICK_MS)
    expect(bench.left(1)).toMatch(/^10\d\d:20000$/)
  })

  it('one pool that cannot be merged stops no other', async () => {
    bench.isHeld = true
    bench.add(1, small())
    bench.add(2, small())
    bench.scheduler.start()
    await bench.pass()
    await bench.end(new Error('strange'))
    expect(bench.held?.job.poolId).toBe('P2')
    await bench.end()
    await bench.pass()
    expect(bench.held?.job.poolId).toBe('P1')
  })

  it('W-6: what a failed swap leaves is gone before its pool is merged again', async () => {
    bench.add(1, small())
    bench.failSwap = new Unavailable('index_failed', 'no space')
    bench.failUnlink = new Error('EIO')
    bench.scheduler.start()
    await bench.pass(10 * TICK_MS)
    expect([bench.jobs.length, bench.unlinked, bench.left(1)]).toEqual([1, [], '1:5000 2:5000 3:5000 4:5000'])
    bench.failUnlink = undefined
    bench.failSwap = undefined
    await bench.pass(60 * TICK_MS)
    expect([bench.jobs.length, bench.unlinked, bench.left(1)]).toEqual([2, [1000], '1001:20000'])
    expect(bench.pins).toBe(0)
  })

  it('W-6: a pool that is deleted with such a file left goes on without it', async () => {
    bench.add(1, small())
    bench.failSwap = new Unavailable('index_failed', 'no space')
    bench.failUnlink = new Error('EIO')
    bench.scheduler.start()
    await bench.pass()
    bench.pools.delete(1)
    await bench.scheduler.dropPool(1)
    bench.failUnlink = undefined
    await bench.pass(60 * TICK_MS)
    expect([bench.unlinked, bench.pins, bench.fatal]).toEqual([[], 0, []])
  })

  it('our own fault ends the process', async () => {
    bench.add(1, small())
    bench.failMerge = new AssertionFailed('no')
    bench.scheduler.start()
    await bench.pass()
    expect(bench.fatal.length).toBe(1)
  })
})

describe('ends', () => {
  it('a pool deleted during its merge: the result goes, and nothing failed', async () => {
    bench.isHeld = true
    bench.add(1, small())
    bench.load = { ...bench.load, ingestAgoMs: 0 }
    bench.scheduler.start()
    await bench.pass()
    bench.pools.delete(1)
    let isDropped = false
    const dropping = bench.scheduler.dropPool(1).then(() => {
      isDropped = true
    })
    await bench.pass()
    expect([isDropped, bench.paces]).toEqual([false, ['beside', 'alone']])
    await bench.end()
    await dropping
    expect([bench.unlinked, bench.swaps, bench.failures, bench.warnings]).toEqual([[1000], [], 0, []])
    expect([bench.pins, bench.scheduler.stats().debt.smallSegments]).toEqual([0, 0])
  })

  it('a stop gives up the running merge, says nothing, and starts no other', async () => {
    bench.isHeld = true
    bench.add(1, small())
    bench.add(2, small())
    bench.scheduler.start()
    await bench.pass()
    await bench.scheduler.stop()
    await bench.pass(10 * TICK_MS)
    expect([bench.jobs.length, bench.swaps, bench.failures, bench.warnings]).toEqual([1, [], 0, []])
    expect([bench.pins, bench.unlinked]).toEqual([0, [1000]])
  })
})

describe('retention', () => {
  const today = Date.UTC(2026, 0, 20) * 1000
  const days = (number: number, from: number, to: number) =>
    segment(number, 600_000, { timestampFromUs: today + from * DAY_US, timestampToUs: today + to * DAY_US })

  it('takes whole segments, then rows, at start; 0 keeps for ever; the future stays', async () => {
    bench.add(1, [days(1, -2, 0), days(2, -9, -2), days(3, -5, -4), days(4, 0, 9)], 1)
    bench.add(2, [days(1, -9000, -8000)])
    bench.scheduler.start()
    await bench.pass(20 * TICK_MS)
    expect(bench.swaps.map(swap => [swap.pool, swap.remove, swap.add?.segment])).toEqual([
      [1, [2], undefined],
      [1, [3], undefined],
      [1, [1], 1002],
    ])
    expect(bench.jobs.map(job => job.expireBeforeUs)).toEqual(Array(3).fill(today - DAY_US))
  })

  it('goes on at midnight, after a change of the days, and each hour for late events', async () => {
    const pool = bench.add(1, [days(1, -1, -0.5), days(2, 0, 1)], 1)
    bench.scheduler.start()
    await bench.pass(11 * 3_600_000)
    expect(bench.swaps).toEqual([])
    await bench.pass(3_600_000)
    expect(bench.left(1)).toBe('2:600000')
    pool.segments.push(days(3, -9, -8))
    bench.scheduler.sealed(1)
    await bench.pass(20 * 60_000)
    expect(bench.left(1)).toBe('2:600000 3:600000')
    await bench.pass(41 * 60_000)
    expect(bench.left(1)).toBe('2:600000')
    pool.retentionDays = 0
    pool.segments.push(days(4, -9, -8))
    bench.scheduler.retentionChanged(1)
    await bench.pass(3 * 3_600_000)
    expect(bench.left(1)).toBe('2:600000 4:600000')
    pool.retentionDays = 3
    bench.scheduler.retentionChanged(1)
    await bench.pass()
    expect(bench.left(1)).toBe('2:600000')
  })

  it('W-7: rows are kept that are to be kept by the time their merge is done', async () => {
    const pool = bench.add(1, [days(1, -9, -8), days(2, -3, 0)], 1)
    bench.isHeld = true
    bench.scheduler.start()
    await bench.pass()
    expect(bench.held?.job.inputs.map(({ meta }) => meta.segment)).toEqual([1])
    pool.retentionDays = 5
    bench.scheduler.retentionChanged(1)
    await bench.end()
    expect([bench.unlinked, bench.swaps, bench.failures]).toEqual([[1000], [], 0])
    await bench.pass()
    pool.retentionDays = 0
    bench.scheduler.retentionChanged(1)
    await bench.end()
    await bench.pass(3 * TICK_MS)
    expect([bench.held, bench.left(1)]).toEqual([undefined, '1:600000 2:600000'])
    expect([bench.unlinked, bench.pins]).toEqual([[1000, 1001], 0])
  })

  it('W-7: days that are lowered, or raised beside a merge without expired rows, stop no merge', async () => {
    const pool = bench.add(
      1,
      [days(1, -9, -8), ...small(2).map(one => ({ ...one, timestampFromUs: today, timestampToUs: today }))],
      7,
    )
    bench.isHeld = true
    bench.scheduler.start()
    await bench.pass()
    pool.retentionDays = 1
    await bench.end()
    await bench.pass()
    expect(bench.held?.job.inputs.length).toBe(4)
    pool.retentionDays = 0
    await bench.end()
    expect([bench.left(1), bench.unlinked]).toEqual(['1001:20000', []])
  })

  it('rests while a running seal holds what has expired, and goes on with the seal', async () => {
    const pool = bench.add(1, [days(1, -9, -8)], 1)
    bench.isKeeping = true
    pool.held = new Set([1])
    bench.scheduler.start()
    await bench.pass(TICK_MS)
    const { looks } = bench
    await bench.pass(100 * TICK_MS)
    expect([bench.looks, bench.jobs]).toEqual([looks, []])
    pool.held.clear()
    bench.scheduler.sealed(1)
    await bench.pass(TICK_MS)
    expect(bench.left(1)).toBe('')
  })

  it('takes segments that the sealer keeps, as soon as no seal runs with them', async () => {
    const pool = bench.add(1, [days(1, -9, -8)], 1)
    pool.held = new Set([1])
    bench.scheduler.start()
    await bench.pass()
    expect([bench.forgotten, bench.left(1)]).toEqual([[1], ''])
  })
})

describe('W-9: where keys are dear to move, merges', () => {
  const removed = () => bench.swaps.map(swap => swap.remove)
  const four = () => Array.from({ length: 4 }, (_, i) => segment(i + 1, 30_000))

  it('beside ingest move what the index moves in a second, by the pool’s seals; alone, what it moves in ten', async () => {
    bench.load = { ...bench.load, ingestAgoMs: 0 }
    bench.add(1, four())
    bench.add(2, four())
    bench.scheduler.sealed(1, 50)
    bench.scheduler.sealed(2, 1)
    bench.scheduler.start()
    await bench.pass()
    expect(removed()).toEqual([[1, 2, 3, 4]])
    expect(bench.left(1)).toBe('1:30000 2:30000 3:30000 4:30000')
    expect(bench.scheduler.stats().debt.smallSegments).toBe(0)
    await bench.pass(100 * TICK_MS)
    expect(removed()).toHaveLength(1)
    bench.load = { ...bench.load, ingestAgoMs: 60_000 }
    await bench.pass(2 * TICK_MS)
    expect(removed().slice(1)).toEqual([[1, 2, 3, 4]])
  })

  it('join the smallest segments at any cost, and drop rows that are not visible', async () => {
    bench.load = { ...bench.load, ingestAgoMs: 0 }
    bench.add(
      1,
      Array.from({ length: 8 }, (_, i) => segment(i + 1, 4096)),
    )
    bench.add(2, [segment(1, 400_000, { marked: 400_000 }), segment(2, 300_000, { marked: 100_000 })])
    for (const pool of [1, 2]) bench.scheduler.sealed(pool, 1_000_000)
    bench.scheduler.start()
    await bench.pass()
    await bench.pass()
    expect(bench.left(1)).toBe('1000:32768')
    expect(bench.left(2)).toBe('1001:200000')
  })

  it('learn from their swaps: at once that keys are dear, step by step that they are cheap', async () => {
    bench.load = { ...bench.load, ingestAgoMs: 0 }
    bench.usPerKey = 100
    bench.add(1, small())
    bench.scheduler.start()
    await bench.pass()
    expect(removed()).toEqual([[1, 2, 3, 4]])
    bench.pools.get(1)?.segments.push(
      ...four().map(one => ({
        ...one,
        segment: one.segment + 10,
        sequenceFrom: one.sequenceFrom + 1000,
        sequenceTo: one.sequenceTo + 1000,
      })),
    )
    bench.scheduler.sealed(1)
    await bench.pass(2 * TICK_MS)
    expect(removed()).toHaveLength(1)
    for (let i = 0; i < 7; i++) bench.scheduler.sealed(1, 0.1)
    await bench.pass(2 * TICK_MS)
    expect(removed().length).toBeGreaterThan(1)
  })

  it('forget what was dear once, so that no pool is left alone for ever', async () => {
    bench.load = { ...bench.load, ingestAgoMs: 0 }
    bench.add(1, four())
    bench.scheduler.sealed(1, 50)
    bench.scheduler.start()
    await bench.pass()
    expect(removed()).toEqual([])
    await bench.pass(4 * SWAP_COST_MS)
    bench.scheduler.sealed(1)
    await bench.pass()
    expect(removed()).toEqual([[1, 2, 3, 4]])
  })

  it('move a bounded number of rows as long as nothing is known of the pool', async () => {
    bench.add(
      1,
      Array.from({ length: 8 }, (_, i) => segment(i + 1, 30_000)),
    )
    bench.scheduler.start()
    await bench.pass()
    expect(bench.jobs[0]?.inputs).toHaveLength(4)
    expect(4 * 30_000).toBeLessThanOrEqual(SWAP_ROWS_UNKNOWN)
  })
})
