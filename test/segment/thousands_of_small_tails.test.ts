/** Tails that nobody reads: sealed late, spread over time, and never beyond their bounds of age, log and memory. */
import { describe, expect, it } from 'vitest'
import {
  LOG_UNSEALED_BYTES,
  SEAL_AGE_MS,
  SEAL_TICK_MS,
  SEALS_MAX,
  SEALS_SMALL,
  TAIL_WAITING_BYTES_MAX,
} from '../../src/limits.ts'
import { shareOf } from '../../src/segment/due.ts'
import { Bench, settle } from './fakes.ts'
import { randomOf } from './rows.ts'

const limits = { rows: 100_000, bytes: 1e9, entries: 1_000_000 }
const poolsOf = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

function benchOf(pools: number): Bench {
  const bench = new Bench(limits)
  for (const pool of poolsOf(pools)) if (pool > 5) bench.addPool(pool)
  return bench
}

/** How old the oldest unsealed row of each pool may be, at a look of every tick. */
const ageMax = (pool: number) => shareOf(pool) * SEAL_AGE_MS + SEAL_TICK_MS

describe('tails that nobody reads', () => {
  it('wait for at least half of SEAL_AGE_MS, and none for longer than its share of it', async () => {
    const bench = benchOf(200)
    const begin = bench.clock.ms
    for (const pool of poolsOf(200)) bench.append(pool, 1)
    await bench.clock.pass(SEAL_AGE_MS / 2 - 1)
    expect(bench.committed).toEqual([])
    for (let late = begin + SEAL_AGE_MS / 2; bench.clock.ms < begin + SEAL_AGE_MS; late += SEAL_TICK_MS) {
      await bench.clock.pass(SEAL_TICK_MS)
      const sealed = new Set(bench.committed.map(({ commit }) => commit.pool))
      for (const pool of poolsOf(200))
        if (bench.clock.ms - begin > ageMax(pool)) expect(sealed.has(pool), `${pool} at ${late}`).toBe(true)
    }
    expect(bench.committed).toHaveLength(200)
    expect(bench.sealer.stats()).toMatchObject({ tailBytes: 0, poolsUnsealed: 0 })
  })

  it('of pools that began together do not come due together', async () => {
    const pools = 2000
    const bench = benchOf(pools)
    for (const pool of poolsOf(pools)) bench.append(pool, 1)
    let largest = 0
    let before = 0
    for (let ms = 0; ms < SEAL_AGE_MS + 1000; ms += 1000) {
      await bench.clock.pass(1000)
      largest = Math.max(largest, bench.committed.length - before)
      before = bench.committed.length
    }
    expect(before).toBe(pools)
    const even = pools / (SEAL_AGE_MS / 2 / 1000)
    expect(largest).toBeLessThan(1.2 * even)
  })

  it('W-13: hold back a bounded part of the log: at full load they are sealed long before their age', async () => {
    const bench = benchOf(50)
    for (const pool of poolsOf(50)) bench.append(pool, 1)
    bench.logBytes += LOG_UNSEALED_BYTES / 2 - 1
    await bench.clock.pass(SEAL_TICK_MS)
    expect(bench.committed).toEqual([])
    bench.logBytes += LOG_UNSEALED_BYTES / 4
    await bench.clock.pass(SEAL_TICK_MS)
    const early = bench.committed.length
    expect(early).toBeGreaterThan(10)
    expect(early).toBeLessThan(40)
    bench.logBytes += LOG_UNSEALED_BYTES / 4
    await bench.clock.pass(SEAL_TICK_MS)
    expect(bench.committed).toHaveLength(50)
    expect(bench.sealer.lowestUnsealedSequence()).toBe(51)
  })

  it('W-13: after any of a day of random loads, nothing unsealed is beyond its bounds, and the log is released', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const below = randomOf(seed)
    const random = () => below(1e6) / 1e6
    const bench = benchOf(30)
    /** By pool: when its unsealed rows came, oldest first. */
    const unsealed = new Map<number, { sequence: number; ms: number; logBytes: number }[]>()
    for (let step = 0; step < 2000; step++) {
      const pool = 1 + Math.floor(random() * 30)
      if (random() < 0.7) {
        const sequence = bench.append(pool, 1 + Math.floor(random() * 5))
        const list = unsealed.get(pool) ?? []
        unsealed.set(pool, list)
        list.push({ sequence, ms: bench.clock.ms, logBytes: bench.logBytes })
      }
      if (random() < 0.1) await bench.sealer.sealNow(pool)
      bench.logBytes += Math.floor(random() * random() * 0.02 * LOG_UNSEALED_BYTES)
      await bench.clock.pass(random() * 2 * SEAL_TICK_MS + (random() < 0.01 ? SEAL_AGE_MS / 4 : 0))
      await bench.clock.pass(SEAL_TICK_MS) // whatever just came due was looked at
      for (const { commit } of bench.committed.splice(0))
        unsealed.set(
          commit.pool,
          (unsealed.get(commit.pool) ?? []).filter(row => row.sequence > commit.sealedSequence),
        )
      let lowest = Number.POSITIVE_INFINITY
      for (const [of, [oldest]] of unsealed) {
        if (oldest === undefined) continue
        lowest = Math.min(lowest, oldest.sequence)
        const where = `pool ${of}, step ${step}, seed ${seed}`
        expect(bench.clock.ms - oldest.ms, where).toBeLessThanOrEqual(ageMax(of))
        const held = bench.logBytes - oldest.logBytes
        expect(held, where).toBeLessThanOrEqual((shareOf(of) + 0.02) * LOG_UNSEALED_BYTES)
      }
      if (lowest < Number.POSITIVE_INFINITY) expect(bench.sealer.lowestUnsealedSequence()).toBe(lowest)
    }
  })

  it('W-9: leave room: the largest are sealed first while all together are too large, and no more of them', async () => {
    const bench = benchOf(60)
    const small = TAIL_WAITING_BYTES_MAX / 100
    for (const pool of poolsOf(50)) bench.append(pool, 1, 1, small)
    await bench.clock.pass(SEAL_TICK_MS)
    expect(bench.committed).toEqual([])
    for (const pool of [51, 52, 53]) bench.append(pool, 1, 1, 20 * small)
    await bench.clock.pass(SEAL_TICK_MS)
    expect(bench.committed.map(({ commit }) => commit.pool)).toEqual([51])
    await bench.clock.pass(10 * SEAL_TICK_MS)
    expect(bench.committed).toHaveLength(1)
  })

  it('share what may be under way, and one index transaction', async () => {
    const bench = benchOf(200)
    bench.isHeld = true
    for (const pool of poolsOf(200)) bench.append(pool, 1)
    void bench.sealer.sealAll()
    await settle()
    expect(bench.sealer.stats().sealsUnderWay).toBe(SEALS_MAX * SEALS_SMALL)
    for (const job of bench.heldJobs.splice(0)) job.pass()
    await settle()
    bench.heldCommits[0]!.pass()
    await settle()
    expect(bench.commits.map(seals => seals.length)).toEqual([1, SEALS_MAX * SEALS_SMALL - 1])
  })
})

describe('pools in line', () => {
  it('a reader is not behind thousands of tails that came due, and those go on', async () => {
    const bench = benchOf(2000)
    bench.isHeld = true
    for (const pool of poolsOf(2000)) bench.append(pool, 1)
    bench.logBytes += LOG_UNSEALED_BYTES
    await bench.clock.pass(SEAL_TICK_MS)
    const underWay = bench.heldJobs.length
    for (let pool = 1900; pool < 1910; pool++) void bench.sealer.sealNow(pool)
    await settle()
    expect(bench.heldJobs).toHaveLength(underWay)
    for (const job of bench.heldJobs.splice(0)) job.pass()
    await settle()
    for (const commit of bench.heldCommits.splice(0)) commit.pass()
    await settle()
    for (const commit of bench.heldCommits.splice(0)) commit.pass()
    await settle()
    const next = bench.jobs.slice(underWay, underWay + 21).map(job => job.plan.pool)
    for (let pool = 1900; pool < 1910; pool++) expect(next).toContain(pool)
    expect(next.filter(pool => pool < 1900).length).toBeGreaterThan(5)
  })

  it('W-13: a pool that is always full does not keep the others from being sealed', async () => {
    const bench = new Bench({ rows: 10, bytes: 1e9, entries: 1e6 })
    bench.isHeld = true
    for (let pool = 6; pool <= 100; pool++) bench.addPool(pool)
    for (let pool = 2; pool <= 100; pool++) bench.append(pool, 1)
    for (let i = 0; i < 100; i++) bench.append(1, 10)
    bench.logBytes += LOG_UNSEALED_BYTES
    await bench.clock.pass(SEAL_TICK_MS)
    for (let turn = 0; turn < 30; turn++) {
      bench.heldJobs.shift()?.pass()
      await settle()
      bench.heldCommits.shift()?.pass()
      await settle()
    }
    const started = bench.jobs.map(job => job.plan.pool)
    const full = started.filter(pool => pool === 1).length
    const others = started.length - full
    expect(full).toBeGreaterThan(2)
    expect(others).toBeGreaterThan(5 * full)
  })

  it('nothing starts after the end; what is under way is waited for', async () => {
    const bench = benchOf(100)
    bench.isHeld = true
    for (const pool of poolsOf(100)) bench.append(pool, 1)
    bench.sealer.sealAll().catch(() => undefined)
    await settle()
    let isIdle = false
    const idle = bench.sealer.stop().then(() => {
      isIdle = true
    })
    const jobs = bench.heldJobs.splice(0)
    for (const job of jobs) job.pass()
    await settle()
    expect(isIdle).toBe(false)
    while (bench.heldCommits.length > 0) {
      bench.heldCommits.shift()!.pass()
      await settle()
    }
    await idle
    await bench.clock.pass(10 * SEAL_AGE_MS)
    expect(bench.jobs).toHaveLength(jobs.length)
    expect(bench.sealer.stats().sealsUnderWay).toBe(0)
  })
})
