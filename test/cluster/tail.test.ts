/** A live tail of a pool in a cluster: each row once, in whatever order rows become visible. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import type { PoolSchema } from '../../src/format/schema.ts'
import { ClickHouseEngine } from '../../src/query/clickhouse/engine.ts'
import { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import { clusterTails } from '../../src/query/cluster-tail.ts'
import { isBadQuery } from '../../src/query/expression/values.ts'
import type { RowPolicy } from '../../src/query/plan/policy.ts'
import type { QueryEngine } from '../../src/query/plan/query-task.ts'
import type { Selection } from '../../src/query/selection.ts'
import type { Tail } from '../../src/query/tail.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { INSERT_MS_MAX, INSERT_SENT_MS_MAX } from '../../src/util/limits.ts'
import { schemaOf } from '../query/pool.ts'
import { below, casesOf, newSeed, randomFrom } from '../util/random.ts'
import { startClickHouse, type TestClickHouse, whyNoClickHouse } from './clickhouse.ts'

const why = whyNoClickHouse()
if (why !== undefined) process.stdout.write(`skipped: ${why}\n`)

const parser: Pick<QueryEngine, 'parse' | 'parseStatement'> = {
  parse: async () => ({ badRequest: 'no text' }),
  parseStatement: async () => ({ badRequest: 'no text' }),
}
const COLUMNS = [
  ['id', 'INT64'],
  ['text', 'STRING'],
] as const
const PLAIN = schemaOf(COLUMNS)
const KEYED: PoolSchema = {
  ...PLAIN,
  columns: PLAIN.columns.map(column => ({ ...column, required: column.name === 'id' })),
  key: { columns: [0], version: -1 },
}
const STEP_MS = 500
const SETTLE_MS = INSERT_SENT_MS_MAX + INSERT_MS_MAX + 5_000

interface Made {
  readonly id: number
  readonly text?: string
  readonly version: bigint
  readonly isDeleted?: boolean
}

describe.skipIf(why !== undefined)('against ClickHouse', () => {
  let clickHouse: TestClickHouse
  let tables = 0
  const engines: ClickHouseEngine[] = []

  beforeAll(async () => {
    clickHouse = await startClickHouse()
  })
  afterAll(async () => {
    for (const engine of engines) await engine.stop()
    await clickHouse.stop()
  })

  /** A pool, Keeper's counter, a clock, and a tail of the pool. */
  class Pool {
    readonly table = `tail_${++tables}`
    readonly schema: PoolSchema
    readonly #engine: ClickHouseEngine
    zxid = 1_000
    nowMs = 0
    /** Fails the next of these. */
    failing: 'boundary' | 'query' | undefined
    queries = 0

    constructor(schema: PoolSchema) {
      this.schema = schema
      const isLive = schema.key === null ? '' : '_deleted = 0'
      const key = schema.key === null ? [] : ['id']
      const http = new ClickHouseHttp({ url: clickHouse.url })
      const place = { http, tables: [{ table: this.table, isLive, key }] }
      this.#engine = new ClickHouseEngine({ parser, placeOf: async () => place })
      engines.push(this.#engine)
    }

    static async make(schema: PoolSchema): Promise<Pool> {
      const pool = new Pool(schema)
      await clickHouse.query(createTable(pool.table, schema, undefined))
      await clickHouse.query(`SYSTEM STOP MERGES ${pool.table}`)
      return pool
    }

    /** A version of one write to Keeper. */
    version(row = 0): bigint {
      this.zxid += 1
      return (BigInt(this.zxid) << 16n) + BigInt(row)
    }

    async insert(rows: readonly Made[]): Promise<void> {
      const columns = `_service_received_at, _service_payload, id, text, _version${this.schema.key === null ? '' : ', _deleted'}`
      const values = rows.map(({ id, text = `t${id}`, version, isDeleted = false }) => {
        const deleted = this.schema.key === null ? '' : `, ${isDeleted ? 1 : 0}`
        return `(0, '{}', ${id}, '${text}', ${version}${deleted})`
      })
      await clickHouse.query(`INSERT INTO ${this.table} (${columns}) VALUES ${values.join(', ')}`)
    }

    /** Rows of one request, visible at once. Returns them. */
    async post(...ids: readonly number[]): Promise<void> {
      const version = this.version()
      await this.insert(ids.map((id, row) => ({ id, version: version + BigInt(row) })))
    }

    tail(): Tail {
      const takes = (name: Pool['failing']) => {
        if (this.failing !== name) return
        this.failing = undefined
        throw new Unavailable('cluster', 'expected by this test')
      }
      const engine: QueryEngine = this.#engine
      return clusterTails({
        engine: {
          dialect: engine.dialect,
          parse: (text, key) => engine.parse(text, key),
          run: async (...all) => {
            takes('query')
            this.queries += 1
            return await engine.run(...all)
          },
        },
        boundary: async () => {
          takes('boundary')
          return Number(this.version() >> 16n)
        },
        nowMs: () => this.nowMs,
      })(this.schema.pool)
    }

    async step(tail: Tail, selection: Selection = { columns: ['id'] }, policy: RowPolicy | null = null) {
      this.nowMs += STEP_MS
      const pool = { schema: this.schema, policy }
      const step = await tail.step({ pool, selection, asker: { fairKey: 'APP' }, nowMs: 0 })
      if (isBadQuery(step)) throw new Error(step.badRequest)
      return step
    }

    /** The first column of the next step's rows. */
    async ids(tail: Tail): Promise<number[]> {
      const { rows, missed } = await this.step(tail)
      expect(missed).toBe(0)
      return rows.map(([id]) => Number(id))
    }
  }

  test.each([
    ['with a key', KEYED],
    ['without', PLAIN],
  ])('rows come once, the oldest first (%s)', async (_, schema) => {
    const pool = await Pool.make(schema)
    await pool.post(1, 2)
    const tail = pool.tail()
    expect(await pool.ids(tail)).toEqual([])
    expect(await pool.ids(tail)).toEqual([])
    await pool.post(3, 4)
    await pool.post(5)
    expect(await pool.ids(tail)).toEqual([3, 4, 5])
    expect(await pool.ids(tail)).toEqual([])
    // One that comes late.
    const late = pool.version()
    await pool.post(6)
    expect(await pool.ids(tail)).toEqual([6])
    await pool.insert([{ id: 7, version: late }])
    await pool.post(8)
    expect(await pool.ids(tail)).toEqual([7, 8])
    pool.nowMs += SETTLE_MS
    expect(await pool.ids(tail)).toEqual([])
    await pool.post(9)
    expect(await pool.ids(tail)).toEqual([9])
    pool.queries = 0
    expect(await pool.ids(tail)).toEqual([])
    expect(pool.queries).toBe(1)
  })

  test('columns, filters and a policy', async () => {
    const pool = await Pool.make(KEYED)
    const tail = pool.tail()
    const policy: RowPolicy = {
      columns: ['id', 'text'],
      rows: [{ column: 'id', operator: 'GREATER_THAN', value: '1' }],
      filterSql: null,
      values: {},
    }
    const filters = '[{"column":"id","operator":"LESS_THAN","value":"4"}]'
    const step = () => pool.step(tail, { filters }, policy)
    expect(await step()).toEqual({ columns: ['id', 'text'], rows: [], missed: 0 })
    await pool.post(1, 2, 3, 4)
    expect(await step()).toEqual({
      columns: ['id', 'text'],
      rows: [
        ['2', 't2'],
        ['3', 't3'],
      ],
      missed: 0,
    })
    const refused = await tail.step({
      pool: { schema: KEYED, policy },
      selection: { columns: ['_service_payload'] },
      asker: { fairKey: 'APP' },
      nowMs: 0,
    })
    expect(isBadQuery(refused)).toBe(true)
  })

  test('what is deleted or replaced does not come', async () => {
    const pool = await Pool.make(KEYED)
    const tail = pool.tail()
    await pool.ids(tail)
    await pool.post(1, 2, 3, 4)
    await pool.insert([{ id: 1, version: pool.version(), isDeleted: true }])
    await pool.post(2)
    expect(await pool.ids(tail)).toEqual([3, 4, 2])
    // A job deletes rows that were not sent yet, and changes one that was and one that was not.
    const gone = Array.from({ length: 40 }, (_, n) => ({ id: 100 + n, version: pool.version() }))
    await pool.insert(gone)
    const job = (pool.version() | 0xffffn) - 0x10000n
    await pool.insert(gone.map(({ id }) => ({ id, version: job, isDeleted: true })))
    await pool.insert([{ id: 3, text: 'changed', version: job }])
    await pool.post(6)
    await pool.insert([{ id: 6, text: 'changed', version: pool.version() | 0xffffn }])
    const { rows } = await pool.step(tail, { columns: ['id', 'text'] })
    expect(rows).toEqual([['6', 't6']])
    expect(await pool.ids(tail)).toEqual([])
    // An older version comes after the newer one, and after the delete of its record.
    const older = [pool.version(), pool.version()]
    await pool.post(7)
    await pool.insert([{ id: 8, version: pool.version(), isDeleted: true }])
    await pool.insert(older.map((each, index) => ({ id: 7 + index, version: each })))
    expect(await pool.ids(tail)).toEqual([7])
  })

  test('of many rows the newest come, and the others are counted, also those that come late', async () => {
    const pool = await Pool.make(KEYED)
    const tail = pool.tail()
    await pool.step(tail)
    const late = [pool.version(), pool.version(), pool.version()]
    const burst = async (from: number, count: number) => {
      const version = pool.version()
      await clickHouse.query(
        `INSERT INTO ${pool.table} (id, text, _version) SELECT ${from} + number, 't', ${version} + number FROM numbers(${count})`,
      )
    }
    await burst(10_000, 700)
    let step = await pool.step(tail)
    expect([step.rows.length, step.rows[0], step.rows.at(-1), step.missed]).toEqual([
      500,
      ['10200'],
      ['10699'],
      200,
    ])
    await burst(20_000, 5_000)
    step = await pool.step(tail)
    expect([step.rows.length, step.rows.at(-1), step.missed]).toEqual([500, ['24999'], 1_500])
    await pool.insert(late.map((version, id) => ({ id, version })))
    await pool.post(4)
    expect(await pool.ids(tail)).toEqual([4])
    let missed = 0
    for (let seen = 0; seen < SETTLE_MS; seen += STEP_MS) missed += (await pool.step(tail)).missed
    expect(missed).toBe(3_000 + late.length)
    await pool.post(5)
    expect(await pool.ids(tail)).toEqual([5])
  })

  test('where rows are too long for one answer, fewer come', async () => {
    const pool = await Pool.make(PLAIN)
    const tail = pool.tail()
    await pool.step(tail)
    await clickHouse.query(
      `INSERT INTO ${pool.table} (id, text, _version) SELECT number, repeat('x', 500000), ${pool.version()} + number FROM numbers(60)`,
    )
    const step = await pool.step(tail, { columns: ['id', 'text'] })
    expect(step.rows.map(([id]) => id)).toEqual(Array.from({ length: 10 }, (_, n) => String(50 + n)))
    expect(step.missed).toBe(50)
    expect(await pool.ids(tail)).toEqual([])
  })

  test.each(['query', 'boundary'] as const)('a step whose %s fails loses nothing', async name => {
    const pool = await Pool.make(KEYED)
    const tail = pool.tail()
    await pool.step(tail)
    await pool.post(1)
    pool.nowMs += SETTLE_MS
    pool.failing = name
    await expect(pool.step(tail)).rejects.toMatchObject({ code: 'cluster' })
    expect(await pool.ids(tail)).toEqual([1])
    expect(await pool.ids(tail)).toEqual([])
  })

  test('random requests: each row comes once or is counted once', async () => {
    const seed = newSeed()
    const random = randomFrom(seed)
    for (let round = 0; round < casesOf(2, 10); round++) {
      const pool = await Pool.make(round % 2 === 0 ? KEYED : PLAIN)
      const tail = pool.tail()
      await pool.step(tail)
      let [next, missed] = [0, 0]
      const came: number[] = []
      const underWay: { readonly rows: Made[]; readonly atMs: number }[] = []
      const land = async (isDue: (atMs: number) => boolean) => {
        const due = underWay.filter(({ atMs }) => isDue(atMs))
        for (const each of due) underWay.splice(underWay.indexOf(each), 1)
        if (due.length > 0) await pool.insert(due.flatMap(({ rows }) => rows))
      }
      const step = async () => {
        const { rows, missed: more } = await pool.step(tail)
        came.push(...rows.map(([id]) => Number(id)))
        missed += more
      }
      for (let turn = 0; turn < 60; turn++) {
        for (let request = below(random, 4); request > 0; request--) {
          const version = pool.version()
          const count = 1 + below(random, random() < 0.1 ? 900 : 30)
          const rows = Array.from({ length: count }, (_, row) => ({
            id: next + row,
            version: version + BigInt(row),
          }))
          next += count
          const ms = random() < 0.7 ? below(random, STEP_MS) : below(random, 2 * INSERT_MS_MAX)
          underWay.push({ rows, atMs: pool.nowMs + ms })
        }
        if (random() < 0.1) pool.nowMs += below(random, 8_000)
        await land(atMs => atMs <= pool.nowMs)
        await step()
      }
      await land(() => true)
      for (let turn = 0; turn * STEP_MS < SETTLE_MS + 5_000; turn++) await step()
      expect(new Set(came).size, `seed ${seed}`).toBe(came.length)
      expect(came.length + missed, `seed ${seed}`).toBe(next)
      process.stdout.write(`tail: ${next} rows, ${came.length} came, ${missed} counted, seed ${seed}\n`)
    }
  })
})
