/**
 * Recent flushes: an hour of ten flushes a second leaves few segments, and no row is written often.
 */
import { describe, expect, test } from 'vitest'
import type { MemtableEntry } from '../../src/store/flush/memtable.ts'
import {
  RECENT_FLUSH_ENTRIES_MAX,
  type RecentFlush,
  RecentFlushes,
} from '../../src/store/flush/recent-flushes.ts'
import { RECENT_FLUSH_ROWS_MAX } from '../../src/util/limits.ts'
import { FlusherHarness, settle } from './flusher-harness.ts'
import { randomOf } from './rows.ts'

function segmentOf(segment: number, rows: number): RecentFlush {
  return { segment, schemaVersion: 1, rows, bytes: rows, first: segment, last: segment, entries: [] }
}

/** Live segments and times each row was written, after `flushes` flushes of random sizes. */
function simulate(seed: number, flushes: number, rowsMax: number) {
  const random = randomOf(seed)
  const recent = new RecentFlushes()
  const live = new Set<number>()
  let [total, written] = [0, 0]
  for (let i = 1; i <= flushes; i++) {
    const rows = 1 + random(rowsMax)
    const rewritten = recent.take(1, 1, rows, 1)
    const sum = rewritten.reduce((all, segment) => all + segment.rows, rows)
    for (const segment of rewritten) expect(live.delete(segment.segment)).toBe(true)
    live.add(i)
    recent.push(1, segmentOf(i, sum))
    total += rows
    written += sum
    expect(sum).toBeLessThanOrEqual(RECENT_FLUSH_ROWS_MAX)
  }
  return { segments: live.size, total, timesWritten: written / total }
}

describe('recent flushes', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  test.each([3, 100, 300])(
    `36,000 flushes of up to %d rows leave under 200 segments, seed ${seed}`,
    rowsMax => {
      const { segments, timesWritten } = simulate(seed, 36_000, rowsMax)
      expect(segments).toBeLessThan(200)
      expect(timesWritten).toBeLessThan(Math.log2(RECENT_FLUSH_ROWS_MAX))
    },
  )

  test('are taken from the newest on without a gap', () => {
    const recent = new RecentFlushes()
    for (const [segment, rows] of [
      [1, 4],
      [2, 100],
      [3, 2],
    ] as const)
      recent.push(1, segmentOf(segment, rows))
    expect(recent.take(1, 1, 2, 1).map(({ segment }) => segment)).toEqual([3])
    expect(recent.take(1, 1, 2, 1)).toEqual([])
    expect(recent.take(1, 2, 1000, 1)).toEqual([])
    expect(recent.segments(1)).toEqual([1, 2])
  })

  test('are dropped when a segment is too large to write again', () => {
    const recent = new RecentFlushes()
    recent.push(1, segmentOf(1, 5))
    recent.push(1, segmentOf(2, RECENT_FLUSH_ROWS_MAX + 1))
    expect(recent.segments(1)).toEqual([])
    expect(recent.bytes).toBe(0)
  })

  test('are evicted from the oldest on, never leaving a gap', () => {
    const recent = new RecentFlushes(undefined, 1000, 100)
    for (let i = 1; i <= 10; i++) recent.push(i % 2, segmentOf(i, 30))
    expect(recent.bytes).toBeLessThanOrEqual(100)
    expect([...recent.segments(0), ...recent.segments(1)].sort((a, b) => a - b)).toEqual([8, 9, 10])
  })
})

describe('a small flush', () => {
  test('takes the newest small segment with it, its entries first, and covers its sequences', async () => {
    const harness = new FlusherHarness()
    for (let i = 0; i < 3; i++) {
      harness.append(1, 10)
      await harness.flusher.flushNow(1)
    }
    expect(harness.committed.map(({ commit }) => commit.remove)).toEqual([[], [1], [2]])
    expect(harness.tasks[2]).toMatchObject({ replaces: [2], sequenceFrom: 1, sequenceTo: 3, segment: 3 })
    expect(harness.tasks[2]!.entries.map(entry => entry.requests[0])).toEqual([1, 2, 3])
    expect(harness.committed[2]!.commit.add!.rows).toBe(30)
    expect([...harness.flusher.replaceableSegments(1)]).toEqual([3])
    harness.flusher.forgetRecent(1)
    harness.append(1, 10)
    await harness.flusher.flushNow(1)
    expect(harness.tasks[3]!.replaces).toEqual([])
  })

  test('that fails leaves the small segment to the next one', async () => {
    const harness = new FlusherHarness()
    harness.append(1, 10)
    await harness.flusher.flushNow(1)
    harness.isHeld = true
    harness.append(1, 10)
    const demand = harness.flusher.flushNow(1).catch(() => 'failed')
    await settle()
    expect([...harness.flusher.replaceableSegments(1)]).toEqual([1])
    harness.failTask(0)
    await demand
    harness.isHeld = false
    await harness.clock.pass(1001)
    expect(harness.committed.map(({ commit }) => [commit.add!.rows, commit.remove])).toEqual([
      [10, []],
      [20, [1]],
    ])
  })

  test('W-7: takes nothing while another flush of its pool is under way', async () => {
    const harness = new FlusherHarness({ rows: 20, bytes: 1e9, entries: 100 })
    harness.append(1, 50)
    await harness.flusher.flushNow(1)
    harness.isHeld = true
    harness.append(1, 20) // 50 rows are too many for it
    harness.append(1, 30) // not for this one, but the one before it may hold newer rows
    await settle()
    expect(harness.tasks.map(task => [task.replaces, task.entries.length])).toEqual([
      [[], 1],
      [[], 1],
      [[], 1],
    ])
  })

  test('takes at most RECENT_FLUSH_ENTRIES_MAX batches', () => {
    const recent = new RecentFlushes()
    const entries = Array.from({ length: RECENT_FLUSH_ENTRIES_MAX }, () => ({}) as MemtableEntry)
    recent.push(1, { ...segmentOf(1, 10), entries })
    expect(recent.take(1, 1, 10, 1)).toEqual([])
    expect(recent.take(1, 1, 10, 0)).toHaveLength(1)
  })
})
