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
import type { ResultOf } from '../util/callee.ts'
import { assert, must } from '../util/errors.ts'
import { deleteFile, segmentFile } from '../util/paths.ts'
import {
  type CompactionCommit,
  type DeletionVector,
  emptyPool,
  type FlushCommit,
  type FlushCommitted,
  type IndexCalls,
  type ObsoleteSegment,
  type PoolSegment,
  type PoolState,
  type QuerySegment,
} from './index-types.ts'
import { ObsoleteSegments, type SegmentPaths } from './obsolete-segments.ts'

/** Parts of a segment's deletion vector in the manifest; more are read again as one. */
const DELETION_VECTOR_PARTS_MAX = 64

/** The state that a query reads. `release` is called once, when the query ends. */
export interface Snapshot {
  readonly commit: number
  /** See Manifest.version. */
  readonly version: number | undefined
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
  readonly readDeletionVectors: (pool: number) => Promise<ResultOf<IndexCalls['readDeletionVectors']>>
  /** The absolute folder of a pool's segments. */
  readonly folderOf: (pool: number) => string
  /**
   * Unlinks files that no manifest and no snapshot names any more. They are durably gone when it
   * returns or its promise resolves.
   */
  readonly onUnpinned: (files: readonly string[]) => Promise<void> | void
  /** A commit of this process added the segment, which the manifest knows by this object now. */
  readonly onAdded?: (meta: SegmentMeta) => void
  /** An uncovered obsolete segment of the pool is gone, so deletes that were kept for it may go. */
  readonly onUncoveredRemoved?: (pool: number) => void
}

interface ManifestPool {
  /** Absolute. */
  readonly folder: string
  flushedSequence: number
  nextSegment: number
  readonly segments: Map<number, ManifestSegment>
  version: number
  /** True once the deletion vectors from before the start are here. */
  loaded: boolean
  loading: Promise<void> | undefined
}

export class Manifest {
  readonly #options: ManifestOptions
  readonly #pools = new Map<number, ManifestPool>()
  /** Numbers are never used again. */
  readonly #dropped = new Set<number>()
  readonly #obsolete: ObsoleteSegments
  /** The last applied commit. */
  #commit: number
  /** The last version that a pool got. */
  #version = 0
  /** Loads of deletion vectors that wait for a later commit, one for each pool at most. */
  #waiting: { readonly commit: number; readonly go: () => void }[] = []

  constructor(options: ManifestOptions) {
    this.#options = options
    this.#commit = options.lastCommit
    this.#obsolete = new ObsoleteSegments(options.onUnpinned, options.onUncoveredRemoved)
    for (const state of options.pools) this.#pools.set(state.pool, this.#openPool(state))
  }

  /**
   * Applies a commit. Called once per commit, in their order, before anything waits on its results.
   */
  apply(flushes: readonly FlushCommit[], committed: readonly FlushCommitted[]): void {
    assert(flushes.length === committed.length, 'every flush has its answer')
    for (const [index, flush] of flushes.entries()) {
      const answer = committed[index] as FlushCommitted
      this.#setCommit(answer.commit)
      if (this.#dropped.has(flush.pool)) this.#retireLate(flush.pool, flush.add)
      else this.#applyFlush(flush, answer)
    }
  }

  /** Applies a compaction commit, in the order of the commits' numbers, as `apply` does. */
  applyCompaction({ pool: number, add, remove }: CompactionCommit, committed: FlushCommitted): void {
    this.#setCommit(committed.commit)
    const pool = this.#pools.get(number)
    assert(pool !== undefined || this.#dropped.has(number), 'a compaction commit is of a known pool')
    if (pool === undefined) {
      this.#retireLate(number, add)
      return
    }
    pool.version = ++this.#version
    if (add !== undefined) {
      this.#addSegment(number, pool, add)
      addDeletionVectors(pool, committed)
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
        return { commit: this.#commit, version: undefined, segments: [], all: [], release: () => undefined }
      if (pool.loaded) return this.#pinPool(pool)
      await this.#loadOnce(number, pool)
    }
  }

  /** undefined where nothing of the pool is flushed. */
  pool(number: number): FlushedPool | undefined {
    const pool = this.#pools.get(number)
    if (pool === undefined) return undefined
    const { flushedSequence, nextSegment, segments } = pool
    return { flushedSequence, nextSegment, segments: Array.from(segments.values(), ({ view }) => view) }
  }

  /** The highest sequence of the pool that is flushed; 0 for none. */
  flushedSequence(number: number): number {
    return this.#pools.get(number)?.flushedSequence ?? 0
  }

  /**
   * Equal as long as the pool has the same segments and deletion vectors: each commit of the pool
   * makes a new one, in this process. Undefined where nothing of the pool is flushed.
   */
  version(number: number): number | undefined {
    return this.#pools.get(number)?.version
  }

  /** The numbers of the pools of which something is flushed. */
  pools(): number[] {
    return [...this.#pools.keys()]
  }

  /** Every live segment with the paths of its files, which are not pinned. */
  files(): readonly SegmentPaths[] {
    return this.#allSegments()
  }

  /** True while the manifest names a segment of `files()`. */
  isLive({ pool, meta }: SegmentPaths): boolean {
    return this.#pools.get(pool)?.segments.get(meta.segment)?.meta === meta
  }

  /**
   * Pins every file of every pool as of this turn. Returns the function that releases them, to be
   * called once.
   */
  pinAll(): () => void {
    return this.#pin(this.#allSegments())
  }

  /** See ObsoleteSegments.uncovered. */
  uncovered(pool: number): readonly ObsoleteSegment[] {
    return this.#obsolete.uncovered(pool)
  }

  /** See ObsoleteSegments.keepUncovered. */
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

  #allSegments(): ManifestSegment[] {
    return [...this.#pools.values()].flatMap(({ segments }) => [...segments.values()])
  }

  #openPool(state: PoolState): ManifestPool {
    const folder = this.#options.folderOf(state.pool)
    const segments = new Map<number, ManifestSegment>()
    let deletedRows = 0
    for (const segment of state.segments) {
      segments.set(
        segment.segment,
        new ManifestSegment(state.pool, folder, poolSegment(segment, segment.deletedRows)),
      )
      deletedRows += segment.deletedRows
    }
    const { flushedSequence, nextSegment } = state
    const loads = { loaded: deletedRows === 0, loading: undefined }
    return { folder, flushedSequence, nextSegment, segments, version: ++this.#version, ...loads }
  }

  #newPool(number: number): ManifestPool {
    const pool = this.#openPool(emptyPool(number))
    this.#pools.set(number, pool)
    return pool
  }

  #applyFlush(flush: FlushCommit, committed: FlushCommitted): void {
    const pool = this.#pools.get(flush.pool) ?? this.#newPool(flush.pool)
    pool.version = ++this.#version
    if (flush.add !== undefined) this.#addSegment(flush.pool, pool, flush.add)
    const hasManyParts = addDeletionVectors(pool, committed)
    pool.flushedSequence = flush.flushedSequence
    this.#retire(pool, flush.remove, flush.add === undefined)
    // Many short parts are read again as one. Queries go on with the present parts meanwhile.
    if (hasManyParts && pool.loaded) this.#loadOnce(flush.pool, pool).catch(() => undefined)
  }

  #addSegment(number: number, pool: ManifestPool, meta: SegmentMeta): void {
    const segment = new ManifestSegment(number, pool.folder, poolSegment(meta, 0))
    pool.segments.set(meta.segment, segment)
    this.#options.onAdded?.(segment.meta)
    pool.nextSegment = Math.max(pool.nextSegment, meta.segment + 1)
  }

  #loadOnce(number: number, pool: ManifestPool): Promise<void> {
    pool.loading ??= this.#load(number, pool).finally(() => {
      pool.loading = undefined
    })
    return pool.loading
  }

  async #load(number: number, pool: ManifestPool): Promise<void> {
    const { commit, deletionVectors } = await this.#options.readDeletionVectors(number)
    // The answer may be ahead of the manifest. With deleted rows of a commit whose new rows are not
    // known yet, rows would vanish.
    if (commit > this.#commit)
      await new Promise<void>(resolve => {
        this.#waiting.push({ commit, go: resolve })
      })
    setDeletionVectors(pool, commit, deletionVectors)
  }

  #setCommit(commit: number): void {
    assert(commit === this.#commit || commit === this.#commit + 1, 'commits are applied in order')
    this.#commit = commit
    const ready = this.#waiting.filter(waiter => waiter.commit <= commit)
    this.#waiting = this.#waiting.filter(waiter => waiter.commit > commit)
    for (const waiter of ready) waiter.go()
  }

  /**
   * Makes the segment of a commit obsolete that came after its pool was dropped: nobody will ever
   * read it.
   */
  #retireLate(pool: number, add?: SegmentMeta): void {
    if (add === undefined) return
    const late = new ManifestSegment(pool, this.#options.folderOf(pool), poolSegment(add, 0))
    this.#obsolete.add([late], false)
  }

  #retire(pool: ManifestPool, segments: readonly number[], isUncovered: boolean): void {
    const entries = segments.map(segment => must(pool.segments.get(segment), 'a segment that goes'))
    for (const segment of segments) pool.segments.delete(segment)
    this.#obsolete.add(entries, isUncovered)
  }

  #pinPool(pool: ManifestPool): Snapshot {
    const entries = [...pool.segments.values()].sort((a, b) => a.meta.segment - b.meta.segment)
    const all = entries.map(({ file, meta, deletionVectors }) => ({ file, meta, deletionVectors }))
    const segments = all.filter(({ meta }) => meta.rows > 0)
    return { commit: this.#commit, version: pool.version, segments, all, release: this.#pin(entries) }
  }

  #pin(entries: readonly ManifestSegment[]): () => void {
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

const NO_PARTS: readonly Part[] = []

/**
 * A segment of a pool. It is no spread: V8 may give each a hidden class of its own, which takes
 * more memory than the segment, and reads of a thousand classes are slow.
 */
function poolSegment(meta: SegmentMeta, deletedRows: number): PoolSegment {
  return {
    segment: meta.segment,
    rows: meta.rows,
    bytes: meta.bytes,
    checksum: meta.checksum,
    schemaVersion: meta.schemaVersion,
    sequenceFrom: meta.sequenceFrom,
    sequenceTo: meta.sequenceTo,
    receivedFromUs: meta.receivedFromUs,
    receivedToUs: meta.receivedToUs,
    timestampFromUs: meta.timestampFromUs,
    timestampToUs: meta.timestampToUs,
    tenant: meta.tenant,
    deletes: meta.deletes,
    deletedRows,
  }
}

/**
 * Adds the rows that a commit superseded to the deletion vectors of their segments. Returns true
 * where a deletion vector has so many parts that they should be read again as one.
 */
function addDeletionVectors(pool: ManifestPool, { commit, deletionVectors }: FlushCommitted): boolean {
  let hasManyParts = false
  for (const { segment, rows } of deletionVectors) {
    const entry = pool.segments.get(segment)
    assert(entry !== undefined, 'a deletion vector names a segment of the manifest')
    entry.deletionVectors = [...entry.deletionVectors, { segment, rows, commit }]
    entry.view = poolSegment(entry.view, entry.view.deletedRows + rows.length)
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
 * is released. There may be hundreds of thousands, so the names of its files are made when they are
 * asked for.
 */
class ManifestSegment implements SegmentPaths {
  readonly pool: number
  /** The same object as long as the segment lives. */
  readonly meta: SegmentMeta
  readonly #folder: string
  #file: string | undefined
  /** Never changed in place, because snapshots hold it. */
  deletionVectors: readonly Part[] = NO_PARTS
  /**
   * Counts the rows of all parts, loaded or not. It is made anew with them, so that reading a pool
   * of thousands makes no objects.
   */
  view: PoolSegment
  pins = 0

  /** @param view it counts deleted rows whose parts are not loaded */
  constructor(pool: number, folder: string, view: PoolSegment) {
    this.pool = pool
    this.#folder = folder
    this.meta = view
    this.view = view
  }

  get file(): string {
    this.#file ??= `${this.#folder}${sep}${segmentFile(this.meta.segment)}`
    return this.#file
  }

  get deletes(): string {
    return `${this.#folder}${sep}${deleteFile(this.meta.segment)}`
  }
}
