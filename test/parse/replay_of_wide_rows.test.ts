/** A replay parses in tasks whose batches are bounded, however wide a row is (W-9). */
import { expect, test } from 'vitest'
import { replayChunk } from '../../src/database/replay.ts'
import { batchBytesMax, batchCostOf } from '../../src/format/batch-layout.ts'
import { tableOf } from '../../src/log/replay-chunk.ts'
import { OUTCOME_WORDS, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { BATCH_BYTES_MAX } from '../../src/util/limits.ts'
import { schemaOf } from './reading.ts'

test('records of 500 rows of 500 doubles: a job holds as many as its batch may take, and none is left out', async () => {
  const schema = schemaOf(Array.from({ length: 500 }, () => ({ type: 'DOUBLE' as const })))
  const record = {
    kind: 'post' as const,
    pool: 1,
    version: 1,
    receivedAtUs: 0,
    events: 500,
    accepted: 500,
    receivedAtStepUs: 0 as const,
  }
  const place = { offset: 0, bodyBytes: 1501, contextBytes: 0, bitsOffset: -1, file: 'f', fileOffset: 0 }
  const records = Array.from({ length: 50 }, (_, sequence) => ({ ...record, ...place, sequence }))
  const sizes: number[] = []
  await replayChunk(
    { slab: new SharedArrayBuffer(8), ...tableOf(records) },
    {
      schema: () => ({ schema, shared: new SharedArrayBuffer(8) }),
      append: () => {},
      received: () => {},
      parse: async ({ table }) => {
        const requests = table.length / REQUEST_WORDS
        sizes.push(requests)
        const outcomes = new Int32Array(requests * OUTCOME_WORDS)
        for (let at = 0; at < outcomes.length; at += OUTCOME_WORDS) outcomes.set([500, 500, 0, -1], at)
        const maps = { ownRecords: new Map(), bits: new Map(), early: new Map(), rejected: new Map() }
        const nothing = { batches: [], errors: new Int32Array(0), ...maps }
        return { ...nothing, outcomes, recordBytes: new Int32Array(requests) }
      },
    },
  )
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(records.length)
  const bytes = batchBytesMax(batchCostOf(schema), place.bodyBytes, 500)
  for (const size of sizes) expect(size * bytes).toBeLessThanOrEqual(BATCH_BYTES_MAX)
})
