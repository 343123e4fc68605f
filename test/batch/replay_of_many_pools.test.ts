/** Records of thousands of pools take turns in the log: a replay cuts them together, each pool's in its order (W-13). */
import { expect, test } from 'vitest'
import { OUTCOME_WORDS, REQUEST_OFFSET, REQUEST_WORDS } from '../../src/batch/kernel.ts'
import type { Job, JobResult } from '../../src/batch/protocol.ts'
import type { Replayed } from '../../src/commit/protocol.ts'
import { tableOf } from '../../src/commit/replayed.ts'
import { JOB_REQUESTS_MAX } from '../../src/limits.ts'
import { replayChunk } from '../../src/replay.ts'
import { planOf } from './reading.ts'

const plan = planOf([{ type: 'DOUBLE' }])
const place = {
  bodyBytes: 10,
  bitsOffset: -1,
  file: 'f',
  fileOffset: 0,
  receivedAtMs: 0,
  events: 1,
  accepted: 1,
}

/** Every request one row; a part per group, as the parse workers make them. */
async function cut({ table, groups }: Job): Promise<JobResult> {
  const requests = table.length / REQUEST_WORDS
  const outcomes = new Int32Array(requests * OUTCOME_WORDS)
  for (let at = 0; at < outcomes.length; at += OUTCOME_WORDS) outcomes.set([1, 1, 0, -1], at)
  const parts = groups.map(({ from, to }) => ({
    batch: new ArrayBuffer(8),
    requests: Int32Array.from({ length: to - from }, (_, index) => from + index),
  }))
  return {
    parts,
    outcomes,
    faults: new Int32Array(0),
    ownRecords: [],
    bits: [],
    recordBytes: new Int32Array(requests),
  }
}

async function replayed(records: readonly Replayed[]) {
  const jobs: Job[] = []
  const appended: { pool: number; kind: string; sequences: number[] }[] = []
  await replayChunk(
    { slab: new SharedArrayBuffer(8), ...tableOf(records) },
    {
      plan: (pool, version) => ({ plan: { ...plan, pool, version }, shared: new SharedArrayBuffer(8) }),
      append: (pool, { pool: planPool }, entries) => {
        expect(planPool).toBe(pool)
        for (const { kind, requests } of entries)
          appended.push({ pool, kind, sequences: [...requests].filter((_, word) => word % 3 === 0) })
      },
      parse: job => {
        jobs.push(job)
        return cut(job)
      },
    },
  )
  return { jobs, appended }
}

test('a hundred pools in turn: few jobs, and each pool gets its rows in sequence order', async () => {
  const records = Array.from({ length: 400 }, (_, index) => ({
    ...place,
    sequence: index + 1,
    offset: index,
    pool: 1 + ((index * 7) % 100),
    version: 1,
    kind: index % 5 === 0 ? ('delete' as const) : ('post' as const),
  }))
  const { jobs, appended } = await replayed(records)
  expect(jobs.length).toBe(Math.ceil(400 / JOB_REQUESTS_MAX))
  for (const { groups, table } of jobs)
    for (const { pool, kind, from, to } of groups)
      for (let request = from; request < to; request++)
        expect(records[table[request * REQUEST_WORDS + REQUEST_OFFSET]!]).toMatchObject({ pool, kind })
  for (let pool = 1; pool <= 100; pool++) {
    const mine = appended.filter(one => one.pool === pool)
    const want = records.filter(record => record.pool === pool)
    expect(mine.flatMap(one => one.sequences)).toEqual(want.map(record => record.sequence))
    expect(mine.flatMap(one => one.sequences.map(() => one.kind))).toEqual(want.map(record => record.kind))
  }
})

test('a job holds one version of a pool', async () => {
  const versions = [1, 1, 2, 2, 3]
  const records = versions.map((version, index) => ({
    ...place,
    sequence: index + 1,
    offset: index,
    pool: 1,
    version,
    kind: 'post' as const,
  }))
  const { jobs } = await replayed(records)
  expect(jobs.map(job => job.groups.map(group => [group.version, group.to - group.from]))).toEqual([
    [[1, 2]],
    [[2, 2]],
    [[3, 1]],
  ])
})
