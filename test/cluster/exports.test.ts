/**
 * Rows leave a cluster as they leave the local store: the same lines, and the same values and types
 * in Arrow and Parquet. A part is never taken for the whole.
 */
import { readFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { DuckDBInstance } from '@duckdb/node-api'
import {
  makeVector,
  Table,
  TimestampMicrosecond,
  tableFromIPC,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { END_OF_STREAM } from '../../src/format/arrow.ts'
import { readParquetFooter } from '../../src/format/parquet-footer.ts'
import type { ColumnType, PoolSchema } from '../../src/format/schema.ts'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { ExportClient } from '../../src/query/arrow/export-client.ts'
import { arrowStream } from '../../src/query/arrow/export-stream.ts'
import { ClickHouseEngine, type ClickHouseEngineOptions } from '../../src/query/clickhouse/engine.ts'
import { ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import type { PoolTable } from '../../src/query/clickhouse/rows.ts'
import { clusterExports } from '../../src/query/cluster-exports.ts'
import type { RowPolicy } from '../../src/query/plan/policy.ts'
import type { Asker, QueryEngine } from '../../src/query/plan/query-task.ts'
import { type RowExports, type SelectedRows, segmentExports } from '../../src/query/row-exports.ts'
import { type Selection, writeSelection } from '../../src/query/selection.ts'
import { disk } from '../../src/util/disk.ts'
import { type Cell, type Row, schemaOf, TestPool, withDeletionVectors } from '../query/pool.ts'
import { below, newSeed, randomFrom } from '../util/random.ts'
import { whyNoClickHouse } from './clickhouse.ts'

const why = whyNoClickHouse()
if (why !== undefined) process.stdout.write(`skipped: ${why}\n`)

const DAY_US = 86_400_000_000n
const COLUMNS: readonly (readonly [string, ColumnType])[] = [
  ['b', 'BOOLEAN'],
  ['text', 'STRING'],
  ['f', 'FLOAT'],
  ['x', 'DOUBLE'],
  ['i8', 'INT8'],
  ['i16', 'INT16'],
  ['i32', 'INT32'],
  ['i64', 'INT64'],
  ['d', 'DATE'],
  ['t', 'TIMESTAMP'],
  ['j', 'JSON'],
  ['c1', 'STRING'],
  ['say "hi"; `--\\', 'INT32'],
  ['rows', 'INT32'],
]
const schema = schemaOf(COLUMNS, { timestamp: 9 })
const EXTREMES: Readonly<Record<ColumnType, readonly Cell[]>> = {
  BOOLEAN: [true, false],
  STRING: [
    '',
    'a',
    '\ufeff',
    '\ufeffmarked',
    'x\0y',
    'ä€𝄞'.repeat(9),
    'of two\r\nlines, "quoted"',
    'null',
    '\\N',
  ],
  FLOAT: [0, -0, 0.1, -3.4028234e38, 1.4e-45, 16_777_216],
  DOUBLE: [0, -0, 0.1, 1.7976931348623157e308, 5e-324, -1e21, 1e-7, 123_456_789_012_345_680],
  INT8: [-128, 127, 0],
  INT16: [-32_768, 32_767],
  INT32: [-2_147_483_648, 2_147_483_647],
  INT64: [-9_223_372_036_854_775_808n, 9_223_372_036_854_775_807n, 9_007_199_254_740_993n],
  DATE: [0, -1, -719_162, 2_932_896, -25_567, 120_529],
  TIMESTAMP: [0n, -1n, -62_135_596_800_000_000n, 253_402_300_799_999_999n, 19_000n * DAY_US + 123_456n],
  JSON: ['{}', '{ "a" : 1.0,\n"b":"\\ud800" }', '"text"', '1e999', 'null', '[1,\r\n2]'],
}

const pool = new TestPool()
const exportThread = new ExportClient()
const engines: ClickHouseEngine[] = []
let segments: readonly QuerySegment[]

function rowsOf(random: () => number, count: number): Row[] {
  return Array.from({ length: count }, (_, n) =>
    Object.fromEntries([
      ['_service_received_at', BigInt(n) * 1_000_001n + 1_700_000_000_000_000n],
      ['_service_payload', `{"n":${n}}`],
      ...COLUMNS.map(([name, type]) => {
        const values = EXTREMES[type]
        return [name, random() < 0.2 ? null : values[below(random, values.length)]]
      }),
    ]),
  )
}

beforeAll(async () => {
  if (why !== undefined) return
  const seed = newSeed()
  process.stdout.write(`exports: seed ${seed}\n`)
  const random = randomFrom(seed)
  await pool.engine()
  segments = [
    await pool.segment(schema, rowsOf(random, 700)),
    withDeletionVectors(await pool.segment(schema, rowsOf(random, 300)), [0, 7, 99, 299]),
  ]
})
afterAll(async () => {
  for (const engine of engines) await engine.stop()
  await exportThread.stop()
  await pool.close()
})

const parser: Pick<QueryEngine, 'parse' | 'parseStatement'> = {
  parse: (text, key) => pool.local.parse(text, key),
  parseStatement: (text, key) => pool.local.parseStatement(text, key),
}

function optionsOf(url: string, table: PoolTable): ClickHouseEngineOptions {
  const http = new ClickHouseHttp({ url })
  return { parser, placeOf: async () => ({ http, tables: [table] }) }
}

async function clusterEngine(table: PoolTable): Promise<ClickHouseEngine> {
  const { url } = await pool.cluster()
  const engine = new ClickHouseEngine(optionsOf(url, table))
  engines.push(engine)
  return engine
}

interface Store {
  readonly engine: QueryEngine
  readonly exports: RowExports
}

/** @param more settings of ClickHouse's */
async function cluster(more: Record<string, string> = {}): Promise<Store> {
  const engine = await clusterEngine(await (await pool.cluster()).tableOf({ schema, segments }))
  const stream: ClickHouseEngine['stream'] = (task, format, settings, asker) =>
    engine.stream(task, format, { ...settings, ...more }, asker)
  return { engine, exports: clusterExports({ engine: { stream }, exportThread }) }
}
/** 26.9 has this one alone; chdb and earlier versions have the one of Arrow's library. */
const NATIVE_WRITER = { output_format_arrow_use_native_writer: '1' }

function local(): Store {
  const deps = {
    engine: pool.local,
    exportThread,
    temporaryFolder: pool.temporaryFolder,
    makeVisible: async () => {},
    snapshot: async () => ({ segments, release() {} }),
  }
  return { engine: pool.local, exports: segmentExports(deps) }
}

const ASKER: Asker = { fairKey: 'APP' }

async function selected(
  engine: QueryEngine,
  selection: Selection = {},
  policy: RowPolicy | null = null,
  asker = ASKER,
  of: PoolSchema = schema,
): Promise<SelectedRows> {
  const parse = async (texts: readonly string[]) =>
    new Map(await Promise.all(texts.map(async text => [text, await parser.parse(text, 'APP')] as const)))
  const planned = await writeSelection({ schema: of, policy }, selection, parse, 0, engine.dialect)
  if ('badRequest' in planned) throw new Error(planned.badRequest)
  return { schema: of, planned, asker }
}

async function gathered(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = []
  for await (const chunk of chunks) all.push(new Uint8Array(chunk)) // its memory is used again
  return Buffer.concat(all)
}

const FILTERS = JSON.stringify([
  {
    column: 'i8',
    operator: 'GREATER_THAN',
    value: '-1',
    or: [{ column: 'text', operator: 'EQUALS', value: '' }],
  },
])
const POLICY: RowPolicy = {
  columns: ['text', 'i8', 'j', 'x', 't', '_service_payload'],
  rows: [{ column: 'b', operator: 'EQUALS', value: 'true' }],
  filterSql: `"i64" > 0 AND "text" <> \${{ hidden }}`,
  values: { hidden: 'a' },
}
const LIMITED: RowPolicy = { ...POLICY, columns: ['*'], rows: [], filterSql: null }

const SELECTIONS: readonly (readonly [string, Selection, RowPolicy | null])[] = [
  ['all', {}, null],
  ['columns', { columns: ['rows', 'say "hi"; `--\\', 'c1', '_service_payload', 'b'] }, null],
  ['filters', { filters: FILTERS }, null],
  ['times', { start: '1970-01-01T00:00:00Z', stop: '2030-01-01T00:00:00Z' }, null],
  ['no row', { filters: '[{"column":"text","operator":"EQUALS","value":"of no row"}]' }, null],
  ['a policy', {}, POLICY],
  ['filters within a policy', { filters: FILTERS, columns: ['x', 'i8'] }, POLICY],
  ['a policy that hides nothing', { filters: FILTERS }, LIMITED],
]

describe.skipIf(why !== undefined)('the same as of the local store', () => {
  test.each(SELECTIONS)('lines: %s', async (_, selection, policy) => {
    for (const format of ['ndjson', 'csv'] as const) {
      const [one, other, native] = await Promise.all(
        [local(), await cluster(), await cluster(NATIVE_WRITER)].map(async ({ engine, exports }) => {
          const rows = await selected(engine, selection, policy)
          const bytes = await gathered(exports.batches(rows, { format, columns: rows.planned.columns }))
          return bytes.toString('latin1').split('\n').sort()
        }),
      )
      expect(other).toEqual(one)
      expect(native).toEqual(one)
    }
  })

  test.each(SELECTIONS)('Arrow: %s', async (_, selection, policy) => {
    const [one, ...others] = await Promise.all(
      [local(), await cluster(), await cluster(NATIVE_WRITER)].map(async ({ engine, exports }) => {
        const rows = await selected(engine, selection, policy)
        const schemaOf = () => exportThread.schema(rows.planned.columns)
        return tableFromIPC(await gathered(arrowStream(schemaOf, exports.batches(rows))))
      }),
    )
    for (const other of others) {
      expect(String(other.schema)).toBe(String(one!.schema))
      expect(cellsOf(other)).toEqual(cellsOf(one!))
    }
  })

  test.each(SELECTIONS)('Parquet: %s', async (name, selection, policy) => {
    const files = await Promise.all(
      [local(), await cluster()].map(async ({ engine, exports }, index) => {
        const file = join(pool.temporaryFolder, `${name.replaceAll(' ', '-')}-${index}.parquet`)
        await exports.parquet(file, await selected(engine, selection, policy))
        return file.replaceAll("'", "''").replaceAll(/[[*?]/g, '[$&]')
      }),
    )
    const instance = await DuckDBInstance.create(':memory:')
    const connection = await instance.connect()
    const read = async (sql: string) => (await connection.runAndReadAll(sql)).getRowsJson()
    const [one, other] = files.map(file => `read_parquet('${file}')`)
    expect(await read(`DESCRIBE FROM ${other}`)).toEqual(await read(`DESCRIBE FROM ${one}`))
    const [[rows]] = (await read(`SELECT count(*) FROM ${one}`)) as [[string]]
    expect(Number(rows) > 0).toBe(name !== 'no row')
    const columns = await read(
      `SELECT column_name FROM (DESCRIBE FROM ${one}) WHERE column_type IN ('FLOAT', 'DOUBLE')`,
    )
    // EXCEPT takes -0 for 0.
    const bits = columns.map(([column]) => `, printf('%a', "${column}"::DOUBLE)`).join('')
    const [a, b] = [one, other].map(table => `SELECT *${bits} FROM ${table}`)
    expect(await read(`((${a}) EXCEPT ALL (${b})) UNION ALL ((${b}) EXCEPT ALL (${a}))`)).toEqual([])
    connection.closeSync()
    instance.closeSync()
    expect(
      readFileSync(files[1]!.replaceAll("''", "'").replaceAll(/\[(.)\]/g, '$1'))
        .subarray(-4)
        .toString(),
    ).toBe('PAR1')
  })
})

/** Each row's cells, sorted. apache-arrow's decoder removes U+FEFF, so texts are their bytes. */
function cellsOf(table: Table): string[] {
  return table.batches
    .flatMap(batch =>
      Array.from({ length: batch.numRows }, (_, row) =>
        batch.schema.fields
          .map(({ type }, at) => {
            const vector = batch.getChildAt(at)!
            if (!vector.isValid(row)) return 'null'
            const { values, valueOffsets, offset } = vector.data[0]!
            expect(offset).toBe(0)
            if (String(type) === 'Utf8')
              return `"${Buffer.from(values as Uint8Array).toString('hex', valueOffsets[row], valueOffsets[row + 1])}"`
            if (String(type) === 'Bool') return String(vector.get(row))
            const value = (values as unknown as readonly (number | bigint)[])[row]
            return Object.is(value, -0) ? '-0' : String(value)
          })
          .join(),
      ),
    )
    .sort()
}

const plain = schemaOf([
  ['n', 'INT64'],
  ['word', 'STRING'],
])
const ROWS = 200_000
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const MANY: PoolTable = { table: 'many', isLive: '_deleted = 0', key: ['n'] }

describe.skipIf(why !== undefined)('of many rows', () => {
  let engine: ClickHouseEngine
  let exports: RowExports

  beforeAll(async () => {
    engine = await clusterEngine(MANY)
    exports = clusterExports({ engine, exportThread })
    const tables = await pool.cluster()
    await tables.query(
      `CREATE TABLE many (_service_received_at DateTime64(6, 'UTC'), _service_payload String, n Int64,
       word Nullable(String), _version UInt64, _deleted UInt8) ENGINE = ReplacingMergeTree(_version) ORDER BY n`,
    )
    for (const version of [1, 2])
      await tables.query(
        `INSERT INTO many SELECT ${version}, repeat(toString(cityHash64(number)), 50), number, 'x', ${version},
         number % 10 = 0 AND ${version} = 2 FROM numbers(${ROWS}) WHERE number % ${version} = 0`,
      )
  })

  /** The statement of all rows, with SQL in the place of the first column. */
  async function withColumn(sql: string, asker = ASKER): Promise<SelectedRows> {
    const rows = await selected(engine, { columns: ['n', 'word', '_service_payload'] }, null, asker, plain)
    const statement = rows.planned.statement
    return {
      ...rows,
      planned: {
        ...rows.planned,
        statement: { ...statement, sql: statement.sql.replace('_service_r.`n`', sql) },
      },
    }
  }

  test('a slow reader gets all of them, and few are in memory', async () => {
    let [rows, bytes, most] = [0, 0, 0]
    const sums = { n: 0n }
    const before = process.memoryUsage().arrayBuffers
    const { planned, ...more } = await selected(engine, {}, null, ASKER, plain)
    const prefix = await exportThread.schema(planned.columns)
    for await (const batch of exports.batches({ planned, ...more })) {
      const table = tableFromIPC(Buffer.concat([prefix, batch, END_OF_STREAM]))
      rows += table.numRows
      bytes += batch.byteLength
      for (const n of table.getChild('n')!) sums.n += n as bigint
      for (let turn = 0; turn < 20; turn++) await setImmediate()
      if (process.memoryUsage().arrayBuffers - before > 32e6) collect()
      most = Math.max(most, process.memoryUsage().arrayBuffers - before)
    }
    expect(rows).toBe(ROWS * 0.9)
    expect(sums.n).toBe(
      Array.from({ length: ROWS }, (_, n) => BigInt(n % 10 === 0 ? 0 : n)).reduce((a, b) => a + b),
    )
    expect(bytes).toBeGreaterThan(150e6)
    expect(most).toBeLessThan(64e6)
  })

  test.each(['ndjson', 'csv', undefined] as const)('an exception in the middle of %s', async format => {
    const rows = await withColumn('toInt64(_service_r.`n` + throwIf(_service_r.`n` = 150001))')
    const text = format === undefined ? undefined : { format, columns: rows.planned.columns }
    let batches = 0
    const read = async () => {
      for await (const _ of exports.batches(rows, text)) batches += 1
    }
    await expect(read()).rejects.toMatchObject({ name: 'Unavailable', code: 'cluster' })
    expect(batches).toBeGreaterThan(2)
    const file = join(pool.temporaryFolder, `broken-${format}.parquet`)
    await expect(exports.parquet(file, rows)).rejects.toMatchObject({ name: 'Unavailable', code: 'cluster' })
  })

  test('shards give their rows', async () => {
    const ofShards = (select: string) => `remote('localhost,127.0.0.1', view(${select}))`
    const shards = await clusterEngine({
      table: 'default.many',
      isLive: '_deleted = 0',
      key: ['n'],
      ofShards,
    })
    const twice = clusterExports({ engine: shards, exportThread })
    const filters = '[{"column":"n","operator":"LESS_THAN","value":"4"}]'
    const rows = await selected(shards, { columns: ['n'], filters }, null, ASKER, plain)
    const lines = await gathered(twice.batches(rows, { format: 'csv', columns: rows.planned.columns }))
    expect(lines.toString().split('\r\n').sort().join(' ')).toBe(' 1 1 2 2 3 3')
  })

  test('an exception before the first row', async () => {
    const rows = await withColumn("toInt64(length(groupArray(repeat('x', 10000)) OVER ()))")
    await expect(gathered(exports.batches(rows))).rejects.toMatchObject({ code: 'query_memory' })
  })

  test('a client that goes ends its query', async () => {
    const gone = new AbortController()
    const asker = { fairKey: 'APP', gone: gone.signal }
    const read = async () => {
      for await (const _ of exports.batches(await withColumn('_service_r.`n`', asker))) gone.abort()
    }
    await expect(read()).rejects.toMatchObject({ name: 'Unavailable', code: 'client_gone' })
    for await (const _ of exports.batches(await withColumn('_service_r.`n`'))) break
    // The bridge runs one statement at a time.
    expect(await (await pool.cluster()).query('SELECT 1')).toBe('1\n')
    expect(engine.stats()).toEqual({ running: 0, waiting: 0 })
  })

  test('a Parquet file has all of them', async () => {
    const file = join(pool.temporaryFolder, 'many.parquet')
    await exports.parquet(file, await selected(engine, {}, null, ASKER, plain))
    expect(readParquetFooter(disk, file).rows).toBe(ROWS * 0.9)
    await expect(exports.parquet(file, await withColumn('_service_r.`n`'))).rejects.toMatchObject({
      code: 'query_io',
    })
  })
})

describe('of a server that fails', () => {
  const servers: Server[] = []
  afterAll(() => {
    for (const server of servers) {
      server.closeAllConnections()
      server.close()
    }
  })

  async function exportsAt(
    answer: Parameters<typeof createServer>[1],
    more: Partial<ClickHouseEngineOptions> = {},
  ): Promise<{ engine: ClickHouseEngine; exports: RowExports }> {
    const server = createServer(answer!)
    servers.push(server)
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const engine = new ClickHouseEngine({ ...optionsOf(url, MANY), ...more })
    engines.push(engine)
    return { engine, exports: clusterExports({ engine, exportThread }) }
  }

  /** A stream as ClickHouse sends it. */
  function streamOf(count: number): Uint8Array {
    const columns = {
      received: makeVector({ type: new TimestampMicrosecond('UTC'), data: new BigInt64Array(count) }),
      payload: vectorFromArray(Array<string>(count).fill('{}'), new Utf8()),
      n: makeVector(BigInt64Array.from({ length: count }, (_, n) => BigInt(n))),
      word: vectorFromArray(Array<string | null>(count).fill(null), new Utf8()),
    }
    return tableToIPC(new Table(columns), 'stream')
  }

  const TEXT = 'Code: 241. DB::Exception: Memory limit exceeded'
  const MODERN = `\r\n__exception__\r\nabcdefghijklmnop\r\n${TEXT}\n60 abcdefghijklmnop\r\n__exception__\r\n`

  test('every part of an answer is none', async () => {
    const whole = streamOf(50)
    let send = (response: ServerResponse): unknown => response.end(whole)
    const { engine, exports } = await exportsAt((_, response) => void send(response))
    const rows = await selected(engine, {}, null, ASKER, plain)
    expect((await gathered(exports.batches(rows))).length).toBeGreaterThan(1_000)
    for (let bytes = 0; bytes < whole.length; bytes += bytes < 80 || whole.length - bytes < 80 ? 1 : 37) {
      send = response => response.end(whole.subarray(0, bytes))
      await expect(gathered(exports.batches(rows)), `${bytes}`).rejects.toMatchObject({ code: 'cluster' })
    }
    for (const text of [TEXT, MODERN]) {
      send = response => response.end(Buffer.concat([whole.subarray(0, -8), Buffer.from(text)]))
      await expect(gathered(exports.batches(rows))).rejects.toMatchObject({ code: 'query_memory' })
    }
    for (const more of [Buffer.from('x'), Buffer.from(TEXT), whole]) {
      send = response => response.end(Buffer.concat([whole, more]))
      await expect(gathered(exports.batches(rows))).rejects.toMatchObject({ name: 'Unavailable' })
    }
    // All of Arrow's bytes, but not the end of HTTP's.
    send = response => response.write(whole, () => response.destroy())
    await expect(gathered(exports.batches(rows))).rejects.toMatchObject({ code: 'cluster_unreachable' })
    send = response => response.end(Buffer.alloc(100_000, 0xff))
    await expect(gathered(exports.batches(rows))).rejects.toMatchObject({ code: 'cluster' })
  })

  test('a Parquet file without its end is none', async () => {
    let bytes = Buffer.from('PAR1 rows \x10\0\0\0PAR1')
    const { engine, exports } = await exportsAt((_, response) => response.end(bytes))
    const rows = await selected(engine, {}, null, ASKER, plain)
    const file = (name: string) => join(pool.temporaryFolder, `${name}.parquet`)
    await exports.parquet(file('whole'), rows)
    expect(readFileSync(file('whole'))).toEqual(bytes)
    for (const [name, last, code] of [
      ['cut', 'PAR1 rows', 'cluster'],
      ['failed', `PAR1 PAR1${TEXT}`, 'query_memory'],
      ['nothing', '', 'cluster'],
    ] as const) {
      bytes = Buffer.from(last)
      await expect(exports.parquet(file(name), rows)).rejects.toMatchObject({ name: 'Unavailable', code })
    }
  })

  test('other types than the pool has are refused', async () => {
    const whole = streamOf(10)
    const { engine, exports } = await exportsAt((_, response) => response.end(whole))
    for (const other of [
      schemaOf([
        ['n', 'INT32'],
        ['word', 'STRING'],
      ]),
      schemaOf([['n', 'INT64']]),
    ]) {
      const rows = await selected(engine, {}, null, ASKER, other)
      await expect(gathered(exports.batches(rows))).rejects.toMatchObject({ code: 'cluster' })
    }
  })

  test('a stream begins in a turn, and its client does not hold it', async () => {
    const open: ServerResponse[] = []
    let arrived = () => {}
    const { engine, exports } = await exportsAt(
      (_, response) => {
        open.push(response)
        arrived()
      },
      { runningMax: 1 },
    )
    const arrival = () => new Promise<void>(resolve => (arrived = resolve))
    const rows = await selected(engine, {}, null, ASKER, plain)
    let came = arrival()
    const stream = exports.batches(rows)[Symbol.asyncIterator]()
    const first = stream.next()
    await came
    const source = { pools: [{ schema: plain }] }
    const query = { source, statement: { sql: 'SELECT 1', bounds: [] }, rowsMax: 1 }
    const asked = engine.run(query, 'OTHER')
    expect(engine.stats()).toEqual({ running: 1, waiting: 1 })
    came = arrival()
    const whole = streamOf(10)
    open[0]!.write(whole.subarray(0, -8))
    expect((await first).done).toBe(false)
    await came
    open[1]!.end(Buffer.from('\x01\x01c\x05Int64', 'latin1'))
    expect((await asked).rows).toEqual([])
    open[0]!.end(whole.subarray(-8))
    expect((await stream.next()).done).toBe(true)
    expect(engine.stats()).toEqual({ running: 0, waiting: 0 })
  }, 10_000) // the time of a query ends the turn too

  test('a query whose turn is long runs without it, and what was stopped tells so', async () => {
    let came = () => {}
    const { engine, exports } = await exportsAt(() => came(), { runningMax: 1, queryMsMax: 20 })
    const arrival = new Promise<void>(resolve => (came = resolve))
    const stream = gathered(exports.batches(await selected(engine, {}, null, ASKER, plain))).catch(
      error => error,
    )
    await arrival
    const next = new Promise<void>(resolve => (came = resolve))
    const source = { pools: [{ schema: plain }] }
    const asked = engine.run({ source, statement: { sql: '', bounds: [] }, rowsMax: 1 }, 'OTHER')
    asked.catch(() => undefined)
    await next
    await engine.stop()
    expect(await stream).toMatchObject({ code: 'stopping' })
    await expect(asked).rejects.toMatchObject({ code: 'stopping' })
  })
})
