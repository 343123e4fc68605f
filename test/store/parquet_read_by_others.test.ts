/** DuckDB and hyparquet read the rows that went in from the files of the real segment thread. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { parquetMetadata } from 'hyparquet'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readDeleteFile } from '../../src/format/delete-file.ts'
import type { PoolSchema } from '../../src/format/schema.ts'
import { ENTRY_WORDS, type MemtableEntry } from '../../src/store/flush/memtable.ts'
import { FlushFailed, type FlushTask, SegmentThread } from '../../src/store/flush/segment-writer.ts'
import { deleteFile, segmentFile } from '../../src/util/paths.ts'
import { expectedRows, readByDuckDb, textsByHyparquet } from './readers.ts'
import { keySchema, post, randomOf, randomRow, remove, schemaOfAll } from './rows.ts'

const root = mkdtempSync(join(tmpdir(), 'weir-segment-'))
const crashes: Error[] = []
const clients = new Map<string, SegmentThread>()
let duck: Awaited<ReturnType<DuckDBInstance['connect']>>

beforeAll(async () => {
  for (const kernel of ['native', 'js'] as const)
    clients.set(kernel, new SegmentThread({ crashAt: '', nice: 5, kernel }, e => crashes.push(e)))
  duck = await (await DuckDBInstance.create(':memory:', { threads: '1' })).connect()
})

afterAll(async () => {
  for (const client of clients.values()) await client.stop()
  duck.closeSync()
  rmSync(root, { recursive: true })
  expect(crashes).toEqual([])
})

function taskOf(
  schema: PoolSchema,
  entries: readonly MemtableEntry[],
  more: Partial<FlushTask> = {},
): FlushTask {
  const sequences = entries.flatMap(({ requests }) => [...requests].filter((_, i) => i % ENTRY_WORDS === 0))
  return {
    poolId: 'POOL1',
    schema,
    segment: 42,
    folder: join(root, `pool-${Math.random()}`),
    entries,
    replaces: [],
    sequenceFrom: Math.min(...sequences),
    sequenceTo: Math.max(...sequences),
    ...more,
  }
}

function footerOf(file: string): Record<string, string | undefined> {
  const bytes = readFileSync(file)
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer
  const pairs = parquetMetadata(buffer).key_value_metadata ?? []
  return Object.fromEntries(pairs.map(({ key, value }) => [key, value]))
}

describe.each(['native', 'js'])('a segment assembled in %s', kernel => {
  const client = () => clients.get(kernel)!
  const seed = Math.floor(Math.random() * 2 ** 31)

  test(`holds every type with nulls over many batches, seed ${seed}`, async () => {
    const schema = schemaOfAll(false)
    const random = randomOf(seed)
    const [entries, expected]: [MemtableEntry[], (string | null)[][]] = [[], []]
    for (let b = 0; b < 40; b++) {
      const requests = [
        [100 + b, 1_700_000_000_000_000 + b, 1 + random(9), random(2)],
        [200 + b, 1_700_000_001_000_000, random(60)],
      ]
      const rows = Array.from({ length: requests[0]![2]! + requests[1]![2]! }, (_, i) =>
        randomRow(schema, random, `${b}-${i}`),
      )
      entries.push(post(schema, rows, requests))
      expected.push(...expectedRows(schema, rows, requests))
    }
    const task = taskOf(schema, entries, { replaces: [3, 17] })
    const done = await client().flush(task)
    const file = join(task.folder, segmentFile(42))
    expect(await readByDuckDb(duck, schema, file)).toEqual(expected)
    expect(await textsByHyparquet(schema, readFileSync(file))).toEqual(expected)
    expect(readdirSync(task.folder)).toEqual([segmentFile(42)])
    expect(footerOf(file)).toMatchObject({
      'weir.format': '1',
      'weir.pool': 'POOL1',
      'weir.pool_number': '7',
      'weir.schema_version': '3',
      'weir.sequence_from': '100',
      'weir.sequence_to': '239',
      'weir.rows': String(expected.length),
      'weir.replaces': '3,17',
      'weir.segment': '42',
      'weir.deletes': '0',
    })
    const times = expected.map(row => Number(row[14]))
    const ids = expected.map(row => row[13]!).sort()
    expect(done.meta).toMatchObject({
      rows: expected.length,
      bytes: readFileSync(file).length,
      receivedFromUs: 1_700_000_000_000_000,
      receivedToUs: 1_700_000_001_000_000,
      timestampFromUs: Math.min(...times),
      timestampToUs: Math.max(...times),
      tenant: { min: ids[0], max: ids.at(-1) },
    })
  })

  test('keeps the winners, and a delete file before it (W-7)', async () => {
    const row = (key: string) => ({ key, payload: `{"id":"${key}"}`, values: [key] })
    const entries = [
      post(
        keySchema,
        [row('a'), row('b'), row('c')],
        [
          [1, 5, 2],
          [3, 6, 1],
        ],
      ),
      remove(['b'], [[2, 7, 1]]),
      post(keySchema, [row('a')], [[2, 5, 1]]),
    ]
    const task = taskOf(keySchema, entries)
    await client().flush(task)
    const rows = await readByDuckDb(duck, keySchema, join(task.folder, segmentFile(42)))
    expect(rows).toEqual([
      ['6', '{"id":"c"}', 'c', '3'],
      ['5', '{"id":"a"}', 'a', '2'],
    ])
    const deletes = readDeleteFile(readFileSync(join(task.folder, deleteFile(42))), 'x')
    expect(deletes).toMatchObject({ rowsOfFlush: 2, segment: 42, sequences: Float64Array.from([2]) })
  })

  test('writes deletes alone without a Parquet file, and unlinks', async () => {
    const task = taskOf(keySchema, [remove(['x', 'y'], [[9, 1, 2]])])
    const done = await client().flush(task)
    expect(done.meta).toMatchObject({ rows: 0, deletes: 2, tenant: null })
    expect(readdirSync(task.folder)).toEqual([deleteFile(42)])
    await client().unlink(task.folder, [42, 43])
    expect(readdirSync(task.folder)).toEqual([])
  })

  test('leaves nothing when the disk refuses, and the same entries can be written again', async () => {
    const blocker = join(root, `file-${Math.random()}`)
    writeFileSync(blocker, '')
    const entries = [post(keySchema, [{ key: 'a', values: ['a'] }], [[1, 0, 1]])]
    const failure = await client()
      .flush(taskOf(keySchema, entries, { folder: join(blocker, 'pool') }))
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(FlushFailed)
    expect((failure as FlushFailed).code).toBe('flush_failed')
    const again = taskOf(keySchema, entries)
    await client().flush(again)
    expect(existsSync(join(again.folder, segmentFile(42)))).toBe(true)
  })

  test('replaces files that an earlier process left under its number', async () => {
    const first = taskOf(keySchema, [remove(['x'], [[9, 1, 1]])])
    await client().flush(first)
    const entries = [post(keySchema, [{ key: 'a', values: ['a'] }], [[10, 0, 1]])]
    await client().flush(taskOf(keySchema, entries, { folder: first.folder }))
    expect(readdirSync(first.folder)).toEqual([segmentFile(42)])
  })
})
