/**
 * The manifest on the main thread: for each pool its segments and their deletion vectors, as of the
 * last synced commit.
 *
 *   W-8   A snapshot is one consistent state. The files that it names stay until it is released.
 *   W-4   Replaced files become obsolete only in `apply` and `applyCompaction`, which follow the
 *         sync. obsolete-segments.ts decides when they are removed.
 *   W-10  Deletion vectors are loaded at a pool's first query, not at start.
 *   W-11  A deletion vector is the list of parts that the index sent: nothing here walks over rows.
 */

import { sep } from 'node:path'
import type { SegmentMeta } from '../format/segment-meta.ts'
import { assert, must } from '../util/assert.ts'
import { deleteFile, segmentFile } from '../util/paths.ts'
import type {
  CompactionCommit,
  DeletionVector,
  FlushCommit,
  FlushCommitted,
  KeyIndex,
  ObsoleteSegment,
  PoolSegment,
  PoolState,
  QuerySegment,
} from './index-types.ts'
import { ObsoleteSegments, type SegmentPaths } from './obsolete-segments.ts'

/** Parts of a segment's deletion vector in the manifest; more are read again as one. */
const DELETION_VECTOR_PARTS_MAX = 64

/** The state that a query reads. `release` is called once, when the query ends. */
export interface Snapshot {
  readonly commit: number
  /** The segments with rows, by rising number. */
  readonly segments: readonly QuerySegment[]
  /**
   * All segments, by rising number, those of deletes alone too: a merge or a backup reads them.
   * Their delete files are pinned with them.
   */
  readonly all: readonly QuerySegment[]
  release(): void
}

/** The flushed part of a pool, as other stages see it. */
type FlushedPool = Pick<PoolState, 'flushedSequence' | 'nextSegment' | 'segments'>

export interface Manifest {
  /**
   * Applies a commit. Called once per commit, in their order, before anything waits on its results.
   */
  apply(flushes: readonly FlushCommit[], committed: readonly FlushCommitted[]): void
  /** Applies a compaction commit, in the order of the commits' numbers, as `apply` does. */
  applyCompaction(compaction: CompactionCommit, committed: FlushCommitted): void
  /**
   * The pool's state now, pinned. The first call waits for the pool's deletion vectors. Rejects
   * with Unavailable.
   */
  snapshot(pool: number): Promise<Snapshot>
  /**
   * Pins every file of every pool as of this turn. Returns the function that releases them, to be
   * called once.
   */
  pinAll(): () => void
  /** undefined where nothing of the pool is flushed. */
  pool(pool: number): FlushedPool | undefined
  /** The numbers of the pools of which something is flushed. */
  pools(): number[]
  /** Every live segment with the paths of its files, which are not pinned. */
  files(): readonly SegmentPaths[]
  /** True while the manifest names a segment of `files()`. */
  isLive(segment: SegmentPaths): boolean
  /**
   * Obsolete segments that no other segment covers and that a rebuild would still find: see
   * obsolete-segments.ts.
   */
  uncovered(pool: number): readonly ObsoleteSegment[]
  /** The start left unnamed files in the pool's folder: see ObsoleteSegments.keepUncovered. */
  keepUncovered(pool: number): void
  /** Forgets a deleted pool. Its files become obsolete as they are released. */
  drop(pool: number): void
}

interface ManifestOptions {
  /** As the index was opened. */
  readonly pools: readonly PoolState[]
  readonly lastCommit: number
  readonly readDeletionVectors: KeyIndex['readDeletionVectors']
  /** The absolute folder of a pool's segments. */
  readonly folderOf: (pool: number) => string
  /**
   * Unlinks files that no manifest and no snapshot names any more. They are durably gone when it
   * returns or its promise resolves.
   */
  readonly onUnpinned: (files: readonly string[]) => Promise<void> | void
  /** An uncovered obsolete segment of the pool is gone, so deletes that were kept for it may go. */
  readonly onUncoveredRemoved?: (pool: number) => void
}

interface ManifestPool {
  flushedSequence: number
  nextSegment: number
  readonly segments: Map<number, ManifestSegment>
  /** True once the deletion vectors from before the start are here. */
  loaded: boolean
  loading: Promise<void> | undefined
}

/** The manifest of an index just opened. */
export function createManifest(options: ManifestOptions): Manifest {
  const pools = new Map<number, ManifestPool>()
  for (const state of options.pools) pools.set(state.pool, openPool(options, state))
  /** Numbers are never used again. */
  const dropped = new Set<number>()
  const applied = createWaiter(options.lastCommit)
  const obsolete = new ObsoleteSegments(options.onUnpinned, options.onUncoveredRemoved)

  const load = async (number: number, pool: ManifestPool): Promise<void> => {
    const { commit, deletionVectors } = await options.readDeletionVectors(number)
    // The answer may be ahead of the manifest. With deleted rows of a commit whose new rows are not
    // known yet, rows would vanish.
    await applied.reached(commit)
    setDeletionVectors(pool, commit, deletionVectors)
  }
  const loadOnce = (number: number, pool: ManifestPool): Promise<void> => {
    pool.loading ??= load(number, pool).finally(() => {
      pool.loading = undefined
    })
    return pool.loading
  }
  return {
    apply: (flushes, committed) => {
      assert(flushes.length === committed.length, 'every flush has its answer')
      for (const [index, flush] of flushes.entries()) {
        const answer = committed[index] as FlushCommitted
        applied.set(answer.commit)
        if (dropped.has(flush.pool)) {
          retireLate(options, obsolete, flush.pool, flush.add)
          continue
        }
        const pool = pools.get(flush.pool) ?? newPool(pools, flush.pool)
        const hasManyParts = applyFlush(options, obsolete, pool, flush, answer)
        // Many short parts are read again as one. Queries go on with the present parts meanwhile.
        if (hasManyParts && pool.loaded) loadOnce(flush.pool, pool).catch(() => undefined)
      }
    },
    applyCompaction: (compaction, committed) => {
      applied.set(committed.commit)
      const pool = pools.get(compaction.pool)
      assert(pool !== undefined || dropped.has(compaction.pool), 'a compaction commit is of a known pool')
      if (pool === undefined) retireLate(options, obsolete, compaction.pool, compaction.add)
      else applyCompactionTo(options, obsolete, pool, compaction, committed)
    },
    snapshot: async number => {
      for (;;) {
        const pool = pools.get(number)
        if (pool === undefined)
          return { commit: applied.now(), segments: [], all: [], release: () => undefined }
        if (pool.loaded) return pin(obsolete, pool, applied.now())
        await loadOnce(number, pool)
      }
    },
    pool: number => viewOf(pools.get(number)),
    pools: () => [...pools.keys()],
    files: () => entriesOf(pools),
    isLive: ({ pool, meta }) => pools.get(pool)?.segments.get(meta.segment)?.meta === meta,
    pinAll: () => pinEntries(obsolete, entriesOf(pools)),
    uncovered: pool => obsolete.uncovered(pool),
    keepUncovered: pool => obsolete.keepUncovered(pool),
    drop: number => {
      const pool = pools.get(number)
      pools.delete(number)
      dropped.add(number)
      obsolete.drop(number)
      if (pool !== undefined) retire(obsolete, pool, [...pool.segments.keys()], false)
    },
  }
}

/** The segments of all pools. */
function entriesOf(pools: ReadonlyMap<number, ManifestPool>): ManifestSegment[] {
  return [...pools.values()].flatMap(({ segments }) => [...segments.values()])
}

function viewOf(pool: ManifestPool | undefined): FlushedPool | undefined {
  if (pool === undefined) return undefined
  const { flushedSequence, nextSegment, segments } = pool
  return {
    flushedSequence,
    nextSegment,
    segments: Array.from(segments.values(), ({ view }) => view),
  }
}

function openPool(options: ManifestOptions, state: PoolState): ManifestPool {
  const segments = new Map<number, ManifestSegment>()
  let deletedRows = 0
  for (const view of state.segments) {
    // NOTE: keep the view as it came. V8 gives each spread of a rest pattern a hidden class of its
    // own, and reads then take ten times as long.
    const { deletedRows: rows, ...meta } = view
    segments.set(meta.segment, newSegment(options.folderOf(state.pool), state.pool, meta, view))
    deletedRows += rows
  }
  const { flushedSequence, nextSegment } = state
  return { flushedSequence, nextSegment, segments, loaded: deletedRows === 0, loading: undefined }
}

function newPool(pools: Map<number, ManifestPool>, number: number): ManifestPool {
  const begun = { flushedSequence: 0, nextSegment: 1, loaded: true, loading: undefined }
  const pool: ManifestPool = { ...begun, segments: new Map() }
  pools.set(number, pool)
  return pool
}

/**
 * Applies one committed flush. Returns true where a deletion vector has so many parts that they
 * should be read again as one.
 */
function applyFlush(
  options: ManifestOptions,
  obsolete: ObsoleteSegments,
  pool: ManifestPool,
  flush: FlushCommit,
  { commit, deletionVectors }: FlushCommitted,
): boolean {
  if (flush.add !== undefined) {
    pool.segments.set(flush.add.segment, newSegment(options.folderOf(flush.pool), flush.pool, flush.add))
    pool.nextSegment = Math.max(pool.nextSegment, flush.add.segment + 1)
  }
  const hasManyParts = addDeletionVectors(pool, commit, deletionVectors)
  pool.flushedSequence = flush.flushedSequence
  retire(obsolete, pool, flush.remove, flush.add === undefined)
  return hasManyParts
}

function applyCompactionTo(
  options: ManifestOptions,
  obsolete: ObsoleteSegments,
  pool: ManifestPool,
  { pool: number, add, remove }: CompactionCommit,
  { commit, deletionVectors }: FlushCommitted,
): void {
  if (add !== undefined) {
    pool.segments.set(add.segment, newSegment(options.folderOf(number), number, add))
    pool.nextSegment = Math.max(pool.nextSegment, add.segment + 1)
    addDeletionVectors(pool, commit, deletionVectors)
  }
  retire(obsolete, pool, remove, add === undefined)
}

/**
 * Adds the rows that a commit superseded to the deletion vectors of their segments. Returns as
 * applyFlush does.
 */
function addDeletionVectors(
  pool: ManifestPool,
  commit: number,
  deletionVectors: readonly DeletionVector[],
): boolean {
  let hasManyParts = false
  for (const { segment, rows } of deletionVectors) {
    const entry = pool.segments.get(segment)
    assert(entry !== undefined, 'a deletion vector names a segment of the manifest')
    entry.deletionVectors = [...entry.deletionVectors, { segment, rows, commit }]
    entry.view = { ...entry.view, deletedRows: entry.view.deletedRows + rows.length }
    hasManyParts ||= entry.deletionVectors.length > DELETION_VECTOR_PARTS_MAX
  }
  return hasManyParts
}

/** Replaces the parts of commits up to `commit` by `deletionVectors`, and keeps later parts. */
function setDeletionVectors(
  pool: ManifestPool,
  commit: number,
  deletionVectors: readonly DeletionVector[],
): void {
  const base = new Map(deletionVectors.map(delta => [delta.segment, delta.rows]))
  for (const [segment, entry] of pool.segments) {
    const later = entry.deletionVectors.filter(part => part.commit > commit)
    const rows = base.get(segment)
    entry.deletionVectors = rows === undefined ? later : [{ segment, rows, commit }, ...later]
  }
  pool.loaded = true
}

/**
 * Makes the segment of a commit obsolete that came after its pool was dropped: nobody will ever
 * read it.
 */
function retireLate(
  options: ManifestOptions,
  obsolete: ObsoleteSegments,
  pool: number,
  add?: SegmentMeta,
): void {
  if (add !== undefined) obsolete.add([newSegment(options.folderOf(pool), pool, add)], false)
}

function retire(
  obsolete: ObsoleteSegments,
  pool: ManifestPool,
  segments: readonly number[],
  isUncovered: boolean,
): void {
  const entries = segments.map(segment => must(pool.segments.get(segment), 'a segment that goes'))
  for (const segment of segments) pool.segments.delete(segment)
  obsolete.add(entries, isUncovered)
}

function pin(obsolete: ObsoleteSegments, pool: ManifestPool, commit: number): Snapshot {
  const entries = [...pool.segments.values()].sort((a, b) => a.meta.segment - b.meta.segment)
  const all = entries.map(({ file, meta, deletionVectors }) => ({ file, meta, deletionVectors }))
  const segments = all.filter(({ meta }) => meta.rows > 0)
  return { commit, segments, all, release: pinEntries(obsolete, entries) }
}

function pinEntries(obsolete: ObsoleteSegments, entries: readonly ManifestSegment[]): () => void {
  for (const entry of entries) entry.pins += 1
  let released = false
  return () => {
    assert(!released, 'a snapshot is released once')
    released = true
    for (const entry of entries) entry.pins -= 1
    obsolete.released(entries)
  }
}

interface Part extends DeletionVector {
  readonly commit: number
}

/**
 * A segment of the manifest. Snapshots share it, so a replaced one lives on until the last of them
 * is released.
 */
interface ManifestSegment extends SegmentPaths {
  /** Never changed in place, because snapshots hold it. */
  deletionVectors: readonly Part[]
  /**
   * Counts the rows of all parts, loaded or not. It is made anew with them, so that reading a pool
   * of thousands makes no objects.
   */
  view: PoolSegment
  pins: number
}

/** A segment without deletion vector parts; `known` counts those that are not loaded. */
function newSegment(folder: string, pool: number, meta: SegmentMeta, known?: PoolSegment): ManifestSegment {
  // Not join(), which parses both names: a start makes tens of thousands of these.
  const file = `${folder}${sep}${segmentFile(meta.segment)}`
  const deletes = `${folder}${sep}${deleteFile(meta.segment)}`
  return {
    pool,
    meta,
    file,
    deletes,
    deletionVectors: [],
    view: known ?? { ...meta, deletedRows: 0 },
    pins: 0,
  }
}

/**
 * The last applied commit, and waiting for a later one. At most one caller waits per pool that
 * loads its deletion vectors.
 */
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
