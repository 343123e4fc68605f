/**
 * Reading of `data/index` without a change to it, for commands on a stopped folder. No rebuild, no sweep.
 *
 * LMDB trusts its pages: of a damaged file it may crash the process that reads it. `walkIndex` reads everything once,
 * and runs in a process of its own (command/probe.ts) before anybody relies on the file.
 */
import { join } from 'node:path'
import { Damaged } from '../errors.ts'
import { INDEX_MAP_BYTES, INDEX_SLICE_RECORDS } from '../limits.ts'
import type { Disk } from '../util/disk.ts'
import { checkLmdbFile } from '../util/lmdb-file.ts'
import { createIndex, type Index, readIdentity } from './index.ts'
import { failedToOpen, reasonToRebuild } from './open.ts'
import { after, decodeSegment, IDENTITY_KEY, poolKey, poolOfKey, TAG } from './record.ts'
import type { KeyStore } from './store.ts'
import { openLmdbStore } from './store-lmdb.ts'
import { tryOpenNativeStore } from './store-native.ts'

export interface LookOptions {
  readonly disk: Disk
  /** Absolute: data/index. */
  readonly folder: string
  readonly kernel: 'native' | 'js'
}

/** An index that is read. */
export interface IndexLook {
  readonly index: Index
  readonly store: KeyStore
  readonly commit: number
  readonly format: number
  readonly bytes: number
}

/** Opens the index of the folder `identity`; a text says why a start would rebuild it. Throws Damaged or CannotRun. */
export function lookAtIndex(options: LookOptions, identity: string): IndexLook | string {
  const { disk, folder } = options
  const file = join(folder, 'data.mdb')
  if (!disk.exists(file)) return 'it is missing'
  const store = openForReading(options)
  const reason = reasonToRebuild(store, folder, identity)
  if (reason !== undefined) {
    store.close()
    return reason
  }
  const { commit, format } = readIdentity(store)!
  return { index: createIndex(store, identity), store, commit, format, bytes: disk.size(file) }
}

/** Counts of a whole index. */
export interface IndexCounts {
  /** Keys by pool number. */
  readonly keys: ReadonlyMap<number, number>
  readonly records: number
}

/** Reads every record; throws Damaged for one that is not in order or has no known form. */
export function walkIndex(options: LookOptions): IndexCounts {
  const { folder } = options
  const store = openForReading(options)
  const file = join(folder, 'data.mdb')
  const keys = new Map<number, number>()
  let records = 0
  const end = Uint8Array.of(0xff)
  let from = Uint8Array.of(0)
  let before: Uint8Array | undefined
  try {
    for (;;) {
      const entries = store.transact(txn => txn.range(from, end, INDEX_SLICE_RECORDS))
      for (const [key, value] of entries) {
        if (before !== undefined && Buffer.compare(before, key) >= 0)
          throw new Damaged(file, 0, `its keys are not in order at ${Buffer.from(key).toString('hex')}`)
        const what = faultOf(key, value)
        if (what !== undefined)
          throw new Damaged(file, 0, `the record ${Buffer.from(key).toString('hex')} ${what}`)
        if (key[0] === TAG.key) keys.set(poolOfKey(key), (keys.get(poolOfKey(key)) ?? 0) + 1)
        before = key
        records += 1
      }
      if (before === undefined || entries.length < INDEX_SLICE_RECORDS) return { keys, records }
      from = Buffer.concat([before, Uint8Array.of(0)])
    }
  } catch (error) {
    throw error instanceof Damaged ? error : failedToOpen(folder, error)
  } finally {
    store.close()
  }
}

/** What is wrong with a record's form; undefined where it can be read. */
function faultOf(key: Uint8Array, value: Uint8Array): string | undefined {
  switch (key[0]) {
    case TAG.identity:
      return key.byteLength === IDENTITY_KEY.byteLength ? jsonFault(value) : 'has a long key'
    case TAG.key:
      return key.byteLength > 5 && value.byteLength >= 8 ? undefined : 'points nowhere'
    case TAG.mark:
      return key.byteLength === 17 && value.byteLength % 4 === 0 ? undefined : 'holds no row numbers'
    case TAG.pool:
      return key.byteLength === 5 ? jsonFault(value) : 'has a long key'
    case TAG.segment:
      if (key.byteLength !== 9 || value.byteLength < 4) return 'holds no segment'
      try {
        return decodeSegment(value).meta === null ? 'holds no segment' : undefined
      } catch {
        return 'is not JSON'
      }
    default:
      return 'is of no known kind'
  }
}

function jsonFault(value: Uint8Array): string | undefined {
  try {
    return typeof JSON.parse(new TextDecoder().decode(value)) === 'object' ? undefined : 'is no object'
  } catch {
    return 'is not JSON'
  }
}

/** The files are there: LMDB would make them. Nothing is synced, because nothing is written. */
function openForReading({ disk, folder, kernel }: LookOptions): KeyStore {
  checkLmdbFile(folder, disk)
  const options = { folder, mapBytes: INDEX_MAP_BYTES }
  try {
    return (kernel === 'native' ? tryOpenNativeStore(options) : undefined) ?? openLmdbStore(options)
  } catch (error) {
    throw failedToOpen(folder, error)
  }
}

/** Where a key points. */
export interface KeyEntry {
  readonly segment: number
  readonly row: number
}

/** Where each key points, in order; undefined: it is not there. */
export function readRowsOfKeys(
  store: KeyStore,
  pool: number,
  keys: readonly Uint8Array[],
): (KeyEntry | undefined)[] {
  const prefix = poolKey(TAG.key, pool)
  return store.transact(txn =>
    keys.map(key => {
      const value = txn.get(Buffer.concat([prefix, key]))
      return value === undefined ? undefined : entryOf(value)
    }),
  )
}

/** All keys of a pool and where they point, in bounded reads. */
export function* keysOfPool(store: KeyStore, pool: number): Generator<[key: Uint8Array, entry: KeyEntry]> {
  const prefix = poolKey(TAG.key, pool)
  const end = after(prefix)
  let from = prefix
  for (;;) {
    const entries = store.transact(txn => txn.range(from, end, INDEX_SLICE_RECORDS))
    for (const [key, value] of entries) yield [key.subarray(prefix.byteLength), entryOf(value)]
    const last = entries.at(-1)
    if (last === undefined || entries.length < INDEX_SLICE_RECORDS) return
    from = Buffer.concat([last[0], Uint8Array.of(0)])
  }
}

function entryOf(value: Uint8Array): KeyEntry {
  const view = new DataView(value.buffer, value.byteOffset, 8)
  return { segment: view.getUint32(0, true), row: view.getUint32(4, true) }
}
