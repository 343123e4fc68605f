/**
 * The index: what is sealed, where each key's row stands, and which rows are no longer visible.
 * Runs on the index thread and nowhere else.
 *
 *   W-4   Keys, marks, segments and sealed sequences of a commit change in one transaction, flushed before
 *         `commit` returns. A transaction that fails changes nothing.
 *   W-10  `state` reads a record per pool and segment, never one per row.
 */
import { Damaged, SegmentsDisagree, Unavailable } from '../errors.ts'
import { INDEX_SLICE_RECORDS } from '../limits.ts'
import { AssertionFailed, assert } from '../util/assert.ts'
import { crashPoint } from '../util/crash.ts'
import { OutcomeUnknown } from './commit-failure.ts'
import { KeyCost } from './key-cost.ts'
import { AddedRecords } from './mark-records.ts'
import { mergeRows } from './marks.ts'
import type { KeyRun, MarkDelta, PoolState, SealCommit, SealCommitted, SwapCommit } from './protocol.ts'
import {
  after,
  decodeIdentity,
  decodeMarks,
  decodePool,
  decodeSegment,
  encodeJson,
  IDENTITY_KEY,
  type IdentityRecord,
  INDEX_FORMAT,
  poolKey,
  poolOfKey,
  segmentOfKey,
  TAG,
} from './record.ts'
import { applySeal, applySwap, raiseNextSegment } from './seal.ts'
import type { Entry, KeyStore, KeyTxn } from './store.ts'

/** The index over an open store. All calls are synchronous; those that fail throw Unavailable, or OutcomeUnknown. */
export interface Index {
  /** One transaction for all seals, in their order. After a failure nothing of it is there. */
  commit(seals: readonly SealCommit[]): SealCommitted[]
  /** One transaction. After a failure (SegmentsDisagree too) nothing of it is there. Nothing happens in a pool that is being dropped. */
  swap(swap: SwapCommit): SealCommitted
  /** All marks of a pool, one sorted list per segment, as of the last commit. */
  readMarks(pool: number): { readonly commit: number; readonly marks: MarkDelta[] }
  /** One bounded step of removing a pool; true while there is more. Seals of it are ignored from then on. */
  dropSlice(pool: number): boolean
  state(): { readonly pools: PoolState[]; readonly lastCommit: number }
  /** Where each key of the run points: (segment, row) pairs, NOWHERE twice where it is not there. */
  lookupKeys(pool: number, run: KeyRun): Uint32Array
  /** Keys of a pool: exact, and a walk over all of them. */
  countKeys(pool: number): number
  /** Segment numbers below a pool's `nextSegment` are taken, whatever the segments say. One transaction. */
  raiseNextSegments(nextSegments: ReadonlyMap<number, number>): void
  /** Says on disk that the index is whole, or being rebuilt. */
  setComplete(complete: boolean): void
  close(): void
}

/** The identity record; undefined in an index that was never begun. */
export function readIdentity(store: KeyStore): IdentityRecord | undefined {
  const bytes = store.transact(txn => txn.get(IDENTITY_KEY))
  return bytes === undefined ? undefined : decodeIdentity(bytes)
}

/** The index of the data folder that `identity` names. `store` belongs to it from now on. */
export function createIndex(store: KeyStore, identity: string): Index {
  const dropped = new Set<number>()
  const added = new AddedRecords()
  let known = readIdentity(store) ?? { format: INDEX_FORMAT, identity, commit: 0, complete: false }
  assert(known.identity === identity, 'an index is opened by the folder it belongs to')
  /** Runs `work` and puts `next` in one transaction; `next` is known once that is on disk. */
  const change = <T>(next: IdentityRecord, work: (txn: KeyTxn) => T): T => {
    const result = guarded(() =>
      store.transact(txn => {
        const done = work(txn)
        txn.put(IDENTITY_KEY, encodeJson(next))
        return done
      }),
    )
    known = next
    return result
  }
  return {
    commit: seals => {
      assert(seals.length > 0, 'a commit has seals: the manifest counts commits by their answers')
      const commit = known.commit + 1
      const cost = new KeyCost()
      const committed = change({ ...known, commit }, txn => {
        const done = seals.map(seal => {
          const marks = cost.of(seal, () =>
            dropped.has(seal.pool) ? [] : applySeal(txn, added, seal, commit),
          )
          return { pool: seal.pool, commit, marks }
        })
        crashPoint('index.before-commit')
        return done
      })
      crashPoint('index.committed') // LMDB's commit is its flush: between the two there is no place
      return cost.tell(committed)
    },
    swap: swap => {
      const commit = known.commit + 1
      const cost = new KeyCost()
      const committed = change({ ...known, commit }, txn => {
        const marks = cost.of(swap, () => (dropped.has(swap.pool) ? [] : applySwap(txn, added, swap, commit)))
        crashPoint('index.before-swap')
        return { pool: swap.pool, commit, marks }
      })
      crashPoint('index.swapped')
      return cost.tell([committed])[0]!
    },
    readMarks: pool => ({
      commit: known.commit,
      marks: guarded(() => store.transact(txn => readMarks(txn, pool))),
    }),
    dropSlice: pool => {
      dropped.add(pool)
      added.forgetPool(pool)
      return guarded(() => store.transact(txn => dropSlice(txn, pool)))
    },
    state: () => ({ pools: guarded(() => store.transact(readPools)), lastCommit: known.commit }),
    lookupKeys: (pool, run) =>
      guarded(() => store.transact(txn => txn.lookupKeys(poolKey(TAG.key, pool), run))),
    countKeys: pool => {
      const prefix = poolKey(TAG.key, pool)
      return guarded(() => store.transact(txn => txn.countRange(prefix, after(prefix))))
    },
    raiseNextSegments: nextSegments =>
      change(known, txn => {
        for (const [pool, nextSegment] of nextSegments) raiseNextSegment(txn, pool, nextSegment)
      }),
    setComplete: complete => change({ ...known, complete }, () => undefined),
    close: () => store.close(),
  }
}

/** The world's fault becomes Unavailable; our own fault, damage, disagreement and an outcome that nobody knows stay what they are. */
function guarded<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const isMore =
      error instanceof AssertionFailed ||
      error instanceof Damaged ||
      error instanceof SegmentsDisagree ||
      error instanceof OutcomeUnknown
    if (isMore) throw error
    const what = error instanceof Error ? error.message : String(error)
    throw new Unavailable('index_failed', `the key index cannot be changed: ${what}`)
  }
}

/** All records that begin with `prefix`, in bounded reads. */
function* recordsOf(txn: KeyTxn, prefix: Uint8Array): Generator<Entry> {
  const end = after(prefix)
  let from = prefix
  for (;;) {
    const entries = txn.range(from, end, INDEX_SLICE_RECORDS)
    yield* entries
    const last = entries.at(-1)
    if (last === undefined || entries.length < INDEX_SLICE_RECORDS) return
    from = Buffer.concat([last[0], Uint8Array.of(0)])
  }
}

function readMarks(txn: KeyTxn, pool: number): MarkDelta[] {
  const parts = new Map<number, Uint32Array[]>()
  for (const [key, value] of recordsOf(txn, poolKey(TAG.mark, pool))) {
    const segment = segmentOfKey(key)
    const list = parts.get(segment)
    if (list === undefined) parts.set(segment, [decodeMarks(value)])
    else list.push(decodeMarks(value))
  }
  return [...parts].map(([segment, rows]) => ({ segment, rows: mergeRows(rows) }))
}

/** Every pool with its segments. Throws LMDB's error, or SyntaxError for a record that is none. */
export function readPools(txn: KeyTxn): PoolState[] {
  const segments = new Map<number, PoolState['segments'][number][]>()
  for (const [key, value] of recordsOf(txn, Uint8Array.of(TAG.segment))) {
    const { meta, marked } = decodeSegment(value)
    const list = segments.get(poolOfKey(key))
    if (list === undefined) segments.set(poolOfKey(key), [{ ...meta, marked }])
    else list.push({ ...meta, marked })
  }
  const pools: PoolState[] = []
  for (const [key, value] of recordsOf(txn, Uint8Array.of(TAG.pool))) {
    const pool = poolOfKey(key)
    pools.push({ pool, ...decodePool(value), segments: segments.get(pool) ?? [] })
  }
  return pools
}

/**
 * Segments first: the files are swept as soon as nothing names them. The pool's own record last: while it is
 * there, a start after a crash sees a pool that the catalog no longer knows, and drops it again.
 */
function dropSlice(txn: KeyTxn, pool: number): boolean {
  let room = INDEX_SLICE_RECORDS
  for (const tag of [TAG.segment, TAG.mark, TAG.key]) {
    const prefix = poolKey(tag, pool)
    room -= txn.removeRange(prefix, after(prefix), room)
    if (room === 0) return true
  }
  txn.remove(poolKey(TAG.pool, pool))
  return false
}
