/** A statement's columns of any DuckDB type, copied to Parquet and read back as Arrow and CSV. */
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { type Table, tableFromIPC } from 'apache-arrow'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { END_OF_STREAM, HEADER, MESSAGE_HEAD_BYTES, messageParts } from '../../src/format/arrow.ts'
import type { PartOfFile } from '../../src/query/arrow/export-stream.ts'
import { parquetPart } from '../../src/query/arrow/parquet-parts.ts'
import type { Bound } from '../../src/query/expression/values.ts'
import { rowsOfPool, type SegmentEngine } from '../../src/query/plan/segment-task.ts'
import { CHUNK_ROWS, EXPORT_BATCH_BYTES } from '../../src/util/limits.ts'
import { schemaOf, TestPool } from './pool.ts'

const pool = new TestPool()
const schema = schemaOf([['n', 'INT64']])
let engine: SegmentEngine
let copies = 0

beforeAll(async () => {
  engine = await pool.open()
})
afterAll(async () => {
  await engine.stop()
  await pool.close()
})

async function copy(
  sql: string,
  rowsMax = 1_000_000,
  bounds: readonly Bound[] = [],
  hasDictionaries = false,
) {
  const file = join(pool.temporaryFolder, `statement-${++copies}`)
  const copyTo = {
    format: 'parquet',
    file,
    compression: 'zstd',
    hasDictionaries,
    rowGroupRows: CHUNK_ROWS,
    rowsMax,
  } as const
  const source = rowsOfPool(schema, { segments: [] })
  const done = await engine.run({ source, statement: { sql, bounds }, rowsMax: 1, copyTo }, 'a')
  return { file, names: done.columns, rows: Number(done.rows[0]?.[0]) }
}

/** All parts of a file. */
async function parts(file: string, format: PartOfFile['format']) {
  const all = [await parquetPart({ file, format, group: 0, row: 0 })]
  for (let next = all[0]?.next; next !== undefined; next = all.at(-1)?.next)
    all.push(await parquetPart({ file, format, ...next }))
  return all
}

async function arrow(file: string): Promise<Table> {
  const all = await parts(file, 'arrow')
  return tableFromIPC(Buffer.concat([...all.map(({ bytes }) => bytes), END_OF_STREAM]))
}

async function csv(file: string): Promise<string> {
  return Buffer.concat((await parts(file, 'csv')).map(({ bytes }) => bytes)).toString()
}

const LONG = '170141183460469231731687303715884105727'
/** A value, its type in Arrow, and its field in CSV. */
const VALUES: readonly (readonly [sql: string, type: string, text: string])[] = [
  ['true', 'Bool', 'true'],
  ['(-128)::TINYINT', 'Int8', '-128'],
  ['(-9223372036854775808)::BIGINT', 'Int64', '-9223372036854775808'],
  ['18446744073709551615::UBIGINT', 'Uint64', '18446744073709551615'],
  ['sum(9223372036854775807) OVER ()', 'Decimal[38e0]', '9223372036854775807'],
  [
    '(-99999999999999999999999999999999999999)::HUGEINT',
    'Decimal[38e0]',
    '-99999999999999999999999999999999999999',
  ],
  [`${LONG}::UHUGEINT`, 'Utf8', LONG],
  ['0.1::FLOAT', 'Float32', '0.1'],
  ['1e300', 'Float64', '1e+300'],
  ["'nan'::DOUBLE", 'Float64', ''],
  ['(-0.05)::DECIMAL(4,2)', 'Decimal[4e+2]', '-0.05'],
  ['(-12.5)::DECIMAL(9,1)', 'Decimal[9e+1]', '-12.5'],
  [
    '1234567890123456789012345678.0123456789::DECIMAL(38,10)',
    'Decimal[38e+10]',
    '1234567890123456789012345678.0123456789',
  ],
  ['$$a "b",' + '\n$$', 'Utf8', '"a ""b"",\n"'],
  ["''", 'Utf8', '""'],
  ["chr(65279) || 'a'", 'Utf8', '\ufeffa'],
  ["encode('a\\') || '\\x00'::BLOB", 'Binary', 'a\\x5C\\x00'],
  ["DATE '0001-01-01'", 'Date32<DAY>', '0001-01-01'],
  ["'infinity'::DATE", 'Date32<DAY>', ''],
  ["TIMESTAMP '1969-12-31 23:59:59.999999'", 'Timestamp<MICROSECOND, UTC>', '1969-12-31T23:59:59.999999Z'],
  ["TIMESTAMP_S '2026-01-01 00:00:01'", 'Timestamp<MICROSECOND, UTC>', '2026-01-01T00:00:01.000Z'],
  ["TIMESTAMPTZ '2026-01-01 00:00:00+05'", 'Timestamp<MICROSECOND, UTC>', '2025-12-31T19:00:00.000Z'],
  ["TIMESTAMP_NS '2026-01-01 00:00:00.123456789'", 'Utf8', '2026-01-01 00:00:00.123456789'],
  ["TIME '24:00:00'", 'Utf8', '24:00:00'],
  ["'01:02:03.000004+02'::TIMETZ", 'Utf8', '01:02:03.000004+02'],
  ["INTERVAL '14 months 3 days 1 microsecond'", 'Utf8', '1 year 2 months 3 days 00:00:00.000001'],
  ["'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::UUID", 'Utf8', '6ba7b810-9dad-11d1-80b4-00c04fd430c8'],
  ["'b'::ENUM('a', 'b')", 'Utf8', 'b'],
  ["'101'::BIT", 'Utf8', '101'],
  ['\'{"a": [1, null]}\'::JSON', 'Utf8', '"{""a"": [1, null]}"'],
  ['NULL', 'Int32', ''],
  ['[1, NULL, 3]', 'List<Int32>', '"[1,null,3]"'],
  ['[]', 'List<Int32>', '[]'],
  ['[1, 2]::INTEGER[2]', 'List<Int32>', '"[1,2]"'],
  [
    "{'a': 1.50, 'B c': [TIMESTAMP '2026-01-01'], 'd': {'e': NULL}}",
    'Struct<{a:Decimal[3e+2], B c:List<Timestamp<MICROSECOND, UTC>>, d:Struct<{e:Int32}>}>',
    '"{""a"":1.50,""B c"":[""2026-01-01T00:00:00.000Z""],""d"":{""e"":null}}"',
  ],
  [
    "MAP {'k': [{'i': INTERVAL 1 DAY, 'h': 1::HUGEINT}]}",
    'Map<{key:Utf8, value:List<Struct<{i:Utf8, h:Decimal[38e0]}>>}>',
    '"{""k"":[{""i"":""1 day"",""h"":1}]}"',
  ],
  ["row(1, 'x')", 'Utf8', '"(1, x)"'],
  ["union_value(k := 'x')", 'Utf8', 'x'],
]

test.each(VALUES)('%s', async (sql, type, text) => {
  const { file, names, rows } = await copy(`SELECT ${sql} AS v UNION ALL SELECT NULL`)
  expect([names, rows]).toEqual([['v'], 2])
  const table = await arrow(file)
  expect(table.schema.fields.map(field => `${field.name} ${field.type}`)).toEqual([`v ${type}`])
  expect((await csv(file)).split(/\r\n/).sort()).toEqual(['', '', text].sort())
})

test('values of Arrow are those of Parquet', async () => {
  const { file } = await copy(
    "SELECT [1.5::DECIMAL(9, 1)] AS l, {'a': 'x'} AS s, 5::HUGEINT AS h",
    10,
    [],
    true,
  )
  const duckdb = await DuckDBInstance.create(':memory:')
  const connection = await duckdb.connect()
  const read = await connection.run(
    `SELECT l::VARCHAR, s::VARCHAR, h::VARCHAR, typeof(h) FROM read_parquet($1)`,
    [file],
  )
  expect(await read.getRows()).toEqual([['[1.5]', "{'a': x}", '5', 'DECIMAL(38,0)']])
  connection.closeSync()
  const [row] = (await arrow(file)).toArray()
  expect([[...(row?.['l'] ?? [])].map(String), row?.['s'].toJSON()]).toEqual([['15'], { a: 'x' }])
})

test('names differ ignoring case, and each keeps its column', async () => {
  const { file, names } = await copy('SELECT 1 AS min, 2 AS MIN, 3 AS min_1, 4 AS "a ""b"""')
  expect(new Set(names.map(name => name.toLowerCase())).size).toBe(4)
  const table = await arrow(file)
  expect(table.schema.fields.map(({ name }) => name)).toEqual(names)
  expect(names.map(name => table.getChild(name)?.get(0))).toEqual([1, 2, 3, 4])
})

test('rows keep their order, parameters are bound, and the answer ends after rowsMax', async () => {
  const sql = 'SELECT i, i % $1 AS r FROM range(200000) t(i) ORDER BY hash(i)'
  const bounds = [{ type: 'INT64', value: 7 }] as const
  const all = await copy(sql, 300_000, bounds)
  expect(all.rows).toBe(200_000)
  const table = await arrow(all.file)
  const ids = [...(table.getChild('i') ?? [])].map(Number)
  expect(new Set(ids).size).toBe(200_000)
  expect([...(table.getChild('r') ?? [])].map(Number)).toEqual(ids.map(id => id % 7))
  const some = await copy(sql, 150_001, bounds)
  expect(some.rows).toBe(150_001)
  expect([...((await arrow(some.file)).getChild('i') ?? [])].map(Number)).toEqual(ids.slice(0, 150_001))
})

test('no rows have a schema, and CSV nothing', async () => {
  const { file, rows } = await copy("SELECT 1 AS a, 'x' AS b WHERE false")
  expect(rows).toBe(0)
  expect((await arrow(file)).schema.fields.map(String)).toEqual(['a: Int32', 'b: Utf8'])
  expect(await csv(file)).toBe('')
})

test('a part has a bounded size, also where one text stands in all rows', async () => {
  const { file } = await copy("SELECT repeat('y', 20000) AS s FROM range(5000)")
  const all = await parts(file, 'arrow')
  expect(all.map(({ rows }) => rows).reduce((sum, rows) => sum + rows)).toBe(5_000)
  expect(Math.max(...all.map(({ bytes }) => bytes.byteLength))).toBeLessThan(1.1 * EXPORT_BATCH_BYTES)
  const kinds = all.map(({ bytes }) => messageParts(bytes.subarray(MESSAGE_HEAD_BYTES)).header)
  expect(kinds).toEqual([HEADER.schema, ...Array.from({ length: all.length - 1 }, () => HEADER.recordBatch)])
  const table = await arrow(file)
  expect([table.numRows, table.getChild('s')?.get(4_999)?.length]).toEqual([5_000, 20_000])
})

test('nulls, which Parquet has for nothing, count too', async () => {
  const nulls = Array.from({ length: 100 }, (_, n) => `NULL AS c${n}`).join()
  const { file } = await copy(`SELECT ${nulls} FROM range(20000)`)
  const all = await parts(file, 'arrow')
  expect(all.map(({ rows }) => rows).reduce((sum, rows) => sum + rows)).toBe(20_000)
  expect(Math.max(...all.map(({ rows }) => rows))).toBeLessThan(EXPORT_BATCH_BYTES / 1_000)
})

test('a number beyond 38 digits fails, and is never rounded', async () => {
  await expect(copy(`SELECT ${LONG}::HUGEINT AS h`)).rejects.toThrow(/cast/i)
})
