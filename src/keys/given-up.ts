/**
 * Segments that the manifest gave up, until the removal of their files is durable.
 *
 *   W-6  A rebuild reads every file that is there, so each must still say the truth beside the others:
 *        - Of a replaced segment another one stands for its sequences, and the rebuild leaves it out: it may go at any time.
 *        - Of an emptied one (a merge left nothing of it) nothing does. Its rows are dead by deletes of newer segments: until
 *          it is gone, merges keep those (`emptied`). And it goes only after all files within its sequences, and with deletes
 *          after all emptied ones that are older: without it a rebuild would find their rows again.
 *   W-8  None goes while a snapshot holds it.
 *
 * What the disk refuses to remove is tried again when the pool gives up more, and by the sweep of the next start.
 */
import type { GivenUpSegment, SegmentMeta } from './protocol.ts'

/** A segment whose files nothing names any more. */
export interface GivenUpFiles {
  readonly pool: number
  readonly meta: SegmentMeta
  readonly file: string
  readonly deletes: string
  /** Snapshots that hold it. */
  readonly pins: number
}

/** Of one pool. */
interface PoolFiles {
  /** Until their removal is durable. */
  readonly all: Map<GivenUpFiles, { isUnderWay: boolean }>
  readonly emptied: Set<GivenUpFiles>
  /** Those that the disk refused to remove. */
  readonly refused: Set<GivenUpFiles>
}

/** A file of an earlier run, of which nobody knows what it holds. */
const STALE: GivenUpSegment = { rows: 1, sequenceFrom: 0, timestampFromUs: null, timestampToUs: null }

export class GivenUp {
  readonly #unlink: (files: readonly string[]) => Promise<void> | void
  readonly #onGone: (pool: number) => void
  readonly #pools = new Map<number, PoolFiles>()
  /** Pools with stale files: see `keepEmptied`. */
  readonly #stale = new Set<number>()

  /**
   * @param unlink removes files; they are gone for good when it returns or its promise resolves
   * @param onGone an emptied segment of the pool is gone: deletes that were kept for it may go
   */
  constructor(
    unlink: (files: readonly string[]) => Promise<void> | void,
    onGone: (pool: number) => void = () => {},
  ) {
    this.#unlink = unlink
    this.#onGone = onGone
  }

  /** Takes over segments of one pool. `isEmptied`: no other segment stands for them. */
  add(files: readonly GivenUpFiles[], isEmptied: boolean): void {
    const [first] = files
    if (first === undefined) return
    const pool: PoolFiles = this.#pools.get(first.pool) ?? {
      all: new Map(),
      emptied: new Set(),
      refused: new Set(),
    }
    this.#pools.set(first.pool, pool)
    for (const one of files) {
      pool.all.set(one, { isUnderWay: false })
      if (isEmptied) pool.emptied.add(one)
    }
    this.#go(first.pool, pool, new Set([...pool.refused, ...pool.emptied, ...files]))
  }

  /** Snapshots let these go; those that were not given up are left alone. */
  released(files: Iterable<GivenUpFiles>): void {
    const byPool = new Map<number, GivenUpFiles[]>()
    for (const one of files) {
      if (one.pins > 0 || this.#pools.get(one.pool)?.all.has(one) !== true) continue
      const ofPool = byPool.get(one.pool)
      if (ofPool === undefined) byPool.set(one.pool, [one])
      else ofPool.push(one)
    }
    for (const [number, ours] of byPool) {
      const pool = this.#pools.get(number)
      if (pool !== undefined) this.#go(number, pool, ours)
    }
  }

  /** Emptied segments of a pool that a rebuild would still find. */
  emptied(pool: number): GivenUpSegment[] {
    const found: GivenUpSegment[] = [...(this.#pools.get(pool)?.emptied ?? [])].map(({ meta }) => meta)
    return this.#stale.has(pool) ? [STALE, ...found] : found
  }

  /** The start left files of earlier runs in the pool's folder: what is emptied stays until the next start, for it may stand for them. */
  keepEmptied(pool: number): void {
    this.#stale.add(pool)
  }

  /** A deleted pool's files go in any order: its tombstone says what they are. */
  drop(number: number): void {
    this.#stale.delete(number)
    const pool = this.#pools.get(number)
    if (pool === undefined) return
    pool.emptied.clear()
    this.#go(number, pool, [...pool.all.keys()])
  }

  /** Removes those that may go now. */
  #go(number: number, pool: PoolFiles, files: Iterable<GivenUpFiles>): void {
    const going = [...files].filter(one => this.#mayGo(number, pool, one))
    if (going.length === 0) return
    for (const one of going) pool.all.set(one, { isUnderWay: true })
    const done = this.#unlink(going.flatMap(pathsOf))
    if (done === undefined) this.#gone(number, pool, going)
    else
      done.then(
        () => this.#gone(number, pool, going),
        () => {
          for (const one of going) {
            pool.all.set(one, { isUnderWay: false })
            pool.refused.add(one)
          }
        },
      )
  }

  #mayGo(number: number, { all, emptied }: PoolFiles, one: GivenUpFiles): boolean {
    if (one.pins > 0 || all.get(one)?.isUnderWay !== false) return false
    if (!emptied.has(one)) return true
    if (this.#stale.has(number)) return false
    for (const other of all.keys()) {
      if (other === one) continue
      if (isWithin(other.meta, one.meta)) return false
      if (one.meta.deletes > 0 && emptied.has(other) && isOlder(other.meta, one.meta)) return false
    }
    return true
  }

  #gone(number: number, pool: PoolFiles, files: readonly GivenUpFiles[]): void {
    let hadEmptied = false
    for (const one of files) {
      pool.all.delete(one)
      pool.refused.delete(one)
      hadEmptied = pool.emptied.delete(one) || hadEmptied
    }
    if (pool.all.size === 0) this.#pools.delete(number)
    this.#go(number, pool, [...pool.emptied])
    if (hadEmptied) this.#onGone(number)
  }
}

function pathsOf({ meta, file, deletes }: GivenUpFiles): string[] {
  return [...(meta.rows > 0 ? [file] : []), ...(meta.deletes > 0 ? [deletes] : [])]
}

function isWithin(inner: SegmentMeta, outer: SegmentMeta): boolean {
  return outer.sequenceFrom <= inner.sequenceFrom && inner.sequenceTo <= outer.sequenceTo
}

function isOlder(one: SegmentMeta, than: SegmentMeta): boolean {
  return one.sequenceTo < than.sequenceFrom
}
