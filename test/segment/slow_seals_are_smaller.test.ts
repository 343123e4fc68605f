/** While the index is slow, seals take fewer rows and requests wait, so that a reader does not wait for a whole tail. */
import { describe, expect, it } from 'vitest'
import {
  SEAL_CALM_MS,
  SEAL_DRAIN_MS_MAX,
  SEAL_DRAIN_MS_MIN,
  SEAL_SHRINK_MAX,
  SEAL_SHRINK_REST_MS,
  SEALS_MAX,
} from '../../src/limits.ts'
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

/** Writes what is to be written, and commits it after `fixedMs` and `msPerRow` for all its rows. */
async function commit(bench: Bench, fixedMs: number, msPerRow: number): Promise<void> {
  for (const job of bench.heldJobs.splice(0)) job.pass()
  await settle()
  const transaction = bench.heldCommits.shift()
  const seals = transaction?.what ?? []
  const rows = seals.reduce((sum, { add }) => sum + (add?.rows ?? 0), 0)
  await bench.clock.pass(fixedMs * seals.length + msPerRow * rows)
  transaction?.pass()
  await settle()
}

/** Rows of the seal that started last. */
const lastRows = (bench: Bench) => bench.jobs.at(-1)!.entries.length * 100

/** Commits so often, with rows always waiting. Returns the sizes of seals that were seen, in order. */
async function drain(bench: Bench, cost: { fixedMs?: number; msPerRow?: number }, commits: number) {
  const sizes = new Set<number>()
  for (let i = 0; i < commits; i++) {
    await commit(bench, cost.fixedMs ?? 0, cost.msPerRow ?? 0)
    if (bench.sealer.stats().tailBytes < 5_000_000) flood(bench)
    await settle()
    sizes.add(lastRows(bench))
  }
  return [...sizes]
}

/** Of a seal of `part` of all rows, so slow that it is made smaller. */
const slow = (part: number) => (SEAL_DRAIN_MS_MAX + 16) / (ROWS / part)

describe('seals that take long', () => {
  it('are made smaller, step by step, to a limit', async () => {
    const bench = await floodedBench()
    expect(lastRows(bench)).toBe(ROWS)
    const sizes = await drain(bench, { msPerRow: slow(16) }, 60)
    expect(sizes).toEqual([2, 4, 8, 16].map(part => ROWS / part))
    expect(lastRows(bench)).toBe(ROWS / SEAL_SHRINK_MAX)
  })

  it('are made larger again when they are fast, and stay as they are in between', async () => {
    const bench = await floodedBench()
    await drain(bench, { msPerRow: slow(2) }, 20)
    expect(lastRows(bench)).toBe(ROWS / 4)
    const middle = (SEAL_DRAIN_MS_MIN + SEAL_DRAIN_MS_MAX) / 2 / (ROWS / 4)
    expect(await drain(bench, { msPerRow: middle }, 10)).toEqual([ROWS / 4])
    await drain(bench, { msPerRow: (SEAL_DRAIN_MS_MIN - 1) / ROWS }, 40)
    expect(lastRows(bench)).toBe(ROWS)
  })

  it('are as large as ever where it is not their rows that take long, but for a try now and then', async () => {
    const bench = await floodedBench()
    const sizes = await drain(bench, { fixedMs: SEAL_DRAIN_MS_MAX + 1 }, 8)
    expect(sizes).toEqual([ROWS / 2, ROWS])
    expect(lastRows(bench)).toBe(ROWS)
    expect(await drain(bench, { fixedMs: SEAL_DRAIN_MS_MAX + 1 }, 3)).toEqual([ROWS])
    await bench.clock.pass(SEAL_SHRINK_REST_MS)
    expect(await drain(bench, { msPerRow: slow(1) }, 12)).toContain(ROWS / 2)
  })

  it('are full again after a while without full ones', async () => {
    const bench = await floodedBench()
    await drain(bench, { msPerRow: slow(16) }, 60)
    bench.isHeld = false
    await commit(bench, 0, 0)
    for (let i = 0; i < 100 && bench.heldCommits.length + bench.heldJobs.length > 0; i++)
      await commit(bench, 0, 0)
    await bench.sealer.sealNow(1)
    bench.append(1, 1) // a tail, so that the sealer looks at it
    await bench.clock.pass(SEAL_CALM_MS + 1000)
    bench.isHeld = true
    flood(bench)
    await settle()
    expect(lastRows(bench)).toBe(ROWS)
  })

  it('say nothing when they are not full: a slow disk does not make small seals smaller', async () => {
    const bench = new Bench(limits)
    bench.isHeld = true
    for (let i = 0; i < 10; i++) {
      bench.append(1, 1)
      const sealed = bench.sealer.sealNow(1)
      await settle()
      await commit(bench, 10 * SEAL_DRAIN_MS_MAX, 0)
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
    await drain(bench, { msPerRow: slow(16) }, 12)
    expect(bench.sealer.stats().sealsUnderWay).toBe(SEALS_MAX)
    expect(bench.sealer.roomFor(1)).toBe(false)
    expect(told).toBe(0)
    for (let i = 0; i < 1000 && told === 0; i++) await commit(bench, 0, slow(16))
    expect(told).toBe(1)
    expect(bench.sealer.roomFor(1)).toBe(true)
  })

  it('do not wait so while seals are fast', async () => {
    const bench = await floodedBench()
    await drain(bench, { msPerRow: SEAL_DRAIN_MS_MIN / ROWS }, 6)
    expect(bench.sealer.stats().sealsUnderWay).toBe(SEALS_MAX)
    expect(bench.sealer.roomFor(1)).toBe(true)
  })
})
