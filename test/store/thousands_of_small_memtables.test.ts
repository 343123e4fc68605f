/**
 * Memtables that nobody reads are flushed late, spread over time, and within the bounds of age, log
 * and memory.
 */
import { describe, expect, test } from 'vitest'
import { FLUSH_AGE_MS, shareOf } from '../../src/store/flush/flush-policy.ts'
import { FLUSH_AGE_TICK_MS, FLUSH_TICK_MS } from '../../src/store/flush/flusher.ts'
import {
  FLUSHES_MAX,
  FLUSHES_SMALL,
  LOG_UNFLUSHED_BYTES,
  MEMTABLE_WAITING_BYTES_MAX,
} from '../../src/util/limits.ts'
import { FlusherHarness, settle } from './flusher-harness.ts'
import { randomOf } from './rows.ts'

const limits = { rows: 100_000, bytes: 1e9, entries: 1_000_000 }
const poolsOf = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

function harnessOf(pools: number): FlusherHarness {
  const harness = new FlusherHarness(limits)
  for (const pool of poolsOf(pools)) if (pool > 5) harness.addPool(pool)
  return harness
}

/** A tick looks at the ages where the last look is a while ago. */
const AGE_LOOK_MS = FLUSH_AGE_TICK_MS + FLUSH_TICK_MS

/** The greatest age that the oldest unflushed row of a pool may have at any tick. */
const ageMax = (pool: number) => shareOf(pool) * FLUSH_AGE_MS + AGE_LOOK_MS

describe('memtables that nobody reads', () => {
  test('wait for at least half of FLUSH_AGE_MS, and none for longer than its share of it', async () => {
    const harness = harnessOf(200)
    const begin = harness.clock.ms
    for (const pool of poolsOf(200)) harness.append(pool, 1)
    await harness.clock.pass(FLUSH_AGE_MS / 2 - 1)
    expect(harness.committed).toEqual([])
    for (
      let late = begin + FLUSH_AGE_MS / 2;
      harness.clock.ms < begin + FLUSH_AGE_MS + AGE_LOOK_MS;
      late += FLUSH_TICK_MS
    ) {
      await harness.clock.pass(FLUSH_TICK_MS)
      const flushed = new Set(harness.committed.map(({ commit }) => commit.pool))
      for (const pool of poolsOf(200))
        if (harness.clock.ms - begin > ageMax(pool))
          expect(flushed.has(pool), `${pool} at ${late}`).toBe(true)
    }
    expect(harness.committed).toHaveLength(200)
    expect(harness.flusher.stats()).toMatchObject({ memtableBytes: 0, poolsUnflushed: 0 })
  })

  test('of pools that began together do not come due together', async () => {
    const pools = 2000
    const harness = harnessOf(pools)
    for (const pool of poolsOf(pools)) harness.append(pool, 1)
    let largest = 0
    let before = 0
    for (let ms = 0; ms < FLUSH_AGE_MS + 1000; ms += 1000) {
      await harness.clock.pass(1000)
      largest = Math.max(largest, harness.committed.length - before)
      before = harness.committed.length
    }
    expect(before).toBe(pools)
    const even = pools / (FLUSH_AGE_MS / 2 / 1000)
    expect(largest).toBeLessThan(1.2 * even)
  })

  test('W-13: hold back a bounded part of the log: at full load they are flushed long before their age', async () => {
    const harness = harnessOf(50)
    for (const pool of poolsOf(50)) harness.append(pool, 1)
    harness.logBytes += LOG_UNFLUSHED_BYTES / 2 - 1
    await harness.clock.pass(AGE_LOOK_MS)
    expect(harness.committed).toEqual([])
    harness.logBytes += LOG_UNFLUSHED_BYTES / 4
    await harness.clock.pass(AGE_LOOK_MS)
    const early = harness.committed.length
    expect(early).toBeGreaterThan(10)
    expect(early).toBeLessThan(40)
    harness.logBytes += LOG_UNFLUSHED_BYTES / 4
    await harness.clock.pass(AGE_LOOK_MS)
    expect(harness.committed).toHaveLength(50)
    expect(harness.flusher.lowestUnflushedSequence()).toBe(51)
  })

  test('W-13: after any of a day of random loads, nothing unflushed is beyond its bounds, and the log is released', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const below = randomOf(seed)
    const random = () => below(1e6) / 1e6
    const harness = harnessOf(30)
    /** By pool: when its unflushed rows came, oldest first. */
    const unflushed = new Map<number, { sequence: number; ms: number; logBytes: number }[]>()
    for (let step = 0; step < 2000; step++) {
      const pool = 1 + Math.floor(random() * 30)
      if (random() < 0.7) {
        const sequence = harness.append(pool, 1 + Math.floor(random() * 5))
        const list = unflushed.get(pool) ?? []
        unflushed.set(pool, list)
        list.push({ sequence, ms: harness.clock.ms, logBytes: harness.logBytes })
      }
      if (random() < 0.1) await harness.flusher.flushNow(pool)
      harness.logBytes += Math.floor(random() * random() * 0.02 * LOG_UNFLUSHED_BYTES)
      await harness.clock.pass(random() * 2 * FLUSH_TICK_MS + (random() < 0.01 ? FLUSH_AGE_MS / 4 : 0))
      await harness.clock.pass(AGE_LOOK_MS) // whatever just came due was looked at
      for (const { commit } of harness.committed.splice(0))
        unflushed.set(
          commit.pool,
          (unflushed.get(commit.pool) ?? []).filter(row => row.sequence > commit.flushedSequence),
        )
      let lowest = Number.POSITIVE_INFINITY
      for (const [of, [oldest]] of unflushed) {
        if (oldest === undefined) continue
        lowest = Math.min(lowest, oldest.sequence)
        const where = `pool ${of}, step ${step}, seed ${seed}`
        expect(harness.clock.ms - oldest.ms, where).toBeLessThanOrEqual(ageMax(of))
        const held = harness.logBytes - oldest.logBytes
        expect(held, where).toBeLessThanOrEqual((shareOf(of) + 0.02) * LOG_UNFLUSHED_BYTES)
      }
      if (lowest < Number.POSITIVE_INFINITY) expect(harness.flusher.lowestUnflushedSequence()).toBe(lowest)
    }
  })

  test('W-9: leave room: the largest are flushed first while all together are too large, and no more of them', async () => {
    const harness = harnessOf(60)
    const small = MEMTABLE_WAITING_BYTES_MAX / 100
    for (const pool of poolsOf(50)) harness.append(pool, 1, 1, small)
    await harness.clock.pass(FLUSH_TICK_MS)
    expect(harness.committed).toEqual([])
    for (const pool of [51, 52, 53]) harness.append(pool, 1, 1, 20 * small)
    await harness.clock.pass(FLUSH_TICK_MS)
    expect(harness.committed.map(({ commit }) => commit.pool)).toEqual([51])
    await harness.clock.pass(10 * FLUSH_TICK_MS)
    expect(harness.committed).toHaveLength(1)
  })

  test('share what may be under way, and one index transaction', async () => {
    const harness = harnessOf(200)
    harness.isHeld = true
    for (const pool of poolsOf(200)) harness.append(pool, 1)
    void harness.flusher.flushAll()
    await settle()
    expect(harness.flusher.stats().flushesUnderWay).toBe(FLUSHES_MAX * FLUSHES_SMALL)
    for (const task of harness.heldTasks.splice(0)) task.pass()
    await settle()
    harness.heldCommits[0]!.pass()
    await settle()
    expect(harness.commits.map(flushes => flushes.length)).toEqual([1, FLUSHES_MAX * FLUSHES_SMALL - 1])
  })
})

describe('pools in line', () => {
  test('a reader is not behind thousands of memtables that came due, and those go on', async () => {
    const harness = harnessOf(2000)
    harness.isHeld = true
    for (const pool of poolsOf(2000)) harness.append(pool, 1)
    harness.logBytes += LOG_UNFLUSHED_BYTES
    await harness.clock.pass(FLUSH_TICK_MS)
    const underWay = harness.heldTasks.length
    for (let pool = 1900; pool < 1910; pool++) void harness.flusher.flushNow(pool)
    await settle()
    expect(harness.heldTasks).toHaveLength(underWay)
    for (const task of harness.heldTasks.splice(0)) task.pass()
    await settle()
    for (const commit of harness.heldCommits.splice(0)) commit.pass()
    await settle()
    for (const commit of harness.heldCommits.splice(0)) commit.pass()
    await settle()
    const next = harness.tasks.slice(underWay, underWay + 21).map(task => task.schema.pool)
    for (let pool = 1900; pool < 1910; pool++) expect(next).toContain(pool)
    expect(next.filter(pool => pool < 1900).length).toBeGreaterThan(5)
  })

  test('W-13: a pool that is always full does not keep the others from being flushed', async () => {
    const harness = new FlusherHarness({ rows: 10, bytes: 1e9, entries: 1e6 })
    harness.isHeld = true
    for (let pool = 6; pool <= 100; pool++) harness.addPool(pool)
    for (let pool = 2; pool <= 100; pool++) harness.append(pool, 1)
    for (let i = 0; i < 100; i++) harness.append(1, 10)
    harness.logBytes += LOG_UNFLUSHED_BYTES
    await harness.clock.pass(FLUSH_TICK_MS)
    for (let turn = 0; turn < 30; turn++) {
      harness.heldTasks.shift()?.pass()
      await settle()
      harness.heldCommits.shift()?.pass()
      await settle()
    }
    const started = harness.tasks.map(task => task.schema.pool)
    const full = started.filter(pool => pool === 1).length
    const others = started.length - full
    expect(full).toBeGreaterThan(2)
    expect(others).toBeGreaterThan(5 * full)
  })

  test('nothing starts after the end; what is under way is waited for', async () => {
    const harness = harnessOf(100)
    harness.isHeld = true
    for (const pool of poolsOf(100)) harness.append(pool, 1)
    harness.flusher.flushAll().catch(() => undefined)
    await settle()
    let isIdle = false
    const idle = harness.flusher.stop().then(() => {
      isIdle = true
    })
    const tasks = harness.heldTasks.splice(0)
    for (const task of tasks) task.pass()
    await settle()
    expect(isIdle).toBe(false)
    while (harness.heldCommits.length > 0) {
      harness.heldCommits.shift()!.pass()
      await settle()
    }
    await idle
    await harness.clock.pass(10 * FLUSH_AGE_MS)
    expect(harness.tasks).toHaveLength(tasks.length)
    expect(harness.flusher.stats().flushesUnderWay).toBe(0)
  })
})
