/** Which pool the scheduler compacts when, and what it does after a failure. */
import { beforeEach, describe, expect, test } from 'vitest'
import type { PoolSegment } from '../../../src/index/index-types.ts'
import {
  COMPACTION_COMMIT_COST_MS,
  COMPACTION_COMMIT_ROWS_UNKNOWN,
} from '../../../src/store/compaction/merge-throttle.ts'
import {
  COMPACT_INSPECT_MS_MAX,
  COMPACT_INSPECTIONS_PER_TICK,
  COMPACT_MEMTABLE_BYTES_MAX,
  COMPACT_QUIET_TICKS,
  COMPACT_SLOW_SEGMENTS_MAX,
  COMPACT_WAIT_MS_MAX,
} from '../../../src/store/compaction/scheduler.ts'
import { AssertionFailed, SegmentDamaged, SegmentsDisagree, Unavailable } from '../../../src/util/errors.ts'
import { DAY_US, segment } from './random-manifests.ts'
import { SchedulerHarness, TICK_MS } from './scheduler-harness.ts'

let harness: SchedulerHarness
beforeEach(() => {
  harness = new SchedulerHarness()
})

/** `count` segments that are worth one merge, numbered from `from` on. */
const small = (from = 1, count = 4) => Array.from({ length: count }, (_, i) => segment(from + i, 5000))

describe('the scheduler', () => {
  test('runs all waiting compactions after the start, one after the other, then none', async () => {
    harness.add(1, [
      segment(1, 600_000),
      ...small(2),
      segment(6, 600_000),
      segment(7, 600_000, { deletedRows: 200_000 }),
    ])
    harness.scheduler.start()
    await harness.pass()
    expect(harness.left(1)).toBe('1:600000 1001:20000 6:600000 1000:400000')
    expect(harness.commits.map(commit => commit.remove)).toEqual([[7], [2, 3, 4, 5]])
    expect(harness.figures.map(one => [one.rowsRead, one.rowsWritten])).toEqual([
      [600_000, 400_000],
      [20_000, 20_000],
    ])
    expect([harness.pins, harness.unlinked, harness.scheduler.stats().debt.bytesToMerge]).toEqual([0, [], 0])
    const { inspections } = harness
    await harness.pass(100 * TICK_MS)
    expect([harness.commits.length, harness.inspections]).toEqual([2, inspections])
  })

  test('tells the merge thread the times of older rows, and the deletion vectors of the pinned state', async () => {
    const older = { timestampFromUs: 3, timestampToUs: 4 }
    harness.add(1, [
      segment(1, 600_000, older),
      segment(2, 0, { deletes: 5 }),
      segment(3, 9000, { deletedRows: 5000 }),
    ])
    harness.scheduler.start()
    await harness.pass()
    const task = harness.tasks[0]
    expect(task?.inputs.map(({ meta, deletionVectors }) => [meta.segment, deletionVectors.length])).toEqual([
      [2, 0],
      [3, 1],
    ])
    expect([task?.older, task?.expireBeforeUs]).toEqual([[{ fromUs: 3, toUs: 4 }], undefined])
  })

  test('runs one merge of each pool in turn', async () => {
    for (const pool of [1, 2, 3]) harness.add(pool, [...small(), segment(5, 600_000), ...small(6)])
    harness.scheduler.start()
    await harness.pass()
    expect(harness.commits.map(commit => commit.pool)).toEqual([1, 2, 3, 1, 2, 3])
  })

  test('inspects a pool only after something happened to it', async () => {
    for (let pool = 1; pool <= 2000; pool++) harness.add(pool, [segment(1, 100)])
    harness.scheduler.start()
    expect(harness.inspections).toBe(0)
    await harness.pass()
    expect(harness.inspections).toBe(COMPACT_INSPECTIONS_PER_TICK)
    await harness.pass(10 * TICK_MS)
    expect(harness.inspections).toBe(2000)
    harness.scheduler.flushed(7)
    harness.scheduler.flushed(7)
    await harness.pass(10 * TICK_MS)
    expect(harness.inspections).toBe(2001)
  })

  test('stops inspecting after its time in a tick, and inspects the other pools in the next', async () => {
    for (let pool = 1; pool <= 30; pool++) harness.add(pool, [segment(1, 100)])
    harness.inspectMs = COMPACT_INSPECT_MS_MAX / 4
    harness.scheduler.start()
    await harness.pass()
    expect(harness.inspections).toBe(4)
    harness.inspectMs = 2 * COMPACT_INSPECT_MS_MAX
    await harness.pass()
    expect(harness.inspections).toBe(5)
    harness.inspectMs = 0
    await harness.pass()
    expect(harness.inspections).toBe(30)
  })

  test('W-6: keeps deletes while a rebuild would find obsolete segments, and drops them afterwards', async () => {
    harness.add(1, [segment(2, 0, { deletes: 5 })])
    harness.obsolete = [segment(1, 100, { timestampFromUs: 3, timestampToUs: 4 })]
    harness.scheduler.start()
    await harness.pass(10 * TICK_MS)
    const { inspections } = harness
    expect([harness.tasks, inspections]).toEqual([[], 1])
    harness.pools.get(1)?.segments.push(...small(3))
    harness.scheduler.flushed(1)
    await harness.pass(TICK_MS)
    expect(harness.tasks.map(task => task.older)).toEqual([[{ fromUs: 3, toUs: 4 }]])
    harness.pools.get(1)!.segments = [segment(2, 0, { deletes: 5 })]
    harness.obsolete = []
    harness.scheduler.changed(1)
    await harness.pass(TICK_MS)
    expect([harness.tasks[1]?.older, harness.left(1)]).toEqual([[], '1001:0'])
  })

  test('W-6: an empty segment stays in place of the newest, and of any where versions decide', async () => {
    const dead = (number: number) => segment(number, 600_000, { deletedRows: 600_000 })
    const leaves = async (...segments: PoolSegment[]) => {
      harness.tasks.length = 0
      harness.add(1, segments)
      harness.scheduler.flushed(1)
      await harness.pass(10 * TICK_MS)
      return [harness.tasks.map(task => task.leavesSegment), harness.left(1)]
    }
    harness.scheduler.start()
    expect(await leaves(dead(1), segment(2, 600_000))).toEqual([[false], '2:600000'])
    expect(await leaves(segment(1, 600_000), dead(2))).toEqual([[true], '1:600000 1000:0'])
    harness.keyVersion = 3
    expect(await leaves(dead(1), segment(2, 600_000))).toEqual([[true], '1000:0 2:600000'])
  })

  test('does not touch an excluded pool or its recent flushes', async () => {
    harness.add(1, small()).replaceable = new Set([1])
    harness.add(2, small())
    harness.leftAlone.add(1)
    harness.scheduler.start()
    harness.scheduler.flushed(1)
    await harness.pass(2 * COMPACT_QUIET_TICKS * TICK_MS)
    expect([harness.commits.map(commit => commit.pool), harness.forgotten]).toEqual([[2], []])
  })

  test('leaves replaceable segments out until their pool was quiet, and frees them only for a merge', async () => {
    const pool = harness.add(1, small())
    const idle = harness.add(2, small(1, 3))
    pool.replaceable = new Set([3, 4])
    idle.replaceable = new Set([1])
    harness.scheduler.start()
    harness.scheduler.flushed(1)
    harness.scheduler.flushed(2)
    await harness.pass((COMPACT_QUIET_TICKS - 1) * TICK_MS)
    expect(harness.tasks).toEqual([])
    harness.scheduler.flushed(1)
    await harness.pass((COMPACT_QUIET_TICKS - 1) * TICK_MS)
    expect([harness.tasks, harness.forgotten]).toEqual([[], []])
    await harness.pass(2 * TICK_MS)
    expect([harness.forgotten, harness.left(1)]).toEqual([[1], '1000:20000'])
  })
})

describe('an inspection and a merge that see different segments', () => {
  test('are a tick apart', async () => {
    harness.add(1, [segment(1, 5000, { deletedRows: 4000 })])
    harness.pinsWithoutDeleted = true
    harness.scheduler.start()
    await harness.pass(3 * TICK_MS)
    expect([harness.tasks.length, harness.inspections]).toEqual([0, 3])
    harness.pinsWithoutDeleted = false
    await harness.pass(TICK_MS)
    expect(harness.left(1)).toBe('1000:1000')
  })
})

test('a busy pool does not delay the inspection of a quiet one', async () => {
  for (const number of [1, 2]) harness.add(number, small()).replaceable = new Set([1, 2, 3, 4])
  harness.scheduler.start()
  harness.scheduler.flushed(1)
  harness.scheduler.flushed(2)
  await harness.pass(COMPACT_QUIET_TICKS * TICK_MS - TICK_MS)
  harness.scheduler.flushed(1)
  await harness.pass(3 * TICK_MS)
  expect(harness.forgotten).toEqual([2])
})

describe('beside ingest', () => {
  test('merges are throttled, and run at full speed afterwards', async () => {
    harness.waitsForEnd = true
    harness.add(1, small())
    harness.load = { ...harness.load, ingestAgoMs: 100 }
    harness.scheduler.start()
    await harness.pass()
    expect(harness.speeds).toEqual(['throttled'])
    harness.load = { ...harness.load, ingestAgoMs: 6000 }
    await harness.pass()
    expect(harness.speeds).toEqual(['throttled', 'full'])
  })

  test('no merge starts while flushes hold much memory, except after a long wait', async () => {
    harness.add(1, small())
    harness.load = { ...harness.load, flushingBytes: COMPACT_MEMTABLE_BYTES_MAX + 1 }
    harness.scheduler.start()
    await harness.pass(COMPACT_WAIT_MS_MAX - TICK_MS)
    expect(harness.tasks).toEqual([])
    await harness.pass(2 * TICK_MS)
    expect(harness.tasks.length).toBe(1)
  })

  test('no merge starts while flushes wait for the index, except after a long wait or with many small segments', async () => {
    harness.add(1, small())
    harness.load = { ...harness.load, ingestAgoMs: 0, flushesAreSlow: true }
    harness.scheduler.start()
    await harness.pass(COMPACT_WAIT_MS_MAX - TICK_MS)
    expect(harness.tasks).toEqual([])
    await harness.pass(2 * TICK_MS)
    expect(harness.tasks.length).toBe(1)
    for (let pool = 2; pool < 2 + COMPACT_SLOW_SEGMENTS_MAX; pool++) {
      harness.add(pool, small())
      harness.scheduler.flushed(pool)
    }
    await harness.pass(COMPACT_WAIT_MS_MAX / 2)
    expect(harness.tasks.length).toBeGreaterThan(1)
  })

  test('merges do not wait for slow flushes once ingest has ended', async () => {
    harness.add(1, small())
    harness.load = { ...harness.load, ingestAgoMs: 6000, flushesAreSlow: true }
    harness.scheduler.start()
    await harness.pass()
    expect(harness.tasks.length).toBe(1)
  })

  test('no merge starts while flushes fail or the disk is full', async () => {
    harness.add(1, small())
    harness.load = { ...harness.load, isRefusing: true }
    harness.scheduler.start()
    await harness.pass(2 * COMPACT_WAIT_MS_MAX)
    expect(harness.tasks).toEqual([])
    harness.load = { ...harness.load, isRefusing: false }
    await harness.pass()
    expect(harness.tasks.length).toBe(1)
  })
})

describe('failures', () => {
  test('a damaged segment is left out with one error, and the others are merged', async () => {
    harness.waitsForEnd = true
    harness.add(1, [...small(1, 5), ...small(6, 5)])
    harness.add(2, small())
    harness.scheduler.start()
    await harness.pass()
    await harness.end(new SegmentDamaged('/1/0000000005.parquet', 'no magic'))
    expect(harness.errors).toEqual([
      'segment /1/0000000005.parquet cannot be read: no magic; compaction leaves this segment out, and queries that need it answer SEGMENT_DAMAGED',
    ])
    harness.waitsForEnd = false
    await harness.end()
    await harness.pass(5 * TICK_MS)
    expect(harness.left(2)).toBe('1000:20000')
    expect(harness.left(1)).toMatch(/^100\d:20000 5:5000 100\d:25000$/)
    expect([harness.failures, harness.errors.length, harness.warnings]).toEqual([1, 1, []])
    expect(harness.scheduler.stats().debt).toMatchObject({ quarantined: 1, smallSegments: 0 })
    expect(harness.pins).toBe(0)
  })

  test('W-7: segments that disagree with the index are left out with one error', async () => {
    harness.add(1, [...small(1, 5), segment(6, 600_000), ...small(7, 4)])
    harness.failCompaction = new SegmentsDisagree(
      [2, 3],
      'of 5 visible rows of segment 2 it has the keys of 4',
    )
    harness.scheduler.start()
    await harness.pass()
    expect(harness.errors).toEqual([
      'a merge of pool P1 was cancelled: of 5 visible rows of segment 2 it has the keys of 4; compaction leaves these segments out: stop Weir and run "weir verify"',
    ])
    expect([harness.unlinked, harness.failures, harness.pins]).toEqual([[1000], 1, 0])
    harness.failCompaction = undefined
    await harness.pass(5 * TICK_MS)
    expect(harness.left(1)).toBe('1:5000 2:5000 3:5000 4:5000 5:5000 6:600000 1001:20000')
    expect(harness.scheduler.stats().debt).toMatchObject({ quarantined: 2, smallSegments: 0 })
  })

  test('after a full disk the merge is tried again after one second, two, … a minute', async () => {
    harness.add(1, small())
    harness.failMerge = new Unavailable('disk_full', 'no space')
    harness.scheduler.start()
    const tries: number[] = []
    for (let second = 0; second < 200; second++) {
      if (harness.tasks.length > tries.length) tries.push(second)
      await harness.pass()
    }
    expect(tries.map((at, i) => at - (tries[i - 1] ?? at))).toEqual([0, 1, 2, 4, 8, 16, 32, 60, 60])
    expect([harness.warnings.length, harness.errors]).toEqual([tries.length, []])
    harness.failMerge = undefined
    await harness.pass(60 * TICK_MS)
    expect(harness.left(1)).toMatch(/^10\d\d:20000$/)
  })

  test('a pool whose merge fails delays no other pool', async () => {
    harness.waitsForEnd = true
    harness.add(1, small())
    harness.add(2, small())
    harness.scheduler.start()
    await harness.pass()
    await harness.end(new Error('strange'))
    expect(harness.running?.task.poolId).toBe('P2')
    await harness.end()
    await harness.pass()
    expect(harness.running?.task.poolId).toBe('P1')
  })

  test('W-6: the output of a failed commit is removed before the next merge of its pool', async () => {
    harness.add(1, small())
    harness.failCompaction = new Unavailable('index_failed', 'no space')
    harness.failUnlink = new Error('EIO')
    harness.scheduler.start()
    await harness.pass(10 * TICK_MS)
    expect([harness.tasks.length, harness.unlinked, harness.left(1)]).toEqual([
      1,
      [],
      '1:5000 2:5000 3:5000 4:5000',
    ])
    harness.failUnlink = undefined
    harness.failCompaction = undefined
    await harness.pass(60 * TICK_MS)
    expect([harness.tasks.length, harness.unlinked, harness.left(1)]).toEqual([2, [1000], '1001:20000'])
    expect(harness.pins).toBe(0)
  })

  test('W-6: a deleted pool with such a file left causes no further work', async () => {
    harness.add(1, small())
    harness.failCompaction = new Unavailable('index_failed', 'no space')
    harness.failUnlink = new Error('EIO')
    harness.scheduler.start()
    await harness.pass()
    harness.pools.delete(1)
    await harness.scheduler.dropPool(1)
    harness.failUnlink = undefined
    await harness.pass(60 * TICK_MS)
    expect([harness.unlinked, harness.pins, harness.fatal]).toEqual([[], 0, []])
  })

  test('a failed assertion ends the process', async () => {
    harness.add(1, small())
    harness.failMerge = new AssertionFailed('no')
    harness.scheduler.start()
    await harness.pass()
    expect(harness.fatal.length).toBe(1)
  })
})

describe('an end during a merge', () => {
  test('a deleted pool: the output is removed, and nothing counts as failed', async () => {
    harness.waitsForEnd = true
    harness.add(1, small())
    harness.load = { ...harness.load, ingestAgoMs: 0 }
    harness.scheduler.start()
    await harness.pass()
    harness.pools.delete(1)
    let isDropped = false
    const dropping = harness.scheduler.dropPool(1).then(() => {
      isDropped = true
    })
    await harness.pass()
    expect([isDropped, harness.speeds]).toEqual([false, ['throttled', 'full']])
    await harness.end()
    await dropping
    expect([harness.unlinked, harness.commits, harness.failures, harness.warnings]).toEqual([
      [1000],
      [],
      0,
      [],
    ])
    expect([harness.pins, harness.scheduler.stats().debt.smallSegments]).toEqual([0, 0])
  })

  test('a stop cancels the running merge without a warning, and starts no other', async () => {
    harness.waitsForEnd = true
    harness.add(1, small())
    harness.add(2, small())
    harness.scheduler.start()
    await harness.pass()
    await harness.scheduler.stop()
    await harness.pass(10 * TICK_MS)
    expect([harness.tasks.length, harness.commits, harness.failures, harness.warnings]).toEqual([
      1,
      [],
      0,
      [],
    ])
    expect([harness.pins, harness.unlinked]).toEqual([0, [1000]])
  })
})

describe('retention', () => {
  const today = Date.UTC(2026, 0, 20) * 1000
  const days = (number: number, from: number, to: number) =>
    segment(number, 600_000, { timestampFromUs: today + from * DAY_US, timestampToUs: today + to * DAY_US })

  test('removes expired segments, then expired rows, after the start; 0 days keep all; future rows stay', async () => {
    harness.add(1, [days(1, -2, 0), days(2, -9, -2), days(3, -5, -4), days(4, 0, 9)], 1)
    harness.add(2, [days(1, -9000, -8000)])
    harness.scheduler.start()
    await harness.pass(20 * TICK_MS)
    expect(harness.commits.map(commit => [commit.pool, commit.remove, commit.add?.segment])).toEqual([
      [1, [2], undefined],
      [1, [3], undefined],
      [1, [1], 1002],
    ])
    expect(harness.tasks.map(task => task.expireBeforeUs)).toEqual(Array(3).fill(today - DAY_US))
  })

  test('runs at midnight, after a change of the days, and each hour for late events', async () => {
    const pool = harness.add(1, [days(1, -1, -0.5), days(2, 0, 1)], 1)
    harness.scheduler.start()
    await harness.pass(11 * 3_600_000)
    expect(harness.commits).toEqual([])
    await harness.pass(3_600_000)
    expect(harness.left(1)).toBe('2:600000')
    pool.segments.push(days(3, -9, -8))
    harness.scheduler.flushed(1)
    await harness.pass(20 * 60_000)
    expect(harness.left(1)).toBe('2:600000 3:600000')
    await harness.pass(41 * 60_000)
    expect(harness.left(1)).toBe('2:600000 1001:0')
    pool.retentionDays = 0
    pool.segments.push(days(4, -9, -8))
    harness.scheduler.retentionChanged(1)
    await harness.pass(3 * 3_600_000)
    expect(harness.left(1)).toBe('2:600000 1001:0 4:600000')
    pool.retentionDays = 3
    harness.scheduler.retentionChanged(1)
    await harness.pass()
    expect(harness.left(1)).toBe('2:600000 1001:0 1002:0')
  })

  test('W-7: rows stay that the pool keeps by the end of their merge', async () => {
    const pool = harness.add(1, [days(1, -9, -8), days(2, -3, 0)], 1)
    harness.waitsForEnd = true
    harness.scheduler.start()
    await harness.pass()
    expect(harness.running?.task.inputs.map(({ meta }) => meta.segment)).toEqual([1])
    pool.retentionDays = 5
    harness.scheduler.retentionChanged(1)
    await harness.end()
    expect([harness.unlinked, harness.commits, harness.failures]).toEqual([[1000], [], 0])
    await harness.pass()
    pool.retentionDays = 0
    harness.scheduler.retentionChanged(1)
    await harness.end()
    await harness.pass(3 * TICK_MS)
    expect([harness.running, harness.left(1)]).toEqual([undefined, '1:600000 2:600000'])
    expect([harness.unlinked, harness.pins]).toEqual([[1000, 1001], 0])
  })

  test('W-7: fewer days, or more days during a merge without expired rows, cancel no merge', async () => {
    const pool = harness.add(
      1,
      [days(1, -9, -8), ...small(2).map(one => ({ ...one, timestampFromUs: today, timestampToUs: today }))],
      7,
    )
    harness.waitsForEnd = true
    harness.scheduler.start()
    await harness.pass()
    pool.retentionDays = 1
    await harness.end()
    await harness.pass()
    expect(harness.running?.task.inputs.length).toBe(4)
    pool.retentionDays = 0
    await harness.end()
    expect([harness.left(1), harness.unlinked]).toEqual(['1001:20000', []])
  })

  test('waits while a running flush holds expired rows, and continues after the flush', async () => {
    const pool = harness.add(1, [days(1, -9, -8)], 1)
    harness.isFlushing = true
    pool.replaceable = new Set([1])
    harness.scheduler.start()
    await harness.pass(TICK_MS)
    const { inspections } = harness
    await harness.pass(100 * TICK_MS)
    expect([harness.inspections, harness.tasks]).toEqual([inspections, []])
    pool.replaceable.clear()
    harness.scheduler.flushed(1)
    await harness.pass(TICK_MS)
    expect(harness.left(1)).toBe('1000:0')
  })

  test('frees recent flushes with expired rows, when no flush runs with them', async () => {
    const pool = harness.add(1, [days(1, -9, -8)], 1)
    pool.replaceable = new Set([1])
    harness.scheduler.start()
    await harness.pass()
    expect([harness.forgotten, harness.left(1)]).toEqual([[1], '1000:0'])
  })
})

describe('W-9: where keys are expensive to move', () => {
  const removed = () => harness.commits.map(commit => commit.remove)
  const four = () => Array.from({ length: 4 }, (_, i) => segment(i + 1, 30_000))

  test('merges move what the index moves in a second beside ingest, and in ten seconds otherwise', async () => {
    harness.load = { ...harness.load, ingestAgoMs: 0 }
    harness.add(1, four())
    harness.add(2, four())
    harness.scheduler.flushed(1, 50)
    harness.scheduler.flushed(2, 1)
    harness.scheduler.start()
    await harness.pass()
    expect(removed()).toEqual([[1, 2, 3, 4]])
    expect(harness.left(1)).toBe('1:30000 2:30000 3:30000 4:30000')
    expect(harness.scheduler.stats().debt.smallSegments).toBe(0)
    await harness.pass(100 * TICK_MS)
    expect(removed()).toHaveLength(1)
    harness.load = { ...harness.load, ingestAgoMs: 60_000 }
    await harness.pass(2 * TICK_MS)
    expect(removed().slice(1)).toEqual([[1, 2, 3, 4]])
  })

  test('the smallest segments are merged at any cost, and deleted rows are removed', async () => {
    harness.load = { ...harness.load, ingestAgoMs: 0 }
    harness.add(
      1,
      Array.from({ length: 8 }, (_, i) => segment(i + 1, 4096)),
    )
    harness.add(2, [
      segment(1, 400_000, { deletedRows: 400_000 }),
      segment(2, 300_000, { deletedRows: 100_000 }),
    ])
    for (const pool of [1, 2]) harness.scheduler.flushed(pool, 1_000_000)
    harness.scheduler.start()
    await harness.pass()
    await harness.pass()
    expect(harness.left(1)).toBe('1000:32768')
    expect(harness.left(2)).toBe('1001:200000')
  })

  test('a high cost of a commit counts at once, a low one step by step', async () => {
    harness.load = { ...harness.load, ingestAgoMs: 0 }
    harness.usPerKey = 100
    harness.add(1, small())
    harness.scheduler.start()
    await harness.pass()
    expect(removed()).toEqual([[1, 2, 3, 4]])
    harness.pools.get(1)?.segments.push(
      ...four().map(one => ({
        ...one,
        segment: one.segment + 10,
        sequenceFrom: one.sequenceFrom + 1000,
        sequenceTo: one.sequenceTo + 1000,
      })),
    )
    harness.scheduler.flushed(1)
    await harness.pass(2 * TICK_MS)
    expect(removed()).toHaveLength(1)
    for (let i = 0; i < 7; i++) harness.scheduler.flushed(1, 0.1)
    await harness.pass(2 * TICK_MS)
    expect(removed().length).toBeGreaterThan(1)
  })

  test('a measured cost decays, so that the pool is merged again', async () => {
    harness.load = { ...harness.load, ingestAgoMs: 0 }
    harness.add(1, four())
    harness.scheduler.flushed(1, 50)
    harness.scheduler.start()
    await harness.pass()
    expect(removed()).toEqual([])
    await harness.pass(4 * COMPACTION_COMMIT_COST_MS)
    harness.scheduler.flushed(1)
    await harness.pass()
    expect(removed()).toEqual([[1, 2, 3, 4]])
  })

  test('a merge moves a bounded number of rows while the cost is unknown', async () => {
    harness.add(
      1,
      Array.from({ length: 8 }, (_, i) => segment(i + 1, 30_000)),
    )
    harness.scheduler.start()
    await harness.pass()
    expect(harness.tasks[0]?.inputs).toHaveLength(4)
    expect(4 * 30_000).toBeLessThanOrEqual(COMPACTION_COMMIT_ROWS_UNKNOWN)
  })
})
