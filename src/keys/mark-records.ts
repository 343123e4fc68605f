/**
 * The mark records of a segment: a commit adds one, and when there are many the short ones become one, in the same
 * transaction. Without that, months of updates would leave a record per commit.
 *
 *   W-4  Marks change only inside the transaction of their commit.
 */
import { MARK_RECORD_JOIN_BYTES_MAX, MARK_RECORDS_MAX } from '../limits.ts'
import { mergeRows } from './marks.ts'
import { after, decodeMarks, encodeMarks, markKey, markPrefix } from './record.ts'
import type { KeyTxn } from './store.ts'

/** Records read in one step. */
const STEP_RECORDS = 256

/** How many records this run added to each segment since it joined them: a count on disk would cost a read each time. */
export class AddedRecords {
  readonly #counts = new Map<number, Map<number, number>>()

  /** One more; returns how many. */
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

  /** They were joined, or the segment is gone. */
  forget(pool: number, segment: number): void {
    this.#counts.get(pool)?.delete(segment)
  }

  forgetPool(pool: number): void {
    this.#counts.delete(pool)
  }
}

/** Adds the rows that `commit` marks. Two seals of a pool may stand in one transaction: they share a record. */
export function addMarkRecord(
  txn: KeyTxn,
  added: AddedRecords,
  pool: number,
  {
    segment,
    rows,
    commit,
  }: { readonly segment: number; readonly rows: Uint32Array; readonly commit: number },
): void {
  const key = markKey(pool, segment, commit)
  const before = txn.get(key)
  txn.put(key, encodeMarks(before === undefined ? rows : mergeRows([decodeMarks(before), rows])))
  if (before !== undefined || added.add(pool, segment) < MARK_RECORDS_MAX) return
  added.forget(pool, segment)
  joinShort(txn, pool, segment, commit)
}

/** The short records become one, under the number of the commit that is under way. */
function joinShort(txn: KeyTxn, pool: number, segment: number, commit: number): void {
  const prefix = markPrefix(pool, segment)
  const end = after(prefix)
  const parts: Uint32Array[] = []
  for (let from = prefix; ; ) {
    const records = txn.range(from, end, STEP_RECORDS)
    for (const [key, value] of records) {
      if (value.byteLength > MARK_RECORD_JOIN_BYTES_MAX) continue
      parts.push(decodeMarks(value))
      txn.remove(key)
    }
    const last = records.at(-1)
    if (last === undefined || records.length < STEP_RECORDS) break
    from = Buffer.concat([last[0], Uint8Array.of(0)])
  }
  if (parts.length > 0) txn.put(markKey(pool, segment, commit), encodeMarks(mergeRows(parts)))
}

/** All records of a segment, in bounded steps. */
export function removeMarkRecords(txn: KeyTxn, added: AddedRecords, pool: number, segment: number): void {
  added.forget(pool, segment)
  const prefix = markPrefix(pool, segment)
  while (txn.removeRange(prefix, after(prefix), STEP_RECORDS) === STEP_RECORDS);
}
