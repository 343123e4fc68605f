/** W-6: an index that is damaged, truncated or older than its segments is rebuilt without help. */
import {
  copyFileSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openIndex } from '../../src/index/index-client.ts'
import { checkLmdbFile, checkLmdbPages, findLmdbDamage } from '../../src/util/lmdb-file.ts'
import { pathsOf, segmentFile } from '../../src/util/paths.ts'
import { temporaryFolder } from '../util/server.ts'
import { MAP_BYTES, STORES } from './flushes.ts'
import { type Change, SCHEMA, writeFlush } from './segments.ts'

function home() {
  const paths = pathsOf(temporaryFolder())
  const pool = join(paths.segment, 'POOL1')
  const open = (kernel: 'native' | 'js' = 'native') =>
    openIndex({
      folder: paths.index,
      segmentFolder: paths.segment,
      identity: 'here',
      pools: [{ pool: 1, poolId: 'POOL1', schemas: [SCHEMA] }],
      kernel,
      crashAt: '',
      nice: undefined,
    })
  return { open, pool, index: paths.index, data: join(paths.index, 'data.mdb') }
}

const rowsOf = (sequence: number, count = 300): Change[] =>
  Array.from({ length: count }, (_, i) => ({ ts: i, id: `id${(i * 7) % 300}`, sequence }))

/** Two segments, the second supersedes half of the first. */
async function filled() {
  const made = home()
  const { index } = await made.open()
  await index.commit([
    writeFlush({ schema: SCHEMA, folder: made.pool, segment: 1, rows: rowsOf(5), from: 1, to: 9 }),
  ])
  const second = { schema: SCHEMA, folder: made.pool, segment: 2, rows: rowsOf(15, 150), from: 10, to: 19 }
  await index.commit([writeFlush(second)])
  await index.stop()
  return made
}

const SEGMENTS = [
  { segment: 1, deletedRows: 150 },
  { segment: 2, deletedRows: 0 },
]

/** Breaks the JSON of every entry that has `text`. */
function breakRecords(data: string, text: string): void {
  const bytes = readFileSync(data)
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text)) bytes[at] = 7
  writeFileSync(data, bytes)
}

const damages: Record<string, (data: string) => void> = {
  'cut to half': data => truncateSync(data, Math.floor(statSync(data).size / 8192) * 4096),
  'cut by a page': data => truncateSync(data, statSync(data).size - 4096),
  'cut to its first page': data => truncateSync(data, 4096),
  'not LMDB': data => writeFileSync(data, Buffer.alloc(100_000, 7)),
  'an identity that is no JSON': data => breakRecords(data, '{"format"'),
  'segments that are no JSON': data => breakRecords(data, '{"segment"'),
}

describe.each(['native', 'js'] as const)('an index that is damaged, %s', kernel => {
  test.each(Object.keys(damages))('%s: set aside and rebuilt', async name => {
    const { open, index: folder, data } = await filled()
    damages[name]!(data)
    const { opened, index, notes } = await open(kernel)
    expect(notes.rebuiltBecause).toContain(`set aside as ${data}.damaged-1`)
    expect(opened.pools[0]?.segments).toMatchObject(SEGMENTS)
    await index.stop()
    expect(readdirSync(folder).filter(one => one.includes('damaged'))).toEqual(['data.mdb.damaged-1'])
    const again = await open(kernel)
    expect(again.opened.rebuilt).toBe(false)
    await again.index.stop()
  })
})

test('of damaged indexes the last one is kept', async () => {
  const { open, index: folder, data } = await filled()
  for (let i = 1; i <= 2; i++) {
    damages['cut by a page']!(data)
    const { index, notes } = await open()
    expect(notes.rebuiltBecause).toContain(`damaged-${i}`)
    await index.stop()
  }
  expect(readdirSync(folder).filter(one => one.includes('damaged'))).toEqual(['data.mdb.damaged-2'])
})

test('a page that leads to itself is damage, however deep the tree is said to be', () => {
  const folder = temporaryFolder()
  const pages = 20_000
  const file = Buffer.alloc(pages * 4096)
  for (const page of [0, 1]) {
    const meta = page * 4096
    file.writeBigUInt64LE(BigInt(page), meta)
    file.writeUInt32LE(0xbeefc0de, meta + 24)
    file.writeUInt32LE(4096, meta + 48)
    for (const root of [48, 96]) {
      file.writeUInt16LE(65_535, meta + root + 6)
      file.writeBigUInt64LE(2n, meta + root + 40)
    }
    file.writeBigUInt64LE(BigInt(pages - 1), meta + 144)
  }
  for (let page = 2; page < pages; page++) {
    file.writeBigUInt64LE(BigInt(page), page * 4096)
    file.writeUInt16LE(1, page * 4096 + 18) // a branch
    file.writeUInt16LE(2, page * 4096 + 20) // of one node
    file.writeUInt16LE(40, page * 4096 + 24)
    file.writeUInt16LE(page + 1 < pages ? page + 1 : 2, page * 4096 + 64)
  }
  writeFileSync(join(folder, 'data.mdb'), file)
  expect(() => checkLmdbPages(folder)).toThrow(/its pages do not lead to all of its records/)
})

test.each(STORES)('a file that %s wrote is never taken for a short one', (_name, open) => {
  const folder = temporaryFolder()
  const store = open({ folder, mapBytes: MAP_BYTES })
  const key = (i: number) => Buffer.from(`k${String(i).padStart(6, '0')}`)
  for (let round = 0; round < 6; round++) {
    store.transact(txn => {
      for (let i = 0; i < 3000; i++) txn.put(key(i), Buffer.alloc(i % 50 === 0 ? 9000 : 30, round))
    })
    expect(findLmdbDamage(folder)).toBeUndefined()
    checkLmdbPages(folder)
    // Pages that one transaction allocates and frees may never be written.
    store.transact(txn => txn.removeRange(key(0), key(3000), 2900))
    expect(findLmdbDamage(folder)).toBeUndefined()
    checkLmdbPages(folder)
  }
  store.close()
  const data = join(folder, 'data.mdb')
  const whole = readFileSync(data)
  // The last page is beyond the file's end. The check walks the trees, and every page that they
  // reach is in the file.
  const claims = Buffer.from(whole)
  for (const meta of [0, 4096]) claims.writeBigUInt64LE(BigInt(whole.length / 4096 + 9), meta + 144)
  writeFileSync(data, claims)
  expect(findLmdbDamage(folder)).toBeUndefined()
  let short = 0
  for (let bytes = 8192; bytes < whole.length; bytes += 4096 * 16) {
    writeFileSync(data, whole.subarray(0, bytes))
    if (findLmdbDamage(folder) === undefined) continue
    short += 1
    expect(() => checkLmdbFile(folder)).toThrow(/ends after \d+ pages of/)
  }
  expect(short).toBeGreaterThan(0)
})

describe('an index that is older than its segments', () => {
  test('is rebuilt where the log does not hold the rows of a later flush', async () => {
    const { open, pool, data } = await filled()
    const old = join(dirname(dirname(data)), 'old.mdb')
    copyFileSync(data, old)
    const { index } = await open()
    await index.commit([
      writeFlush({ schema: SCHEMA, folder: pool, segment: 3, rows: rowsOf(25, 50), from: 20, to: 29 }),
    ])
    await index.stop()
    copyFileSync(old, data)
    const again = await open()
    expect(again.notes.rebuiltBecause).toContain('holds request 25, the log does not')
    expect(again.opened.pools).toMatchObject([
      { flushedSequence: 29, segments: [{ deletedRows: 150 }, { deletedRows: 50 }, {}] },
    ])
    await again.index.stop()
  })

  test('is rebuilt where a merge has replaced what it names', async () => {
    const { open, pool, data } = await filled()
    const old = join(dirname(dirname(data)), 'old.mdb')
    copyFileSync(data, old)
    // All rows of the second segment, and the rows of the first that it did not supersede.
    const rows = [...rowsOf(15, 150), ...rowsOf(5).slice(150)]
    const { index } = await open('js')
    const flush = writeFlush({
      schema: SCHEMA,
      folder: pool,
      segment: 3,
      rows,
      replaces: [1, 2],
      from: 1,
      to: 19,
    })
    const { deletionVectors } = await index.commitCompaction({
      pool: 1,
      add: flush.add,
      remove: [1, 2],
      keys: flush.keys,
    })
    expect(deletionVectors).toEqual([])
    await index.stop()
    for (const removed of [1, 2]) rmSync(join(pool, segmentFile(removed)))
    copyFileSync(old, data)
    const again = await open()
    expect(again.notes.rebuiltBecause).toContain('replaces 0000000001.parquet, which is missing')
    expect(again.opened.pools).toMatchObject([
      { flushedSequence: 19, segments: [{ segment: 3, rows: 300, deletedRows: 0 }] },
    ])
    await again.index.stop()
  })
})

describe('an index that is older by one compaction commit', () => {
  /**
   * The merge takes number 3 before segment 4 is flushed, and is committed after it, so the next
   * number in the old index is 5. The inputs of the merge are removed, except those in `keep`.
   */
  async function older(keep: readonly number[] = []) {
    const made = await filled()
    const { open, pool, data } = made
    const { index } = await open()
    const fourth = { schema: SCHEMA, folder: pool, segment: 4, rows: rowsOf(25, 50), from: 20, to: 29 }
    await index.commit([writeFlush(fourth)])
    await index.stop()
    const old = join(dirname(dirname(data)), 'old.mdb')
    copyFileSync(data, old)
    const again = await open()
    const rows = [...rowsOf(15, 150).slice(50), ...rowsOf(5).slice(150)]
    const merged = { schema: SCHEMA, folder: pool, segment: 3, rows, replaces: [1, 2], from: 1, to: 19 }
    const flush = writeFlush(merged)
    await again.index.commitCompaction({ pool: 1, add: flush.add, remove: [1, 2], keys: flush.keys })
    await again.index.stop()
    for (const removed of [1, 2].filter(one => !keep.includes(one))) rmSync(join(pool, segmentFile(removed)))
    copyFileSync(old, data)
    return made
  }

  test.each([{ keep: [] }, { keep: [1] }, { keep: [2] }])(
    'is rebuilt, and the merged file stays, with inputs $keep still there',
    async ({ keep }) => {
      const { open, pool } = await older(keep)
      const before = readdirSync(pool)
      const { index, opened, notes } = await open()
      expect(notes.rebuiltBecause).toMatch(
        /0000000003.parquet replaces 000000000[12].parquet, which is missing/,
      )
      expect(opened.pools).toMatchObject([{ flushedSequence: 29, nextSegment: 5 }])
      expect(opened.pools[0]?.segments).toMatchObject([
        { segment: 3, rows: 250, deletedRows: 0 },
        { segment: 4, rows: 50, deletedRows: 0 },
      ])
      const poolsWithOrphans = keep.length > 0 ? [1] : []
      expect(await index.sweep(new Map([['POOL1', 1]]))).toEqual({
        removed: [],
        missing: [],
        keptOrphans: [],
        poolsWithOrphans,
      })
      expect(readdirSync(pool)).toEqual(before)
      await index.stop()
    },
  )

  test('is whole, and the merged file an orphan, while its inputs are there', async () => {
    const { open, pool } = await older([1, 2])
    const { index, opened } = await open()
    expect(opened.rebuilt).toBe(false)
    const { removed } = await index.sweep(new Map([['POOL1', 1]]))
    expect(removed).toEqual([join(pool, segmentFile(3))])
    await index.stop()
  })
})

test('a rebuild reports rows that neither the segments nor the log have', async () => {
  const { open, pool, data } = await filled()
  const deletes = [{ ts: 1, id: 'x', sequence: 26 }]
  writeFlush({ schema: SCHEMA, folder: pool, segment: 3, rows: rowsOf(25, 10), deletes, from: 20, to: 29 })
  rmSync(join(pool, segmentFile(3)))
  rmSync(data)
  const { index, notes } = await open()
  expect(notes.possibleLosses).toEqual([
    expect.stringMatching(
      /0000000003.deletes has no Parquet file beside it.* 20 to 29\).* 0000000003.parquet is missing with up to 10 rows.* 1 deletes/,
    ),
  ])
  await index.stop()
})
