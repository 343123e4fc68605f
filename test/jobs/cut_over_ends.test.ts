import { expect, test } from 'vitest'
import { IngestPool } from '../../src/api/ingest/ingest-pool.ts'
import { cutOver } from '../../src/app/cut-over.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { ingestSchemaOf } from '../api/fake.ts'
import { errorOf } from '../log/log.ts'

/** A pool, and a cut-over of it whose catalog has `now`. */
function harness(boundary: () => Promise<number>, msMax = 60_000) {
  const pool = new IngestPool(1, ingestSchemaOf(1, 1))
  const states: boolean[] = []
  let now = ingestSchemaOf(1, 1)
  const run = <T>(change: (sequence: number) => Promise<T>) =>
    cutOver(pool, change, {
      boundary,
      schemaOf: () => now,
      resumed: () => void states.push(pool.isPaused),
      msMax,
    })
  const store = (version: number) => {
    now = ingestSchemaOf(1, version)
  }
  return { pool, run, store, states }
}

test('the change runs while the pool is held, and the new schema counts from its end', async () => {
  const { pool, run, store, states } = harness(async () => 42)
  const during = await run(async sequence => {
    store(2)
    return [sequence, pool.isPaused, pool.schema.version]
  })
  expect(during).toEqual([42, true, 1])
  expect([pool.isPaused, pool.schema.version, states]).toEqual([false, 2, [false]])
})

test('the boundary is asked only when requests in flight have their sequences', async () => {
  let asked = 0
  const { pool, run } = harness(async () => {
    asked += 1
    return 7
  })
  pool.begun()
  pool.begun()
  const done = run(async sequence => sequence)
  pool.sequenced()
  await new Promise(resolve => setImmediate(resolve))
  expect(asked).toBe(0)
  pool.sequenced()
  expect(await done).toBe(7)
})

test('a log that stands still ends the pause with the old schema, and changes nothing', async () => {
  const { pool, run } = harness(() => new Promise(() => {}), 5)
  let changes = 0
  const error = await errorOf(
    run(async () => {
      changes += 1
    }),
  )
  expect([error.code, changes]).toEqual(['cut_over_late', 0])
  expect([pool.isPaused, pool.schema.version]).toEqual([false, 1])
})

test('a refusal of the log or of the catalog ends the pause with the old schema', async () => {
  const refusing = () => Promise.reject(new Unavailable('disk_full', 'no room'))
  const byLog = harness(refusing)
  expect((await errorOf(byLog.run(async () => 0))).code).toBe('disk_full')
  const byCatalog = harness(async () => 1)
  expect((await errorOf(byCatalog.run(refusing))).code).toBe('disk_full')
  for (const { pool } of [byLog, byCatalog]) expect([pool.isPaused, pool.schema.version]).toEqual([false, 1])
})
