/**
 * Records of thousands of pools take turns in the log. A replay parses the records of a pool
 * together and in their order (W-13).
 */
import { expect, test } from 'vitest'
import { replayChunk } from '../../src/database/replay.ts'
import { type Replayed, tableOf } from '../../src/log/replay-chunk.ts'
import { OUTCOME_WORDS, REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import type { ParseResult, ParseTask } from '../../src/parse/parse-task.ts'
import { ENTRY_WORDS } from '../../src/store/flush/memtable.ts'
import { PARSE_TASK_REQUESTS_MAX } from '../../src/util/limits.ts'
import { schemaOf } from './reading.ts'

const schema = schemaOf([{ type: 'DOUBLE' }])
const place = {
  bodyBytes: 10,
  contextBytes: 0,
  bitsOffset: -1,
  file: 'f',
  fileOffset: 0,
  receivedAtUs: 0,
  receivedAtStepUs: 0 as const,
  events: 1,
  accepted: 1,
}

/** Every request has one row. There is a batch for each group, as parse workers make them. */
async function parse({ table, groups }: ParseTask): Promise<ParseResult> {
  const requests = table.length / REQUEST_WORDS
  const outcomes = new Int32Array(requests * OUTCOME_WORDS)
  for (let at = 0; at < outcomes.length; at += OUTCOME_WORDS) outcomes.set([1, 1, 0, -1], at)
  const batches = groups.map(({ from, to }) => ({
    batch: new ArrayBuffer(8),
    requests: Int32Array.from({ length: to - from }, (_, index) => from + index),
  }))
  return {
    batches,
    outcomes,
    errors: new Int32Array(0),
    ownRecords: new Map(),
    bits: new Map(),
    early: new Map(),
    rejected: new Map(),
    recordBytes: new Int32Array(requests),
  }
}

async function replayed(records: readonly Replayed[]) {
  const tasks: ParseTask[] = []
  const appended: { pool: number; kind: string; sequences: number[] }[] = []
  await replayChunk(
    { slab: new SharedArrayBuffer(8), ...tableOf(records) },
    {
      schema: (pool, version) => ({ schema: { ...schema, pool, version }, shared: new SharedArrayBuffer(8) }),
      received: () => {},
      append: (pool, { pool: planPool }, entries) => {
        expect(planPool).toBe(pool)
        for (const { kind, requests } of entries)
          appended.push({
            pool,
            kind,
            sequences: [...requests].filter((_, word) => word % ENTRY_WORDS === 0),
          })
      },
      parse: task => {
        tasks.push(task)
        return parse(task)
      },
    },
  )
  return { tasks, appended }
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
  const { tasks, appended } = await replayed(records)
  expect(tasks.length).toBe(Math.ceil(400 / PARSE_TASK_REQUESTS_MAX))
  for (const { groups, table } of tasks)
    for (const { pool, kind, from, to } of groups)
      for (let request = from; request < to; request++)
        expect(records[table[request * REQUEST_WORDS + REQUEST.offset]!]).toMatchObject({ pool, kind })
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
  const { tasks } = await replayed(records)
  expect(tasks.map(task => task.groups.map(group => [group.version, group.to - group.from]))).toEqual([
    [[1, 2]],
    [[2, 2]],
    [[3, 1]],
  ])
})
