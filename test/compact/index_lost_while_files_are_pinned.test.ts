/**
 * W-6: whatever merges emptied while queries still held the files, a rebuild at any moment shows the rows that were there.
 * Real seals, merges, index and rebuild; the scheduler's own choices.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { MergeWriter } from '../../src/compact/merge.ts'
import { Pacer } from '../../src/compact/pace.ts'
import type { Merger } from '../../src/compact/protocol.ts'
import { Merges } from '../../src/compact/scheduler-merge.ts'
import { SwapCosts } from '../../src/compact/swap-costs.ts'
import { readSegmentKeys } from '../../src/keys/segment-keys.ts'
import { poolFolder, segmentFile } from '../../src/paths.ts'
import { readDeleteFile, writeDeleteFile } from '../../src/segment/deletes.ts'
import { publishInPieces, unlinkSegments } from '../../src/segment/publish.ts'
import { disk } from '../../src/util/disk.ts'
import { type Life, openLife } from '../power/life.ts'
import { FIRST_MS, PLANS, poolIdOf } from '../power/pools.ts'
import { visibleRows } from '../power/read.ts'

const POOL = 1
const CALLS = { readSegmentKeys, readDeleteFile, writeDeleteFile, publishInPieces }
const NO_CLOCK = { cpuMs: () => 0, nowMs: () => 0, after: () => () => undefined }

let root: string
let life: Life
let merges: Merges
let writer: MergeWriter

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'weir-pinned-'))
  await open()
})
afterEach(async () => {
  writer.close()
  await life.stop()
  rmSync(root, { recursive: true })
})

const optionsOf = (folder: string) => ({
  root: folder,
  disk,
  kernel: 'native' as const,
  durability: 'fsync' as const,
  fileBytes: 64 * 1024,
  sealRows: 1000,
  onTransaction: () => undefined,
})

async function open(): Promise<void> {
  life = await openLife(optionsOf(join(root, 'data')))
  await life.sweep()
  const { manifest, sealer, opened, paths } = life
  writer = new MergeWriter(CALLS, new Pacer(NO_CLOCK, 'alone'), join(root, 'merge'), disk)
  const merger: Merger = {
    merge: job => writer.merge(job),
    setPace: () => undefined,
    stop: async () => undefined,
  }
  const folder = poolFolder(paths, poolIdOf(POOL))
  const plan = () => PLANS.find(one => one.pool === POOL)!
  merges = new Merges(
    {
      merger,
      clock: { nowMs: () => 0, wallMs: () => FIRST_MS, after: () => () => undefined },
      pool: () => ({ poolId: poolIdOf(POOL), folder, retentionDays: 0, plan }),
      emptied: pool => manifest.emptied(pool),
      takeSegmentNumber: pool => sealer.takeSegmentNumber(pool),
      pin: async pool => {
        const { all, release } = await manifest.snapshot(pool)
        return { segments: all, release }
      },
      swap: async swap => opened.index.swap(swap),
      apply: (swap, committed) => manifest.applySwap(swap, committed),
      unlink: async (from, segments) => unlinkSegments(disk, from, segments),
      onMerged: () => undefined,
    },
    new SwapCosts(() => 0),
  )
}

let mark = 0

/** Posts or deletes records by their ids. */
async function send(ids: string, kind: 'post' | 'delete'): Promise<void> {
  mark += 1
  const ts = new Date(FIRST_MS).toISOString()
  const events = [...ids].map(id => ({ ts, id, mark }))
  const mutations = events.map(({ id }) => ({ key: id, mark: kind === 'post' ? mark : null }))
  const body = Buffer.from(JSON.stringify(events))
  await life.send([{ pool: POOL, kind, body, receivedAtMs: FIRST_MS, mutations }]).acked
}

/** Posts or deletes records by their ids, with what was sent before, as one segment of its own; returns its number. */
async function seal(ids: string, kind: 'post' | 'delete' = 'post'): Promise<number> {
  await send(ids, kind)
  await life.sealer.sealNow(POOL)
  life.sealer.forgetKept(POOL)
  return Math.max(...segments().map(({ segment }) => segment))
}

const segments = () => life.manifest.pool(POOL)?.segments ?? []

/** All merges that the scheduler would make now. */
async function merge(): Promise<void> {
  const ask = {
    pool: POOL,
    held: () => life.sealer.heldSegments(POOL),
    quarantined: new Set<number>(),
    isRetentionDue: false,
    pace: 'alone' as const,
  }
  for (let step = 0; await merges.one(ask); step++) expect(step).toBeLessThan(20)
}

const isThere = (segment: number) =>
  existsSync(join(poolFolder(life.paths, poolIdOf(POOL)), segmentFile(segment)))
const ids = (rows: ReadonlyMap<string, number> | undefined) =>
  [...(rows?.keys() ?? [])]
    .map(key => key.split(' ')[1])
    .sort()
    .join('')

/** The ids that a query sees; the same after a crash now that loses the index, when no log is left. */
async function visible(): Promise<string> {
  const now = ids((await visibleRows(life)).get(POOL))
  const copy = join(root, 'copy')
  cpSync(join(root, 'data', 'segment'), join(copy, 'segment'), { recursive: true })
  const other = await openLife(optionsOf(copy))
  const rebuilt = ids((await visibleRows(other)).get(POOL))
  await other.stop()
  rmSync(copy, { recursive: true })
  expect(rebuilt, 'after a rebuild').toBe(now)
  return now
}

it('deletes stay while the file of an emptied segment does', async () => {
  const a = await seal('ab')
  const query = await life.manifest.snapshot(POOL)
  await seal('ab', 'delete')
  await seal('c')
  await merge()
  expect([await visible(), isThere(a)]).toEqual(['c', true])
  query.release()
  expect(isThere(a)).toBe(false)
  await merge()
  expect(segments().map(({ deletes }) => deletes)).toEqual([0])
  expect(await visible()).toBe('c')
})

it('a merged segment that was emptied stays while the file of one of its inputs does', async () => {
  const a = await seal('abx')
  const query = await life.manifest.snapshot(POOL)
  await seal('ab', 'delete')
  await merge() // joined: nothing older needs the deletes
  expect(segments().map(({ rows, deletes }) => [rows, deletes])).toEqual([[1, 0]])
  const merged = segments()[0]?.segment ?? 0
  await seal('x')
  await merge()
  expect(segments().some(({ segment }) => segment === merged)).toBe(false)
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['x', true, true])
  query.release()
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['x', false, false])
})

it('of segments that are emptied together, the deletes of one stay while another is there', async () => {
  const a = await seal('a')
  const query = await life.manifest.snapshot(POOL)
  await send('a', 'delete')
  await seal('b')
  await seal('b', 'delete')
  await merge()
  expect([await visible(), isThere(a)]).toEqual(['', true])
  query.release()
  await merge()
  expect([await visible(), segments()]).toEqual(['', []])
  expect(readdirSync(poolFolder(life.paths, poolIdOf(POOL)))).toEqual([])
})

it('in a run that rebuilt its index, what is emptied stays beside the files of earlier runs', async () => {
  const a = await seal('abx')
  await life.manifest.snapshot(POOL) // never released: the process dies with it
  await seal('ab', 'delete')
  await merge()
  const merged = segments()[0]?.segment ?? 0
  await life.stop()
  rmSync(join(root, 'data', 'index'), { recursive: true })
  rmSync(join(root, 'data', 'log'), { recursive: true })
  await open()
  await seal('x')
  await merge()
  expect(segments().some(({ segment }) => segment === merged)).toBe(false)
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['x', true, true])
  await seal('x', 'delete')
  await merge()
  expect(await visible()).toBe('')
  await life.stop()
  await open() // a whole index: the sweep takes them
  expect([await visible(), isThere(a), isThere(merged)]).toEqual(['', false, false])
})
