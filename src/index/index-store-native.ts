/**
 * The key store over the native module: see index-store.ts. The loops over keys are in
 * native/key_loops.cpp.
 */

import { type KernelChoice, tryNative } from '../util/native.ts'
import {
  type KeyStore,
  type KeyTxn,
  type KeyValue,
  OutcomeUnknown,
  type StoreOptions,
} from './index-store.ts'

/** An open environment of the native module; opaque. */
type Handle = object

/** The operations of a transaction, each with the store as its first argument. */
type NativeTxn = {
  [Name in keyof KeyTxn as `lmdb${Capitalize<Name>}`]: (
    store: Handle,
    ...rest: Parameters<KeyTxn[Name]>
  ) => ReturnType<KeyTxn[Name]>
}

interface NativeLmdb extends Omit<NativeTxn, 'lmdbRange'> {
  lmdbOpen(folder: string, mapBytes: number): Handle
  lmdbClose(store: Handle): void
  lmdbBegin(store: Handle): void
  lmdbCommit(store: Handle): void
  lmdbAbort(store: Handle): void
  /** Keys and values in turn. */
  lmdbRange(store: Handle, from: Uint8Array, to: Uint8Array, limit: number): Uint8Array[]
}

/**
 * Opens the store, or returns undefined where the native module is not wanted or not built. Throws
 * LMDB's error (`code`).
 */
export function tryOpenNativeStore(options: StoreOptions, kernel?: KernelChoice): KeyStore | undefined {
  const lmdb = tryNative<NativeLmdb>(kernel)
  if (lmdb === undefined) return undefined
  const handle = lmdb.lmdbOpen(options.folder, options.mapBytes)
  const txn = txnOver(lmdb, handle)
  return {
    keyLoop: 'native',
    transact: work => transact(lmdb, handle, () => work(txn)),
    close: () => lmdb.lmdbClose(handle),
  }
}

function transact<T>(lmdb: NativeLmdb, handle: Handle, work: () => T): T {
  withPanicAsUnknown(() => lmdb.lmdbBegin(handle))
  let result: T
  try {
    result = work()
  } catch (error) {
    lmdb.lmdbAbort(handle)
    throw error
  }
  withPanicAsUnknown(() => lmdb.lmdbCommit(handle))
  return result
}

function withPanicAsUnknown(call: () => void): void {
  try {
    call()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw code === 'MDB_PANIC' ? new OutcomeUnknown(message) : error
  }
}

function txnOver(lmdb: NativeLmdb, handle: Handle): KeyTxn {
  return {
    get: key => lmdb.lmdbGet(handle, key),
    put: (key, value) => lmdb.lmdbPut(handle, key, value),
    remove: key => lmdb.lmdbRemove(handle, key),
    range: (from, to, limit) => pairs(lmdb.lmdbRange(handle, from, to, limit)),
    removeRange: (from, to, limit) => lmdb.lmdbRemoveRange(handle, from, to, limit),
    upsertKeys: (prefix, run, segment) => lmdb.lmdbUpsertKeys(handle, prefix, run, segment),
    moveKeys: (prefix, run, segment, replaced) => lmdb.lmdbMoveKeys(handle, prefix, run, segment, replaced),
    lookupKeys: (prefix, run) => lmdb.lmdbLookupKeys(handle, prefix, run),
    countRange: (from, to) => lmdb.lmdbCountRange(handle, from, to),
  }
}

function pairs(flat: readonly Uint8Array[]): KeyValue[] {
  const entries: KeyValue[] = []
  for (let i = 0; i + 1 < flat.length; i += 2)
    entries.push([flat[i] as Uint8Array, flat[i + 1] as Uint8Array])
  return entries
}
