/**
 * What one seal changes in the store, inside the transaction of its commit.
 *
 *   W-4  Everything of a seal is in one transaction.
 *   W-7  The rows that its keys pointed to before are marked. A swap moves all visible rows of the segments that go, or none.
 */
import { SegmentsDisagree } from '../errors.ts'
import { assert, must } from '../util/assert.ts'
import { type AddedRecords, addMarkRecord, removeMarkRecords } from './mark-records.ts'
import { groupPairs } from './marks.ts'
import type { KeyRun, MarkDelta, SealCommit, SegmentMeta, SwapCommit } from './protocol.ts'
import {
  decodePool,
  decodeSegment,
  encodeJson,
  encodeSegment,
  type PoolRecord,
  poolKey,
  type SegmentRecord,
  segmentKey,
  TAG,
} from './record.ts'
import type { KeyTxn } from './store.ts'

/** A pool that has no record yet. */
const NEW_POOL: PoolRecord = { sealedSequence: 0, nextSegment: 1 }

/** Applies `seal` as part of commit number `commit`; returns the marks it made, by segment. */
export function applySeal(txn: KeyTxn, added: AddedRecords, seal: SealCommit, commit: number): MarkDelta[] {
  const { pool, add, remove } = seal
  const marks = seal.keys === undefined ? [] : markSuperseded(txn, added, seal, commit)
  for (const segment of remove) removeSegment(txn, added, pool, segment)
  if (add !== undefined) txn.put(segmentKey(pool, add.segment), encodeSegment({ meta: add, marked: 0 }))
  const before = txn.get(poolKey(TAG.pool, pool))
  txn.put(poolKey(TAG.pool, pool), encodeJson(nextPool(before, seal.sealedSequence, add)))
  return marks
}

/**
 * Applies `swap` as part of commit number `commit`; returns the marks of the new segment: rows that were updated or
 * deleted while it was written (W-7).
 */
export function applySwap(txn: KeyTxn, added: AddedRecords, swap: SwapCommit, commit: number): MarkDelta[] {
  const { pool, add, remove, keys } = swap
  const gone = Uint32Array.from(remove).sort()
  const records = Array.from(gone, segment =>
    decodeSegment(must(txn.get(segmentKey(pool, segment)), 'a swap replaces segments that are there')),
  )
  const rows = keys === undefined ? new Uint32Array(0) : moveKeys(txn, pool, keys, add, gone, records)
  for (const segment of remove) removeSegment(txn, added, pool, segment)
  if (add === undefined) {
    assert(rows.length === 0, 'without a new segment no key has a row')
    return []
  }
  assert(rows.length <= add.rows, 'a segment has no more marks than rows')
  txn.put(segmentKey(pool, add.segment), encodeSegment({ meta: add, marked: rows.length }))
  raiseNextSegment(txn, pool, add.segment + 1)
  if (rows.length === 0) return []
  addMarkRecord(txn, added, pool, { segment: add.segment, rows, commit })
  return [{ segment: add.segment, rows }]
}

/** Moves the keys of the rows that are visible now; returns the rows whose keys had gone elsewhere. Throws SegmentsDisagree. */
function moveKeys(
  txn: KeyTxn,
  pool: number,
  keys: KeyRun,
  add: SegmentMeta | undefined,
  gone: Uint32Array,
  records: readonly SegmentRecord[],
): Uint32Array {
  const { stale, found } = txn.swapKeys(poolKey(TAG.key, pool), keys, add?.segment ?? 0, gone)
  const wrong: number[] = []
  const places: string[] = []
  for (const [i, { meta, marked }] of records.entries()) {
    const visible = meta.rows - marked
    if (found[i] === visible) continue
    wrong.push(meta.segment)
    places.push(`of ${visible} visible rows of segment ${meta.segment} it has the keys of ${found[i]}`)
  }
  if (wrong.length === 0) return stale
  throw new SegmentsDisagree(wrong, `the index does not agree with its segments: ${places.join(', ')}`)
}

/** Points the seal's keys at their rows and marks where they pointed to before. */
function markSuperseded(txn: KeyTxn, added: AddedRecords, seal: SealCommit, commit: number): MarkDelta[] {
  const { pool, add, remove, keys } = seal
  assert(add !== undefined && keys !== undefined, 'keys come with the segment that holds their rows')
  const pairs = txn.upsertKeys(poolKey(TAG.key, pool), keys, add.segment)
  const replaced = new Set(remove)
  const marks: MarkDelta[] = []
  for (const delta of groupPairs(pairs)) {
    assert(delta.segment !== add.segment, 'a key stands in a run once')
    if (replaced.has(delta.segment)) continue // those rows stand in the new segment again, or are gone
    const key = segmentKey(pool, delta.segment)
    const bytes = txn.get(key)
    if (bytes === undefined) continue // the segment was dropped by its age: its keys stay until written again
    const record = decodeSegment(bytes)
    const marked = record.marked + delta.rows.length
    assert(marked <= record.meta.rows, 'a segment has no more marks than rows')
    txn.put(key, encodeSegment({ meta: record.meta, marked }))
    addMarkRecord(txn, added, pool, { ...delta, commit })
    marks.push(delta)
  }
  return marks
}

function removeSegment(txn: KeyTxn, added: AddedRecords, pool: number, segment: number): void {
  txn.remove(segmentKey(pool, segment))
  removeMarkRecords(txn, added, pool, segment)
}

/** See Index. */
export function raiseNextSegment(txn: KeyTxn, pool: number, nextSegment: number): void {
  const key = poolKey(TAG.pool, pool)
  const before = txn.get(key)
  const old = before === undefined ? NEW_POOL : decodePool(before)
  if (nextSegment > old.nextSegment) txn.put(key, encodeJson({ ...old, nextSegment }))
}

function nextPool(
  before: Uint8Array | undefined,
  sealedSequence: number,
  add: SegmentMeta | undefined,
): PoolRecord {
  const old = before === undefined ? NEW_POOL : decodePool(before)
  assert(sealedSequence >= old.sealedSequence, 'the sealed sequence of a pool never falls')
  const nextSegment = add === undefined ? old.nextSegment : Math.max(old.nextSegment, add.segment + 1)
  return { sealedSequence, nextSegment }
}
