/**
 * The store below the index: one ordered map of bytes to bytes, changed in transactions.
 *
 *   W-4  A transaction is on disk when `transact` returns, or nothing of it is there, or nothing may follow.
 *
 * Two implementations: store-native.ts (liblmdb's C interface) and store-lmdb.ts (lmdb-js). They write the
 * same files; only one of them has a folder open at a time, from one thread.
 */
import type { KeyRun } from './protocol.ts'

/** A key and its value. Both are copies that the caller owns. */
export type Entry = readonly [key: Uint8Array, value: Uint8Array]

/** Segment and row of a key that is not in the index. */
export const NOWHERE = 0xffff_ffff

/** What a swap found of its keys. */
export interface SwappedKeys {
  /** Rows of the run whose keys were left alone, sorted, those of row -1 left out. */
  readonly stale: Uint32Array
  /** Parallel to `gone`: how many keys of the run pointed into it. */
  readonly found: Uint32Array
}

/** What can be done inside a transaction. Keys are 1 to 1024 bytes. */
export interface KeyTxn {
  /** The value, a copy; undefined where there is none. */
  get(key: Uint8Array): Uint8Array | undefined
  put(key: Uint8Array, value: Uint8Array): void
  /** Whether it was there. */
  remove(key: Uint8Array): boolean
  /** At most `limit` entries with from ≤ key < to, ascending. */
  range(from: Uint8Array, to: Uint8Array, limit: number): Entry[]
  /** Removes at most `limit` entries with from ≤ key < to; returns how many. */
  removeRange(from: Uint8Array, to: Uint8Array, limit: number): number
  /**
   * Points each key of the run at (segment, its row), or removes it where the row is -1.
   * @returns (segment, row) pairs that keys pointed to before, sorted, all in one array
   */
  upsertKeys(prefix: Uint8Array, run: KeyRun, segment: number): Uint32Array
  /**
   * Each key of the run that points into a segment of `gone` is pointed at (segment, its row), or removed where the row
   * is -1. A key that points elsewhere or is not there stays as it is.
   * @param gone sorted
   */
  swapKeys(prefix: Uint8Array, run: KeyRun, segment: number, gone: Uint32Array): SwappedKeys
  /** Where each key of the run points: (segment, row) pairs in the run's order, NOWHERE twice where it is not there. */
  lookupKeys(prefix: Uint8Array, run: KeyRun): Uint32Array
  /** How many entries there are with from ≤ key < to. Walks over them: tens of ns each. */
  countRange(from: Uint8Array, to: Uint8Array): number
}

export interface KeyStore {
  readonly keyLoop: 'native' | 'js'
  /**
   * Runs `work` in the one write transaction. Durable when it returns; after a throw nothing changed, unless it throws
   * OutcomeUnknown (commit-failure.ts).
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
