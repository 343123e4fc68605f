/** The merge thread: values of every size, cancelled and killed merges, a disk that refuses. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import type { PoolSchema } from '../../../src/format/schema.ts'
import { Unavailable } from '../../../src/util/errors.ts'
import type { Value } from '../../util/make-batch.ts'
import { keySchema, randomOf, randomRow, schemaOfAll } from '../rows.ts'
import { MergeHarness } from './merge-harness.ts'

let harness: MergeHarness
afterEach(() => harness.close())

async function open(schema: PoolSchema): Promise<MergeHarness> {
  harness = await new MergeHarness(schema).open()
  return harness
}

function rowsOf(schema: PoolSchema, from: number, count: number): (readonly Value[])[] {
  const random = randomOf(from)
  return Array.from({ length: count }, (_, i) => randomRow(schema, random, `k${from + i}`).values!)
}

describe('a merge', () => {
  test('keeps long and unusual texts byte for byte', async () => {
    await open(schemaOfAll(true))
    const texts = [
      '',
      '\u0000',
      'a\u0000b',
      '𝄞'.repeat(300),
      'x'.repeat(1_000_000),
      '\u{1f469}\u200d\u{1f680}',
    ]
    for (const writer of [0, 1]) {
      const values = rowsOf(harness.schema, 100 * writer, texts.length).map((row, i) =>
        row.map((value, c) => (harness.schema.columns[c]!.name === 'string' ? texts[i]! : value)),
      )
      // There are many of them, so that rows are short on average.
      const others = rowsOf(harness.schema, 1000 + 200 * writer, 200)
      harness.flush(
        [{ values, payloads: texts.map(text => JSON.stringify({ text })) }, { values: others }],
        [],
        writer,
      )
    }
    await harness.merge(0, 2)
    await harness.merge(0, 1)
  })

  test('of rows that are too long for a sort keeps all of them', async () => {
    await open({ ...schemaOfAll(false), tenant: -1 })
    const flushes = [0, 1, 2].map(n => rowsOf(harness.schema, 100 * n, 30))
    for (const values of flushes)
      harness.flush([{ values, payloads: values.map((_, i) => `"${String(i).repeat(300_000)}"`) }])
    const task = harness.task(0, 3)
    const done = await harness.client.merge(task)
    expect(done.meta).toMatchObject({ rows: 90 })
    const sql = `SELECT count(*)::INT, sum(strlen(_service_payload))::INT FROM '${harness.file(task.segment)}'`
    const lengths = 3 * (10 * 300_002 + 20 * 600_002)
    expect((await harness.duck.runAndReadAll(sql)).getRows()).toEqual([[90, lengths]])
  })

  test('of more rows than a row group writes several row groups', async () => {
    await open(keySchema)
    for (let n = 0; n < 3; n++) {
      const values = Array.from({ length: 30_000 }, (_, i) => [`id-${i % 7}-${n}-${i}`])
      harness.flush([{ values, payloads: values.map(() => '{}') }], [], n % 2)
    }
    const done = await harness.client.merge(harness.task(0, 3))
    expect(done.meta).toMatchObject({ rows: 90_000 })
    const file = harness.file(done.meta!.segment)
    const sql = `SELECT row_group_id, any_value(row_group_num_rows)::INT FROM parquet_metadata('${file}') GROUP BY 1 ORDER BY 1`
    const groups = (await harness.duck.runAndReadAll(sql)).getRows().map(row => Number(row[1]))
    expect(groups.reduce((sum, rows) => sum + rows, 0)).toBe(90_000)
    expect(Math.max(...groups)).toBeLessThanOrEqual(65_536)
  })
})

describe('the merge thread', () => {
  test('cancels a running merge when it is stopped, and leaves no file', async () => {
    await open(keySchema)
    for (let n = 0; n < 2; n++) {
      const values = Array.from({ length: 20_000 }, (_, i) => [`${n}-${i}`])
      harness.flush([{ values, payloads: values.map((_, i) => `{"n":${i},"x":"${'y'.repeat(i % 200)}"}`) }])
    }
    const files = readdirSync(harness.folder)
    const client = harness.startClient('second')
    client.setSpeed('throttled')
    const merge = client.merge(harness.task(0, 2))
    const refused = expect(merge).rejects.toMatchObject({ code: 'stopping' })
    // Wait until DuckDB has begun to write.
    const folder = join(harness.root, 'tmp', 'second')
    while (!existsSync(join(folder, 'copy.parquet'))) await new Promise(resolve => setTimeout(resolve, 1))
    await client.stop()
    await refused
    expect(readdirSync(harness.folder)).toEqual(files)
    expect(readdirSync(folder)).toEqual(['spill'])
    await expect(client.merge(harness.task(0, 2))).rejects.toThrow(Unavailable)
    await harness.merge(0, 2)
  })

  test('ends when no merge comes, and starts again with the next merge', async () => {
    await open(keySchema)
    harness.flush([{ values: [['a']] }])
    const client = harness.startClient('second', 1)
    for (let round = 0; round < 2; round++) {
      expect((await client.merge(harness.task(0, 1))).meta).toMatchObject({ rows: 1 })
      await client.ended()
    }
    // A merge that comes while the thread ends waits for the next thread.
    await client.merge(harness.task(0, 1))
    const ended = client.ended()
    await ended.then(() => client.merge(harness.task(0, 1)))
    await client.stop()
    await client.ended()
  })

  test('removes the files of a killed thread at its start', async () => {
    await open(keySchema)
    harness.flush([{ values: [['a']] }])
    const folder = join(harness.root, 'tmp', 'second')
    mkdirSync(join(folder, 'spill'), { recursive: true })
    writeFileSync(join(folder, 'tmp_copy.parquet'), 'x')
    writeFileSync(join(folder, 'spill', 'duckdb_temp_storage_DEFAULT-0.tmp'), 'x')
    const client = harness.startClient('second')
    await client.merge(harness.task(0, 1))
    await client.stop()
    expect(readdirSync(folder)).toEqual(['spill'])
    expect(readdirSync(join(folder, 'spill'))).toEqual([])
  })

  test('answers Unavailable while the disk refuses, and merges afterwards', async () => {
    await open(keySchema)
    harness.flush([{ values: [['a']] }])
    harness.flush([{ values: [['b']] }])
    const task = harness.task(0, 2)
    // A folder has the temporary name of the new file.
    const blocked = `${harness.file(task.segment)}.tmp`
    mkdirSync(blocked)
    await expect(harness.client.merge(task)).rejects.toMatchObject({ name: 'Unavailable', code: 'merge_io' })
    rmSync(blocked, { recursive: true })
    await harness.merge(0, 2)
  })
})
