/**
 * The key index: it knows which rows are flushed, where each key's row stands, and which rows are
 * no longer visible. It runs on the index thread and nowhere else.
 *
 *   W-4   Keys, deletion vectors, segments and flushed sequences of a commit change in one
 *         transaction, synced before `commit` returns. A transaction that fails changes nothing.
 *   W-10  `state` reads an entry per pool and segment, never one per row.
 */
import type { KeyRun } from '../format/key-run.ts'
import { monotonicMs } from '../util/clock.ts'
import { AssertionFailed, assert, Damaged, SegmentsDisagree, Unavailable } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { INDEX_SLICE_ENTRIES } from '../util/limits.ts'
import { AddedEntries, applyCompaction, applyFlush, mergeRows, raiseNextSegment } from './apply-commit.ts'
import {
  after,
  decodeDeletionVector,
  decodeIdentity,
  decodePool,
  decodeSegment,
  encodeIdentity,
  IDENTITY_KEY,
  type IdentityEntry,
  INDEX_FORMAT,
  poolKey,
  poolOfKey,
  segmentOfKey,
  TAG,
} from './index-entry.ts'
import { entriesBetween, type KeyStore, type KeyTxn, type KeyValue, OutcomeUnknown } from './index-store.ts'
import type {
  CompactionCommit,
  DeletionVector,
  FlushCommit,
  FlushCommitted,
  PoolState,
} from './index-types.ts'

/** Keys of a transaction that shows the cost per key. The sync alone takes some milliseconds. */
export const KEY_COST_KEYS_MIN = 4_096

/** The identity entry; undefined in an index that was never begun. */
export function readIdentity(store: KeyStore): IdentityEntry | undefined {
  const bytes = store.transact(txn => txn.get(IDENTITY_KEY))
  return bytes === undefined ? undefined : decodeIdentity(bytes)
}

/**
 * The index over an open store, which it owns. All calls are synchronous. A failing call throws
 * Unavailable or OutcomeUnknown.
 */
export class Index {
  readonly #store: KeyStore
  /** Pools that are being dropped. Their later commits are ignored. */
  readonly #dropped = new Set<number>()
  readonly #added = new AddedEntries()
  #known: IdentityEntry

  /** @param identity names the data folder that the index belongs to */
  constructor(store: KeyStore, identity: string) {
    this.#store = store
    this.#known = readIdentity(store) ?? { format: INDEX_FORMAT, identity, commit: 0, complete: false }
    assert(this.#known.identity === identity, 'an index is opened by the folder it belongs to')
  }

  /** One transaction for all flushes, in their order. After a failure nothing of it is there. */
  commit(flushes: readonly FlushCommit[]): FlushCommitted[] {
    assert(flushes.length > 0, 'a commit has flushes: the manifest counts commits by their answers')
    const committed = this.#commit(flushes, applyFlush, () => crashPoint('index.before-commit'))
    // LMDB's commit is its sync: nothing can be injected between the two.
    crashPoint('index.committed')
    return committed
  }

  /** One transaction. After a failure (SegmentsDisagree too) nothing of it is there. */
  commitCompaction(compaction: CompactionCommit): FlushCommitted {
    const beforeCommit = () => crashPoint('index.before-compaction-commit')
    const [committed] = this.#commit([compaction], applyCompaction, beforeCommit)
    crashPoint('index.compaction-committed')
    // Chance decides which merge it is, so tests cannot name its number.
    if (committed!.deletionVectors.length > 0) crashPoint('index.changed-rows-moved')
    return committed!
  }

  /** The deletion vectors of a pool, one sorted list per segment, as of the last commit. */
  readDeletionVectors(pool: number): { readonly commit: number; readonly deletionVectors: DeletionVector[] } {
    const deletionVectors = this.#transact(txn => readDeletionVectors(txn, pool))
    return { commit: this.#known.commit, deletionVectors }
  }

  /** One bounded step of removing a pool. Returns true while there is more. */
  dropSlice(pool: number): boolean {
    this.#dropped.add(pool)
    this.#added.forgetPool(pool)
    return this.#transact(txn => dropSlice(txn, pool))
  }

  state(): { readonly pools: PoolState[]; readonly lastCommit: number } {
    return { pools: this.#transact(readPools), lastCommit: this.#known.commit }
  }

  /** See KeyTxn.lookupKeys. */
  lookupKeys(pool: number, run: KeyRun): Uint32Array {
    return this.#transact(txn => txn.lookupKeys(poolKey(TAG.key, pool), run))
  }

  /** The exact number of a pool's keys. Walks over all of them. */
  countKeys(pool: number): number {
    const prefix = poolKey(TAG.key, pool)
    return this.#transact(txn => txn.countRange(prefix, after(prefix)))
  }

  /**
   * Reserves all segment numbers below each pool's `nextSegment`, whatever its segments say. One
   * transaction.
   */
  raiseNextSegments(nextSegments: ReadonlyMap<number, number>): void {
    this.#change(this.#known, txn => {
      for (const [pool, nextSegment] of nextSegments) raiseNextSegment(txn, pool, nextSegment)
    })
  }

  /** Records on disk that the index is whole, or being rebuilt. */
  setComplete(complete: boolean): void {
    this.#change({ ...this.#known, complete }, () => undefined)
  }

  close(): void {
    this.#store.close()
  }

  /** Applies the parts in one transaction, and nothing of pools that are being dropped. */
  #commit<Part extends FlushCommit | CompactionCommit>(
    parts: readonly Part[],
    apply: (txn: KeyTxn, added: AddedEntries, part: Part, commit: number) => DeletionVector[],
    beforeCommit: () => void,
  ): FlushCommitted[] {
    const commit = this.#known.commit + 1
    const cost = new KeyCost()
    const committed = this.#change({ ...this.#known, commit }, txn => {
      const done = parts.map(part => {
        const work = () => (this.#dropped.has(part.pool) ? [] : apply(txn, this.#added, part, commit))
        return { pool: part.pool, commit, deletionVectors: cost.measure(part, work) }
      })
      beforeCommit()
      return done
    })
    return cost.addTo(committed)
  }

  /** Puts the identity `next` with the changes of `work`. `next` is known after the sync. */
  #change<T>(next: IdentityEntry, work: (txn: KeyTxn) => T): T {
    const result = this.#transact(txn => {
      const done = work(txn)
      txn.put(IDENTITY_KEY, encodeIdentity(next))
      return done
    })
    this.#known = next
    return result
  }

  /**
   * Turns a failure of the disk into Unavailable. A bug, damage, disagreement and an unknown
   * outcome keep their error.
   */
  #transact<T>(work: (txn: KeyTxn) => T): T {
    try {
      return this.#store.transact(work)
    } catch (error) {
      const isKnown =
        error instanceof AssertionFailed ||
        error instanceof Damaged ||
        error instanceof SegmentsDisagree ||
        error instanceof OutcomeUnknown
      if (isKnown) throw error
      const what = error instanceof Error ? error.message : String(error)
      throw new Unavailable('index_failed', `the key index cannot be changed: ${what}`)
    }
  }
}

/** All entries whose keys begin with `prefix`. */
function entriesBelow(txn: KeyTxn, prefix: Uint8Array): Generator<KeyValue> {
  return entriesBetween(txn, prefix, after(prefix))
}

function readDeletionVectors(txn: KeyTxn, pool: number): DeletionVector[] {
  const parts = new Map<number, Uint32Array[]>()
  for (const [key, value] of entriesBelow(txn, poolKey(TAG.deletionVector, pool))) {
    const segment = segmentOfKey(key)
    const list = parts.get(segment)
    if (list === undefined) parts.set(segment, [decodeDeletionVector(value)])
    else list.push(decodeDeletionVector(value))
  }
  return [...parts].map(([segment, rows]) => ({ segment, rows: mergeRows(rows) }))
}

/**
 * Every pool with its segments. Throws LMDB's error, or SyntaxError for an entry that cannot be
 * read.
 */
export function readPools(txn: KeyTxn): PoolState[] {
  const segments = new Map<number, PoolState['segments'][number][]>()
  for (const [key, value] of entriesBelow(txn, Uint8Array.of(TAG.segment))) {
    const { meta, deletedRows } = decodeSegment(value)
    const list = segments.get(poolOfKey(key))
    if (list === undefined) segments.set(poolOfKey(key), [{ ...meta, deletedRows }])
    else list.push({ ...meta, deletedRows })
  }
  const pools: PoolState[] = []
  for (const [key, value] of entriesBelow(txn, Uint8Array.of(TAG.pool))) {
    const pool = poolOfKey(key)
    const entry = decodePool(value)
    const list = segments.get(pool) ?? []
    // Older versions of Weir wrote no received-at for the pool. The segments have it.
    const receivedToUs = list.reduce((to, one) => Math.max(to, one.receivedToUs), entry.receivedToUs ?? 0)
    pools.push({ pool, ...entry, receivedToUs, segments: list })
  }
  return pools
}

/**
 * Removes the segments first: their files are swept as soon as nothing names them. Removes the
 * pool's own entry last: while it is there, a start after a crash sees a pool that the catalog no
 * longer knows and drops it again.
 */
function dropSlice(txn: KeyTxn, pool: number): boolean {
  let room = INDEX_SLICE_ENTRIES
  for (const tag of [TAG.segment, TAG.deletionVector, TAG.key]) {
    const prefix = poolKey(tag, pool)
    room -= txn.removeRange(prefix, after(prefix), room)
    if (room === 0) return true
  }
  txn.remove(poolKey(TAG.pool, pool))
  return false
}

/**
 * Measures the time that the keys of one transaction take. Compaction moves no more keys at once
 * than flushes can wait for (store/compaction/merge-throttle.ts).
 */
class KeyCost {
  readonly #beginMs = monotonicMs()
  /** Keys and time of each flush or compaction, in order. */
  readonly #parts: { readonly keys: number; readonly ms: number }[] = []

  /** Runs and measures the part of one flush or compaction. */
  measure<T>({ keys }: { readonly keys: KeyRun | undefined }, work: () => T): T {
    const beginMs = monotonicMs()
    const result = work()
    const count = keys === undefined ? 0 : new Int32Array(keys, 0, 1)[0]!
    this.#parts.push({ keys: count, ms: monotonicMs() - beginMs })
    return result
  }

  /**
   * Adds to each result the time of its keys, once the transaction is synced: their own time, and
   * their share of all other time by the number of keys. A part without keys gets none. A part with
   * fewer than KEY_COST_KEYS_MIN keys gets no time per key.
   */
  addTo(committed: FlushCommitted[]): FlushCommitted[] {
    const own = this.#parts.reduce((sum, { ms }) => sum + ms, 0)
    const keysOfAll = this.#parts.reduce((sum, part) => sum + part.keys, 0)
    const shared = (monotonicMs() - this.#beginMs - own) / keysOfAll
    return committed.map((one, at) => {
      const { keys, ms } = this.#parts[at]!
      if (keys === 0) return one
      const keysMs = ms + keys * shared
      return keys < KEY_COST_KEYS_MIN
        ? { ...one, keysMs }
        : { ...one, keysMs, usPerKey: (1000 * keysMs) / keys }
    })
  }
}
