/** What DuckDB's errors are taken for: a damaged segment, a refusal of the machine, or a bug. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fileChecksum } from '../../src/util/crc32.ts'
import { disk } from '../../src/util/disk.ts'
import { DuckDBInstance } from '../../src/util/duckdb.ts'
import { typedError, withoutDetails } from '../../src/util/duckdb-errors.ts'
import { SegmentDamaged, Unavailable } from '../../src/util/errors.ts'
import { temporaryFolder } from './server.ts'

const folder = temporaryFolder('weir-duckdb-errors-')
const [good, bad] = ['good', 'bad'].map(name => join(folder, `${name}.parquet`)) as [string, string]
const SEGMENTS = [good, bad].map(file => ({ file, meta: { rows: 3, checksum: null as number | null } }))
const GOOD = SEGMENTS.slice(0, 1)

let instance: DuckDBInstance
let connection: DuckDBConnection
beforeAll(async () => {
  instance = await DuckDBInstance.create()
  connection = await instance.connect()
  await connection.run(`COPY (SELECT unnest([1, 2, 3]) AS i) TO '${good}' (FORMAT parquet)`)
  writeFileSync(bad, 'PAR1 and nothing else')
})
afterAll(() => {
  connection.closeSync()
  instance.closeSync()
})

const run = async (sql: string) => await (await connection.run(sql)).getRows()
const explain = (message: string, segments = SEGMENTS, read = run) =>
  typedError(new Error(message), 'query', segments, read)

test.each([
  ['Out of Memory Error: could not allocate block', 'process_memory'],
  ['Failed to append: could not allocate 5 bytes', 'process_memory'],
  ['std::bad_alloc', 'process_memory'],
  [
    'Out of Memory Error: failed to offload data block of size 256.0 KiB (8.0 GiB/8.0 GiB used).',
    'query_memory',
  ],
  ['IO Error: Could not write file "/data/tmp/x": No space left on device', 'query_io'],
  ['IO Error: Could not write file "/data/tmp/x": Disk quota exceeded', 'query_io'],
  ['IO Error: Cannot open file "/data/segment/1.parquet": Too many open files', 'query_io'],
])('%s: the machine refuses, and no segment is read', async (message, code) => {
  const read = () => Promise.reject(new Error('nothing is to be read'))
  const named = `${message} (${bad})`
  const error = await explain(named, SEGMENTS, read)
  expect(error).toMatchObject({ name: 'Unavailable', code })
  // The caller of a query does not see where the server keeps its files, and the log does.
  expect((error as Error).message).not.toMatch(/\/|Error:/)
  const merge = await typedError(new Error(named), 'merge', SEGMENTS, read)
  expect(merge).toMatchObject({ name: 'Unavailable', message: named })
})

test('a query beyond the limit of memory is told so, and a merge in the words of DuckDB', async () => {
  const small = await DuckDBInstance.create(':memory:', {
    memory_limit: '16MB',
    max_temp_directory_size: '0KiB',
  })
  const failed: unknown = await small
    .connect()
    .then(each => each.run('SELECT list(i) FROM range(10000000) t(i)'))
    .catch(error => error as unknown)
  small.closeSync()
  expect(await typedError(failed, 'query', [], run)).toMatchObject({
    code: 'query_memory',
    message: expect.stringMatching(/^the query needs more memory than its propeller has \([^()]* used\): /),
  })
  expect(await typedError(failed, 'merge', [], run)).toMatchObject({
    code: 'merge_memory',
    message: expect.stringMatching(/^Out of Memory Error: /),
  })
})

test('a reader with a policy learns no figure, line or path', async () => {
  const memory = withoutDetails(await explain('Out of Memory Error: no block (190 MiB/192 MiB used)'))
  expect(memory).toMatchObject({ code: 'query_memory', message: expect.not.stringMatching(/\d|block/) })
  const ofProcess = withoutDetails(await explain('std::bad_alloc'))
  expect(ofProcess).toMatchObject({ code: 'process_memory', message: (memory as Error).message })
  const io = withoutDetails(await explain('IO Error: Could not write "/data/tmp/x": No space left on device'))
  expect(io).toMatchObject({ code: 'query_io', message: expect.not.stringMatching(/data|space/) })
  const rows = new Unavailable('too_many_rows', 'the answer has more than 5 rows')
  for (const error of [rows, new Error('a bug')]) expect(withoutDetails(error)).toBe(error)
  const damaged = withoutDetails(new SegmentDamaged(good, 'value "secret" is not valid'))
  expect(damaged).toMatchObject({ name: 'SegmentDamaged', file: good })
  expect(damaged).toMatchObject({ message: expect.not.stringContaining('secret') })
})

test('a segment that DuckDB names, or that cannot be read, is damaged', async () => {
  const named = await explain(`IO Error: No files found that match the pattern "${good}"`, GOOD)
  expect(named).toMatchObject({ name: 'SegmentDamaged', file: good })
  const unnamed = await explain('Invalid Input Error: Snappy decompression failure')
  expect(unnamed).toMatchObject({ name: 'SegmentDamaged', file: bad })
  const short = await explain('Invalid Error: odd', [{ file: good, meta: { rows: 4, checksum: null } }])
  expect(short).toMatchObject({ name: 'SegmentDamaged', message: expect.stringContaining('3 rows where 4') })
})

test('a segment that is readable and not what was written is damaged: a column has another name', async () => {
  const meta = { rows: 3, checksum: fileChecksum(disk, good) }
  const bug = new Error('Binder Error: Referenced column "i" not found')
  expect(await typedError(bug, 'query', [{ file: good, meta }], run)).toBe(bug)
  const renamed = join(folder, 'renamed.parquet')
  await connection.run(`COPY (SELECT unnest([1, 2, 3]) AS j) TO '${renamed}' (FORMAT parquet)`)
  expect(await typedError(bug, 'query', [{ file: renamed, meta }], run)).toMatchObject({
    name: 'SegmentDamaged',
    file: renamed,
    message: expect.stringContaining('do not match their checksum'),
  })
})

test('where all segments are whole, a failure of the disk is a refusal and another error is a bug', async () => {
  const refused = 'IO Error: Could not write file "/data/tmp/x": Read-only file system'
  expect(await explain(refused, GOOD)).toMatchObject({
    name: 'Unavailable',
    code: 'query_io',
    message: expect.not.stringContaining('/data/tmp') as string,
  })
  const bug = new Error('Conversion Error: Type INT128 is out of range')
  expect(await typedError(bug, 'query', GOOD, run)).toBe(bug)
})

test('a refusal or an interrupt while segments are read says nothing about them', async () => {
  const refusals = [
    ['Out of Memory Error: no block', { name: 'Unavailable', code: 'process_memory' }],
    ['IO Error: Cannot open file: Too many open files', { name: 'Unavailable', code: 'query_io' }],
    ['INTERRUPT Error: Interrupted!', { name: 'Error', message: 'Invalid Error: odd' }],
  ] as const
  for (const [message, expected] of refusals) {
    const read = () => Promise.reject(new Error(message))
    expect(await explain('Invalid Error: odd', SEGMENTS, read)).toMatchObject(expected)
  }
  const interrupt = new Error('INTERRUPT Error: Interrupted!')
  expect(await typedError(interrupt, 'query', SEGMENTS, run)).toBe(interrupt)
})
