/**
 * While the index is slow, flushes are smaller and requests wait, so no reader waits for a whole
 * memtable.
 */
import { describe, expect, test } from 'vitest'
import type { FlushCommit } from '../../src/index/index-types.ts'
import {
  FLUSH_CALM_MS,
  FLUSH_GROW_MS,
  FLUSH_INDEX_MS_MAX,
  FLUSH_INDEX_MS_MIN,
  FLUSH_SHRINK_MAX,
  FLUSH_SHRINK_REST_MS,
  FLUSH_SMALLER_MS_MAX,
  FLUSH_SMALLER_MS_MIN,
} from '../../src/store/flush/flush-policy.ts'
import { FLUSH_TICK_MS } from '../../src/store/flush/flusher.ts'
import { FLUSHES_MAX } from '../../src/util/limits.ts'
import { FlusherHarness, settle } from './flusher-harness.ts'

const ROWS = 1_600
const limits = { rows: ROWS, bytes: 100_000_000, entries: 10_000 }

/** A flusher whose pool 1 always has more rows than a flush takes. */
async function floodedHarness(): Promise<FlusherHarness> {
  const harness = new FlusherHarness(limits)
  harness.isHeld = true
  flood(harness)
  await settle()
  return harness
}

function flood(harness: FlusherHarness): void {
  for (let i = 0; i < 100; i++) harness.append(1, 100)
}

/** Time that the index takes for a flush of some rows, ms. */
type Cost = (rows: number) => number

/** Writes what is to be written, and commits it after as long as the index takes for it. */
async function commit(harness: FlusherHarness, cost: Cost): Promise<void> {
  for (const task of harness.heldTasks.splice(0)) task.pass()
  await settle()
  const rowsOf = ({ add }: FlushCommit) => add?.rows ?? 0
  harness.costOf = flush => ({ keysMs: cost(rowsOf(flush)) })
  const transaction = harness.heldCommits.shift()
  await harness.clock.pass((transaction?.what ?? []).reduce((sum, flush) => sum + cost(rowsOf(flush)), 0))
  transaction?.pass()
  await settle()
}

/** Rows of the flush that started last. */
const lastRows = (harness: FlusherHarness) => harness.tasks.at(-1)!.entries.length * 100

/** Commits so often, with rows always waiting. Returns the sizes of the flushes, in order. */
async function drain(harness: FlusherHarness, cost: Cost, commits: number) {
  const sizes = new Set<number>()
  for (let i = 0; i < commits; i++) {
    await commit(harness, cost)
    if (harness.flusher.stats().memtableBytes < 5_000_000) flood(harness)
    await settle()
    sizes.add(lastRows(harness))
  }
  return [...sizes]
}

/** Rows cost so much that a full flush would take `ms`. */
const rowsTake =
  (ms: number): Cost =>
  rows =>
    (ms * rows) / ROWS
const SLOW = rowsTake(FLUSH_SHRINK_MAX * FLUSH_SMALLER_MS_MAX + 100)
const FAST = rowsTake(FLUSH_INDEX_MS_MIN - 1)

describe('flushes that take long', () => {
  test('are made smaller, step by step, to a limit', async () => {
    const harness = await floodedHarness()
    expect(lastRows(harness)).toBe(ROWS)
    const sizes = await drain(harness, SLOW, 60)
    expect(sizes).toEqual([2, 4, 8, 16].map(part => ROWS / part))
    expect(lastRows(harness)).toBe(ROWS / FLUSH_SHRINK_MAX)
  })

  test('are made larger again when they are fast, and stay as they are in between', async () => {
    const harness = await floodedHarness()
    await drain(harness, rowsTake(FLUSH_INDEX_MS_MAX + 1), 20)
    expect(lastRows(harness)).toBe(ROWS / 4)
    const middle = (FLUSH_SMALLER_MS_MIN + FLUSH_SMALLER_MS_MAX) / 2
    expect(await drain(harness, rowsTake(4 * middle), 15)).toEqual([ROWS / 4])
    await drain(harness, FAST, 40)
    expect(lastRows(harness)).toBe(ROWS)
  })

  test('are not made larger by fast ones of another pool, but when none was slow for a while', async () => {
    const harness = await floodedHarness()
    await drain(harness, SLOW, 60)
    const before = harness.clock.nowMs()
    const sizes = await drain(harness, FAST, 20)
    expect(harness.clock.nowMs() - before).toBeLessThan(FLUSH_GROW_MS)
    expect(sizes).toEqual([ROWS / FLUSH_SHRINK_MAX])
    await harness.clock.pass(FLUSH_GROW_MS)
    expect(await drain(harness, FAST, 60)).toEqual([8, 4, 2, 1].map(part => ROWS / part))
  })

  test('are as large as ever where it is not their rows that take long, but for a try now and then', async () => {
    const harness = await floodedHarness()
    const fixed = () => FLUSH_INDEX_MS_MAX + 1
    const sizes = await drain(harness, fixed, 10)
    expect(sizes).toEqual([ROWS / 2, ROWS])
    expect(lastRows(harness)).toBe(ROWS)
    expect(await drain(harness, fixed, 3)).toEqual([ROWS])
    await harness.clock.pass(FLUSH_SHRINK_REST_MS)
    expect(await drain(harness, SLOW, 12)).toContain(ROWS / 2)
  })

  test('are not put back for one slow flush', async () => {
    const harness = await floodedHarness()
    let flushes = 0
    // The cost is asked for twice per flush.
    const once: Cost = rows => (rows < ROWS && flushes++ < 2 ? SLOW(ROWS) : SLOW(rows))
    expect(await drain(harness, once, 40)).toEqual([2, 4, 8, 16].map(part => ROWS / part))
  })

  test('are large again when rows cost little, though each transaction takes long', async () => {
    const harness = await floodedHarness()
    await drain(harness, SLOW, 60)
    expect(lastRows(harness)).toBe(ROWS / FLUSH_SHRINK_MAX)
    for (const fixedMs of [FLUSH_SMALLER_MS_MIN + 10, FLUSH_SMALLER_MS_MAX + 10]) {
      await drain(harness, rows => fixedMs + FAST(rows) / 10, 2 * (FLUSH_SHRINK_REST_MS / fixedMs))
      expect(lastRows(harness)).toBe(ROWS)
    }
  })

  test('are tried in double size now and then, and no more, while rows cost much', async () => {
    const harness = await floodedHarness()
    await drain(harness, SLOW, 60)
    const sizes: number[] = []
    for (let i = 0; i < 200; i++) sizes.push(...(await drain(harness, SLOW, 1)))
    const large = sizes.filter(rows => rows > ROWS / FLUSH_SHRINK_MAX)
    expect(new Set(large)).toEqual(new Set([(2 * ROWS) / FLUSH_SHRINK_MAX]))
    expect(large.length).toBeLessThan(sizes.length / 4)
  })

  test('are as large as ever where it is not the index that takes long', async () => {
    const harness = await floodedHarness()
    for (let i = 0; i < 10; i++) {
      await harness.clock.pass(10 * FLUSH_INDEX_MS_MAX)
      expect(await drain(harness, FAST, 1)).toEqual([ROWS])
    }
  })

  test('are full again after a while without full ones', async () => {
    const harness = await floodedHarness()
    await drain(harness, SLOW, 60)
    harness.isHeld = false
    await commit(harness, FAST)
    for (let i = 0; i < 100 && harness.heldCommits.length + harness.heldTasks.length > 0; i++)
      await commit(harness, FAST)
    await harness.flusher.flushNow(1)
    await harness.clock.pass(FLUSH_CALM_MS)
    harness.isHeld = true
    harness.append(1, 1) // a memtable for the flusher to check
    await harness.clock.pass(FLUSH_TICK_MS)
    flood(harness)
    await settle()
    expect(lastRows(harness)).toBe(ROWS)
  })

  test('say nothing when they are not full: a slow disk does not make small flushes smaller', async () => {
    const harness = new FlusherHarness(limits)
    harness.isHeld = true
    for (let i = 0; i < 10; i++) {
      harness.append(1, 1)
      const flushed = harness.flusher.flushNow(1)
      await settle()
      await commit(harness, () => 10 * FLUSH_INDEX_MS_MAX)
      await flushed
    }
    flood(harness)
    await settle()
    expect(lastRows(harness)).toBe(ROWS)
  })
})

describe('W-9: requests', () => {
  test('wait while flushes are slow and a full memtable waits for its turn, and are told when it got it', async () => {
    const harness = await floodedHarness()
    let told = 0
    harness.flusher.onRoom = () => told++
    expect(harness.flusher.roomFor(1)).toBe(true)
    await drain(harness, SLOW, 12)
    expect(harness.flusher.stats().flushesUnderWay).toBe(FLUSHES_MAX)
    expect(harness.flusher.roomFor(1)).toBe(false)
    expect(told).toBe(0)
    for (let i = 0; i < 1000 && told === 0; i++) await commit(harness, SLOW)
    expect(told).toBe(1)
    expect(harness.flusher.roomFor(1)).toBe(true)
  })

  test('do not wait so while flushes are fast', async () => {
    const harness = await floodedHarness()
    await drain(harness, FAST, 6)
    expect(harness.flusher.stats().flushesUnderWay).toBe(FLUSHES_MAX)
    expect(harness.flusher.roomFor(1)).toBe(true)
  })
})
