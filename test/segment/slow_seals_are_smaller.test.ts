/** While the index is slow, seals take fewer rows and requests wait, so that a reader does not wait for a whole tail. */
import { describe, expect, it } from 'vitest'
import type { SealCommit } from '../../src/keys/protocol.ts'
import {
  SEAL_CALM_MS,
  SEAL_GROW_MS,
  SEAL_INDEX_MS_MAX,
  SEAL_INDEX_MS_MIN,
  SEAL_SHRINK_MAX,
  SEAL_SHRINK_REST_MS,
  SEAL_SMALLER_MS_MAX,
  SEAL_SMALLER_MS_MIN,
  SEAL_TICK_MS,
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

/** What the index takes for a seal of some rows, ms. */
type Cost = (rows: number) => number

/** Writes what is to be written, and commits it after as long as the index takes for it. */
async function commit(bench: Bench, cost: Cost): Promise<void> {
  for (const job of bench.heldJobs.splice(0)) job.pass()
  await settle()
  const rowsOf = ({ add }: SealCommit) => add?.rows ?? 0
  bench.costOf = seal => ({ keysMs: cost(rowsOf(seal)) })
  const transaction = bench.heldCommits.shift()
  await bench.clock.pass((transaction?.what ?? []).reduce((sum, seal) => sum + cost(rowsOf(seal)), 0))
  transaction?.pass()
  await settle()
}

/** Rows of the seal that started last. */
const lastRows = (bench: Bench) => bench.jobs.at(-1)!.entries.length * 100

/** Commits so often, with rows always waiting. Returns the sizes of seals that were seen, in order. */
async function drain(bench: Bench, cost: Cost, commits: number) {
  const sizes = new Set<number>()
  for (let i = 0; i < commits; i++) {
    await commit(bench, cost)
    if (bench.sealer.stats().tailBytes < 5_000_000) flood(bench)
    await settle()
    sizes.add(lastRows(bench))
  }
  return [...sizes]
}

/** Rows cost so much that a full seal would take `ms`. */
const rowsTake =
  (ms: number): Cost =>
  rows =>
    (ms * rows) / ROWS
const SLOW = rowsTake(SEAL_SHRINK_MAX * SEAL_SMALLER_MS_MAX + 100)
const FAST = rowsTake(SEAL_INDEX_MS_MIN - 1)

describe('seals that take long', () => {
  it('are made smaller, step by step, to a limit', async () => {
    const bench = await floodedBench()
    expect(lastRows(bench)).toBe(ROWS)
    const sizes = await drain(bench, SLOW, 60)
    expect(sizes).toEqual([2, 4, 8, 16].map(part => ROWS / part))
    expect(lastRows(bench)).toBe(ROWS / SEAL_SHRINK_MAX)
  })

  it('are made larger again when they are fast, and stay as they are in between', async () => {
    const bench = await floodedBench()
    await drain(bench, rowsTake(SEAL_INDEX_MS_MAX + 1), 20)
    expect(lastRows(bench)).toBe(ROWS / 4)
    const middle = (SEAL_SMALLER_MS_MIN + SEAL_SMALLER_MS_MAX) / 2
    expect(await drain(bench, rowsTake(4 * middle), 15)).toEqual([ROWS / 4])
    await drain(bench, FAST, 40)
    expect(lastRows(bench)).toBe(ROWS)
  })

  it('are not made larger by fast ones of another pool, but when none was slow for a while', async () => {
    const bench = await floodedBench()
    await drain(bench, SLOW, 60)
    const before = bench.clock.nowMs()
    const sizes = await drain(bench, FAST, 20)
    expect(bench.clock.nowMs() - before).toBeLessThan(SEAL_GROW_MS)
    expect(sizes).toEqual([ROWS / SEAL_SHRINK_MAX])
    await bench.clock.pass(SEAL_GROW_MS)
    expect(await drain(bench, FAST, 60)).toEqual([8, 4, 2, 1].map(part => ROWS / part))
  })

  it('are as large as ever where it is not their rows that take long, but for a try now and then', async () => {
    const bench = await floodedBench()
    const fixed = () => SEAL_INDEX_MS_MAX + 1
    const sizes = await drain(bench, fixed, 10)
    expect(sizes).toEqual([ROWS / 2, ROWS])
    expect(lastRows(bench)).toBe(ROWS)
    expect(await drain(bench, fixed, 3)).toEqual([ROWS])
    await bench.clock.pass(SEAL_SHRINK_REST_MS)
    expect(await drain(bench, SLOW, 12)).toContain(ROWS / 2)
  })

  it('are not put back for one slow seal', async () => {
    const bench = await floodedBench()
    let seals = 0
    const once: Cost = rows => (rows < ROWS && seals++ < 2 ? SLOW(ROWS) : SLOW(rows)) // asked twice for each
    expect(await drain(bench, once, 40)).toEqual([2, 4, 8, 16].map(part => ROWS / part))
  })

  it('are large again when rows cost little, though each transaction takes long', async () => {
    const bench = await floodedBench()
    await drain(bench, SLOW, 60)
    expect(lastRows(bench)).toBe(ROWS / SEAL_SHRINK_MAX)
    for (const fixedMs of [SEAL_SMALLER_MS_MIN + 10, SEAL_SMALLER_MS_MAX + 10]) {
      await drain(bench, rows => fixedMs + FAST(rows) / 10, 2 * (SEAL_SHRINK_REST_MS / fixedMs))
      expect(lastRows(bench)).toBe(ROWS)
    }
  })

  it('are tried in double size now and then, and no more, while rows cost much', async () => {
    const bench = await floodedBench()
    await drain(bench, SLOW, 60)
    const sizes: number[] = []
    for (let i = 0; i < 200; i++) sizes.push(...(await drain(bench, SLOW, 1)))
    const large = sizes.filter(rows => rows > ROWS / SEAL_SHRINK_MAX)
    expect(new Set(large)).toEqual(new Set([(2 * ROWS) / SEAL_SHRINK_MAX]))
    expect(large.length).toBeLessThan(sizes.length / 4)
  })

  it('are as large as ever where it is not the index that takes long', async () => {
    const bench = await floodedBench()
    for (let i = 0; i < 10; i++) {
      await bench.clock.pass(10 * SEAL_INDEX_MS_MAX)
      expect(await drain(bench, FAST, 1)).toEqual([ROWS])
    }
  })

  it('are full again after a while without full ones', async () => {
    const bench = await floodedBench()
    await drain(bench, SLOW, 60)
    bench.isHeld = false
    await commit(bench, FAST)
    for (let i = 0; i < 100 && bench.heldCommits.length + bench.heldJobs.length > 0; i++)
      await commit(bench, FAST)
    await bench.sealer.sealNow(1)
    await bench.clock.pass(SEAL_CALM_MS)
    bench.isHeld = true
    bench.append(1, 1) // a tail, so that the sealer looks at it
    await bench.clock.pass(SEAL_TICK_MS)
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
      await commit(bench, () => 10 * SEAL_INDEX_MS_MAX)
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
    await drain(bench, SLOW, 12)
    expect(bench.sealer.stats().sealsUnderWay).toBe(SEALS_MAX)
    expect(bench.sealer.roomFor(1)).toBe(false)
    expect(told).toBe(0)
    for (let i = 0; i < 1000 && told === 0; i++) await commit(bench, SLOW)
    expect(told).toBe(1)
    expect(bench.sealer.roomFor(1)).toBe(true)
  })

  it('do not wait so while seals are fast', async () => {
    const bench = await floodedBench()
    await drain(bench, FAST, 6)
    expect(bench.sealer.stats().sealsUnderWay).toBe(SEALS_MAX)
    expect(bench.sealer.roomFor(1)).toBe(true)
  })
})
