/**
 * W-6: while queries pin files that merges made obsolete, a rebuild of the index at any moment
 * shows the same rows. The flushes, merges, index and rebuild are real, and the scheduler's code
 * picks the merges.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Merger } from '../../../src/store/compaction/compaction-types.ts'
import { MergeWriter } from '../../../src/store/compaction/merge.ts'
import { CommitCosts, MergeThrottle } from '../../../src/store/compaction/merge-throttle.ts'
import { CompactionRunner } from '../../../src/store/compaction/run-compaction.ts'
import { unlinkSegments } from '../../../src/store/segment/publish-segment.ts'
import { disk } from '../../../src/util/disk.ts'
import { deleteFile, poolFolder, segmentFile } from '../../../src/util/paths.ts'
import { FIRST_MS, poolIdOf, SCHEMAS } from '../../power/pools.ts'
import { visibleRows } from '../../power/read.ts'
import { openServer, type SingleThreadServer } from '../../power/single-thread-server.ts'

const POOL = 1
const NO_CLOCK = { cpuMs: () => 0, nowMs: () => 0, after: () => () => undefined }

let root: string
let server: SingleThreadServer
let runner: CompactionRunner
let writer: MergeWriter

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'weir-pinned-'))
  await open()
})
afterEach(async () => {
  writer.close()
  await server.stop()
  rmSync(root, { recursive: true })
})

const optionsOf = (folder: string) => ({
  root: folder,
  disk,
  kernel: 'native' as const,
  durability: 'fsync' as const,
  fileBytes: 64 * 1024,
  flushRows: 1000,
  onTransaction: () => undefined,
})

async function open(): Promise<void> {
  server = await openServer(optionsOf(join(root, 'data')))
  await server.sweep()
  const { manifest, flusher, opened, paths } = server
  writer = new MergeWriter(new MergeThrottle(NO_CLOCK, 'full'), join(root, 'merge'), disk)
  const merger: Merger = {
    merge: task => writer.merge(task),
    problemOf: async () => undefined,
    setSpeed: () => undefined,
    stop: async () => undefined,
  }
  const folder = poolFolder(paths, poolIdOf(POOL))
  const schema = () => SCHEMAS.find(one => one.pool === POOL)!
  runner = new CompactionRunner(
    {
      merger,
      clock: { nowMs: () => 0, wallMs: () => FIRST_MS, after: () => () => undefined },
      pool: () => ({ poolId: poolIdOf(POOL), folder, retentionDays: 0, schema }),
      obsolete: pool => manifest.uncovered(pool),
      takeSegmentNumber: pool => flusher.takeSegmentNumber(pool),
      pin: async pool => {
        const { all, release } = await manifest.snapshot(pool)
        return { segments: all, release }
      },
      commit: async commit => opened.index.commitCompaction(commit),
      apply: (commit, committed) => manifest.applyCompaction(commit, committed),
      unlink: async (from, segments) => unlinkSegments(disk, from, segments),
      onMerged: () => undefined,
    },
    new CommitCosts(() => 0),
  )
}

/** Number of the last request; `stamp` of its rows. */
let stamp = 0

/** Posts or deletes rows by their ids. */
async function send(ids: string, kind: 'post' | 'delete'): Promise<void> {
  stamp += 1
  const ts = new Date(FIRST_MS).toISOString()
  const events = [...ids].map(id => ({ ts, id, stamp }))
  const mutations = events.map(({ id }) => ({ key: id, stamp: kind === 'post' ? stamp : null }))
  const body = Buffer.from(JSON.stringify(events))
  await server.send([{ pool: POOL, kind, body, receivedAtUs: 1000 * FIRST_MS, mutations }]).acked
}

/** Sends rows like `send`, and flushes the memtable as a segment of its own; returns its number. */
async function flush(ids: string, kind: 'post' | 'delete' = 'post'): Promise<number> {
  await send(ids, kind)
  await server.flusher.flushNow(POOL)
  server.flusher.forgetRecent(POOL)
  return Math.max(...segments().map(({ segment }) => segment))
}

const segments = () => server.manifest.pool(POOL)?.segments ?? []

/** Runs all compactions that the scheduler would run now. */
async function merge(): Promise<void> {
  const request = {
    pool: POOL,
    heldSegments: () => server.flusher.heldSegments(POOL),
    quarantined: new Set<number>(),
    reservedBelow: 0,
    isRetentionDue: false,
    speed: 'full' as const,
  }
  for (let step = 0; await runner.runNext(request); step++) expect(step).toBeLessThan(20)
}

const isThere = (segment: number) =>
  existsSync(join(poolFolder(server.paths, poolIdOf(POOL)), segmentFile(segment)))
const ids = (rows: ReadonlyMap<string, number> | undefined) =>
  [...(rows?.keys() ?? [])]
    .map(key => key.split(' ')[1])
    .sort()
    .join('')

/** The ids that a query sees; a rebuild without index and log must show the same. */
async function visible(): Promise<string> {
  const now = ids((await visibleRows(server)).get(POOL))
  const copy = join(root, 'copy')
  cpSync(join(root, 'data', 'segment'), join(copy, 'segment'), { recursive: true })
  const other = await openServer(optionsOf(copy))
  const rebuilt = ids((await visibleRows(other)).get(POOL))
  await other.stop()
  rmSync(copy, { recursive: true })
  expect(rebuilt, 'after a rebuild').toBe(now)
  return now
}

test('deletes stay while the file of an obsolete segment is there', async () => {
  const a = await flush('ab')
  const query = await server.manifest.snapshot(POOL)
  await flush('ab', 'delete')
  await flush('c')
  await merge()
  expect([await visible(), isThere(a)]).toEqual(['c', true])
  query.release()
  expect(isThere(a)).toBe(false)
  await merge()
  expect(segments().map(({ deletes }) => deletes)).toEqual([0])
  expect(await visible()).toBe('c')
})

test('an obsolete merged segment stays while the file of one of its inputs is there', async () => {
  const a = await flush('abx')
  const query = await server.manifest.snapshot(POOL)
  await flush('ab', 'delete')
  await merge() // merged: no older segment needs the deletes
  expect(segments().map(({ rows, deletes }) => [rows, deletes])).toEqual([[1, 0]])
  const merged = segments()[0]?.segment ?? 0
  await flush('x')
  await merge()
  expect(segments().some(({ segment }) => segment === merged)).toBe(false)
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['x', true, true])
  query.release()
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['x', false, false])
})

test('of segments that become obsolete together, the deletes of one stay while another is there', async () => {
  const a = await flush('a')
  const query = await server.manifest.snapshot(POOL)
  await send('a', 'delete')
  await flush('b')
  await flush('b', 'delete')
  await merge()
  expect([await visible(), isThere(a)]).toEqual(['', true])
  query.release()
  await merge()
  expect([await visible(), segments().map(({ rows, deletes }) => [rows, deletes])]).toEqual(['', [[0, 0]]])
  // It says that the log's requests are flushed.
  expect(readdirSync(poolFolder(server.paths, poolIdOf(POOL)))).toEqual([deleteFile(segments()[0]!.segment)])
})

test('after a rebuild of the index, obsolete segments stay beside the files of earlier runs', async () => {
  const a = await flush('abx')
  await server.manifest.snapshot(POOL) // never released: the process dies with it
  await flush('ab', 'delete')
  await merge()
  const merged = segments()[0]?.segment ?? 0
  await server.stop()
  rmSync(join(root, 'data', 'index'), { recursive: true })
  rmSync(join(root, 'data', 'log'), { recursive: true })
  await open()
  await flush('x')
  await merge()
  expect(segments().some(({ segment }) => segment === merged)).toBe(false)
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['x', true, true])
  await flush('x', 'delete')
  await merge()
  expect(await visible()).toBe('')
  await server.stop()
  await open() // the index is whole: the sweep removes the files
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['', false, false])
})
