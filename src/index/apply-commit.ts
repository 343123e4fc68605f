/**
 * The changes of one flush or one compaction commit to the store, inside the transaction of the
 * commit.
 *
 *   W-4  Everything of a commit changes in one transaction, the deletion vectors too.
 *   W-7  The rows that a flush's keys pointed to before join the deletion vectors of their
 *        segments. So do the flush's own rows whose version is below that of their key's row. A
 *        compaction commit moves all visible rows of the segments that it removes, or none.
 */
import { type KeyRun, viewRun } from '../format/key-run.ts'
import type { SegmentMeta } from '../format/segment-meta.ts'
import { assert, must, SegmentsDisagree } from '../util/errors.ts'
import { KiB } from '../util/limits.ts'
import {
  after,
  decodeDeletionVector,
  decodePool,
  decodeSegment,
  deletionVectorKey,
  deletionVectorPrefix,
  encodeDeletionVector,
  encodePool,
  encodeSegment,
  type PoolEntry,
  poolKey,
  type SegmentEntry,
  segmentKey,
  TAG,
} from './index-entry.ts'
import { entriesBetween, type KeyTxn } from './index-store.ts'
import type { CompactionCommit, DeletionVector, FlushCommit } from './index-types.ts'

/** Deletion vector entries that the index adds to one segment before it combines the short ones. */
export const DELETION_VECTOR_ENTRIES_MAX = 64
/** Bytes of a short deletion vector entry. Combining reads and writes 64 of them: 2 MiB. */
const DELETION_VECTOR_MERGE_BYTES_MAX = 32 * KiB

/** A pool that has no entry yet. */
const NEW_POOL: PoolEntry = { flushedSequence: 0, nextSegment: 1 }

/**
 * Applies `flush` as part of commit number `commit`. Returns the rows it superseded, by segment;
 * they may be its own.
 */
export function applyFlush(
  txn: KeyTxn,
  added: AddedEntries,
  flush: FlushCommit,
  commit: number,
): DeletionVector[] {
  const { pool, add, remove } = flush
  // Its entry comes first: rows of a lower version than their key's row are superseded at once.
  if (add !== undefined) txn.put(segmentKey(pool, add.segment), encodeSegment({ meta: add, deletedRows: 0 }))
  const deletionVectors = flush.keys === undefined ? [] : addSuperseded(txn, added, flush, commit)
  for (const segment of remove) removeSegment(txn, added, pool, segment)
  const before = txn.get(poolKey(TAG.pool, pool))
  txn.put(poolKey(TAG.pool, pool), encodePool(nextPool(before, flush.flushedSequence, add)))
  return deletionVectors
}

/**
 * Applies `compaction` as part of commit number `commit`. Returns the deletion vector of the new
 * segment: the rows that were updated or deleted while it was written (W-7).
 */
export function applyCompaction(
  txn: KeyTxn,
  added: AddedEntries,
  compaction: CompactionCommit,
  commit: number,
): DeletionVector[] {
  const { pool, add, remove, keys } = compaction
  const removed = Uint32Array.from(remove).sort()
  const entries = Array.from(removed, segment =>
    decodeSegment(
      must(txn.get(segmentKey(pool, segment)), 'a compaction commit replaces segments that are there'),
    ),
  )
  const rows =
    keys === undefined ? new Uint32Array(0) : moveKeysOfRemoved(txn, pool, keys, add, removed, entries)
  for (const segment of remove) removeSegment(txn, added, pool, segment)
  if (add === undefined) {
    assert(rows.length === 0, 'without a new segment no key has a row')
    return []
  }
  assert(rows.length <= add.rows, 'a segment has no more deleted rows than rows')
  txn.put(segmentKey(pool, add.segment), encodeSegment({ meta: add, deletedRows: rows.length }))
  raiseNextSegment(txn, pool, add.segment + 1)
  if (rows.length === 0) return []
  addDeletionVectorEntry(txn, added, pool, { segment: add.segment, rows, commit })
  return [{ segment: add.segment, rows }]
}

/**
 * Moves the keys of the visible rows. Returns the rows of the new segment whose keys point
 * elsewhere by now. Throws SegmentsDisagree.
 */
function moveKeysOfRemoved(
  txn: KeyTxn,
  pool: number,
  keys: KeyRun,
  add: SegmentMeta | undefined,
  removed: Uint32Array,
  segments: readonly SegmentEntry[],
): Uint32Array {
  const { superseded, found } = txn.moveKeys(poolKey(TAG.key, pool), keys, add?.segment ?? 0, removed)
  const disagreeing: number[] = []
  const places: string[] = []
  for (const [i, { meta, deletedRows }] of segments.entries()) {
    const visible = meta.rows - deletedRows
    if (found[i] === visible) continue
    disagreeing.push(meta.segment)
    places.push(
      `segment ${meta.segment} has ${visible} visible rows, of which it has the keys of ${found[i]}`,
    )
  }
  if (disagreeing.length === 0) return superseded
  throw new SegmentsDisagree(disagreeing, `the index does not agree with its segments: ${places.join(', ')}`)
}

/**
 * Points the keys of the flush at their new rows. Adds the rows that the keys pointed to before to
 * the deletion vectors, and rows of the flush that have a lower version than their key's row.
 */
function addSuperseded(
  txn: KeyTxn,
  added: AddedEntries,
  flush: FlushCommit,
  commit: number,
): DeletionVector[] {
  const { pool, add, remove, keys } = flush
  assert(add !== undefined && keys !== undefined, 'keys come with the segment that holds their rows')
  const pairs = txn.upsertKeys(poolKey(TAG.key, pool), keys, add.segment)
  const replaced = new Set(remove)
  const deletionVectors: DeletionVector[] = []
  for (const delta of groupPairs(pairs)) {
    assert(
      delta.segment !== add.segment || viewRun(keys).versions !== undefined,
      'a key stands in a run once',
    )
    // its rows stand in the new segment again, or are removed
    if (replaced.has(delta.segment)) continue
    const key = segmentKey(pool, delta.segment)
    const bytes = txn.get(key)
    // the segment was dropped by its age; its keys stay until they are written again
    if (bytes === undefined) continue
    const entry = decodeSegment(bytes)
    const deletedRows = entry.deletedRows + delta.rows.length
    assert(deletedRows <= entry.meta.rows, 'a segment has no more deleted rows than rows')
    txn.put(key, encodeSegment({ meta: entry.meta, deletedRows }))
    addDeletionVectorEntry(txn, added, pool, { ...delta, commit })
    deletionVectors.push(delta)
  }
  return deletionVectors
}

function removeSegment(txn: KeyTxn, added: AddedEntries, pool: number, segment: number): void {
  txn.remove(segmentKey(pool, segment))
  removeDeletionVectorEntries(txn, added, pool, segment)
}

export function raiseNextSegment(txn: KeyTxn, pool: number, nextSegment: number): void {
  const key = poolKey(TAG.pool, pool)
  const before = txn.get(key)
  const old = before === undefined ? NEW_POOL : decodePool(before)
  if (nextSegment > old.nextSegment) txn.put(key, encodePool({ ...old, nextSegment }))
}

function nextPool(
  before: Uint8Array | undefined,
  flushedSequence: number,
  add: SegmentMeta | undefined,
): PoolEntry {
  const old = before === undefined ? NEW_POOL : decodePool(before)
  assert(flushedSequence >= old.flushedSequence, 'the flushed sequence of a pool never falls')
  const nextSegment = add === undefined ? old.nextSegment : Math.max(old.nextSegment, add.segment + 1)
  const receivedToUs = Math.max(old.receivedToUs ?? 0, add?.receivedToUs ?? 0)
  return { flushedSequence, nextSegment, receivedToUs }
}

/**
 * Splits sorted (segment, row) pairs into one list of rows per segment.
 *
 *   W-7  A row is superseded once, because its key points elsewhere afterwards. Two equal pairs are
 *        a bug.
 */
function groupPairs(pairs: Uint32Array): DeletionVector[] {
  const groups: DeletionVector[] = []
  let from = 0
  while (from < pairs.length) {
    const segment = pairs[from] as number
    let to = from
    while (to < pairs.length && pairs[to] === segment) to += 2
    groups.push({ segment, rows: rowsOf(pairs, from, to) })
    from = to
  }
  return groups
}

function rowsOf(pairs: Uint32Array, from: number, to: number): Uint32Array {
  const rows = new Uint32Array((to - from) / 2)
  let last = -1
  for (let i = 0; i < rows.length; i++) {
    const row = pairs[from + 2 * i + 1] as number
    assert(row > last, 'a row is superseded once')
    rows[i] = row
    last = row
  }
  return rows
}

/** Merges sorted lists without common rows into one sorted list. */
export function mergeRows(parts: readonly Uint32Array[]): Uint32Array {
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return only
  let length = 0
  for (const part of parts) length += part.length
  const all = new Uint32Array(length)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all.sort()
}

/** Entries read in one step. */
const STEP_ENTRIES = 256

/**
 * How many deletion vector entries this process added to each segment since it merged them. A count
 * on disk would cost a read each time.
 */
export class AddedEntries {
  readonly #counts = new Map<number, Map<number, number>>()

  /** Counts one more entry and returns the count. */
  add(pool: number, segment: number): number {
    let ofPool = this.#counts.get(pool)
    if (ofPool === undefined) {
      ofPool = new Map()
      this.#counts.set(pool, ofPool)
    }
    const count = (ofPool.get(segment) ?? 0) + 1
    ofPool.set(segment, count)
    return count
  }

  /** The entries were merged, or the segment is gone. */
  forget(pool: number, segment: number): void {
    this.#counts.get(pool)?.delete(segment)
  }

  forgetPool(pool: number): void {
    this.#counts.delete(pool)
  }
}

/**
 * Adds rows to a deletion vector under the number of `commit`. Two flushes of a pool in one
 * transaction share an entry.
 */
function addDeletionVectorEntry(
  txn: KeyTxn,
  added: AddedEntries,
  pool: number,
  {
    segment,
    rows,
    commit,
  }: { readonly segment: number; readonly rows: Uint32Array; readonly commit: number },
): void {
  const key = deletionVectorKey(pool, segment, commit)
  const before = txn.get(key)
  txn.put(
    key,
    encodeDeletionVector(before === undefined ? rows : mergeRows([decodeDeletionVector(before), rows])),
  )
  if (before !== undefined || added.add(pool, segment) < DELETION_VECTOR_ENTRIES_MAX) return
  added.forget(pool, segment)
  mergeShortEntries(txn, pool, segment, commit)
}

/**
 * Merges the short entries into one, under the number of the running commit. Without that, months
 * of updates would leave an entry per commit.
 */
function mergeShortEntries(txn: KeyTxn, pool: number, segment: number, commit: number): void {
  const prefix = deletionVectorPrefix(pool, segment)
  const parts: Uint32Array[] = []
  for (const [key, value] of entriesBetween(txn, prefix, after(prefix), STEP_ENTRIES)) {
    if (value.byteLength > DELETION_VECTOR_MERGE_BYTES_MAX) continue
    parts.push(decodeDeletionVector(value))
    txn.remove(key)
  }
  if (parts.length > 0)
    txn.put(deletionVectorKey(pool, segment, commit), encodeDeletionVector(mergeRows(parts)))
}

/** Removes all deletion vector entries of a segment, in bounded steps. */
function removeDeletionVectorEntries(txn: KeyTxn, added: AddedEntries, pool: number, segment: number): void {
  added.forget(pool, segment)
  const prefix = deletionVectorPrefix(pool, segment)
  while (txn.removeRange(prefix, after(prefix), STEP_ENTRIES) === STEP_ENTRIES);
}
