/** While the index is slow, seals take fewer rows and requests wait, so that a reader does not wait for a whole tail. */
import { describe, expect, it } from 'vitest'
import { SEAL_DRAIN_MS_MAX, SEAL_DRAIN_MS_MIN, SEAL_SHRINK_MAX, SEALS_MAX } from '../../src/limits.ts'
import { Bench, settle } from './fakes.ts'

const ROWS = 1_600
const limits = { rows: ROWS, bytes: 100_000_000, entries: 10_000 }

/** A bench whose pool 1 always has more rows than a seal takes. */
async function floodedBench(): Promise<Bench> {
  const bench = new Bench(limits)
  bench.isHeld = true
  flood(bench)
  await settle()
  return bench
}

function flood(bench: Bench): void {
  for (let i = 0; i < 100; i++) bench.append(1, 100)
}

/** Writes all that is to be written, and commits it `ms` after the last commit. Returns the seals of the transaction. */
async function commit(bench: Bench, ms: number): Promise<number> {
  for (const job of bench.heldJobs.splice(0)) job.pass()
  await settle()
  await bench.clock.pass(ms)
  const transaction = bench.heldCommits.shift()
  transaction?.pass()
  await settle()
  return transaction?.what.length ?? 0
}

/** Rows of the seals that started last. */
const lastRows = (bench: Bench) => bench.jobs.at(-1)!.entries.length * 100

/** Commits until a seal began after the last change of size: `msPerSeal` for each seal of a transaction. */
async function drain(bench: Bench, msPerSeal: number, commits: number): Promise<void> {
  for (let i = 0; i < commits; i++) {
    for (const job of bench.heldJobs.splice(0)) job.pass()
    await settle()
    await commit(bench, msPerSeal * Math.max(1, bench.heldCommits[0]?.what.length ?? 1))
    if (bench.sealer.stats().tailBytes < 5_000_000) flood(bench)
    await settle()
  }
}

describe('seals that take long', () => {
  it('are made smaller, step by step, to a limit', async () => {
    const bench = await floodedBench()
    expect(lastRows(bench)).toBe(ROWS)
    const sizes = new Set<number>()
    for (let i = 0; i < 30; i++) {
      await drain(bench, SEAL_DRAIN_MS_MAX + 1, 1)
      sizes.add(lastRows(bench))
    }
    expect([...sizes]).toEqual([2, 4, 8, 16].map(shrink => ROWS / shrink))
    expect(lastRows(bench)).toBe(ROWS / SEAL_SHRINK_MAX)
  })

  it('are made larger again when they are fast, and stay as they are in between', async () => {
    const bench = await floodedBench()
    await drain(bench, SEAL_DRAIN_MS_MAX + 1, 8)
    const small = lastRows(bench)
    expect(small).toBeLessThan(ROWS)
    await drain(bench, (SEAL_DRAIN_MS_MIN + SEAL_DRAIN_MS_MAX) / 2, 10)
    const middle = lastRows(bench)
    await drain(bench, (SEAL_DRAIN_MS_MIN + SEAL_DRAIN_MS_MAX) / 2, 10)
    expect(lastRows(bench)).toBe(middle)
    await drain(bench, SEAL_DRAIN_MS_MIN - 1, 40)
    expect(lastRows(bench)).toBe(ROWS)
  })

  it('say nothing when they are not full: a slow disk does not make small seals smaller', async () => {
    const bench = new Bench(limits)
    bench.isHeld = true
    for (let i = 0; i < 10; i++) {
      bench.append(1, 1)
      const sealed = bench.sealer.sealNow(1)
      await settle()
      await commit(bench, 10 * SEAL_DRAIN_MS_MAX)
      await sealed
    }
    flood(bench)
    await settle()
    expect(lastRows(bench)).toBe(ROWS)
  })
})

describe('W-9: requests', () => {
  it('wait while seals are slow and a full tail waits for its turn, and are told when it got it', async () => {
    const bench = await floodedBench()
    let told = 0
    bench.sealer.onRoom = () => told++
    expect(bench.sealer.roomFor(1)).toBe(true)
    await drain(bench, SEAL_DRAIN_MS_MAX + 1, 6)
    expect(bench.sealer.stats().sealsUnderWay).toBe(SEALS_MAX)
    expect(bench.sealer.roomFor(1)).toBe(false)
    expect(told).toBe(0)
    for (let i = 0; i < 1000 && told === 0; i++) await commit(bench, SEAL_DRAIN_MS_MAX + 1)
    expect(told).toBe(1)
    expect(bench.sealer.roomFor(1)).toBe(true)
  })

  it('do not wait so while seals are fast', async () => {
    const bench = await floodedBench()
    await drain(bench, SEAL_DRAIN_MS_MIN, 6)
    expect(bench.sealer.stats().sealsUnderWay).toBe(SEALS_MAX)
    expect(bench.sealer.roomFor(1)).toBe(true)
  })
})
