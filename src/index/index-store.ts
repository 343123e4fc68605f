/**
 * The key store below the index: one ordered map of bytes to bytes, changed in transactions.
 *
 *   W-4  When `transact` returns, its transaction is on disk. When it throws, nothing of the
 *        transaction is there, except after OutcomeUnknown: then no call may follow.
 *
 * There are two implementations: index-store-native.ts (liblmdb's C interface) and
 * index-store-lmdb.ts (lmdb-js). They write the same files. One thread at a time has a folder open,
 * through one of them.
 */

import type { KeyRun } from '../format/key-run.ts'
import { INDEX_SLICE_ENTRIES } from '../util/limits.ts'
import type { KernelChoice } from '../util/native.ts'

/** A key and its value. Both are copies that the caller owns. */
export type KeyValue = readonly [key: Uint8Array, value: Uint8Array]

/** Segment and row of a key that is not in the index. */
export const NOWHERE = 0xffff_ffff

/** The result of `moveKeys`. */
export interface MovedKeys {
  /**
   * Sorted rows of the run whose keys pointed elsewhere: they were updated or deleted meanwhile.
   */
  readonly superseded: Uint32Array
  /** Parallel to `replaced`: how many keys of the run pointed into it. */
  readonly found: Uint32Array
}

/** The operations of one transaction. Keys have 1 to 1,664 bytes. */
export interface KeyTxn {
  /** The value, a copy; undefined where there is none. */
  get(key: Uint8Array): Uint8Array | undefined
  put(key: Uint8Array, value: Uint8Array): void
  /** Returns true where the key was there. */
  remove(key: Uint8Array): boolean
  /** At most `limit` entries with from ≤ key < to, ascending. */
  range(from: Uint8Array, to: Uint8Array, limit: number): KeyValue[]
  /**
   * Removes at most `limit` entries with from ≤ key < to. Returns the number of removed entries.
   */
  removeRange(from: Uint8Array, to: Uint8Array, limit: number): number
  /**
   * Points each key of the run at (segment, its row), or removes it where the row is -1. In a run
   * with versions a row gets its key only where its version is not below that of the key's row, or
   * where it follows a delete (key-run.ts).
   * @returns (segment, row) pairs that keys pointed to before, and those of the run that did not
   *   get their key, sorted, all in one array
   */
  upsertKeys(prefix: Uint8Array, run: KeyRun, segment: number): Uint32Array
  /**
   * Points each key of the run that points into a segment of `replaced` at (segment, its row), or
   * removes it where the row is -1. A key that points elsewhere or is not there stays as it is. A
   * version stays with its key: the run needs none.
   * @param replaced sorted
   */
  moveKeys(prefix: Uint8Array, run: KeyRun, segment: number, replaced: Uint32Array): MovedKeys
  /**
   * Where each key of the run points: (segment, row) pairs in the run's order. A key that is not
   * there gives NOWHERE twice.
   */
  lookupKeys(prefix: Uint8Array, run: KeyRun): Uint32Array
  /** The number of entries with from ≤ key < to. Walks over them, which takes tens of ns each. */
  countRange(from: Uint8Array, to: Uint8Array): number
}

/** All entries with from ≤ key < to, ascending, read `step` at a time. */
export function* entriesBetween(
  txn: Pick<KeyTxn, 'range'>,
  from: Uint8Array,
  to: Uint8Array,
  step = INDEX_SLICE_ENTRIES,
): Generator<KeyValue> {
  for (let next = from; ; ) {
    const entries = txn.range(next, to, step)
    yield* entries
    const last = entries.at(-1)
    if (last === undefined || entries.length < step) return
    next = Buffer.concat([last[0], Uint8Array.of(0)])
  }
}

export interface KeyStore {
  readonly keyLoop: KernelChoice
  /**
   * Runs `work` in the one write transaction. The transaction is durable when the call returns.
   * After a throw nothing changed, unless the error is OutcomeUnknown.
   */
  transact<T>(work: (txn: KeyTxn) => T): T
  /** Releases the files. No transaction may be open. */
  close(): void
}

/** How a store is opened. */
export interface StoreOptions {
  readonly folder: string
  /** Address space of the map; the files grow as needed up to it. */
  readonly mapBytes: number
}

/**
 * The last write of a commit failed, so nobody knows whether the transaction is on disk. No call on
 * the store may follow.
 *
 *   W-4  LMDB writes the data pages, syncs them, and writes one meta page last. A failure before
 *        the meta page (a full disk) leaves nothing of the transaction, and the next attempt writes
 *        and syncs its own pages. After a failed write of the meta page, a power cut may leave the
 *        state before or after. Then nothing may be unlinked, answered or committed: the process
 *        ends, and the next start reads and syncs the state that is there.
 */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'

  /** @param cause the write that failed */
  constructor(cause: string) {
    super(
      `a commit of the index failed at its last write (${cause}): it is unknown whether the commit is on disk`,
    )
  }
}
