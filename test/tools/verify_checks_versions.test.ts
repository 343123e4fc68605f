/**
 * `weir verify` compares the versions in the index with those of the rows: a wrong one is seen in
 * no query, and decides wrongly over the next event of its key.
 */
import { expect, test } from 'vitest'
import { poolKey, TAG } from '../../src/index/index-entry.ts'
import { column, OFTEN, untilRest } from '../path/compaction.ts'
import { send, startServer } from '../util/server.ts'
import { rebuildFolder, verifyFolder } from '../util/verify.ts'
import { changeIndex } from './folder.ts'

/** `events` is 1. */
const POOL = 3
/** Segment and row, then the version. */
const ENTRY_BYTES = 16

test.each(['native', 'js'])('a wrong version is a finding, and a rebuild mends it (%s)', async kernel => {
  const server = await startServer({ args: ['--kernel', kernel], env: OFTEN })
  const { dataDir } = server
  const pool = await server.createPool({
    columns: [column('id', 'STRING'), column('v', 'TIMESTAMP'), column('n', 'INT64')],
    tableSettings: { engine: { replacingMergeTree: { ver: 'v' } }, orderBy: ['id'] },
  })
  const day = (n: number) => `2026-01-${10 + n}`
  for (const [v, n] of [
    [5, 1],
    [3, 2],
    [7, 3],
  ] as const) {
    const events = Array.from({ length: 50 }, (_, i) => ({ id: `id ${i % (10 * n)}`, v: day(v), n }))
    expect((await send(pool.url, events)).status).toBe(200)
    expect(await server.count(pool.poolId)).toBe(n === 1 ? '10' : n === 2 ? '20' : '30')
  }
  expect(await server.sum(pool.poolId, 'n')).toBe('90')
  await untilRest(server)
  expect((await server.stop()).code).toBe(0)
  expect(await verifyFolder(dataDir)).toEqual([])

  changeIndex(dataDir, txn => {
    const [first] = txn.range(poolKey(TAG.key, POOL), poolKey(TAG.key, POOL + 1), 1)
    const [key, value] = first!
    expect(value.byteLength).toBe(ENTRY_BYTES)
    value[ENTRY_BYTES - 1]! ^= 1
    txn.put(key, value)
  })
  await expect(verifyFolder(dataDir)).rejects.toThrow(/row \d+.*its key has another version in the index/)
  await rebuildFolder(dataDir)
  expect(await verifyFolder(dataDir)).toEqual([])
})
