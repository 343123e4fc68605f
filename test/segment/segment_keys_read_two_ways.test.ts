/** Keys read back from a segment: native and js give equal bytes, whoever wrote the file; W-6 needs them as they were sealed. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeKeyParts, type KeyPart } from '../../src/batch/key.ts'
import { FIRST_PLAN_COLUMN } from '../../src/batch/layout.ts'
import type { Plan } from '../../src/batch/plan.ts'
import { buildKeyRun } from '../../src/keys/key-run.ts'
import { readSegmentKeys } from '../../src/keys/segment-keys.ts'
import { assemblerJs } from '../../src/segment/assembler.ts'
import { tryEncoderNative } from '../../src/segment/encoder.ts'
import { encoderJs } from '../../src/segment/encoder-js.ts'
import { countKept } from '../../src/segment/runs.ts'
import { layOutStream, writeStreamFrame } from '../../src/segment/stream.ts'
import { must } from '../../src/util/assert.ts'
import type { Row } from '../util/make-batch.ts'
import { planOfAll, post, randomOf, randomRow } from './rows.ts'

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
function planOfKeys(): Plan {
  const { columns, ...plan } = planOfAll(true)
  const required = columns.map(column => ({ ...column, required: column.type !== 'JSON' }))
  return { ...plan, columns: required, key: { columns: [12, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11], version: -1 } }
}

/** Rows whose required values are there. */
function rowsOf(plan: Plan, random: (below: number) => number, ids: readonly string[]): Row[] {
  return ids.map(id => {
    for (;;) {
      const row = randomRow(plan, random, id)
      if (row.values!.every((value, i) => value !== null || !plan.columns[i]!.required)) return row
    }
  })
}

function write(plan: Plan, rows: readonly Row[], by: 'native' | 'js'): string {
  const encoder = by === 'native' ? must(tryEncoderNative(), 'the native encoder') : encoderJs
  const entry = post(
    { ...plan, key: null },
    rows.map(({ key: _key, ...row }) => row),
    [[7, 1_700_000_000_000, rows.length]],
  )
  const survey = assemblerJs.survey([entry], false, FIRST_PLAN_COLUMN + plan.columns.length)
  const layout = layOutStream(plan, countKept(survey.keep), survey.sums, encoder.headOf)
  const stream = new Uint8Array(layout.bytes)
  writeStreamFrame(stream, layout)
  assemblerJs.fill([entry], survey.keep, stream, layout.places)
  const footer = new Map([['weir.format', '1']])
  const { keep } = survey
  const file = join(root, `${files++}.parquet`)
  writeFileSync(file, encoder.encode(stream, layout, plan, rows.length, footer, { entries: [entry], keep }))
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
  it('are the same from every writer and by both loops', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const random = randomOf(seed)
    const plan = planOfKeys()
    const ids = Array.from({ length: 5000 }, (_, i) => (i % 50 === 0 ? `${i}-`.padEnd(300, 'é') : `${i}`))
    const rows = rowsOf(plan, random, ids)
    const want = buildKeyRun(
      rows.map(({ values }, row) => {
        const parts = plan.key!.columns.map(index => {
          const { type } = plan.columns[index]!
          return { type, value: values![index] } as KeyPart
        })
        return { key: encodeKeyParts(parts), row }
      }),
    )
    const written = [write(plan, rows, 'native'), write(plan, rows, 'js')]
    written.push(await copyByDuckDb(written[0]!))
    const sorted = [...ids].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    const isLong = [sorted[0]!, sorted.at(-1)!].some(id => Buffer.byteLength(id) > 64)
    const ats = rows.map(({ values }) => Number(values![12]))
    for (const file of written)
      for (const loop of ['native', 'js'] as const) {
        const read = await readSegmentKeys(file, plan, loop)
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

  it('name the file where two rows have one key, a key is null, or a column is of another type', async () => {
    const plan = { ...planOfKeys(), key: { columns: [12, 11], version: -1 } }
    const rows = rowsOf(plan, randomOf(1), ['a', 'b', 'c'])
    const file = write(plan, [...rows, rows[1]!], 'native')
    for (const loop of ['native', 'js'] as const) {
      await expect(readSegmentKeys(file, plan, loop)).rejects.toThrow(
        `${file} is damaged at byte 0: rows 1 and 3 have`,
      )
      const columns = plan.columns.map(column =>
        column.name === 'id' ? { ...column, type: 'INT32' as const } : column,
      )
      await expect(readSegmentKeys(file, { ...plan, columns }, loop)).rejects.toThrow(
        'its column id is not INT32',
      )
      const holes = join(root, `${files++}.parquet`)
      await duck.run(
        `COPY (SELECT * REPLACE (CASE WHEN id = 'a' THEN NULL ELSE id END AS id) FROM read_parquet('${file}')) TO '${holes}' (FORMAT parquet)`,
      )
      await expect(readSegmentKeys(holes, plan, loop)).rejects.toThrow('a row has no key')
    }
  })
})
