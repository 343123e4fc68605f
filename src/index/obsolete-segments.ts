/**
 * Obsolete segments: no manifest names them any more, and the removal of their files is not durable
 * yet.
 *
 *   W-6  A rebuild reads every file that is there, so each must agree with the others:
 *        - A replaced segment is covered: another segment holds its sequences, and the rebuild
 *          leaves it out. It may go at any time.
 *        - A segment of which a merge left nothing is uncovered. Its rows are expired, or dead by
 *          rows and deletes of newer segments. Merges keep those deletes until it is gone
 *          (`uncovered`). It goes only after all files within its sequences, and if it has deletes,
 *          after all older uncovered ones. Otherwise a rebuild would find their rows again.
 *   W-8  None goes while a snapshot holds it.
 *
 * A removal that the disk refuses is tried again when more segments of the pool become obsolete,
 * and by the sweep of the next start.
 */
import { hasDeleteFile, isWithin, type SegmentMeta } from '../format/segment-meta.ts'
import type { ObsoleteSegment } from './index-types.ts'

/** A segment and its files: `deletes` is the path of its delete file. It may have one of them. */
export interface SegmentPaths {
  readonly pool: number
  readonly meta: SegmentMeta
  readonly file: string
  readonly deletes: string
}

/** A segment whose files nothing names any more. */
export interface ObsoleteFiles extends SegmentPaths {
  /** The number of snapshots that hold it. */
  readonly pins: number
}

interface PoolFiles {
  /** All of them, until their removal is durable. */
  readonly all: Map<ObsoleteFiles, { isBeingRemoved: boolean }>
  readonly uncovered: Set<ObsoleteFiles>
}

/** Stands for a file of an earlier run, whose content is unknown. */
const UNKNOWN_SEGMENT: ObsoleteSegment = {
  rows: 1,
  sequenceFrom: 0,
  timestampFromUs: null,
  timestampToUs: null,
}

export class ObsoleteSegments {
  readonly #unlink: (files: readonly string[]) => Promise<void> | void
  readonly #onUncoveredGone: (pool: number) => void
  readonly #pools = new Map<number, PoolFiles>()
  /** Pools with files of earlier runs: see `keepUncovered`. */
  readonly #withOrphans = new Set<number>()

  /**
   * @param unlink removes files; they are durably gone when it returns or its promise resolves
   * @param onUncoveredGone an uncovered segment of the pool is gone: deletes that were kept for it
   *   may go
   */
  constructor(
    unlink: (files: readonly string[]) => Promise<void> | void,
    onUncoveredGone: (pool: number) => void = () => {},
  ) {
    this.#unlink = unlink
    this.#onUncoveredGone = onUncoveredGone
  }

  /** Takes over segments of one pool. `isUncovered`: no other segment holds their sequences. */
  add(files: readonly ObsoleteFiles[], isUncovered: boolean): void {
    const [first] = files
    if (first === undefined) return
    const pool: PoolFiles = this.#pools.get(first.pool) ?? { all: new Map(), uncovered: new Set() }
    this.#pools.set(first.pool, pool)
    for (const one of files) {
      pool.all.set(one, { isBeingRemoved: false })
      if (isUncovered) pool.uncovered.add(one)
    }
    this.#removeReady(first.pool, pool, pool.all.keys())
  }

  /** Snapshots released these segments. Segments that are not obsolete are left alone. */
  released(files: Iterable<ObsoleteFiles>): void {
    const byPool = new Map<number, ObsoleteFiles[]>()
    for (const one of files) {
      if (one.pins > 0 || this.#pools.get(one.pool)?.all.has(one) !== true) continue
      const ofPool = byPool.get(one.pool)
      if (ofPool === undefined) byPool.set(one.pool, [one])
      else ofPool.push(one)
    }
    for (const [number, ours] of byPool) {
      const pool = this.#pools.get(number)
      if (pool !== undefined) this.#removeReady(number, pool, ours)
    }
  }

  /** Uncovered segments of a pool that a rebuild would still find. */
  uncovered(pool: number): ObsoleteSegment[] {
    const found: ObsoleteSegment[] = [...(this.#pools.get(pool)?.uncovered ?? [])].map(({ meta }) => meta)
    return this.#withOrphans.has(pool) ? [UNKNOWN_SEGMENT, ...found] : found
  }

  /**
   * The start left files of earlier runs in the pool's folder. Uncovered segments stay until the
   * next start, because they may cover those files.
   */
  keepUncovered(pool: number): void {
    this.#withOrphans.add(pool)
  }

  /**
   * Removes a deleted pool's files in any order: its tombstone tells a rebuild to leave them out.
   */
  drop(number: number): void {
    this.#withOrphans.delete(number)
    const pool = this.#pools.get(number)
    if (pool === undefined) return
    pool.uncovered.clear()
    this.#removeReady(number, pool, pool.all.keys())
  }

  /** Removes those files that may go now. */
  #removeReady(number: number, pool: PoolFiles, files: Iterable<ObsoleteFiles>): void {
    const ready = [...files].filter(one => this.#isReady(number, pool, one))
    if (ready.length === 0) return
    for (const one of ready) pool.all.set(one, { isBeingRemoved: true })
    const done = this.#unlink(ready.flatMap(pathsOf))
    if (done === undefined) this.#onRemoved(number, pool, ready)
    else
      done.then(
        () => this.#onRemoved(number, pool, ready),
        () => {
          for (const one of ready) pool.all.set(one, { isBeingRemoved: false })
        },
      )
  }

  #isReady(number: number, { all, uncovered }: PoolFiles, one: ObsoleteFiles): boolean {
    if (one.pins > 0 || all.get(one)?.isBeingRemoved !== false) return false
    if (!uncovered.has(one)) return true
    if (this.#withOrphans.has(number)) return false
    for (const other of all.keys()) {
      if (other === one) continue
      if (isWithin(other.meta, one.meta)) return false
      if (one.meta.deletes > 0 && uncovered.has(other) && isOlder(other.meta, one.meta)) return false
    }
    return true
  }

  #onRemoved(number: number, pool: PoolFiles, files: readonly ObsoleteFiles[]): void {
    let hadUncovered = false
    for (const one of files) {
      pool.all.delete(one)
      hadUncovered = pool.uncovered.delete(one) || hadUncovered
    }
    if (pool.all.size === 0) this.#pools.delete(number)
    this.#removeReady(number, pool, [...pool.uncovered])
    if (hadUncovered) this.#onUncoveredGone(number)
  }
}

function pathsOf({ meta, file, deletes }: ObsoleteFiles): string[] {
  return [...(meta.rows > 0 ? [file] : []), ...(hasDeleteFile(meta) ? [deletes] : [])]
}

function isOlder(one: SegmentMeta, than: SegmentMeta): boolean {
  return one.sequenceTo < than.sequenceFrom
}
