/**
 * Reading of `data/index` without a change to it, for commands on a stopped folder. No rebuild, no sweep.
 *
 * LMDB trusts its pages: of a damaged file it may crash the process that reads it. `walkIndex` reads everything once,
 * and runs in a process of its own (command/probe.ts) before anybody relies on the file.
 */
import { join } from 'node:path'
import { Damaged } from '../errors.ts'
import { INDEX_MAP_BYTES, INDEX_SLICE_RECORDS } from '../limits.ts'
import { LMDB_FILES } from '../paths.ts'
import { must } from '../util/assert.ts'
import type { Disk } from '../util/disk.ts'
import { checkLmdbFile, lmdbUse } from '../util/lmdb-file.ts'
import { createIndex, type Index, readIdentity } from './index.ts'
import { failedToOpen, reasonToRebuild } from './open.ts'
import { after, decodeSegment, IDENTITY_KEY, poolKey, poolOfKey, TAG } from './record.ts'
import type { KeyStore, KeyTxn } from './store.ts'
import { openLmdbStore } from './store-lmdb.ts'
import { tryOpenNativeStore } from './store-native.ts'

interface LookOptions {
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
  /** Of the file, and those of them that hold something. */
  readonly bytes: number
  readonly bytesUsed: number
}

/** Opens the index of the folder `identity`; a text says why a start would rebuild it. Throws Damaged or CannotRun. */
export function lookAtIndex(options: LookOptions, identity: string): IndexLook | string {
  const { disk, folder } = options
  const file = join(folder, LMDB_FILES.data)
  if (!disk.exists(file)) return 'it is missing'
  const store = openForReading(options)
  const reason = reasonToRebuild(store, folder, identity)
  if (reason !== undefined) {
    store.close()
    return reason
  }
  const { commit, format } = readIdentity(store)!
  const { bytes, bytesUsed } = must(lmdbUse(folder, disk), 'an open index is an LMDB file')
  return { index: createIndex(store, identity), store, commit, format, bytes, bytesUsed }
}

/** Keys of a whole index by pool number. */
type KeyCounts = ReadonlyMap<number, number>

/**
 * Reads every record: whoever reads the index afterwards meets no page that was not read here. Throws Damaged for a record
 * that is not in order or has no known form.
 */
export function walkIndex(options: LookOptions): KeyCounts {
  return inIndex(options, txn => checkRecords(txn, options.folder, Uint8Array.of(0), Uint8Array.of(0xff)))
}

/** The same without a look at each key, which the store counts: for those who look no key up afterwards. */
export function countIndex(options: LookOptions): KeyCounts {
  return inIndex(options, txn => {
    checkRecords(txn, options.folder, Uint8Array.of(0), Uint8Array.of(TAG.key))
    const keys = countKeys(txn)
    checkRecords(txn, options.folder, after(Uint8Array.of(TAG.key)), Uint8Array.of(0xff))
    return keys
  })
}

function inIndex(options: LookOptions, work: (txn: KeyTxn) => KeyCounts): KeyCounts {
  const store = openForReading(options)
  try {
    return store.transact(work)
  } catch (error) {
    throw error instanceof Damaged ? error : failedToOpen(options.folder, error)
  } finally {
    store.close()
  }
}

function countKeys(txn: KeyTxn): KeyCounts {
  const keys = new Map<number, number>()
  const end = after(Uint8Array.of(TAG.key))
  for (let from = Uint8Array.of(TAG.key); ; ) {
    const [first] = txn.range(from, end, 1)
    if (first === undefined) return keys
    const prefix = poolKey(TAG.key, poolOfKey(first[0]))
    from = after(prefix) as Uint8Array<ArrayBuffer>
    keys.set(poolOfKey(prefix), txn.countRange(prefix, from))
  }
}

/** Every record with from ≤ key < to. Returns how many keys of which pool are among them. */
function checkRecords(txn: KeyTxn, folder: string, from: Uint8Array, to: Uint8Array): KeyCounts {
  const file = join(folder, LMDB_FILES.data)
  const keys = new Map<number, number>()
  let before: Uint8Array | undefined
  for (;;) {
    const entries = txn.range(from, to, INDEX_SLICE_RECORDS)
    for (const [key, value] of entries) {
      if (before !== undefined && Buffer.compare(before, key) >= 0)
        throw new Damaged(file, 0, `its keys are not in order at ${Buffer.from(key).toString('hex')}`)
      const what = faultOf(key, value)
      if (what !== undefined)
        throw new Damaged(file, 0, `the record ${Buffer.from(key).toString('hex')} ${what}`)
      if (key[0] === TAG.key) keys.set(poolOfKey(key), (keys.get(poolOfKey(key)) ?? 0) + 1)
      before = key
    }
    if (before === undefined || entries.length < INDEX_SLICE_RECORDS) return keys
    from = Buffer.concat([before, Uint8Array.of(0)])
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
interface KeyEntry {
  readonly segment: number
  readonly row: number
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
