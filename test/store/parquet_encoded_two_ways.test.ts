/**
 * The files of both encoders hold the rows that went in, for every reader, with the right
 * statistics.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { tableFromIPC } from 'apache-arrow'
import { parquetMetadata } from 'hyparquet'
import { readParquet } from 'parquet-wasm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FIRST_SCHEMA_COLUMN } from '../../src/format/batch-layout.ts'
import { viewRun } from '../../src/format/key-run.ts'
import type { ColumnType, PoolSchema } from '../../src/format/schema.ts'
import { readSegmentKeys } from '../../src/format/segment-keys.ts'
import { readFooter } from '../../src/format/segment-meta.ts'
import { layOutStream, writeStreamFrame } from '../../src/store/segment/arrow-stream.ts'
import { countRows, tryAssemblerNative } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { type Encoder, tryEncoderNative } from '../../src/store/segment/parquet-encoder.ts'
import { encoderJs } from '../../src/store/segment/parquet-encoder-js.ts'
import { disk } from '../../src/util/disk.ts'
import { must } from '../../src/util/errors.ts'
import { ROW_GROUP_ROWS } from '../../src/util/limits.ts'
import { tryNative } from '../../src/util/native.ts'
import { makeBatch, type Row, type Value } from '../util/make-batch.ts'
import { expectedRows, readByDuckDb, textsByHyparquet } from './readers.ts'
import { randomOf, randomRow, requestWords, schemaOfAll } from './rows.ts'

const native = tryEncoderNative()
const encoders = native === undefined ? [encoderJs] : [encoderJs, native]
interface NativeParquet {
  parquetEncode(
    stream: Uint8Array,
    out: Uint8Array,
    words: Float64Array,
    text: Uint8Array,
    lengths: Float64Array,
  ): number
}

const root = mkdtempSync(join(tmpdir(), 'weir-encoders-'))
let duck: DuckDBConnection
let files = 0

beforeAll(async () => {
  duck = await (await DuckDBInstance.create(':memory:', { threads: '1' })).connect()
})

afterAll(() => {
  duck.closeSync()
  rmSync(root, { recursive: true })
})

const FOOTER = new Map([
  ['weir.format', '1'],
  ['weir.pool_number', '7'],
  ['weir.schema_version', '3'],
  ['weir.segment', '42'],
  ['weir.sequence_from', '5'],
  ['weir.sequence_to', '5'],
  ['weir.rows', '0'],
  ['weir.deletes', '0'],
  ['weir.replaces', ''],
])

/** One request's rows in a file of their own. */
function encoded(encoder: Encoder, schema: PoolSchema, rows: readonly Row[]) {
  const requests = [[5, 1_700_000_000_000_123, rows.length]]
  const assembler = tryAssemblerNative() ?? assemblerJs
  const entry = {
    kind: 'post',
    batch: makeBatch(schema, rows),
    requests: requestWords(requests),
  } as const
  const deduplicated = assembler.deduplicate(
    [entry],
    schema.key !== null,
    FIRST_SCHEMA_COLUMN + schema.columns.length,
  )
  const layout = layOutStream(schema, countRows(deduplicated.keep), deduplicated.sums, encoder.headOf)
  const stream = new Uint8Array(layout.bytes)
  writeStreamFrame(stream, layout)
  assembler.gather([entry], deduplicated.keep, stream, layout.places)
  const source = { entries: [entry], keep: deduplicated.keep }
  const bytes = Uint8Array.from(encoder.encode(stream, layout, schema, rows.length, FOOTER, source))
  const file = join(root, `${files++}.parquet`)
  writeFileSync(file, bytes)
  return { bytes, file, expected: expectedRows(schema, rows, requests) }
}

/** A pool with one column of each given type, not required. */
function schemaWith(...types: ColumnType[]): PoolSchema {
  const columns = types.map((type, i) => ({ name: `c${i}`, type, jsonProperty: `c${i}`, required: false }))
  return { pool: 7, version: 3, columns, timestamp: -1, tenant: -1, key: null }
}

async function readRight(encoder: Encoder, schema: PoolSchema, rows: readonly Row[]) {
  const { bytes, file, expected } = encoded(encoder, schema, rows)
  expect(await readByDuckDb(duck, schema, file)).toEqual(expected)
  expect(await textsByHyparquet(schema, bytes)).toEqual(expected)
  expect(tableFromIPC(readParquet(bytes).intoIPCStream()).numRows).toBe(rows.length)
  return { bytes, file }
}

async function metadataOf(file: string) {
  const reader = await duck.runAndReadAll(`SELECT * FROM parquet_metadata('${file}')`)
  return reader.getRowObjects() as Record<string, unknown>[]
}

const rowsOf = (count: number, value: (row: number) => Value[]): Row[] =>
  Array.from({ length: count }, (_, row) => ({ payload: `{"n":${row}}`, values: value(row) }))

describe.each(encoders)('$name', encoder => {
  const seed = Math.floor(Math.random() * 2 ** 31)

  test.each([1, 7, 8, 9, 63, 64, 65, 20_481])(`%i rows of all types with nulls, seed ${seed}`, async n => {
    const schema = schemaOfAll(false)
    const random = randomOf(seed + n)
    await readRight(
      encoder,
      schema,
      Array.from({ length: n }, (_, i) => randomRow(schema, random, `k${i}`)),
    )
  })

  test('columns of nulls only, and nulls in whole pages only', async () => {
    const schema = schemaWith('STRING', 'INT64', 'BOOLEAN', 'STRING', 'DOUBLE')
    const { file } = await readRight(
      encoder,
      schema,
      rowsOf(45_000, row => {
        const late = row < 20_480 ? null : row
        return [null, null, null, late === null ? null : `v${late % 3}`, late]
      }),
    )
    const chunks = await metadataOf(file)
    expect(chunks.map(chunk => Number(chunk['stats_null_count'] ?? 0))).toEqual([
      0, 0, 45_000, 45_000, 45_000, 20_480, 20_480, 0,
    ])
  })

  test('more than one row group and page; dictionaries that hold, overflow, and have one value', async () => {
    const schema = schemaWith('STRING', 'STRING', 'STRING', 'STRING')
    const rows = rowsOf(ROW_GROUP_ROWS + 1001, row => [
      `state-${row % 5}`,
      `id-${row * 7919}`,
      'same',
      row % 1000 < 500 ? `t${row % 1900}` : 'run',
    ])
    const { file } = await readRight(encoder, schema, rows)
    const groups = (await metadataOf(file)).filter(chunk => chunk['path_in_schema'] === 'c0')
    expect(groups.map(chunk => Number(chunk['row_group_num_rows']))).toEqual([ROW_GROUP_ROWS, 1001])
    expect(groups.every(chunk => String(chunk['encodings']).includes('DICTIONARY'))).toBe(true)
  })

  test('strings of two million bytes, empty ones and U+0000', async () => {
    const long = 'ab'.repeat(1_000_000)
    const texts = ['', long, '\u0000', null, `${long}c`, 'a\u0000b', '', '\u0000\u0000', 'z', '', long]
    await readRight(
      encoder,
      schemaWith('STRING', 'JSON'),
      rowsOf(texts.length, row => [texts[row]!, row === 4 ? `"${long}"` : null]),
    )
  })

  test('five hundred columns with long names, and bytes that do not shrink', async () => {
    const types = ['INT8', 'STRING', 'BOOLEAN', 'INT16', 'DOUBLE'] as const
    const wide = schemaWith(...Array.from({ length: 500 }, (_, i) => types[i % 5]!))
    const columns = wide.columns.map((column, i) => ({ ...column, name: `${i}`.padEnd(128, 'n') }))
    const random = randomOf(seed)
    const noise = () =>
      String.fromCharCode(...Array.from({ length: 60 }, () => 33 + random(94))).replace('"', '')
    const values = (row: number) =>
      columns.map((_, i) => [random(256) - 128, noise(), row % 2 === 0, -1, random(1e9) / 7][i % 5]!)
    for (const count of [1, 40])
      await readRight(
        encoder,
        { ...wide, columns },
        rowsOf(count, values).map(row => ({ ...row, payload: noise() })),
      )
  })

  test('statistics are those of the data; zeros have both signs', async () => {
    const schema = schemaWith(
      'INT8',
      'INT64',
      'DOUBLE',
      'STRING',
      'FLOAT',
      'BOOLEAN',
      'STRING',
      'JSON',
      'DATE',
    )
    const random = randomOf(seed)
    const rows = rowsOf(300, row => [
      random(5) === 0 ? null : random(256) - 128,
      BigInt(random(2 ** 31)) * -4_000_000_000n,
      [0, -0, -0][row % 3]!,
      `k${random(1000)}`,
      random(1000) / -8,
      row % 2 === 0,
      'x'.repeat(65),
      '{}',
      random(9) - 4,
    ])
    const { file } = await readRight(encoder, schema, rows)
    const chunks = new Map((await metadataOf(file)).map(chunk => [chunk['path_in_schema'], chunk]))
    for (const name of ['c0', 'c1', 'c3', 'c4', 'c5', 'c8', '_service_received_at', '_service_sequence']) {
      const answer = await duck.runAndReadAll(
        `SELECT min("${name}")::varchar, max("${name}")::varchar, count(*) - count("${name}") FROM '${file}'`,
      )
      const [min, max, nulls] = answer.getRows()[0]!
      const chunk = chunks.get(name)!
      expect([name, chunk['stats_min_value'], chunk['stats_max_value']]).toEqual([name, min, max])
      expect(chunk['stats_null_count'] ?? 0n).toEqual(nulls)
    }
    const zeros = parquetMetadata(readBuffer(file)).row_groups[0]!.columns[4]!.meta_data!.statistics!
    expect([zeros.min_value, zeros.max_value].map(value => Object.is(value, -0))).toEqual([true, false])
    for (const name of ['_service_payload', 'c7'])
      expect(chunks.get(name)!['stats_min_value'] ?? null).toBeNull()
    const order = await duck.runAndReadAll(`SELECT count(*) FROM '${file}' WHERE c6 = '${'x'.repeat(65)}'`)
    expect(order.getRows()[0]![0]).toBe(300n)
  })

  test('DuckDB leaves out row groups by their range of a timestamp', async () => {
    const schema = schemaWith('TIMESTAMP')
    const rows = rowsOf(3 * ROW_GROUP_ROWS, row => [BigInt(row) * 1_000_000n])
    const { file } = encoded(encoder, schema, rows)
    // The groups that are left out are not read, so they may be nonsense.
    const torn = readFileSync(file)
    for (const group of parquetMetadata(readBuffer(file)).row_groups.slice(1)) {
      const { data_page_offset: from, total_compressed_size: bytes } = group.columns[2]!.meta_data!
      torn.fill(0xff, Number(from), Number(from + bytes))
    }
    writeFileSync(file, torn)
    const sum = `SELECT count(c0) + sum(epoch_us(c0)) * 0 FROM '${file}'`
    const early = await duck.runAndReadAll(`${sum} WHERE c0 < TIMESTAMPTZ '1970-01-01 00:01:00Z'`)
    expect(String(early.getRows()[0]![0])).toBe('60')
    await expect(duck.runAndReadAll(sum)).rejects.toThrow()
  })

  test('the index reads keys, sequences and ranges back', async () => {
    const schema = schemaOfAll(true)
    const random = randomOf(seed)
    const rows = Array.from({ length: 500 }, (_, i) => randomRow(schema, random, `key-${i}`))
    const { file } = encoded(encoder, schema, rows)
    expect(readFooter(disk, file)).toMatchObject({ pool: 7, segment: 42, sequenceFrom: 5, replaces: [] })
    const stored = await readSegmentKeys(file, schema)
    const ats = rows.map(row => Number(row.values![12]))
    expect(stored.rows).toBe(500)
    expect(viewRun(stored.run!).count).toBe(500)
    expect(Array.from(stored.sequences)).toEqual(rows.map(() => 5))
    expect(stored.ranges).toMatchObject({
      timestampFromUs: Math.min(...ats),
      timestampToUs: Math.max(...ats),
    })
  })
})

describe.runIf(native !== undefined)('both encoders', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  test(`give files that read the same, seed ${seed}`, async () => {
    const random = randomOf(seed)
    for (let round = 0; round < 25; round++) {
      const schema = schemaOfAll(random(2) === 0)
      const rows = Array.from({ length: 1 + random(2000) }, (_, i) => randomRow(schema, random, `${i}`))
      const [js, cpp] = [encoded(encoderJs, schema, rows), encoded(native!, schema, rows)]
      const read = await readByDuckDb(duck, schema, cpp.file)
      expect(read).toEqual(await readByDuckDb(duck, schema, js.file))
      expect(await textsByHyparquet(schema, cpp.bytes)).toEqual(read)
      expect(read).toEqual(cpp.expected)
    }
  })

  test('the native one refuses places outside of the stream, and a file that does not fit', () => {
    const module = must(tryNative<NativeParquet>(), 'the native module')
    const stream = new Uint8Array(64)
    const text = Buffer.from('ab')
    const call = (words: number[], out = 4096) =>
      module.parquetEncode(
        stream,
        new Uint8Array(out),
        Float64Array.from(words),
        Uint8Array.from(text),
        Float64Array.from([2]),
      )
    expect(call([4, 8, 7, 0, -1, -1, 32])).toBeGreaterThan(100)
    for (let out = 0; out < 100; out++) expect(call([4, 8, 7, 0, -1, -1, 32], out)).toBe(0)
    const hostile = [
      [5, 8, 7, 0, -1, -1, 32], // beyond the end
      [4, 8, 7, 0, -1, -1, 33], // not aligned
      [4, 8, 7, 0, 0, -1, 32], // bits of a required column
      [4, 8, 1, 0, -1, -1, 0], // a text without offsets
      [2 ** 31, 8, 7, 0, -1, -1, 0],
      [4, 7, 7, 0, -1, -1, 0],
      [Number.NaN, 8, 7, 0, -1, -1, 0],
      [4, 8, 11, 0, -1, -1, 0],
      [4, 8, 7, 0, -1, -1, -8],
      [4, 8, 7, 0, -1, -1, 1e300],
    ]
    for (const words of hostile) expect(() => call(words)).toThrow(TypeError)
    const offsets = new Int32Array(stream.buffer, 0, 5)
    offsets.set([0, 1, 2, 3, 4])
    expect(call([4, 8, 1, 0, -1, 0, 32])).toBeGreaterThan(100)
    for (const bad of [
      [1, 1, 2, 3, 4],
      [0, 3, 2, 3, 4],
      [0, 1, 2, -3, 4],
      [0, 1, 2, 3, 33],
    ]) {
      offsets.set(bad)
      expect(() => call([4, 8, 1, 0, -1, 0, 32])).toThrow(TypeError)
    }
  })

  test('declare one schema', () => {
    const schema = schemaOfAll(false)
    const rows = [randomRow(schema, randomOf(1), 'a')]
    const [js, cpp] = encoders.map(encoder =>
      parquetMetadata(encoded(encoder, schema, rows).bytes.slice().buffer),
    )
    const plain = (schema: typeof js) =>
      schema!.schema.slice(1).map(one => JSON.parse(JSON.stringify({ ...one, field_id: undefined })))
    expect(plain(cpp)).toEqual(plain(js))
    expect(cpp!.created_by).toBe('weir')
  })
})

function readBuffer(file: string): ArrayBuffer {
  return Uint8Array.from(readFileSync(file)).buffer
}
