/** When pools are flushed, in which order, and what happens when a flush fails. */
import { describe, expect, test } from 'vitest'
import { FLUSH_AGE_MS } from '../../src/store/flush/flush-policy.ts'
import { AssertionFailed, Unavailable } from '../../src/util/errors.ts'
import { DISK_RETRY_MS, FLUSHES_MAX, MEMTABLE_BYTES_MAX } from '../../src/util/limits.ts'
import { FlusherHarness, settle } from './flusher-harness.ts'
import { keySchema, post } from './rows.ts'

const limits = { rows: 100, bytes: 1_000_000, entries: 50 }
const codeOf = (promise: Promise<void>) =>
  promise.then(
    () => 'flushed',
    error => (error as Unavailable).code,
  )

describe('a pool is flushed', () => {
  test('at its rows, bytes or batches', async () => {
    for (const limit of [{ rows: 10 }, { bytes: 100 }, { entries: 1 }]) {
      const harness = new FlusherHarness({ ...limits, ...limit })
      harness.append(1, 10)
      await settle()
      expect(harness.committed).toHaveLength(1)
    }
    const harness = new FlusherHarness(limits)
    harness.append(1, 10)
    await settle()
    expect(harness.tasks).toHaveLength(0)
  })

  test('at the age of its oldest row', async () => {
    const harness = new FlusherHarness(limits)
    harness.append(1, 1)
    await harness.clock.pass(FLUSH_AGE_MS / 2 - 1)
    expect(harness.tasks).toHaveLength(0)
    await harness.clock.pass(FLUSH_AGE_MS / 2)
    expect(harness.committed.map(({ commit }) => commit.flushedSequence)).toEqual([1])
    expect(harness.flusher.stats()).toMatchObject({ memtableBytes: 0, poolsUnflushed: 0 })
  })

  test('W-8: on demand; one running and one waiting flush serve all callers', async () => {
    const harness = new FlusherHarness(limits)
    harness.isHeld = true
    harness.append(1, 1)
    const first = Array.from({ length: 5 }, () => harness.flusher.flushNow(1))
    await settle()
    harness.append(1, 1)
    const second = Array.from({ length: 5 }, () => harness.flusher.flushNow(1))
    await settle()
    expect(harness.tasks).toHaveLength(1)
    harness.heldTasks[0]!.pass()
    await settle()
    harness.heldCommits[0]!.pass()
    await Promise.all(first)
    expect(harness.committed).toHaveLength(1)
    await settle()
    harness.heldTasks[1]!.pass()
    await settle()
    harness.heldCommits[1]!.pass()
    await Promise.all(second)
    expect(harness.tasks).toHaveLength(2)
    await harness.flusher.flushNow(1)
    expect(harness.tasks).toHaveLength(2)
  })

  test('at the end, all pools', async () => {
    const harness = new FlusherHarness(limits)
    for (const pool of [1, 2, 3, 4, 5]) harness.append(pool, 2)
    await harness.flusher.flushAll()
    expect(harness.committed.map(({ commit }) => commit.pool).sort()).toEqual([1, 2, 3, 4, 5])
    expect(harness.flusher.lowestUnflushedSequence()).toBe(6)
  })

  test('W-13: after the log is synced', async () => {
    const harness = new FlusherHarness(limits)
    harness.append(1, 1)
    await harness.flusher.flushNow(1)
    expect(harness.order).toEqual(['sync', 'write'])
  })

  test('up to a change of its plan', async () => {
    const harness = new FlusherHarness(limits)
    for (const version of [1, 1, 2, 1]) harness.append(1, 3, version)
    await harness.flusher.flushNow(1)
    expect(harness.tasks.map(task => [task.schema.version, task.sequenceFrom, task.sequenceTo])).toEqual([
      [1, 1, 2],
      [2, 3, 3],
      [1, 4, 4],
    ])
  })

  test('W-12: with all entries whose sequences interleave', async () => {
    const harness = new FlusherHarness({ ...limits, rows: 1 })
    const schema = { ...keySchema, pool: 1 }
    const entry = (a: number, b: number) =>
      post(schema, Array(2).fill({ key: 'k', values: ['k'] }), [
        [a, 0, 1],
        [b, 0, 1],
      ])
    harness.flusher.append(1, schema, [entry(1, 3), entry(2, 4), entry(4, 6), entry(7, 8)])
    await harness.flusher.flushAll()
    expect(harness.tasks.map(task => [task.sequenceFrom, task.sequenceTo, task.entries.length])).toEqual([
      [1, 6, 3],
      [7, 8, 1],
    ])
  })
})

describe('the pipeline', () => {
  test('has at most FLUSHES_MAX flushes under way, takes pools in turn, and commits what is written together', async () => {
    const harness = new FlusherHarness({ ...limits, rows: 1 })
    harness.isHeld = true
    for (let i = 0; i < 4; i++) harness.append(1, 1)
    harness.append(2, 1)
    await settle()
    expect(harness.tasks.map(task => task.schema.pool)).toEqual([1, 2, 1])
    expect(harness.flusher.stats().flushesUnderWay).toBe(FLUSHES_MAX)
    harness.heldTasks[0]!.pass()
    await settle()
    harness.heldTasks[1]!.pass()
    harness.heldTasks[2]!.pass()
    await settle()
    expect(harness.commits.map(flushes => flushes.length)).toEqual([1])
    harness.heldCommits[0]!.pass()
    await settle()
    expect(harness.commits.map(flushes => flushes.map(flush => flush.pool))).toEqual([[1], [2, 1]])
    expect(harness.flusher.lowestUnflushedSequence()).toBe(2)
  })

  test('commits the flushes of a pool in order, though a later one is written first', async () => {
    const harness = new FlusherHarness({ ...limits, rows: 1 })
    harness.isHeld = true
    for (let i = 0; i < 2; i++) harness.append(1, 1)
    await settle()
    harness.heldTasks[1]!.pass()
    await settle()
    expect(harness.commits).toEqual([])
    harness.heldTasks[0]!.pass()
    await settle()
    expect(harness.commits.map(flushes => flushes.map(flush => flush.flushedSequence))).toEqual([[1, 2]])
    expect(harness.fatal).toEqual([])
  })

  test('W-4: a failed commit gives back it and all later flushes of its pool, in order', async () => {
    const harness = new FlusherHarness({ ...limits, rows: 1 })
    harness.isHeld = true
    for (let i = 0; i < 2; i++) harness.append(1, 1)
    const before = harness.flusher.stats().memtableBytes
    await settle()
    const demand = codeOf(harness.flusher.flushNow(1))
    harness.heldTasks[0]!.pass()
    await settle()
    harness.heldCommits[0]!.fail(new Unavailable('index_failed', 'no space'))
    expect(await demand).toBe('flush_failed')
    expect(await codeOf(harness.flusher.flushNow(1))).toBe('flush_failed')
    harness.heldTasks[1]!.pass()
    await settle()
    expect(harness.commits).toHaveLength(1)
    expect(harness.flusher.stats()).toMatchObject({
      memtableBytes: before,
      flushesUnderWay: 0,
      poolsFailing: 1,
    })
    expect(harness.flusher.lowestUnflushedSequence()).toBe(1)
    harness.isHeld = false
    await harness.clock.pass(DISK_RETRY_MS + 1)
    // A rebuild would take segment 2 alone for the end of all that is flushed.
    expect(harness.unlinked).toEqual([2, 1])
    expect(harness.committed.map(({ commit }) => commit.flushedSequence)).toEqual([1, 2])
    expect(harness.flusher.stats()).toMatchObject({ memtableBytes: 0, poolsFailing: 0 })
    expect(harness.fatal).toEqual([])
  })

  test('W-6: no flush of a pool is written before what failed ones left is gone; a removal that fails stops all of them', async () => {
    const harness = new FlusherHarness({ ...limits, rows: 1 })
    harness.isHeld = true
    for (let i = 0; i < 2; i++) harness.append(1, 1)
    await settle()
    harness.failTask(0)
    harness.heldTasks[1]!.pass()
    await settle()
    const before = harness.tasks.length
    harness.failUnlinks = 1
    await harness.clock.pass(DISK_RETRY_MS + 1)
    expect([harness.tasks.length, harness.unlinked]).toEqual([before, []])
    harness.isHeld = false
    await harness.clock.pass(DISK_RETRY_MS + 1)
    // A rebuild would take segment 2 alone for the end of all that is flushed.
    expect(harness.unlinked).toEqual([2, 1])
    expect(
      harness.order.slice(harness.order.indexOf('unlinked')).filter(what => what === 'write'),
    ).toHaveLength(2)
    expect(harness.committed.map(({ commit }) => commit.flushedSequence)).toEqual([1, 2])
    expect(harness.fatal).toEqual([])
  })

  test('tries a failed write again and again, and takes appends meanwhile', async () => {
    const harness = new FlusherHarness(limits)
    harness.isHeld = true
    harness.append(1, 5)
    const demand = codeOf(harness.flusher.flushNow(1))
    await settle()
    harness.failTask(0)
    expect(await demand).toBe('flush_failed')
    harness.append(1, 5)
    await harness.clock.pass(DISK_RETRY_MS + 1)
    harness.failTask(1)
    await settle()
    harness.isHeld = false
    await harness.clock.pass(DISK_RETRY_MS + 1)
    expect(harness.failures).toEqual(['ENOSPC', 'ENOSPC'])
    expect(harness.tasks.map(task => task.segment)).toEqual([1, 2, 3])
    expect(harness.committed.map(({ commit }) => [commit.add!.rows, commit.flushedSequence])).toEqual([
      [10, 2],
    ])
  })

  test('fails a demand when the log cannot be synced, with two flushes waiting for it', async () => {
    const harness = new FlusherHarness({ ...limits, rows: 1 })
    harness.failSync = new Unavailable('log_refused', 'poisoned')
    harness.append(1, 1)
    harness.append(1, 1)
    expect(await codeOf(harness.flusher.flushNow(1))).toBe('flush_failed')
    await settle()
    expect(harness.tasks).toEqual([])
    expect(harness.flusher.stats().flushesUnderWay).toBe(0)
    harness.failSync = undefined
    await harness.clock.pass(DISK_RETRY_MS + 1)
    expect(harness.committed).toHaveLength(2)
    expect(harness.fatal).toEqual([])
  })
})

describe('a dropped pool', () => {
  test('loses its memtable at once and its running flush when it is written; its files go', async () => {
    const harness = new FlusherHarness({ ...limits, rows: 2 })
    harness.isHeld = true
    harness.append(1, 2)
    harness.append(1, 1)
    const demand = codeOf(harness.flusher.flushNow(1))
    await settle()
    let isDropped = false
    const dropped = harness.flusher.dropPool(1).then(() => {
      isDropped = true
    })
    expect(await demand).toBe('pool_deleted')
    harness.append(1, 1)
    await settle()
    expect(isDropped).toBe(false)
    harness.heldTasks[0]!.pass()
    await dropped
    expect(harness.commits).toEqual([])
    expect(harness.unlinked).toEqual([1])
    expect(harness.flusher.stats()).toMatchObject({
      memtableBytes: 0,
      poolsUnflushed: 0,
      flushesUnderWay: 0,
      recentFlushBytes: 0,
    })
  })

  test('waits for a running commit, which the manifest is told of: the index used up its number', async () => {
    const harness = new FlusherHarness(limits)
    harness.isHeld = true
    harness.append(1, 1)
    const demand = codeOf(harness.flusher.flushNow(1))
    await settle()
    harness.heldTasks[0]!.pass()
    await settle()
    const dropped = harness.flusher.dropPool(1)
    harness.heldCommits[0]!.pass()
    await dropped
    expect(await demand).toBe('pool_deleted')
    expect(harness.committed).toHaveLength(1)
    expect(harness.flusher.stats()).toMatchObject({ memtableBytes: 0, flushesUnderWay: 0 })
  })
})

describe('W-9: the memtable', () => {
  test('says no beyond its maximum, and calls when there is room', async () => {
    const harness = new FlusherHarness(limits)
    let calls = 0
    harness.flusher.onRoom = () => calls++
    expect(harness.flusher.roomFor(MEMTABLE_BYTES_MAX + 1)).toBe(true)
    harness.append(1, 1)
    expect(harness.flusher.roomFor(MEMTABLE_BYTES_MAX - harness.flusher.stats().memtableBytes)).toBe(true)
    await harness.flusher.flushNow(1)
    expect(calls).toBe(0)
    harness.append(1, 1)
    expect(harness.flusher.roomFor(MEMTABLE_BYTES_MAX)).toBe(false)
    await harness.flusher.flushNow(1)
    expect(calls).toBe(1)
  })

  test('a bug is no failure of the disk: it ends the process', async () => {
    const harness = new FlusherHarness(limits)
    const bug = new AssertionFailed('the log is missing')
    harness.failSync = bug
    harness.append(1, 1)
    void harness.flusher.flushNow(1)
    await settle()
    expect(harness.fatal).toEqual([bug])
    expect(harness.failures).toEqual([])
  })
})
