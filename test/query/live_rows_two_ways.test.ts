/**
 * W-8: live rows by the native function and by the anti-join, its specification, are the same for
 * any statement, whatever DuckDB makes of it.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import type { Statement } from '../../src/query/plan/plan.ts'
import { rowsOfPool, type SegmentEngine } from '../../src/query/plan/segment-task.ts'
import { casesOf, integersFrom, newSeed } from '../util/random.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const pool = new TestPool()
const schema = schemaOf(
  [
    ['ts', 'TIMESTAMP'],
    ['tenant', 'STRING'],
    ['n', 'INT64'],
    ['late', 'INT32'],
  ],
  { version: 2, pool: 1 },
)
/** Row groups have 65,536 rows. */
const ROWS_MAX = 150_000

let native: SegmentEngine
let js: SegmentEngine

beforeAll(async () => {
  js = await pool.open({ kernel: 'js' })
  native = await pool.open({ kernel: 'native' })
})
afterAll(async () => {
  await js.stop()
  await pool.close()
})

type Random = (limit: number) => number

/**
 * Times and tenants in runs, which prune row groups, or mixed. `late` is missing in old segments.
 */
async function segmentOf(random: Random, part: number): Promise<QuerySegment> {
  const rows = 1 + random([10, 5_000, ROWS_MAX][random(3)]!)
  const isOld = random(3) === 0
  const order = random(2) === 0 ? 'i' : `hash(i, ${part})`
  const select = `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, '{}' AS _service_payload,
    make_timestamptz((i + ${part * 100_000}) * 1000000::BIGINT) AS ts,
    CASE WHEN i % 7 = 0 THEN NULL ELSE 't' || (i // 3000 % 17) END AS tenant,
    (hash(i, ${part}) % 100000)::BIGINT AS n,
    ${isOld ? '' : '(i % 1000)::INTEGER AS late,'} i::BIGINT AS _service_sequence
    FROM range(${rows}) t(i) ORDER BY ${order}`
  return await pool.write(select, { schemaVersion: isOld ? 1 : 2 })
}

function deletedOf(random: Random, rows: number): readonly number[] {
  const all = Array.from({ length: rows }, (_, row) => row)
  const from = random(rows)
  switch (random(7)) {
    case 0:
      return []
    case 1:
      return [from]
    case 2:
      return all
    case 3:
      return all.slice(from, from + 70_000)
    case 4:
      return all.filter(row => row % 65_536 === 0 || row === rows - 1)
    default: {
      const one = [2, 10, 100, 10_000][random(4)]!
      return all.filter(() => random(one) === 0)
    }
  }
}

const SELECTS = [
  'SELECT count(*) FROM rows',
  'SELECT sum(n), count(tenant), min(ts), max(ts) FROM rows',
  "SELECT sum(n) FROM rows WHERE tenant = 't3'",
  "SELECT count(*) FROM rows WHERE tenant IN ('t3', 't16') AND n < 1000",
  'SELECT sum(n) FROM rows WHERE n = 77',
  "SELECT count(*), sum(n) FROM rows WHERE ts >= TIMESTAMPTZ '1970-01-02 00:00:00+00' AND ts < TIMESTAMPTZ '1970-01-03 12:00:00+00'",
  "SELECT count(*) FROM rows WHERE tenant LIKE '%1' OR late > 990",
  'SELECT tenant, count(*), sum(n) FROM rows GROUP BY tenant',
  'SELECT DISTINCT tenant, late FROM rows WHERE n < 500',
  'SELECT ts, n, tenant, late FROM rows ORDER BY ts DESC, n LIMIT 50',
  "SELECT ts, n FROM rows WHERE tenant = 't5' ORDER BY n, ts LIMIT 20 OFFSET 5",
  'SELECT count(*) FROM rows a WHERE n IN (SELECT n FROM rows WHERE late = 7)',
  'SELECT count(*) FROM rows a JOIN rows b ON a.n = b.n AND a.ts < b.ts',
  'SELECT sum(n) FROM rows WHERE n < (SELECT avg(n) FROM rows)',
  'SELECT tenant, (SELECT max(n) FROM rows b WHERE b.tenant = a.tenant) FROM rows a GROUP BY tenant',
  'SELECT count(*) FROM (SELECT n FROM rows WHERE n < 100 UNION ALL SELECT late FROM rows EXCEPT ALL SELECT n FROM rows)',
  'SELECT sum(x) FROM (SELECT row_number() OVER (PARTITION BY tenant ORDER BY ts, n) * n AS x FROM rows WHERE n < 300)',
  'SELECT count(*) FROM rows WHERE late IS NULL',
]

async function answer(engine: SegmentEngine, segments: readonly QuerySegment[], statement: Statement) {
  const task = { source: rowsOfPool(schema, { segments }), statement, rowsMax: 1_000_000 }
  const { rows, recordsProcessed } = await engine.run(task, 'a')
  return [recordsProcessed, rows.map(row => JSON.stringify(row)).sort()]
}

describe('W-8 both ways give the same rows', () => {
  test.each([1, 2, 3, 4, 5, 6].slice(0, casesOf(3, 6)))(
    'random segments and deleted rows (%i)',
    { timeout: 120_000 },
    async () => {
      const seed = newSeed()
      const random = integersFrom(seed)
      const segments: QuerySegment[] = []
      for (let part = 0; part < 2 + random(4); part++) {
        const segment = await segmentOf(random, part)
        segments.push(withDeletionVectors(segment, deletedOf(random, segment.meta.rows)))
      }
      for (const sql of SELECTS) {
        const restriction = { columns: null, where: "tenant IS NULL OR tenant <> 't2'" }
        const statement = { sql, bounds: [], ...(random(4) === 0 ? { restriction } : {}) }
        const want = await answer(js, segments, statement)
        expect(await answer(native, segments, statement), `seed ${seed}: ${sql}`).toEqual(want)
      }
    },
  )

  test('several pools in one statement, each with deleted rows of its own', async () => {
    const random = integersFrom(newSeed())
    const [one, two] = [await segmentOf(random, 1), await segmentOf(random, 2)]
    const reduced = (segment: QuerySegment, modulus: number) =>
      withDeletionVectors(
        segment,
        Array.from({ length: segment.meta.rows }, (_, row) => row).filter(row => row % modulus === 0),
      )
    const task = {
      source: {
        pools: [
          { schema, segments: [reduced(one, 3)] },
          { schema, segments: [reduced(two, 2), reduced(one, 5)] },
          { schema, segments: [reduced(one, 7)] },
        ],
      },
      statement: {
        sql: 'SELECT (SELECT count(*) FROM rows), (SELECT count(*) FROM rows_1), (SELECT count(*) FROM rows_2)',
        bounds: [],
      },
      rowsMax: 1,
    }
    const live = (segment: QuerySegment, modulus: number) =>
      segment.meta.rows - Math.ceil(segment.meta.rows / modulus)
    const want = [[live(one, 3), live(two, 2) + live(one, 5), live(one, 7)].map(String)]
    for (const engine of [js, native]) expect((await engine.run(task, 'a')).rows).toEqual(want)
  })

  test('a query after another one sees the rows that were deleted meanwhile', async () => {
    const segment = await pool.write(
      `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, '{}' AS _service_payload,
       to_timestamp(i)::TIMESTAMPTZ AS ts, 'a' AS tenant, i::BIGINT AS n, 0::INTEGER AS late, 0::BIGINT AS _service_sequence
       FROM range(3000) t(i)`,
      { schemaVersion: 2 },
    )
    const statement = { sql: 'SELECT count(*), sum(n) FROM rows', bounds: [] }
    const deleted: number[] = []
    for (let row = 0; row < 3000; row += 97) {
      deleted.push(row)
      const states = [
        withDeletionVectors(segment, deleted),
        withDeletionVectors(segment, deleted.slice(0, -1)),
      ]
      for (const state of [states[0]!, states[1]!, states[0]!, segment])
        expect(await answer(native, [state], statement)).toEqual(await answer(js, [state], statement))
    }
  })
})
