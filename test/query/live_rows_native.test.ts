/**
 * The native function that tells live rows: every order of rows and kind of vector, its errors,
 * what DuckDB makes of it, and that nothing of a query is left when it has ended, however it ended.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { DeletedRowSets, type NativeLiveRows } from '../../src/query/duckdb/deleted-rows.ts'
import { openSandbox } from '../../src/query/duckdb/duckdb-instances.ts'
import { Engine } from '../../src/query/duckdb/engine.ts'
import type { EngineSettings } from '../../src/query/duckdb/engine-calls.ts'
import { IS_LIVE, withRows } from '../../src/query/duckdb/live-rows.ts'
import { rowsOfPool } from '../../src/query/plan/segment-task.ts'
import { must } from '../../src/util/errors.ts'
import { tryNative } from '../../src/util/native.ts'
import { spillFolder } from '../../src/util/paths.ts'
import { integersFrom, newSeed } from '../util/random.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const pool = new TestPool()
const schema = schemaOf([
  ['ts', 'TIMESTAMP'],
  ['tenant', 'STRING'],
  ['n', 'INT64'],
])
const settings = pool.nativeSettings
const ROWS = 400_000

let native: NativeLiveRows
let duckdb: DuckDBInstance
let connection: DuckDBConnection
let segment: QuerySegment

beforeAll(async () => {
  native = must(tryNative<NativeLiveRows>(), 'the native module')
  const sandbox = await openSandbox(settings)
  expect(sandbox.hasIsLive).toBe(true)
  duckdb = sandbox.duckdb
  connection = await duckdb.connect()
  segment = await pool.write(
    `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, '{}' AS _service_payload,
     make_timestamptz(i * 1000000) AS ts, 't' || (i // 100000) AS tenant, i::BIGINT AS n, 0::BIGINT AS _service_sequence
     FROM range(${ROWS}) t(i)`,
  )
})
afterAll(async () => {
  connection.closeSync()
  duckdb.closeSync()
  await pool.close()
})
/** W-9: nothing of the tests is left in memory. */
afterEach(() => {
  expect(native.liveRowsHeld()).toEqual({ bytes: 0, views: 0 })
})

async function valuesOf(sql: string): Promise<unknown[]> {
  return (await (await connection.run(sql)).getRows()).map(row => row[0])
}

/** A view over sets of these rows, while `work` runs. */
async function withView<T>(
  files: readonly (readonly number[])[],
  work: (view: number) => Promise<T>,
): Promise<T> {
  const sets = files.map(rows => native.keepDeletedRows([Uint32Array.from(rows)]))
  const view = native.beginLiveRows(sets)
  for (const set of sets) native.dropDeletedRows(set)
  try {
    return await work(view)
  } finally {
    native.endLiveRows(view)
  }
}

const every = (modulus: number, rows = ROWS) =>
  Array.from({ length: Math.ceil(rows / modulus) }, (_, index) => index * modulus)

describe('the function', () => {
  test('rows in any order, of several files in one vector, are looked up one by one', async () => {
    const seed = newSeed()
    const random = integersFrom(seed)
    for (let round = 0; round < 12; round++) {
      const rowsMax = [3, 500, 20_000][random(3)]!
      const files = [0, 1, 2].map(() => Array.from({ length: random(rowsMax) }, () => random(rowsMax)))
      const orders = ['file, r', 'r, file', 'r DESC, file', `hash(r, file, ${round})`, 'r % 3, file, r']
      const deleted = files.map(rows => new Set(rows))
      await withView(files, async view => {
        for (const order of orders) {
          const sql = `SELECT file, r, ${IS_LIVE}(${view}, file, r) FROM
            (SELECT f.i::UBIGINT AS file, j AS r FROM range(3) f(i), range(${rowsMax}) t(j)
            WHERE hash(j) % ${1 + random(4)} = 0 ORDER BY ${order})`
          const rows = await (await connection.run(sql)).getRows()
          const wrong = rows.filter(
            ([file, row, isLive]) => isLive === deleted[Number(file)]!.has(Number(row)),
          )
          expect(wrong, `seed ${seed}, round ${round}, ${order}`).toEqual([])
        }
      })
    }
  })

  test('constant and repeated arguments are as good as any', async () => {
    await withView([[1, 5], [7]], async view => {
      const is = (file: string, row: string) => `${IS_LIVE}(${view}, ${file}, ${row})`
      expect(await valuesOf(`SELECT ${is('0', '5')}`)).toEqual([false])
      expect(await valuesOf(`SELECT ${is('1', '5')} FROM range(3)`)).toEqual([true, true, true])
      expect(await valuesOf(`SELECT ${is('i::UBIGINT', '7')} FROM range(2) t(i)`)).toEqual([true, false])
      expect(await valuesOf(`SELECT count(*) FROM range(5000) t(i) WHERE ${is('0', 'i % 3')}`)).toEqual([
        3333n,
      ])
      const beyond = ['-1', '4294967296', '4294967297', '-9223372036854775808', '9223372036854775807']
      for (const row of beyond) expect(await valuesOf(`SELECT ${is('0', row)}`), row).toEqual([true])
      const consecutive = `SELECT count(*) FROM range(-3000, 3000) t(i) WHERE ${is('0', 'i')}`
      expect(await valuesOf(consecutive)).toEqual([5998n])
    })
  })

  test('a null, an unknown file and a view that has ended fail the statement', async () => {
    const ended = await withView([[1]], async view => {
      const fails = (args: string) =>
        expect(connection.run(`SELECT ${IS_LIVE}(${args}) FROM range(3000) t(i)`), args)
      await fails(`${view}, 0, CASE WHEN i < 2999 THEN i END`).rejects.toThrow(/a row without a number/)
      await fails(`${view}, NULL::UBIGINT, i`).rejects.toThrow(/a row without a number/)
      await fails(`NULL, 0, i`).rejects.toThrow(/a row without a number/)
      await fails(`${view}, 1, i`).rejects.toThrow(/an unknown file/)
      await fails(`${view}, 18446744073709551615, i`).rejects.toThrow(/an unknown file/)
      await fails(`-1, 0, i`).rejects.toThrow(/the query has ended/)
      return view
    })
    await expect(connection.run(`SELECT ${IS_LIVE}(${ended}, 0, i) FROM range(9) t(i)`)).rejects.toThrow(
      /the query has ended/,
    )
  })

  test('ids that are none, and rows that are none, are refused', () => {
    const keep = native.keepDeletedRows as (...args: unknown[]) => unknown
    for (const bad of [undefined, null, 1, {}, [1], [new Float64Array(1)], [new Uint8Array(4)]])
      expect(() => keep(bad)).toThrow(TypeError)
    const begin = native.beginLiveRows as (...args: unknown[]) => unknown
    for (const bad of [undefined, 1, [0], [-1], [1e300], [Number.NaN], ['1'], [1e15]])
      expect(() => begin(bad)).toThrow(TypeError)
    for (const id of [0, -1, Number.NaN, 1e15]) native.dropDeletedRows(id)
    for (const id of [0, -1, Number.NaN, 1e15]) native.endLiveRows(id)
  })
})

describe('the plan', () => {
  const columns = new Set(['_service_received_at', '_service_payload', 'ts', 'tenant', 'n'])
  const withScan = (view: number, sql: string, file = segment.file) => {
    const reduced = { sources: [{ file, columns }], skipping: { by: 'view' as const, view } }
    return withRows([{ schema, whole: [], reduced }], { sql })
  }
  const FILTERS = [
    { where: 'n < 1000', columns: ['n'] },
    { where: "tenant = 't0' AND n < 1000", columns: ['tenant', 'n'] },
    { where: "ts < TIMESTAMPTZ '1970-01-01 00:16:40+00'", columns: ['ts'] },
  ]

  test.each(FILTERS)('the scan has the filter $where', async ({ where, columns }) => {
    await withView([every(100)], async view => {
      const sql = withScan(view, `SELECT sum(n) FROM rows WHERE ${where}`)
      const [row] = await (await connection.run(`EXPLAIN (ANALYZE, FORMAT json) ${sql}`)).getRows()
      const plan = String(row?.[1])
      const filters = must(/"Filters": *(?:"[^"]*"|\[[^\]]*\])/.exec(plan), `the filters of ${plan}`)[0]
      for (const column of columns) expect(filters).toContain(column)
    })
  })

  /** A copy of the segment whose row groups behind the first one hold zeros. */
  async function withOneRowGroup(): Promise<string> {
    const file = join(pool.segmentFolder, 'one-row-group.parquet')
    const offsets = `SELECT min(coalesce(dictionary_page_offset, data_page_offset))::INTEGER AS begin,
      max(data_page_offset + total_compressed_size)::INTEGER FROM parquet_metadata('${segment.file.replaceAll("'", "''")}')
      WHERE row_group_id > 0`
    const [range] = await (await connection.run(offsets)).getRows()
    const bytes = readFileSync(segment.file)
    bytes.fill(0, Number(range?.[0]), Number(range?.[1]))
    writeFileSync(file, bytes)
    return file
  }

  test('row groups that the filter excludes are not read', async () => {
    const file = await withOneRowGroup()
    await withView([every(100)], async view => {
      for (const { where } of FILTERS) {
        const sql = withScan(view, `SELECT count(*), sum(n) FROM rows WHERE ${where}`, file)
        expect(await (await connection.run(sql)).getRows()).toEqual([[990n, 495_000n]])
      }
      await expect(connection.run(withScan(view, 'SELECT sum(n) FROM rows', file))).rejects.toThrow()
    })
  })
})

test('where DuckDB cannot load the module, deleted rows are skipped by a table', async () => {
  const temporaryFolder = join(pool.root, 'no-links')
  mkdirSync(temporaryFolder)
  writeFileSync(spillFolder(temporaryFolder), 'a file where the folder of the link would be')
  const engine = await Engine.open({ ...settings, temporaryFolder })
  const segments = [withDeletionVectors(segment, every(10))]
  const statement = { sql: 'SELECT count(n) FROM rows', bounds: [] }
  const { rows } = await engine.run({ source: rowsOfPool(schema, { segments }), statement, rowsMax: 1 })
  expect(rows).toEqual([[String(ROWS * 0.9)]])
  await engine.close()
})

describe('W-9 what a query holds ends with it', () => {
  const statement = (sql: string) => ({ sql, bounds: [] })
  const deleted = () => withDeletionVectors(segment, every(10))
  const bytes = every(10).length * 4
  const withEngine = async (work: (engine: Engine) => Promise<void>, more: Partial<EngineSettings> = {}) => {
    const engine = await Engine.open({ ...settings, ...more })
    try {
      await work(engine)
      engine.forget([segment.file])
      expect(native.liveRowsHeld()).toEqual({ bytes: 0, views: 0 })
    } finally {
      await engine.close()
    }
  }

  test('after an answer, a refusal and an error only the cached set is left', async () => {
    await withEngine(async engine => {
      const run = (sql: string, rowsMax = 1) =>
        engine.run({
          source: rowsOfPool(schema, { segments: [deleted()] }),
          statement: statement(sql),
          rowsMax,
        })
      const ends = [
        () =>
          expect(run('SELECT count(n) FROM rows')).resolves.toMatchObject({ rows: [[String(ROWS * 0.9)]] }),
        () => expect(run('SELECT n FROM rows')).rejects.toMatchObject({ code: 'too_many_rows' }),
        () => expect(run('SELECT nothing FROM rows')).rejects.toThrow(/nothing/),
        () => expect(run("SELECT error('stop') FROM rows WHERE n > 390000")).rejects.toThrow(/stop/),
      ]
      for (const end of ends) {
        await end()
        expect(native.liveRowsHeld()).toEqual({ bytes, views: 0 })
      }
    })
  })

  test('a cancelled query and one that takes too long hold nothing', async () => {
    const endless = 'SELECT count(*) FROM rows a, rows b, rows c WHERE a.n + b.n <> c.n'
    await withEngine(async engine => {
      const running = engine.run({
        source: rowsOfPool(schema, { segments: [deleted()] }),
        statement: statement(endless),
        rowsMax: 1,
        id: 7,
      })
      const cancel = setInterval(() => {
        if (native.liveRowsHeld().views === 1) engine.cancel(7)
      }, 1)
      await expect(running).rejects.toMatchObject({ code: 'client_gone' })
      clearInterval(cancel)
      expect(native.liveRowsHeld()).toEqual({ bytes, views: 0 })
    })
    await withEngine(
      async engine => {
        const task = {
          source: rowsOfPool(schema, { segments: [deleted()] }),
          statement: statement(endless),
          rowsMax: 1,
        }
        await expect(engine.run(task)).rejects.toMatchObject({ code: 'timeout' })
        expect(native.liveRowsHeld()).toEqual({ bytes, views: 0 })
      },
      { queryMsMax: 200 },
    )
  })

  test('a file that is forgotten while a query reads it: the query ends right, and frees its rows', async () => {
    await withEngine(async engine => {
      const sql = 'SELECT count(*) FROM rows a JOIN rows b USING (n)'
      const running = engine.run({
        source: rowsOfPool(schema, { segments: [deleted()] }),
        statement: statement(sql),
        rowsMax: 1,
      })
      while (native.liveRowsHeld().views === 0) await new Promise(resolve => setImmediate(resolve))
      engine.forget([segment.file])
      expect(native.liveRowsHeld()).toEqual({ bytes, views: 1 })
      expect((await running).rows).toEqual([[String(ROWS * 0.9)]])
      expect(native.liveRowsHeld()).toEqual({ bytes: 0, views: 0 })
    })
  })

  test('more deleted rows than the limit are skipped by a table', async () => {
    await withEngine(
      async engine => {
        const task = {
          source: rowsOfPool(schema, { segments: [deleted()] }),
          statement: statement('SELECT count(n) FROM rows'),
          rowsMax: 1,
        }
        expect((await engine.run(task)).rows).toEqual([[String(ROWS * 0.9)]])
        expect(native.liveRowsHeld()).toEqual({ bytes: 0, views: 0 })
      },
      { deletionVectorBytesMax: bytes },
    )
  })

  test('the cache has a limit of bytes, and the least recently used sets go first', () => {
    const sets = new DeletedRowSets(native, 3_000)
    const use = (name: string, rows: number) => {
      const file = join(pool.segmentFolder, name)
      const view = sets.begin([withDeletionVectors({ ...segment, file }, every(1, rows))])
      if (view !== undefined) sets.end(view)
      return view !== undefined
    }
    const held = () => native.liveRowsHeld().bytes / 4
    expect([use('a', 100), use('b', 150), held()]).toEqual([true, true, 250])
    expect([use('a', 100), use('c', 160), held()]).toEqual([true, true, 260])
    expect([use('a', 200), held(), use('a', 100), held()]).toEqual([true, 360, true, 360])
    expect([use('d', 700), held()]).toEqual([false, 360])
    sets.forget(['a', 'b', 'c', 'd'].map(name => join(pool.segmentFolder, name)))
  })
})
