/**
 * W-6: keys read back from a segment equal the flushed keys, by both readers, whichever encoder
 * wrote the file.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FIRST_SCHEMA_COLUMN } from '../../src/format/batch-layout.ts'
import { buildKeyRun } from '../../src/format/key-run.ts'
import type { PoolSchema } from '../../src/format/schema.ts'
import { readSegmentKeys } from '../../src/format/segment-keys.ts'
import { layOutStream, writeStreamFrame } from '../../src/store/segment/arrow-stream.ts'
import { countRows } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { tryEncoderNative } from '../../src/store/segment/parquet-encoder.ts'
import { encoderJs } from '../../src/store/segment/parquet-encoder-js.ts'
import { must } from '../../src/util/errors.ts'
import { encodeKeyParts, type KeyPart } from '../util/key-parts.ts'
import type { Row } from '../util/make-batch.ts'
import { post, randomOf, randomRow, schemaOfAll } from './rows.ts'

const root = mkdtempSync(join(tmpdir(), 'weir-segment-keys-'))
let duck: DuckDBConnection
let files = 0

beforeAll(async () => {
  duck = await (await DuckDBInstance.create(':memory:', { threads: '1' })).connect()
})

afterAll(() => {
  duck.closeSync()
  rmSync(root, { recursive: true })
})

/** Key: every type that a key may have. Tenant: `id`. */
function schemaOfKeys(): PoolSchema {
  const { columns, ...schema } = schemaOfAll(true)
  const required = columns.map(column => ({ ...column, required: column.type !== 'JSON' }))
  return {
    ...schema,
    columns: required,
    key: { columns: [12, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11], version: -1 },
  }
}

/** Rows whose required values are there. */
function rowsOf(schema: PoolSchema, random: (below: number) => number, ids: readonly string[]): Row[] {
  return ids.map(id => {
    for (;;) {
      const row = randomRow(schema, random, id)
      if (row.values!.every((value, i) => value !== null || !schema.columns[i]!.required)) return row
    }
  })
}

function write(schema: PoolSchema, rows: readonly Row[], by: 'native' | 'js'): string {
  const encoder = by === 'native' ? must(tryEncoderNative(), 'the native encoder') : encoderJs
  const entry = post(
    { ...schema, key: null },
    rows.map(({ key: _key, ...row }) => row),
    [[7, 1_700_000_000_000_000, rows.length]],
  )
  const deduplicated = assemblerJs.deduplicate([entry], false, FIRST_SCHEMA_COLUMN + schema.columns.length)
  const layout = layOutStream(schema, countRows(deduplicated.keep), deduplicated.sums, encoder.headOf)
  const stream = new Uint8Array(layout.bytes)
  writeStreamFrame(stream, layout)
  assemblerJs.gather([entry], deduplicated.keep, stream, layout.places)
  const footer = new Map([['weir.format', '1']])
  const { keep } = deduplicated
  const file = join(root, `${files++}.parquet`)
  writeFileSync(file, encoder.encode(stream, layout, schema, rows.length, footer, { entries: [entry], keep }))
  return file
}

async function copyByDuckDb(file: string): Promise<string> {
  const copy = join(root, `${files++}.parquet`)
  await duck.run(
    `COPY (FROM read_parquet('${file}')) TO '${copy}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 2048)`,
  )
  return copy
}

describe('keys of a segment', () => {
  test('are the same from every writer and by both loops', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const random = randomOf(seed)
    const schema = schemaOfKeys()
    const ids = Array.from({ length: 5000 }, (_, i) => (i % 50 === 0 ? `${i}-`.padEnd(300, 'é') : `${i}`))
    const rows = rowsOf(schema, random, ids)
    const want = buildKeyRun(
      rows.map(({ values }, row) => {
        const parts = schema.key!.columns.map(index => {
          const { type } = schema.columns[index]!
          return { type, value: values![index] } as KeyPart
        })
        return { key: encodeKeyParts(parts), row }
      }),
    )
    const written = [write(schema, rows, 'native'), write(schema, rows, 'js')]
    written.push(await copyByDuckDb(written[0]!))
    const sorted = [...ids].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    const isLong = [sorted[0]!, sorted.at(-1)!].some(id => Buffer.byteLength(id) > 64)
    const ats = rows.map(({ values }) => Number(values![12]))
    for (const file of written)
      for (const loop of ['native', 'js'] as const) {
        const read = await readSegmentKeys(file, schema, loop)
        expect(Buffer.compare(Buffer.from(read.run!), Buffer.from(want)), `seed ${seed}, ${loop}`).toBe(0)
        expect(read.rows).toBe(5000)
        expect(new Set(read.sequences)).toEqual(new Set([7]))
        expect(read.ranges).toEqual({
          receivedFromUs: 1_700_000_000_000_000,
          receivedToUs: 1_700_000_000_000_000,
          timestampFromUs: Math.min(...ats),
          timestampToUs: Math.max(...ats),
          tenant: isLong ? null : { min: sorted[0], max: sorted.at(-1) },
        })
      }
  })

  // One name begins with the key's name. The reader's selection of columns may take it for the key,
  // or trap.
  test.each([
    ['x', 'x.y'],
    ['x', 'xy'],
    ['é', 'éa'],
    ['\uFEFF', '\uFEFFid'],
    ['id', '\uFEFFid'],
    ['\uFEFFid', 'id'],
  ])('are those of column %j beside one of name %j', async (name, other) => {
    const columns = [
      { name: other, type: 'INT64', jsonProperty: 'o', required: true },
      { name, type: 'INT64', jsonProperty: 'i', required: true },
    ] as const
    const schema: PoolSchema = {
      ...schemaOfKeys(),
      columns,
      timestamp: -1,
      tenant: 1,
      key: { columns: [1], version: -1 },
    }
    const rows = [
      { payload: '{}', values: [5n, 10n] },
      { payload: '{}', values: [6n, 20n] },
    ]
    for (const by of ['native', 'js'] as const) {
      const { run, ranges } = await readSegmentKeys(write(schema, rows, by), schema)
      const wanted = [10, 20].map((id, row) => ({
        key: encodeKeyParts([{ type: 'INT64', value: id }]),
        row,
      }))
      expect(new Uint8Array(must(run, 'keys'))).toEqual(new Uint8Array(buildKeyRun(wanted)))
      expect(ranges.tenant).toEqual({ min: '10', max: '20' })
    }
  })

  test('name the file where two rows have one key, a key is null, or a column is of another type', async () => {
    const schema = { ...schemaOfKeys(), key: { columns: [12, 11], version: -1 } }
    const rows = rowsOf(schema, randomOf(1), ['a', 'b', 'c'])
    const file = write(schema, [...rows, rows[1]!], 'native')
    for (const loop of ['native', 'js'] as const) {
      await expect(readSegmentKeys(file, schema, loop)).rejects.toThrow(
        `${file} is damaged at byte 0: rows 1 and 3 have`,
      )
      const columns = schema.columns.map(column =>
        column.name === 'id' ? { ...column, type: 'INT32' as const } : column,
      )
      await expect(readSegmentKeys(file, { ...schema, columns }, loop)).rejects.toThrow(
        'its column id is not INT32',
      )
      const holes = join(root, `${files++}.parquet`)
      await duck.run(
        `COPY (SELECT * REPLACE (CASE WHEN id = 'a' THEN NULL ELSE id END AS id) FROM read_parquet('${file}')) TO '${holes}' (FORMAT parquet)`,
      )
      await expect(readSegmentKeys(holes, schema, loop)).rejects.toThrow('a row has no key')
    }
  })
})
