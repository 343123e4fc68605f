/**
 * DuckDB's chunks become Arrow record batches of the stored values; native and TypeScript code give
 * equal bytes.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type RecordBatch, Table, tableFromIPC } from 'apache-arrow'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { END_OF_STREAM } from '../../src/format/arrow.ts'
import type { ColumnType, PoolSchema } from '../../src/format/schema.ts'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { schemaMessage } from '../../src/query/arrow/arrow-schema.ts'
import { openBatches } from '../../src/query/arrow/copied-batches.ts'
import { queryColumns } from '../../src/query/expression/operand.ts'
import { rowsOfPool, type SegmentEngine } from '../../src/query/plan/segment-task.ts'
import { Damaged } from '../../src/util/errors.ts'
import { EXPORT_BATCH_BYTES, EXPORT_BATCH_ROWS } from '../../src/util/limits.ts'
import { below, randomFrom } from '../util/random.ts'
import { type Cell, type Row, schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const pool = new TestPool()
let engines: readonly SegmentEngine[]
let copies = 0

beforeAll(async () => {
  const js = await pool.open({ kernel: 'js' })
  engines = [await pool.open({ kernel: 'native' }), js]
})
afterAll(async () => {
  for (const engine of engines) await engine.stop()
  await pool.close()
})

const TYPES: readonly (readonly [string, ColumnType])[] = [
  ['b', 'BOOLEAN'],
  ['s', 'STRING'],
  ['f', 'FLOAT'],
  ['x', 'DOUBLE'],
  ['i8', 'INT8'],
  ['i16', 'INT16'],
  ['i32', 'INT32'],
  ['i64', 'INT64'],
  ['d', 'DATE'],
  ['t', 'TIMESTAMP'],
  ['j', 'JSON'],
]
/** Texts at the limits of DuckDB's inline form, of UTF-8, and of what decoders remove. */
const TEXTS = [
  '',
  'a',
  'twelve bytes',
  'thirteen byte',
  '\ufeff',
  '\ufeffa text with a byte order mark',
  'x\0y',
  'ä€𝄞'.repeat(9),
]

function cellOf(type: ColumnType, random: (below: number) => number): Cell {
  switch (type) {
    case 'BOOLEAN':
      return random(2) === 1
    case 'STRING':
    case 'JSON':
      return TEXTS[random(TEXTS.length)] as string
    case 'FLOAT':
    case 'DOUBLE':
      return (random(1e6) - 5e5) / 8
    case 'INT64':
      return 9223372036854775807n - BigInt(random(1000))
    case 'TIMESTAMP':
      return BigInt(random(1e9)) * 1_000_001n - 10n ** 14n
    default:
      return random(200) - 100
  }
}

/**
 * Copies all columns. Returns the file's bytes, its batches as a table, and the reported number of
 * rows.
 */
async function copied(
  engine: SegmentEngine,
  schema: PoolSchema,
  segments: readonly QuerySegment[],
  where = '',
) {
  const file = join(pool.temporaryFolder, `copy-${++copies}`)
  const columns = queryColumns(schema)
  const types = columns.map(({ type }) => type)
  const sql = `SELECT ${columns.map(({ name }) => `"${name}"`).join(', ')} FROM rows ${where}`
  const copyTo = { format: 'arrow', file, types, msMax: 60_000 } as const
  const done = await engine.run(
    { source: rowsOfPool(schema, { segments }), statement: { sql, bounds: [] }, rowsMax: 1, copyTo },
    'a',
  )
  const rows = Number(done.rows[0]?.[0])
  const bytes = readFileSync(file)
  const source = await openBatches({ file, rows })
  const batches: RecordBatch[] = []
  const messageBytes: number[] = []
  for (let one = await source.next(); one !== undefined; one = await source.next()) {
    messageBytes.push(one.byteLength)
    const stream = Buffer.concat([schemaMessage(columns), one, END_OF_STREAM])
    batches.push(...(tableFromIPC(stream).batches as RecordBatch[]))
  }
  await source.close()
  return { file, bytes, batches, messageBytes, rows, table: new Table(batches) }
}

/** The text of a cell. apache-arrow's own decoder removes U+FEFF from its beginning. */
function textAt(table: Table, name: string, row: number): string | null {
  for (const batch of table.batches) {
    if (row >= batch.numRows) {
      row -= batch.numRows
      continue
    }
    const data = batch.getChild(name)?.data[0]
    if (data?.getValid(row) !== true) return null
    return Buffer.from(data.values.subarray(data.valueOffsets[row], data.valueOffsets[row + 1])).toString()
  }
  return null
}

/** The value of a cell as the test wrote it. */
function shown(type: ColumnType, value: unknown): unknown {
  if (value === null || value === undefined) return null
  if (type === 'DATE') return Number(value) / 86_400_000
  return type === 'TIMESTAMP' ? BigInt(Math.round(Number(value) * 1000)) : value
}

test('every type is copied with nulls and deleted rows, natively and in TypeScript', async () => {
  const seed = Date.now() % 2 ** 31
  const numbers = randomFrom(seed)
  const random = (limit: number) => below(numbers, limit)
  const schema = schemaOf([...TYPES, ['n', 'INT32']])
  const segments: QuerySegment[] = []
  const expected = new Map<number, Row>()
  for (let part = 0; part < 3; part++) {
    const rows = Array.from({ length: 2000 + random(1500) }, (_, i): Row => {
      const cells = TYPES.map(
        ([name, type]) => [name, random(4) === 0 ? null : cellOf(type, random)] as const,
      )
      return { ...Object.fromEntries(cells), n: part * 10_000 + i, _service_payload: `{"n":${i}}` }
    })
    const deletedRows = new Set(Array.from({ length: part * 300 }, () => random(rows.length)))
    rows.forEach((row, i) => {
      if (!deletedRows.has(i)) expected.set(Number(row['n']), row)
    })
    const segment = await pool.segment(schema, rows)
    segments.push(deletedRows.size === 0 ? segment : withDeletionVectors(segment, [...deletedRows]))
  }
  for (const engine of engines) {
    const { table, rows } = await copied(engine, schema, segments)
    expect([seed, rows, table.numRows]).toEqual([seed, expected.size, expected.size])
    const got = new Map<number, unknown>()
    for (const [at, row] of [...table].entries()) {
      const value = { ...row.toJSON(), s: textAt(table, 's', at), j: textAt(table, 'j', at) } as Record<
        string,
        unknown
      >
      got.set(
        Number(value['n']),
        Object.fromEntries(TYPES.map(([name, type]) => [name, shown(type, value[name])])),
      )
    }
    for (const [n, row] of expected) {
      const wanted = TYPES.map(([name]) => [name, row[name] ?? null])
      expect([seed, n, got.get(n)]).toEqual([seed, n, Object.fromEntries(wanted)])
    }
  }
})

test('nulls and gaps between buffers are zero, never memory of another query', async () => {
  const schema = schemaOf([
    ['x', 'DOUBLE'],
    ['b', 'BOOLEAN'],
    ['s', 'STRING'],
  ])
  const pad = "repeat('secret', 20)"
  const of = (x: string, b: string, s: string) =>
    `SELECT now() AS _service_received_at, ${pad} AS _service_payload, ${x} AS x, ${b} AS b, ${s} AS s, 0::BIGINT AS _service_sequence FROM range(5000) t(i)`
  const full = await pool.write(of('(i + 1)::DOUBLE', 'true', pad))
  const holes = await pool.write(
    of(
      'CASE WHEN i % 3 = 0 THEN NULL ELSE 1::DOUBLE END',
      'CASE WHEN i % 3 = 0 THEN NULL ELSE true END',
      'NULL::VARCHAR',
    ),
  )
  for (const engine of engines) {
    await copied(engine, schema, [full])
    const { batches } = await copied(engine, schema, [holes])
    for (const batch of batches) {
      const x = batch.getChild('x')?.data[0]
      expect(
        [...((x?.values ?? []) as Float64Array)].filter((value, i) => value !== (x?.getValid(i) ? 1 : 0)),
      ).toEqual([])
      const s = batch.getChild('s')?.data[0]
      expect([s?.nullCount, s?.valueOffsets.every((offset: number) => offset === 0)]).toEqual([
        batch.numRows,
        true,
      ])
    }
  }
})

test('W-9 a batch is bounded in rows and in bytes; both ways give the same bytes', async () => {
  const schema = schemaOf([['s', 'STRING']])
  const of = (text: string, rows: number) =>
    `SELECT now() AS _service_received_at, '{}' AS _service_payload, ${text} AS s, 0::BIGINT AS _service_sequence FROM range(${rows}) t(i)`
  const short = await pool.write(of('i::VARCHAR', 100_000))
  const long = await pool.write(of(`repeat(i::VARCHAR || 'x', 20000)`, 300))
  const one = await pool.open({ threads: 1, kernel: 'native' })
  const other = await pool.open({ threads: 1, kernel: 'js' })
  for (const segment of [short, long]) {
    const { batches, messageBytes, rows, bytes } = await copied(one, schema, [segment])
    expect(rows).toBe(segment.meta.rows)
    expect(batches.length).toBeGreaterThanOrEqual(3)
    expect(Math.max(...batches.map(batch => batch.numRows))).toBeLessThanOrEqual(EXPORT_BATCH_ROWS)
    expect(Math.max(...messageBytes)).toBeLessThan(1.5 * EXPORT_BATCH_BYTES)
    expect(Buffer.compare(bytes, (await copied(other, schema, [segment])).bytes)).toBe(0)
  }
  for (const engine of [one, other]) await engine.stop()
})

test('a changed copy is Damaged with the name of its file, and the next copy is read', async () => {
  const schema = schemaOf([['s', 'STRING']])
  const segment = await pool.write(
    `SELECT now() AS _service_received_at, '{}' AS _service_payload, i::VARCHAR AS s, 0::BIGINT AS _service_sequence FROM range(50000) t(i)`,
  )
  const [engine] = engines as [SegmentEngine]
  const { bytes, rows } = await copied(engine, schema, [segment])
  const file = join(pool.temporaryFolder, 'copy-bad')
  const cases: [string, Uint8Array, number][] = [
    ['cut short', bytes.subarray(0, bytes.length - 1), rows],
    ['cut in a head', bytes.subarray(0, 5), rows],
    ['no marker', Uint8Array.from(bytes, (byte, i) => (i === 0 ? 0 : byte)), rows],
    ['a length beyond the end', Uint8Array.from(bytes, (byte, i) => (i === 7 ? 0x7f : byte)), rows],
    ['a broken description', Uint8Array.from(bytes, (byte, i) => (i >= 8 && i < 24 ? 0xee : byte)), rows],
    ['other rows', bytes, rows + 1],
  ]
  for (const [what, broken, told] of cases) {
    writeFileSync(file, broken)
    const source = await openBatches({ file, rows: told })
    const error = await (async () => {
      while ((await source.next()) !== undefined);
    })().catch((caught: unknown) => caught)
    expect([what, error instanceof Damaged && error.file]).toEqual([what, file])
    await source.close()
  }
  expect((await copied(engine, schema, [segment])).table.numRows).toBe(rows)
})

test('a copy whose file cannot be made is Unavailable, and no segment is blamed', async () => {
  const schema = schemaOf([['s', 'STRING']])
  const segment = await pool.write(
    `SELECT now() AS _service_received_at, '{}' AS _service_payload, 'x' AS s, 0::BIGINT AS _service_sequence`,
  )
  const file = join(pool.temporaryFolder, 'copy-there')
  writeFileSync(file, 'of somebody else')
  const statement = { sql: 'SELECT s FROM rows', bounds: [] }
  const copyTo = { format: 'arrow', file, types: ['STRING'], msMax: 60_000 } as const
  for (const engine of engines) {
    const task = { source: rowsOfPool(schema, { segments: [segment] }), statement, rowsMax: 1, copyTo }
    await expect(engine.run(task, 'x')).rejects.toMatchObject({ name: 'Unavailable', code: 'query_io' })
  }
  expect(readFileSync(file, 'utf8')).toBe('of somebody else')
})

const MANY = 50_000

/** Rows that hold their own number in every column. */
async function wrongRows(engine: SegmentEngine, schema: PoolSchema, segment: QuerySegment): Promise<number> {
  const file = join(pool.temporaryFolder, `copy-${++copies}`)
  const types: ColumnType[] = ['INT64', 'STRING', 'JSON']
  const statement = { sql: 'SELECT n, s, _service_payload FROM rows', bounds: [] }
  const copyTo = { format: 'arrow', file, types, msMax: 60_000 } as const
  const done = await engine.run(
    { source: rowsOfPool(schema, { segments: [segment] }), statement, rowsMax: 1, copyTo },
    `${copies}`,
  )
  const source = await openBatches({ file, rows: Number(done.rows[0]?.[0]) })
  const columns = queryColumns(schema).filter(({ name }) => ['n', 's', '_service_payload'].includes(name))
  const inOrder = ['n', 's', '_service_payload'].map(name => columns.find(one => one.name === name)!)
  let [wrong, rows] = [0, 0]
  for (let batch = await source.next(); batch !== undefined; batch = await source.next()) {
    const table = tableFromIPC(Buffer.concat([schemaMessage(inOrder), batch, END_OF_STREAM]))
    for (const row of table) {
      const { n, s, _service_payload: payload } = row.toJSON() as Record<string, unknown>
      rows += 1
      if (s !== `row ${n} of many, and long` || payload !== `{"row": ${n}, "is": "long"}`) wrong += 1
    }
  }
  await source.close()
  expect(rows).toBe(MANY)
  return wrong
}

test('texts stay unchanged while other copies and queries allocate and free memory', async () => {
  const schema = schemaOf([
    ['n', 'INT64'],
    ['s', 'STRING'],
  ])
  const segment = await pool.write(
    `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, '{"row": ' || i || ', "is": "long"}' AS _service_payload, i::BIGINT AS n, 'row ' || i || ' of many, and long' AS s, 0::BIGINT AS _service_sequence FROM range(${MANY}) t(i)`,
  )
  for (const engine of engines) {
    const wrong = await Promise.all(Array.from({ length: 3 }, () => wrongRows(engine, schema, segment)))
    expect(wrong).toEqual([0, 0, 0])
  }
})
