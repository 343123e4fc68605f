/** When pools are sealed, in which order, and what happens when a seal fails. */
import { describe, expect, it } from 'vitest'
import { Unavailable } from '../../src/errors.ts'
import { DISK_RETRY_MS, SEAL_AGE_MS, SEALS_MAX, TAIL_BYTES_MAX } from '../../src/limits.ts'
import { AssertionFailed } from '../../src/util/assert.ts'
import { Bench, settle } from './fakes.ts'
import { keyPlan, post } from './rows.ts'

const limits = { rows: 100, bytes: 1_000_000, entries: 50 }
const codeOf = (promise: Promise<void>) =>
  promise.then(
    () => 'sealed',
    error => (error as Unavailable).code,
  )

describe('a pool is sealed', () => {
  it('at its rows, bytes or batches', async () => {
    for (const limit of [{ rows: 10 }, { bytes: 100 }, { entries: 1 }]) {
      const bench = new Bench({ ...limits, ...limit })
      bench.append(1, 10)
      await settle()
      expect(bench.committed).toHaveLength(1)
    }
    const bench = new Bench(limits)
    bench.append(1, 10)
    await settle()
    expect(bench.jobs).toHaveLength(0)
  })

  it('at the age of its oldest row', async () => {
    const bench = new Bench(limits)
    bench.append(1, 1)
    await bench.clock.pass(SEAL_AGE_MS / 2 - 1)
    expect(bench.jobs).toHaveLength(0)
    await bench.clock.pass(SEAL_AGE_MS / 2)
    expect(bench.committed.map(({ commit }) => commit.sealedSequence)).toEqual([1])
    expect(bench.sealer.stats()).toMatchObject({ tailBytes: 0, poolsUnsealed: 0 })
  })

  it('W-8: on demand; one running and one waiting seal serve all callers', async () => {
    const bench = new Bench(limits)
    bench.isHeld = true
    bench.append(1, 1)
    const first = Array.from({ length: 5 }, () => bench.sealer.sealNow(1))
    await settle()
    bench.append(1, 1)
    const second = Array.from({ length: 5 }, () => bench.sealer.sealNow(1))
    await settle()
    expect(bench.jobs).toHaveLength(1)
    bench.heldJobs[0]!.pass()
    await settle()
    bench.heldCommits[0]!.pass()
    await Promise.all(first)
    expect(bench.committed).toHaveLength(1)
    await settle()
    bench.heldJobs[1]!.pass()
    await settle()
    bench.heldCommits[1]!.pass()
    await Promise.all(second)
    expect(bench.jobs).toHaveLength(2)
    await bench.sealer.sealNow(1)
    expect(bench.jobs).toHaveLength(2)
  })

  it('at the end, all pools', async () => {
    const bench = new Bench(limits)
    for (const pool of [1, 2, 3, 4, 5]) bench.append(pool, 2)
    await bench.sealer.sealAll()
    expect(bench.committed.map(({ commit }) => commit.pool).sort()).toEqual([1, 2, 3, 4, 5])
    expect(bench.sealer.lowestUnsealedSequence()).toBe(6)
  })

  it('W-13: after the log is synced', async () => {
    const bench = new Bench(limits)
    bench.append(1, 1)
    await bench.sealer.sealNow(1)
    expect(bench.order).toEqual(['sync', 'write'])
  })

  it('up to a change of its plan', async () => {
    const bench = new Bench(limits)
    for (const version of [1, 1, 2, 1]) bench.append(1, 3, version)
    await bench.sealer.sealNow(1)
    expect(bench.jobs.map(job => [job.plan.version, job.sequenceFrom, job.sequenceTo])).toEqual([
      [1, 1, 2],
      [2, 3, 3],
      [1, 4, 4],
    ])
  })

  it('W-12: with all entries whose sequences interleave', async () => {
    const bench = new Bench({ ...limits, rows: 1 })
    const plan = { ...keyPlan, pool: 1 }
    const entry = (a: number, b: number) =>
      post(plan, Array(2).fill({ key: 'k', values: ['k'] }), [
        [a, 0, 1],
        [b, 0, 1],
      ])
    bench.sealer.append(1, plan, [entry(1, 3), entry(2, 4), entry(4, 6), entry(7, 8)])
    await bench.sealer.sealAll()
    expect(bench.jobs.map(job => [job.sequenceFrom, job.sequenceTo, job.entries.length])).toEqual([
      [1, 6, 3],
      [7, 8, 1],
    ])
  })
})

describe('the pipeline', () => {
  it('has at most SEALS_MAX seals under way, takes pools in turn, and commits what is written together', async () => {
    const bench = new Bench({ ...limits, rows: 1 })
    bench.isHeld = true
    for (let i = 0; i < 4; i++) bench.append(1, 1)
    bench.append(2, 1)
    await settle()
    expect(bench.jobs.map(job => job.plan.pool)).toEqual([1, 2, 1])
    expect(bench.sealer.stats().sealsUnderWay).toBe(SEALS_MAX)
    bench.heldJobs[0]!.pass()
    await settle()
    bench.heldJobs[1]!.pass()
    bench.heldJobs[2]!.pass()
    await settle()
    expect(bench.commits.map(seals => seals.length)).toEqual([1])
    bench.heldCommits[0]!.pass()
    await settle()
    expect(bench.commits.map(seals => seals.map(seal => seal.pool))).toEqual([[1], [2, 1]])
    expect(bench.sealer.lowestUnsealedSequence()).toBe(2)
  })

  it('W-4: a failed commit gives back it and all later seals of its pool, in order', async () => {
    const bench = new Bench({ ...limits, rows: 1 })
    bench.isHeld = true
    for (let i = 0; i < 2; i++) bench.append(1, 1)
    const before = bench.sealer.stats().tailBytes
    await settle()
    const demand = codeOf(bench.sealer.sealNow(1))
    bench.heldJobs[0]!.pass()
    await settle()
    bench.heldCommits[0]!.fail(new Unavailable('index_failed', 'no space'))
    expect(await demand).toBe('seal_failed')
    expect(await codeOf(bench.sealer.sealNow(1))).toBe('seal_failed')
    bench.heldJobs[1]!.pass()
    await settle()
    expect(bench.commits).toHaveLength(1)
    expect(bench.sealer.stats()).toMatchObject({ tailBytes: before, sealsUnderWay: 0, poolsFailing: 1 })
    expect(bench.sealer.lowestUnsealedSequence()).toBe(1)
    bench.isHeld = false
    await bench.clock.pass(DISK_RETRY_MS + 1)
    expect(bench.unlinked).toEqual([2, 1]) // a rebuild would take 2 alone for the end of all that is sealed
    expect(bench.committed.map(({ commit }) => commit.sealedSequence)).toEqual([1, 2])
    expect(bench.sealer.stats()).toMatchObject({ tailBytes: 0, poolsFailing: 0 })
    expect(bench.fatal).toEqual([])
  })

  it('W-6: no seal of a pool is written before what failed ones left is gone; a removal that fails stops all of them', async () => {
    const bench = new Bench({ ...limits, rows: 1 })
    bench.isHeld = true
    for (let i = 0; i < 2; i++) bench.append(1, 1)
    await settle()
    bench.failJob(0)
    bench.heldJobs[1]!.pass()
    await settle()
    const before = bench.jobs.length
    bench.failUnlinks = 1
    await bench.clock.pass(DISK_RETRY_MS + 1)
    expect([bench.jobs.length, bench.unlinked]).toEqual([before, []])
    bench.isHeld = false
    await bench.clock.pass(DISK_RETRY_MS + 1)
    expect(bench.unlinked).toEqual([2, 1]) // a rebuild would take 2 alone for the end of all that is sealed
    expect(bench.order.slice(bench.order.indexOf('unlinked')).filter(what => what === 'write')).toHaveLength(
      2,
    )
    expect(bench.committed.map(({ commit }) => commit.sealedSequence)).toEqual([1, 2])
    expect(bench.fatal).toEqual([])
  })

  it('tries a failed write again and again, and takes appends meanwhile', async () => {
    const bench = new Bench(limits)
    bench.isHeld = true
    bench.append(1, 5)
    const demand = codeOf(bench.sealer.sealNow(1))
    await settle()
    bench.failJob(0)
    expect(await demand).toBe('seal_failed')
    bench.append(1, 5)
    await bench.clock.pass(DISK_RETRY_MS + 1)
    bench.failJob(1)
    await settle()
    bench.isHeld = false
    await bench.clock.pass(DISK_RETRY_MS + 1)
    expect(bench.failures).toEqual(['ENOSPC', 'ENOSPC'])
    expect(bench.jobs.map(job => job.segment)).toEqual([1, 2, 3])
    expect(bench.committed.map(({ commit }) => [commit.add!.rows, commit.sealedSequence])).toEqual([[10, 2]])
  })

  it('fails a demand when the log cannot be synced, with two seals waiting for it', async () => {
    const bench = new Bench({ ...limits, rows: 1 })
    bench.failSync = new Unavailable('log_refused', 'poisoned')
    bench.append(1, 1)
    bench.append(1, 1)
    expect(await codeOf(bench.sealer.sealNow(1))).toBe('seal_failed')
    await settle()
    expect(bench.jobs).toEqual([])
    expect(bench.sealer.stats().sealsUnderWay).toBe(0)
    bench.failSync = undefined
    await bench.clock.pass(DISK_RETRY_MS + 1)
    expect(bench.committed).toHaveLength(2)
    expect(bench.fatal).toEqual([])
  })
})

describe('a dropped pool', () => {
  it('loses its tail at once and its running seal when it is written; its files go', async () => {
    const bench = new Bench({ ...limits, rows: 2 })
    bench.isHeld = true
    bench.append(1, 2)
    bench.append(1, 1)
    const demand = codeOf(bench.sealer.sealNow(1))
    await settle()
    let isDropped = false
    const dropped = bench.sealer.dropPool(1).then(() => {
      isDropped = true
    })
    expect(await demand).toBe('pool_deleted')
    bench.append(1, 1)
    await settle()
    expect(isDropped).toBe(false)
    bench.heldJobs[0]!.pass()
    await dropped
    expect(bench.commits).toEqual([])
    expect(bench.unlinked).toEqual([1])
    expect(bench.sealer.stats()).toMatchObject({
      tailBytes: 0,
      poolsUnsealed: 0,
      sealsUnderWay: 0,
      keptBytes: 0,
    })
  })

  it('waits for a running commit, which the manifest is told of: the index used up its number', async () => {
    const bench = new Bench(limits)
    bench.isHeld = true
    bench.append(1, 1)
    const demand = codeOf(bench.sealer.sealNow(1))
    await settle()
    bench.heldJobs[0]!.pass()
    await settle()
    const dropped = bench.sealer.dropPool(1)
    bench.heldCommits[0]!.pass()
    await dropped
    expect(await demand).toBe('pool_deleted')
    expect(bench.committed).toHaveLength(1)
    expect(bench.sealer.stats()).toMatchObject({ tailBytes: 0, sealsUnderWay: 0 })
  })
})

describe('W-9: the tail', () => {
  it('says no beyond its maximum, and calls when there is room', async () => {
    const bench = new Bench(limits)
    let calls = 0
    bench.sealer.onRoom = () => calls++
    expect(bench.sealer.roomFor(TAIL_BYTES_MAX + 1)).toBe(true)
    bench.append(1, 1)
    expect(bench.sealer.roomFor(TAIL_BYTES_MAX - bench.sealer.stats().tailBytes)).toBe(true)
    await bench.sealer.sealNow(1)
    expect(calls).toBe(0)
    bench.append(1, 1)
    expect(bench.sealer.roomFor(TAIL_BYTES_MAX)).toBe(false)
    await bench.sealer.sealNow(1)
    expect(calls).toBe(1)
  })

  it('our own fault is no failure of the disk: it ends the process', async () => {
    const bench = new Bench(limits)
    const bug = new AssertionFailed('the log is missing')
    bench.failSync = bug
    bench.append(1, 1)
    void bench.sealer.sealNow(1)
    await settle()
    expect(bench.fatal).toEqual([bug])
    expect(bench.failures).toEqual([])
  })
})
