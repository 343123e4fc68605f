/**
 * A flipped bit of a page may decode: rows are then wrong and nothing fails. No query answers with
 * such rows, and no rewrite gives them a new checksum.
 */
import { createHash } from 'node:crypto'
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { createJob, ended } from '../jobs/rewrite-jobs.ts'
import { weir, weirInside } from '../tools/folder.ts'
import {
  type CounterFailed,
  fetchToken,
  type PoolSpec,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import { at, column, filesOf, metric, NEVER, OFTEN, post, until, untilRest } from './compaction.ts'
import { flipBit, segmentsOf } from './damage.ts'

const SPEC: PoolSpec = {
  columns: [
    column('at', 'TIMESTAMP'),
    column('id', 'STRING'),
    column('amount', 'INT64'),
    column('note', 'STRING'),
  ],
  timestamp: 'at',
  uniqueId: 'id',
}
/** Does not compress, so that it stands in the file as it is. */
const noteOf = (i: number) => createHash('sha256').update(`note ${i}`).digest('base64')
const events = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => ({
    at: '2026-01-01',
    id: `e${from + i}`,
    amount: 1,
    note: noteOf(from + i),
  }))

/** The stopped folder that each test gets a copy of. */
let filled: string
let dataDir: string
let pool: TestPool
/** The segment in which the tests flip bits: it has the rows e0 to e299. */
let file: string

beforeAll(async () => {
  filled = join(temporaryFolder(), 'data')
  for (const round of [0, 1]) {
    // A server keeps its recent flushes in memory and flushes them again.
    const server = await startServer({ dataDir: filled, env: NEVER })
    if (round === 0) pool = await server.createPool(SPEC)
    await post(at(server, pool), round === 0 ? events(0, 300) : events(300, 340))
    expect(await server.sum(pool.poolId, 'amount')).toBe(round === 0 ? '300' : '340')
    expect((await server.stop()).code).toBe(0)
  }
})

beforeEach(() => {
  dataDir = join(temporaryFolder(), 'data')
  cpSync(filled, dataDir, { recursive: true })
  file = must(segmentsOf(dataDir, pool.poolId)[0], 'a segment')
})

/** Changes one character of the note of e7, wherever it stands. */
function flipNote(): void {
  const bytes = readFileSync(file)
  const note = noteOf(7).slice(4, 20)
  let flipped = 0
  for (let from = bytes.indexOf(note); from >= 0; from = bytes.indexOf(note, from + 1)) {
    flipBit(file, from + 3)
    flipped += 1
  }
  expect(flipped).toBeGreaterThan(0)
}

/** The offset of a text in the Parquet footer. */
function placeInFooter(text: string): number {
  const bytes = readFileSync(file)
  const footer = bytes.length - 8 - bytes.readUInt32LE(bytes.length - 8)
  const place = bytes.indexOf(text, footer)
  expect(place).toBeGreaterThan(footer)
  return place
}

async function verifyNames(): Promise<void> {
  const { code, out } = await weirInside(['verify', '--data-dir', dataDir])
  expect([code, out]).toEqual([1, expect.stringContaining(`${file}: its bytes do not match their checksum`)])
}

/** What each kind of reader answers: the text of its error, or `rows`. */
async function readAll(server: TestServer): Promise<Readonly<Record<string, string>>> {
  const token = await fetchToken(server.base, server.dataDir)
  const headers = { authorization: `Bearer ${token}` }
  const { poolId } = pool
  const dataPool = { id: poolId }
  const columns = ['id', 'note']
  const graphql = async (text: string) => {
    const { errors } = await server.graphql(text)
    return errors === undefined ? 'rows' : `${errors[0]?.extensions?.code} ${errors[0]?.message}`
  }
  const route = async (path: string, body?: unknown) => {
    const answer = await fetch(`${server.base}/v1/${path}`, {
      headers,
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return answer.status === 200 ? 'rows' : text
  }
  const sql = `SELECT note FROM \\"${poolId}\\" ORDER BY note`
  return {
    counter: await server.sum(poolId, 'amount').then(
      () => 'rows',
      error => (error as CounterFailed).message,
    ),
    grid: await graphql(
      `{ dataGrid(input: {dataPool: {id: "${poolId}"}, columns: ["id", "note"], first: 10}) { rows } }`,
    ),
    sql: await graphql(`{ sqlV1(input: {query: "${sql}"}) { rows } }`),
    record: await graphql(
      `{ recordsByUniqueId(input: {dataPool: {id: "${poolId}"}, columns: ["note"], uniqueIds: ["e7"]}) { values } }`,
    ),
    'v1/query': await route('query', { dataGrid: { dataPool, columns, first: 10 } }),
    arrow: await route(`pools/${poolId}/arrow`),
    ndjson: await route(`pools/${poolId}/export?format=ndjson`),
    parquet: await route(`pools/${poolId}/export?format=parquet`),
  }
}

const isNamed = (answers: Readonly<Record<string, string>>) => {
  for (const [reader, answer] of Object.entries(answers)) {
    expect(answer, reader).toMatch(/SEGMENT_DAMAGED|segment_damaged/)
    expect(answer, reader).toContain(file.split('/').slice(-2).join('/'))
  }
}

async function updateAll(server: TestServer) {
  const input = {
    dataPool: pool.poolId,
    filterSql: 'amount = 1',
    set: [{ column: 'amount', expression: '2' }],
  }
  return await ended(server, await createJob(server, 'update', input))
}

describe('a flipped bit of a page', () => {
  test('before the start: every reader names the segment, a job fails with it, a merge leaves it alone', async () => {
    flipNote()
    await verifyNames()
    const server = await startServer({ dataDir, env: OFTEN })
    isNamed(await readAll(server))
    expect(await updateAll(server)).toMatchObject({
      status: 'FAILED',
      error: { message: expect.stringContaining(file) },
    })
    // Nothing is left of it but the damaged segment: a deletion of other rows makes merges due.
    await post(at(server, pool), events(300, 700))
    expect(await server.count(pool.poolId)).toBe('700')
    await untilRest(server)
    expect(filesOf(dataDir, pool.poolId)).toContain(file.split('/').at(-1))
    expect((await server.stop()).output.split('\n').filter(line => line.includes(file))).toHaveLength(1)
    await verifyNames()
  })

  test('under a running server that has not read the file: the same', async () => {
    const server = await startServer({ dataDir, env: NEVER })
    flipNote()
    expect(await updateAll(server)).toMatchObject({
      status: 'FAILED',
      error: { message: expect.stringContaining(file) },
    })
    isNamed(await readAll(server))
    expect((await server.stop()).code).toBe(0)
    await verifyNames()
  })

  test('a rebuild names it and leaves the index as it is; an export of the folder names it', async () => {
    flipNote()
    const rebuilt = await weir(['rebuild', '--data-dir', dataDir])
    expect([rebuilt.code, rebuilt.output]).toEqual([1, expect.stringContaining(`${file} is damaged`)])
    await verifyNames()
    const exported = await weir(['export', pool.poolId, '--out', `${dataDir}.ndjson`, '--data-dir', dataDir])
    expect([exported.code, exported.output]).toEqual([1, expect.stringContaining(file)])
  })
})

test.each(['amount', 'note', 'weir.rows', 'weir.format'])(
  'a flipped bit of the name %s in a footer is a damaged segment, not an internal error',
  async name => {
    flipBit(file, placeInFooter(name))
    const server = await startServer({ dataDir, env: NEVER })
    isNamed(await readAll(server))
    expect(server.output()).not.toContain('INTERNAL')
    expect((await server.stop()).code).toBe(0)
    await verifyNames()
  },
)

test('the scrub finds a flip that came after the check of its file: one line, figures, SEGMENT_DAMAGED', async () => {
  // The scrub begins after the flip, also where the machine is slow.
  const server = await startServer({ dataDir, env: { ...NEVER, WEIR_SCRUB_BEGIN_MS: '10000' } })
  expect(await server.sum(pool.poolId, 'amount')).toBe('340')
  expect(await metric(server, 'weir_segments_unchecked')).toBe(0)
  expect(await metric(server, 'weir_damaged_files')).toBe(0)
  flipNote()
  await until('a scrub ends', async () => (await metric(server, 'weir_scrub_passes')) > 0)
  expect(await metric(server, 'weir_damaged_files')).toBe(1)
  expect(await metric(server, 'weir_scrub_progress')).toBe(1)
  expect(await metric(server, 'weir_scrub_bytes')).toBeGreaterThan(readFileSync(file).length)
  isNamed(await readAll(server))
  const { code, output } = await server.stop()
  expect([code, output.split('\n').filter(line => line.includes(file))]).toEqual([
    0,
    [expect.stringMatching(/do not match their checksum; compaction leaves this segment out/)],
  ])
})

test('the first query after a start checks its files once; a file of this process counts as checked', async () => {
  const server = await startServer({ dataDir, env: NEVER })
  expect(await metric(server, 'weir_segments_unchecked')).toBe(2)
  const sums = await Promise.all(Array.from({ length: 8 }, () => server.sum(pool.poolId, 'amount')))
  expect(new Set(sums)).toEqual(new Set(['340']))
  expect(await metric(server, 'weir_segments_unchecked')).toBe(0)
  await post(at(server, pool), events(340, 350))
  // A count of all rows flushes the pool and reads no file.
  expect(await server.count(pool.poolId)).toBe('350')
  expect(await metric(server, 'weir_segments_unchecked')).toBe(0)
  expect(await server.sum(pool.poolId, 'amount')).toBe('350')
  expect(await metric(server, 'weir_segments_unchecked')).toBe(0)
  expect((await server.stop()).code).toBe(0)
})
