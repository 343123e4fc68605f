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
import { DELETION_VECTOR_PARTS_MAX } from '../util/limits.ts'
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
export class Manifest {
  readonly #options: ManifestOptions
  readonly #pools = new Map<number, ManifestPool>()
  /** Deleted pools. Numbers are never used again. */
  readonly #dropped = new Set<number>()
  readonly #obsolete: ObsoleteSegments
  readonly #applied: ReturnType<typeof createWaiter>

  constructor(options: ManifestOptions) {
    this.#options = options
    this.#obsolete = new ObsoleteSegments(options.onUnpinned, options.onUncoveredRemoved)
    this.#applied = createWaiter(options.lastCommit)
    for (const state of options.pools) this.#pools.set(state.pool, openPool(options, state))
  }

  /**
   * Applies a commit. Called once per commit, in their order, before anything waits on its results.
   */
  apply(flushes: readonly FlushCommit[], committed: readonly FlushCommitted[]): void {
    assert(flushes.length === committed.length, 'every flush has its answer')
    for (const [index, flush] of flushes.entries()) {
      const answer = committed[index] as FlushCommitted
      this.#applied.set(answer.commit)
      if (this.#dropped.has(flush.pool)) {
        this.#retireLate(flush.pool, flush.add)
        continue
      }
      const pool = this.#pools.get(flush.pool) ?? this.#newPool(flush.pool)
      const hasManyParts = this.#applyFlush(pool, flush, answer)
      // Many short parts are read again as one. Queries go on with the present parts meanwhile.
      if (hasManyParts && pool.loaded) this.#loadOnce(flush.pool, pool).catch(() => undefined)
    }
  }

  /** Applies a compaction commit, in the order of the commits' numbers, as `apply` does. */
  applyCompaction(compaction: CompactionCommit, { commit, deletionVectors }: FlushCommitted): void {
    const { pool: number, add, remove } = compaction
    this.#applied.set(commit)
    const pool = this.#pools.get(number)
    assert(pool !== undefined || this.#dropped.has(number), 'a compaction commit is of a known pool')
    if (pool === undefined) {
      this.#retireLate(number, add)
      return
    }
    if (add !== undefined) {
      this.#addSegment(pool, number, add)
      addDeletionVectors(pool, commit, deletionVectors)
    }
    this.#retire(pool, remove, add === undefined)
  }

  /**
   * The pool's state now, pinned. The first call waits for the pool's deletion vectors. Rejects
   * with Unavailable.
   */
  async snapshot(number: number): Promise<Snapshot> {
    for (;;) {
      const pool = this.#pools.get(number)
      if (pool === undefined)
        return { commit: this.#applied.now(), segments: [], all: [], release: () => undefined }
      if (pool.loaded) return this.#pin(pool)
      await this.#loadOnce(number, pool)
    }
  }

  /**
   * Pins every file of every pool as of this turn. Returns the function that releases them, to be
   * called once.
   */
  pinAll(): () => void {
    return this.#pinEntries(this.#entries())
  }

  /** undefined where nothing of the pool is flushed. */
  pool(number: number): FlushedPool | undefined {
    const pool = this.#pools.get(number)
    if (pool === undefined) return undefined
    const { flushedSequence, nextSegment, segments } = pool
    return { flushedSequence, nextSegment, segments: Array.from(segments.values(), ({ view }) => view) }
  }

  /** The numbers of the pools of which something is flushed. */
  pools(): number[] {
    return [...this.#pools.keys()]
  }

  /** Every live segment with the paths of its files, which are not pinned. */
  files(): readonly SegmentPaths[] {
    return this.#entries()
  }

  /** True while the manifest names a segment of `files()`. */
  isLive({ pool, meta }: SegmentPaths): boolean {
    return this.#pools.get(pool)?.segments.get(meta.segment)?.meta === meta
  }

  /**
   * Obsolete segments that no other segment covers and that a rebuild would still find: see
   * obsolete-segments.ts.
   */
  uncovered(pool: number): readonly ObsoleteSegment[] {
    return this.#obsolete.uncovered(pool)
  }

  /** The start left unnamed files in the pool's folder: see ObsoleteSegments.keepUncovered. */
  keepUncovered(pool: number): void {
    this.#obsolete.keepUncovered(pool)
  }

  /** Forgets a deleted pool. Its files become obsolete as they are released. */
  drop(number: number): void {
    const pool = this.#pools.get(number)
    this.#pools.delete(number)
    this.#dropped.add(number)
    this.#obsolete.drop(number)
    if (pool !== undefined) this.#retire(pool, [...pool.segments.keys()], false)
  }

  async #load(number: number, pool: ManifestPool): Promise<void> {
    const { commit, deletionVectors } = await this.#options.readDeletionVectors(number)
    // The answer may be ahead of the manifest. With deleted rows of a commit whose new rows are not
    // known yet, rows would vanish.
    await this.#applied.reached(commit)
    setDeletionVectors(pool, commit, deletionVectors)
  }

  #loadOnce(number: number, pool: ManifestPool): Promise<void> {
    pool.loading ??= this.#load(number, pool).finally(() => {
      pool.loading = undefined
    })
    return pool.loading
  }

  /** The segments of all pools. */
  #entries(): ManifestSegment[] {
    return [...this.#pools.values()].flatMap(({ segments }) => [...segments.values()])
  }

  #newPool(number: number): ManifestPool {
    const begun = { flushedSequence: 0, nextSegment: 1, loaded: true, loading: undefined }
    const pool: ManifestPool = { ...begun, segments: new Map() }
    this.#pools.set(number, pool)
    return pool
  }

  /**
   * Applies one committed flush. Returns true where a deletion vector has so many parts that they
   * should be read again as one.
   */
  #applyFlush(pool: ManifestPool, flush: FlushCommit, { commit, deletionVectors }: FlushCommitted): boolean {
    if (flush.add !== undefined) this.#addSegment(pool, flush.pool, flush.add)
    const hasManyParts = addDeletionVectors(pool, commit, deletionVectors)
    pool.flushedSequence = flush.flushedSequence
    this.#retire(pool, flush.remove, flush.add === undefined)
    return hasManyParts
  }

  #addSegment(pool: ManifestPool, number: number, meta: SegmentMeta): void {
    pool.segments.set(meta.segment, newSegment(this.#options.folderOf(number), number, meta))
    pool.nextSegment = Math.max(pool.nextSegment, meta.segment + 1)
  }

  /**
   * Makes the segment of a commit obsolete that came after its pool was dropped: nobody will ever
   * read it.
   */
  #retireLate(pool: number, add: SegmentMeta | undefined): void {
    if (add !== undefined) this.#obsolete.add([newSegment(this.#options.folderOf(pool), pool, add)], false)
  }

  #retire(pool: ManifestPool, segments: readonly number[], isUncovered: boolean): void {
    const entries = segments.map(segment => must(pool.segments.get(segment), 'a segment that goes'))
    for (const segment of segments) pool.segments.delete(segment)
    this.#obsolete.add(entries, isUncovered)
  }

  #pin(pool: ManifestPool): Snapshot {
    const entries = [...pool.segments.values()].sort((a, b) => a.meta.segment - b.meta.segment)
    const all = entries.map(({ file, meta, deletionVectors }) => ({ file, meta, deletionVectors }))
    const segments = all.filter(({ meta }) => meta.rows > 0)
    return { commit: this.#applied.now(), segments, all, release: this.#pinEntries(entries) }
  }

  #pinEntries(entries: readonly ManifestSegment[]): () => void {
    for (const entry of entries) entry.pins += 1
    let released = false
    return () => {
      assert(!released, 'a snapshot is released once')
      released = true
      for (const entry of entries) entry.pins -= 1
      this.#obsolete.released(entries)
    }
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

/**
 * Adds the rows that a commit superseded to the deletion vectors of their segments. Returns as
 * Manifest.#applyFlush does.
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
