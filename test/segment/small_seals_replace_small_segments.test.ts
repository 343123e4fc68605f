/** Ten seals a second for an hour leave few segments, and write no row again and again. */
import { describe, expect, it } from 'vitest'
import { KEPT_ENTRIES_MAX, KEPT_ROWS_MAX } from '../../src/limits.ts'
import { Kept, type KeptSegment } from '../../src/segment/kept.ts'
import type { TailEntry } from '../../src/segment/protocol.ts'
import { Bench, settle } from './fakes.ts'
import { randomOf } from './rows.ts'

function segmentOf(segment: number, rows: number): KeptSegment {
  return { segment, planVersion: 1, rows, bytes: rows, first: segment, last: segment, entries: [] }
}

/** Live segments and times each row was written, after `seals` seals of random sizes. */
function simulate(seed: number, seals: number, rowsMax: number) {
  const random = randomOf(seed)
  const kept = new Kept()
  const live = new Set<number>()
  let [total, written] = [0, 0]
  for (let i = 1; i <= seals; i++) {
    const rows = 1 + random(rowsMax)
    const taken = kept.take(1, 1, rows, 1)
    const sum = taken.reduce((all, segment) => all + segment.rows, rows)
    for (const segment of taken) expect(live.delete(segment.segment)).toBe(true)
    live.add(i)
    kept.push(1, segmentOf(i, sum))
    total += rows
    written += sum
    expect(sum).toBeLessThanOrEqual(KEPT_ROWS_MAX)
  }
  return { segments: live.size, total, timesWritten: written / total }
}

describe('kept segments', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  it.each([3, 100, 300])(`36,000 seals of up to %d rows leave under 200 segments, seed ${seed}`, rowsMax => {
    const { segments, timesWritten } = simulate(seed, 36_000, rowsMax)
    expect(segments).toBeLessThan(200)
    expect(timesWritten).toBeLessThan(Math.log2(KEPT_ROWS_MAX))
  })

  it('are taken from the newest on without a gap', () => {
    const kept = new Kept()
    for (const [segment, rows] of [
      [1, 4],
      [2, 100],
      [3, 2],
    ] as const)
      kept.push(1, segmentOf(segment, rows))
    expect(kept.take(1, 1, 2, 1).map(({ segment }) => segment)).toEqual([3])
    expect(kept.take(1, 1, 2, 1)).toEqual([])
    expect(kept.take(1, 2, 1000, 1)).toEqual([])
    expect(kept.segments(1)).toEqual([1, 2])
  })

  it('end with a segment that is too large to keep', () => {
    const kept = new Kept()
    kept.push(1, segmentOf(1, 5))
    kept.push(1, segmentOf(2, KEPT_ROWS_MAX + 1))
    expect(kept.segments(1)).toEqual([])
    expect(kept.bytes).toBe(0)
  })

  it('are evicted from the oldest on, never leaving a gap', () => {
    const kept = new Kept(1000, 100)
    for (let i = 1; i <= 10; i++) kept.push(i % 2, segmentOf(i, 30))
    expect(kept.bytes).toBeLessThanOrEqual(100)
    expect([...kept.segments(0), ...kept.segments(1)].sort((a, b) => a - b)).toEqual([8, 9, 10])
  })
})

describe('a small seal', () => {
  it('takes the newest small segment with it, its entries first, and covers its sequences', async () => {
    const bench = new Bench()
    for (let i = 0; i < 3; i++) {
      bench.append(1, 10)
      await bench.sealer.sealNow(1)
    }
    expect(bench.committed.map(({ commit }) => commit.remove)).toEqual([[], [1], [2]])
    expect(bench.jobs[2]).toMatchObject({ replaces: [2], sequenceFrom: 1, sequenceTo: 3, segment: 3 })
    expect(bench.jobs[2]!.entries.map(entry => entry.requests[0])).toEqual([1, 2, 3])
    expect(bench.committed[2]!.commit.add!.rows).toBe(30)
    expect([...bench.sealer.heldSegments(1)]).toEqual([3])
    bench.sealer.forgetKept(1)
    bench.append(1, 10)
    await bench.sealer.sealNow(1)
    expect(bench.jobs[3]!.replaces).toEqual([])
  })

  it('that fails leaves the small segment to the next one', async () => {
    const bench = new Bench()
    bench.append(1, 10)
    await bench.sealer.sealNow(1)
    bench.isHeld = true
    bench.append(1, 10)
    const demand = bench.sealer.sealNow(1).catch(() => 'failed')
    await settle()
    expect([...bench.sealer.heldSegments(1)]).toEqual([1])
    bench.failJob(0)
    await demand
    bench.isHeld = false
    await bench.clock.pass(1001)
    expect(bench.committed.map(({ commit }) => [commit.add!.rows, commit.remove])).toEqual([
      [10, []],
      [20, [1]],
    ])
  })

  it('W-7: takes nothing while another seal of its pool is under way', async () => {
    const bench = new Bench({ rows: 20, bytes: 1e9, entries: 100 })
    bench.append(1, 50)
    await bench.sealer.sealNow(1)
    bench.isHeld = true
    bench.append(1, 20) // 50 rows are too many for it
    bench.append(1, 30) // not for this one, but the one before it may hold newer rows
    await settle()
    expect(bench.jobs.map(job => [job.replaces, job.entries.length])).toEqual([
      [[], 1],
      [[], 1],
      [[], 1],
    ])
  })

  it('takes no more batches than can be handed over in one go', () => {
    const kept = new Kept()
    const entries = Array.from({ length: KEPT_ENTRIES_MAX }, () => ({}) as TailEntry)
    kept.push(1, { ...segmentOf(1, 10), entries })
    expect(kept.take(1, 1, 10, 1)).toEqual([])
    expect(kept.take(1, 1, 10, 0)).toHaveLength(1)
  })
})
