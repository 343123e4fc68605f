/**
 * W-6: while queries pin files that merges made obsolete, a rebuild of the index at any moment
 * shows the same rows. Each test makes one situation (rebuilds_agree_after_each_step.test.ts makes
 * random ones).
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { deleteFile, segmentFile } from '../../../src/util/paths.ts'
import { COLUMN, PinnedFilesHarness, schemaWith } from './pinned-files-harness.ts'

let pool: PinnedFilesHarness

beforeEach(async () => {
  pool = new PinnedFilesHarness(schemaWith({ columns: [COLUMN.ts, COLUMN.id], version: -1 }))
  await pool.open()
})
afterEach(() => pool.close())

const eventsOf = (ids: string) => [...ids].map(id => ({ id }))

/** Flushes rows by their ids as a segment of its own; returns its number. */
async function flush(ids: string, kind: 'post' | 'delete' = 'post'): Promise<number> {
  const segment = await pool.flush(eventsOf(ids), kind)
  pool.forgetRecent()
  return segment
}

const isThere = (segment: number) => existsSync(join(pool.folder, segmentFile(segment)))

/** The ids that a query sees; a rebuild without index and log must show the same. */
async function visible(): Promise<string> {
  const rows = await pool.visible()
  return [...rows.keys()]
    .map(key => key.split(' ')[1])
    .sort()
    .join('')
}

test('deletes stay while the file of an obsolete segment is there', async () => {
  const a = await flush('ab')
  const query = await pool.snapshot()
  await flush('ab', 'delete')
  await flush('c')
  await pool.merge()
  expect([await visible(), isThere(a)]).toEqual(['c', true])
  query.release()
  expect(isThere(a)).toBe(false)
  await pool.merge()
  expect(pool.segments().map(({ deletes }) => deletes)).toEqual([0])
  expect(await visible()).toBe('c')
})

test('an obsolete merged segment stays while the file of one of its inputs is there', async () => {
  const a = await flush('abx')
  const query = await pool.snapshot()
  await flush('ab', 'delete')
  await pool.merge() // merged: no older segment needs the deletes
  expect(pool.segments().map(({ rows, deletes }) => [rows, deletes])).toEqual([[1, 0]])
  const merged = pool.segments()[0]?.segment ?? 0
  await flush('x')
  await pool.merge()
  expect(pool.segments().some(({ segment }) => segment === merged)).toBe(false)
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['x', true, true])
  query.release()
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['x', false, false])
})

test('of segments that become obsolete together, the deletes of one stay while another is there', async () => {
  const a = await flush('a')
  const query = await pool.snapshot()
  await pool.send(eventsOf('a'), 'delete')
  await flush('b')
  await flush('b', 'delete')
  await pool.merge()
  expect([await visible(), isThere(a)]).toEqual(['', true])
  query.release()
  await pool.merge()
  expect([await visible(), pool.segments().map(({ rows, deletes }) => [rows, deletes])]).toEqual([
    '',
    [[0, 0]],
  ])
  // It says that the log's requests are flushed.
  expect(readdirSync(pool.folder)).toEqual([deleteFile(pool.segments()[0]!.segment)])
})

test('after a rebuild of the index, obsolete segments stay beside the files of earlier runs', async () => {
  const a = await flush('abx')
  await pool.snapshot() // never released: the process dies with it
  await flush('ab', 'delete')
  await pool.merge()
  const merged = pool.segments()[0]?.segment ?? 0
  await pool.restart(['index', 'log'])
  await flush('x')
  await pool.merge()
  expect(pool.segments().some(({ segment }) => segment === merged)).toBe(false)
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['x', true, true])
  await flush('x', 'delete')
  await pool.merge()
  expect(await visible()).toBe('')
  await pool.restart() // the index is whole: the sweep removes the files
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['', false, false])
})
