/**
 * Segments that are left to a job: merges stay away from them, and rewrites take turns with merges.
 */
import { beforeEach, describe, expect, test } from 'vitest'
import { COMPACT_MEMTABLE_BYTES_MAX } from '../../../src/store/compaction/scheduler.ts'
import { AssertionFailed, SegmentDamaged, Unavailable } from '../../../src/util/errors.ts'
import { settle } from '../flusher-harness.ts'
import { DAY_US, segment } from './random-manifests.ts'
import { SchedulerHarness, TICK_MS } from './scheduler-harness.ts'

let harness: SchedulerHarness
beforeEach(() => {
  harness = new SchedulerHarness()
})

/** `count` segments that are worth one merge, numbered from `from` on. */
const small = (from = 1, count = 4) => Array.from({ length: count }, (_, i) => segment(from + i, 5000))
const large = (number: number) => segment(number, 600_000)
const rewriteOf = (number: number, schemaVersion = 1) => ({
  segment: number,
  schemaVersion,
  changes: { file: '/changes.parquet', set: [] },
})
/** The inputs of each merge and rewrite so far, as `pool: segments`. */
const done = () => harness.commits.map(({ pool, remove }) => `${pool}: ${remove.join(' ')}`)

/** The end of a rewrite, as it stands. */
function watch(rewrite: Promise<unknown>) {
  const seen: { outcome?: unknown; error?: Error } = {}
  rewrite.then(
    outcome => Object.assign(seen, { outcome }),
    (error: Error) => Object.assign(seen, { error }),
  )
  return seen
}

describe('a reservation', () => {
  test('merges leave the segments below it to the job, and take those above', async () => {
    harness.add(1, [...small(1), ...small(5)])
    await harness.scheduler.reserve(1, 5)
    harness.scheduler.start()
    await harness.pass(10 * TICK_MS)
    expect([done(), harness.left(1)]).toEqual([['1: 5 6 7 8'], '1:5000 2:5000 3:5000 4:5000 1000:20000'])
  })

  test('of nothing leaves nothing out: the limit itself is not reserved', async () => {
    harness.add(1, small(5))
    await harness.scheduler.reserve(1, 5)
    harness.scheduler.start()
    await harness.pass()
    expect(done()).toEqual(['1: 5 6 7 8'])
  })

  test('is for one pool', async () => {
    harness.add(1, small())
    harness.add(2, small())
    await harness.scheduler.reserve(1, 100)
    harness.scheduler.start()
    await harness.pass(10 * TICK_MS)
    expect(done()).toEqual(['2: 1 2 3 4'])
    const { inspections } = harness
    await harness.pass(10 * TICK_MS)
    expect(harness.inspections, 'nothing is tried in vain').toBe(inspections)
  })

  test('keeps expired rows too, until the release', async () => {
    const old = { timestampFromUs: 0, timestampToUs: DAY_US }
    harness.add(1, [segment(1, 5000, old)], 1)
    await harness.scheduler.reserve(1, 2)
    harness.scheduler.start()
    await harness.pass(10 * TICK_MS)
    expect(done()).toEqual([])
    harness.scheduler.release(1)
    harness.scheduler.retentionChanged(1)
    await harness.pass()
    expect(done()).toEqual(['1: 1'])
  })

  test('ends with the release, without a flush of the pool', async () => {
    harness.add(1, small())
    await harness.scheduler.reserve(1, 5)
    harness.scheduler.start()
    await harness.pass(10 * TICK_MS)
    expect(done()).toEqual([])
    harness.scheduler.release(1)
    await harness.pass()
    expect(done()).toEqual(['1: 1 2 3 4'])
  })

  test('waits for the merge of its pool, not for another one, and takes queued merges out', async () => {
    harness.add(1, [...small(1), large(5), ...small(6)])
    harness.add(2, small())
    harness.waitsForEnd = true
    harness.scheduler.start()
    await harness.pass()
    expect(harness.tasks[0]?.inputs.map(({ meta }) => meta.segment)).toEqual([1, 2, 3, 4])
    let isReserved = false
    void harness.scheduler.reserve(1, 2000).then(() => {
      isReserved = true
    })
    await harness.scheduler.reserve(2, 2000)
    await settle()
    expect(isReserved).toBe(false)
    await harness.end()
    expect([isReserved, harness.running]).toEqual([true, undefined])
    await harness.pass(10 * TICK_MS)
    expect([done(), harness.running]).toEqual([['1: 1 2 3 4'], undefined])
  })

  test('of a deleted pool is forgotten', async () => {
    harness.add(1, small())
    await harness.scheduler.reserve(1, 5)
    harness.scheduler.start()
    await harness.scheduler.dropPool(1)
    harness.add(1, small()) // numbers are never used again; this shows what is left
    harness.scheduler.flushed(1)
    await harness.pass()
    expect(done()).toEqual(['1: 1 2 3 4'])
  })
})

describe('a rewrite', () => {
  test('replaces its segment alone, with the newer schema of the two, and keeps expired rows', async () => {
    const old = { timestampFromUs: 0, timestampToUs: DAY_US }
    harness.add(1, [segment(1, 10), segment(2, 5000, { ...old, schemaVersion: 3 }), segment(3, 10)], 1)
    await harness.scheduler.reserve(1, 4)
    harness.scheduler.start()
    const outcomes = [
      await harness.scheduler.rewrite(1, rewriteOf(2, 2)),
      await harness.scheduler.rewrite(1, rewriteOf(3, 7)),
    ]
    expect(outcomes).toEqual(['done', 'done'])
    expect(harness.tasks.map(task => [task.schema.version, task.expireBeforeUs, task.changes?.file])).toEqual(
      [
        [3, undefined, '/changes.parquet'],
        [7, undefined, '/changes.parquet'],
      ],
    )
    expect([done(), harness.left(1), harness.pins]).toEqual([['1: 2', '1: 3'], '1:10 1000:5000 1001:10', 0])
  })

  test('tells the times of older rows, which keep deletes (W-6)', async () => {
    const older = { timestampFromUs: 3, timestampToUs: 4 }
    harness.add(1, [segment(1, 600_000, older), segment(2, 5000)])
    harness.scheduler.start()
    expect(await harness.scheduler.rewrite(1, rewriteOf(2))).toBe('done')
    expect(harness.tasks[0]?.older).toEqual([{ fromUs: 3, toUs: 4 }])
  })

  test('and the merges of other pools take turns', async () => {
    harness.add(1, [large(1), large(2), large(3)])
    for (const pool of [2, 3, 4]) harness.add(pool, small())
    await harness.scheduler.reserve(1, 4)
    harness.waitsForEnd = true
    harness.scheduler.start()
    let next = 1
    const rewriteNext = (): Promise<unknown> =>
      next > 3 ? Promise.resolve() : harness.scheduler.rewrite(1, rewriteOf(next++)).then(rewriteNext)
    void rewriteNext()
    await harness.pass()
    for (let ends = 0; ends < 6; ends++) await harness.end()
    expect(done()).toEqual(['1: 1', '2: 1 2 3 4', '1: 2', '3: 1 2 3 4', '1: 3', '4: 1 2 3 4'])
  })

  test('of several pools run in the order in which they came', async () => {
    for (const pool of [3, 1, 2]) harness.add(pool, [large(1)])
    const outcomes = [3, 1, 2].map(pool => harness.scheduler.rewrite(pool, rewriteOf(1)))
    harness.scheduler.start()
    await harness.pass()
    await Promise.all(outcomes)
    expect(done()).toEqual(['3: 1', '1: 1', '2: 1'])
  })

  test('begins only after the start, and at once then', async () => {
    harness.add(1, [large(1)])
    const seen = watch(harness.scheduler.rewrite(1, rewriteOf(1)))
    await harness.pass(10 * TICK_MS)
    expect([harness.tasks.length, seen]).toEqual([0, {}])
    harness.scheduler.start()
    await harness.pass()
    expect(seen).toEqual({ outcome: 'done' })
    const again = watch(harness.scheduler.rewrite(1, rewriteOf(1000)))
    await settle()
    expect(again, 'without a tick').toEqual({ outcome: 'done' })
  })

  test('whose changes cannot be applied says why, and changes nothing', async () => {
    harness.add(1, [large(1)])
    harness.problem = 'a column would be null'
    harness.scheduler.start()
    const update = { ...rewriteOf(1), changes: { file: '/changes.parquet', set: [0] } }
    expect(await harness.scheduler.rewrite(1, update)).toEqual({ refused: 'a column would be null' })
    expect([harness.tasks, harness.left(1), harness.pins]).toEqual([[], '1:600000', 0])
  })

  test('of a segment or pool that is not there, or that compaction leaves alone, is gone', async () => {
    harness.add(1, [large(1)])
    harness.scheduler.start()
    expect(await harness.scheduler.rewrite(1, rewriteOf(9))).toBe('gone')
    expect(await harness.scheduler.rewrite(7, rewriteOf(1))).toBe('gone')
    harness.leftAlone.add(1)
    expect(await harness.scheduler.rewrite(1, rewriteOf(1))).toBe('gone')
    expect([harness.tasks, harness.pins]).toEqual([[], 0])
  })

  test('waits while flushes need the disk or the index', async () => {
    harness.add(1, [large(1)])
    harness.load = { ...harness.load, ingestAgoMs: 0, flushingBytes: COMPACT_MEMTABLE_BYTES_MAX + 1 }
    harness.scheduler.start()
    const seen = watch(harness.scheduler.rewrite(1, rewriteOf(1)))
    await harness.pass()
    expect(seen).toEqual({})
    harness.load = { ...harness.load, flushingBytes: 0 }
    await harness.pass()
    expect(seen).toEqual({ outcome: 'done' })
  })

  test('that fails rejects, removes its output, and leaves the place to the next', async () => {
    harness.add(1, [large(1)])
    harness.scheduler.start()
    harness.failMerge = new SegmentDamaged('/1/0000000001.parquet', 'no footer')
    await expect(harness.scheduler.rewrite(1, rewriteOf(1))).rejects.toBe(harness.failMerge)
    harness.failMerge = new Unavailable('disk_full', 'no room')
    const refused = watch(harness.scheduler.rewrite(1, rewriteOf(1)))
    await settle()
    expect(refused.error).toBe(harness.failMerge)
    harness.failMerge = undefined
    const seen = watch(harness.scheduler.rewrite(1, rewriteOf(1)))
    await settle()
    expect(seen, 'merges pause after a refusal').toEqual({})
    await harness.pass(60 * TICK_MS)
    expect(seen).toEqual({ outcome: 'done' })
    expect([harness.unlinked, harness.failures, harness.pins, harness.left(1)]).toEqual([
      [1000, 1001],
      2,
      0,
      '1002:600000',
    ])
  })

  test('with a bug ends the process', async () => {
    harness.add(1, [large(1)])
    harness.scheduler.start()
    harness.failMerge = new AssertionFailed('a bug')
    await expect(harness.scheduler.rewrite(1, rewriteOf(1))).rejects.toThrow('a bug')
    expect(harness.fatal).toEqual([harness.failMerge])
  })
})

describe('the end', () => {
  test('a stop rejects the running rewrite, the waiting ones and new ones', async () => {
    for (const pool of [1, 2]) harness.add(pool, [large(1)])
    harness.waitsForEnd = true
    harness.scheduler.start()
    const [running, waiting] = [1, 2].map(pool => watch(harness.scheduler.rewrite(pool, rewriteOf(1))))
    await settle()
    expect(harness.running?.task.poolId).toBe('P1')
    await harness.scheduler.stop()
    expect(running?.error?.message).toBe('stopped')
    expect(waiting?.error).toMatchObject({ code: 'stopping' })
    await expect(harness.scheduler.rewrite(1, rewriteOf(1))).rejects.toMatchObject({ code: 'stopping' })
    expect([harness.commits, harness.failures]).toEqual([[], 0])
  })

  test('a drop of the pool waits for its running rewrite, and ends a waiting one', async () => {
    for (const pool of [1, 2]) harness.add(pool, [large(1)])
    harness.waitsForEnd = true
    harness.scheduler.start()
    const [running, waiting] = [1, 2].map(pool => watch(harness.scheduler.rewrite(pool, rewriteOf(1))))
    await settle()
    harness.pools.delete(2)
    await harness.scheduler.dropPool(2)
    await settle()
    expect([running, waiting]).toEqual([{}, { outcome: 'gone' }])
    harness.pools.delete(1)
    let isDropped = false
    void harness.scheduler.dropPool(1).then(() => {
      isDropped = true
    })
    await settle()
    expect(isDropped).toBe(false)
    await harness.end()
    expect([isDropped, running, harness.commits]).toEqual([true, { outcome: 'gone' }, []])
  })
})
