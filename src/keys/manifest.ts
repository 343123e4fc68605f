/**
 * The manifest on the main thread: per pool its segments and their marks, as of the last flushed commit.
 *
 *   W-8   A snapshot is one consistent state; the files it names stay until it is released.
 *   W-4   Replaced files are given up only in `apply`, which follows the flush.
 *   W-10  Marks are loaded at a pool's first query, not at start.
 *   W-11  Marks are kept as the lists that the index sent: nothing here walks over rows.
 */
import { join } from 'node:path'
import { MARK_PARTS_MAX } from '../limits.ts'
import { deleteFile, segmentFile } from '../paths.ts'
import type { QuerySegment } from '../query/protocol.ts'
import { assert } from '../util/assert.ts'
import type { KeyIndex, MarkDelta, PoolState, SealCommit, SealCommitted, SegmentMeta } from './protocol.ts'

/** What a query reads. `release` is called once, when it ended. */
export interface Snapshot {
  readonly commit: number
  /** Those with rows, by rising number. */
  readonly segments: readonly QuerySegment[]
  release(): void
}

/** What a pool looks like from outside. */
export interface PoolView {
  readonly sealedSequence: number
  readonly nextSegment: number
  readonly segments: readonly SegmentMeta[]
}

/** All pools at one moment. No file of them goes before `release`, which is called once. */
export interface PinnedPools {
  readonly pools: readonly (PoolView & { readonly pool: number })[]
  release(): void
}

export interface Manifest {
  /** Takes over a commit. Called once per commit, in their order, before anything waits on its results. */
  apply(seals: readonly SealCommit[], committed: readonly SealCommitted[]): void
  /** The pool's state now, pinned. Waits for its marks at first. Rejects with Unavailable. */
  snapshot(pool: number): Promise<Snapshot>
  /** Every segment of every pool as of this turn, those with deletes only too. */
  pinAll(): PinnedPools
  /** undefined: nothing of the pool is sealed. */
  pool(pool: number): PoolView | undefined
  /** Forgets a deleted pool; its files are given up as they become free. */
  drop(pool: number): void
}

export interface ManifestOptions {
  /** As the index was opened. */
  readonly pools: readonly PoolState[]
  readonly lastCommit: number
  readonly readMarks: KeyIndex['readMarks']
  /** Absolute folder of a pool's segments. */
  readonly folderOf: (pool: number) => string
  /** Gets files that no manifest and no snapshot names any more: they may be unlinked. */
  readonly onUnpinned: (files: readonly string[]) => void
}

interface Part extends MarkDelta {
  readonly commit: number
}

/** A segment. Snapshots share it, so a replaced one lives on until the last of them is released. */
interface Entry {
  readonly meta: SegmentMeta
  readonly file: string
  readonly deletes: string
  /** Never changed in place: snapshots hold it. */
  marks: readonly Part[]
  pins: number
  replaced: boolean
}

interface PoolEntry {
  sealedSequence: number
  nextSegment: number
  readonly segments: Map<number, Entry>
  /** Marks from before the start are in `marks`. */
  loaded: boolean
  loading: Promise<void> | undefined
}

/** The manifest of an index just opened. */
export function createManifest(options: ManifestOptions): Manifest {
  const pools = new Map<number, PoolEntry>()
  for (const state of options.pools) pools.set(state.pool, openPool(options, state))
  /** Numbers are never used again. */
  const dropped = new Set<number>()
  const applied = createWaiter(options.lastCommit)

  const load = async (number: number, pool: PoolEntry): Promise<void> => {
    const { commit, marks } = await options.readMarks(number)
    // The answer may be ahead of us: with marks of a commit whose new rows we do not know yet, rows would vanish.
    await applied.reached(commit)
    takeMarks(pool, commit, marks)
  }
  const loadOnce = (number: number, pool: PoolEntry): Promise<void> => {
    pool.loading ??= load(number, pool).finally(() => {
      pool.loading = undefined
    })
    return pool.loading
  }
  return {
    apply: (seals, committed) => {
      assert(seals.length === committed.length, 'every seal has its answer')
      for (const [index, seal] of seals.entries()) {
        const answer = committed[index] as SealCommitted
        applied.set(answer.commit)
        if (dropped.has(seal.pool)) {
          if (seal.add !== undefined) freeIfUnused(options, lateEntry(options, seal.pool, seal.add))
          continue
        }
        const pool = pools.get(seal.pool) ?? newPool(pools, seal.pool)
        const crowded = applySeal(options, pool, seal, answer)
        // Many short lists are read again as one; queries go on with what is here meanwhile.
        if (crowded && pool.loaded) loadOnce(seal.pool, pool).catch(() => undefined)
      }
    },
    snapshot: async number => {
      for (;;) {
        const pool = pools.get(number)
        if (pool === undefined) return { commit: applied.now(), segments: [], release: () => undefined }
        if (pool.loaded) return pin(options, pool, applied.now())
        await loadOnce(number, pool)
      }
    },
    pinAll: () => {
      const entries = [...pools.values()].flatMap(pool => [...pool.segments.values()])
      return {
        pools: [...pools].map(([number, pool]) => ({ pool: number, ...viewOf(pool) })),
        release: pinEntries(options, entries),
      }
    },
    pool: number => {
      const pool = pools.get(number)
      return pool === undefined ? undefined : viewOf(pool)
    },
    drop: number => {
      const pool = pools.get(number)
      pools.delete(number)
      dropped.add(number)
      if (pool !== undefined) for (const segment of [...pool.segments.keys()]) giveUp(options, pool, segment)
    },
  }
}

function openPool(options: ManifestOptions, state: PoolState): PoolEntry {
  const segments = new Map<number, Entry>()
  let marked = 0
  for (const { marked: rows, ...meta } of state.segments) {
    segments.set(meta.segment, newEntry(options, state.pool, meta))
    marked += rows
  }
  const { sealedSequence, nextSegment } = state
  return { sealedSequence, nextSegment, segments, loaded: marked === 0, loading: undefined }
}

function newPool(pools: Map<number, PoolEntry>, number: number): PoolEntry {
  const pool: PoolEntry = {
    sealedSequence: 0,
    nextSegment: 1,
    segments: new Map(),
    loaded: true,
    loading: undefined,
  }
  pools.set(number, pool)
  return pool
}

function newEntry(options: ManifestOptions, pool: number, meta: SegmentMeta): Entry {
  const folder = options.folderOf(pool)
  const file = join(folder, segmentFile(meta.segment))
  const deletes = join(folder, deleteFile(meta.segment))
  return { meta, file, deletes, marks: [], pins: 0, replaced: false }
}

/** The segment of a seal that came after its pool was dropped: nobody will ever read it. */
function lateEntry(options: ManifestOptions, pool: number, meta: SegmentMeta): Entry {
  return { ...newEntry(options, pool, meta), replaced: true }
}

/** True: a segment has so many lists of marks that they should be read again as one. */
function applySeal(
  options: ManifestOptions,
  pool: PoolEntry,
  seal: SealCommit,
  { commit, marks }: SealCommitted,
): boolean {
  let crowded = false
  for (const { segment, rows } of marks) {
    const entry = pool.segments.get(segment)
    assert(entry !== undefined, 'marks name a segment of the manifest')
    entry.marks = [...entry.marks, { segment, rows, commit }]
    crowded ||= entry.marks.length > MARK_PARTS_MAX
  }
  for (const segment of seal.remove) giveUp(options, pool, segment)
  if (seal.add !== undefined) {
    pool.segments.set(seal.add.segment, newEntry(options, seal.pool, seal.add))
    pool.nextSegment = Math.max(pool.nextSegment, seal.add.segment + 1)
  }
  pool.sealedSequence = seal.sealedSequence
  return crowded
}

/** Replaces what is known of commits up to `commit` by `marks`; keeps what came after. */
function takeMarks(pool: PoolEntry, commit: number, marks: readonly MarkDelta[]): void {
  const base = new Map(marks.map(delta => [delta.segment, delta.rows]))
  for (const [segment, entry] of pool.segments) {
    const later = entry.marks.filter(part => part.commit > commit)
    const rows = base.get(segment)
    entry.marks = rows === undefined ? later : [{ segment, rows, commit }, ...later]
  }
  pool.loaded = true
}

function giveUp(options: ManifestOptions, pool: PoolEntry, segment: number): void {
  const entry = pool.segments.get(segment)
  assert(entry !== undefined, 'a segment that goes was there')
  pool.segments.delete(segment)
  entry.replaced = true
  freeIfUnused(options, entry)
}

function freeIfUnused(options: ManifestOptions, entry: Entry): void {
  if (!entry.replaced || entry.pins > 0) return
  const files: string[] = []
  if (entry.meta.rows > 0) files.push(entry.file)
  if (entry.meta.deletes > 0) files.push(entry.deletes)
  if (files.length > 0) options.onUnpinned(files)
}

function pin(options: ManifestOptions, pool: PoolEntry, commit: number): Snapshot {
  const entries = [...pool.segments.values()].filter(entry => entry.meta.rows > 0)
  entries.sort((a, b) => a.meta.segment - b.meta.segment)
  const release = pinEntries(options, entries)
  return { commit, segments: entries.map(({ file, meta, marks }) => ({ file, meta, marks })), release }
}

/** Pins; returns what releases them. */
function pinEntries(options: ManifestOptions, entries: readonly Entry[]): () => void {
  for (const entry of entries) entry.pins += 1
  let released = false
  return () => {
    assert(!released, 'a snapshot is released once')
    released = true
    for (const entry of entries) {
      entry.pins -= 1
      freeIfUnused(options, entry)
    }
  }
}

function viewOf({ sealedSequence, nextSegment, segments }: PoolEntry): PoolView {
  return { sealedSequence, nextSegment, segments: [...segments.values()].map(entry => entry.meta) }
}

/** The last commit applied, and waiting for a later one. At most one waits per pool that loads its marks. */
function createWaiter(start: number) {
  let last = start
  let waiting: { readonly commit: number; readonly go: () => void }[] = []
  return {
    now: () => last,
    set: (commit: number) => {
      assert(commit === last || commit === last + 1, 'commits are applied in order')
      last = commit
      const ready = waiting.filter(waiter => waiter.commit <= last)
      waiting = waiting.filter(waiter => waiter.commit > last)
      for (const waiter of ready) waiter.go()
    },
    reached: (commit: number): Promise<void> =>
      commit <= last
        ? Promise.resolve()
        : new Promise(resolve => {
            waiting.push({ commit, go: resolve })
          }),
  }
}
