/**
 * Reads `data/index` without changing it, for commands on a stopped folder. It neither rebuilds nor
 * sweeps.
 *
 * LMDB trusts its pages, so a damaged file may crash the process that reads it. `walkIndex` reads
 * everything once and runs in a process of its own (workers/try-lmdb.ts) before anybody relies on
 * the file.
 */

import { join } from 'node:path'
import { VERSION_BYTES } from '../format/key.ts'
import { type KeyRun, viewRun } from '../format/key-run.ts'
import type { Disk } from '../util/disk.ts'
import { Damaged, must } from '../util/errors.ts'
import { checkLmdbFile, lmdbUse } from '../util/lmdb-file.ts'
import type { KernelChoice } from '../util/native.ts'
import { LMDB_FILES } from '../util/paths.ts'
import { after, decodeSegment, IDENTITY_KEY, PLACE_BYTES, poolKey, poolOfKey, TAG } from './index-entry.ts'
import { entriesBetween, type KeyStore, type KeyTxn } from './index-store.ts'
import { Index, readIdentity } from './key-index.ts'
import { failedToOpen, openKeyStore, reasonToRebuild } from './open-index.ts'

interface InspectOptions {
  readonly disk: Disk
  /** Absolute: data/index. */
  readonly folder: string
  readonly kernel: KernelChoice
}

/** An open index that is only read. */
export interface InspectedIndex {
  readonly index: Index
  readonly store: KeyStore
  readonly commit: number
  readonly format: number
  /** The bytes of the file, and how many of them hold something. */
  readonly bytes: number
  readonly bytesUsed: number
}

/**
 * Opens the index of the folder `identity`. Returns a text with the reason where a start would
 * rebuild the index. Throws Damaged or CannotRun.
 */
export function inspectIndex(options: InspectOptions, identity: string): InspectedIndex | string {
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
  return { index: new Index(store, identity), store, commit, format, bytes, bytesUsed }
}

type KeyCounts = ReadonlyMap<number, number>

/**
 * Reads every entry, so that later readers meet no page that was not read here. Throws Damaged for
 * an entry that is out of order or has no known form.
 */
export function walkIndex(options: InspectOptions): KeyCounts {
  return inIndex(options, txn => checkEntries(txn, options.folder, Uint8Array.of(0), Uint8Array.of(0xff)))
}

/** Does the same, but lets the store count the keys. For readers that look up no key afterwards. */
export function countIndex(options: InspectOptions): KeyCounts {
  return inIndex(options, txn => {
    checkEntries(txn, options.folder, Uint8Array.of(0), Uint8Array.of(TAG.key))
    const keys = countKeys(txn)
    checkEntries(txn, options.folder, after(Uint8Array.of(TAG.key)), Uint8Array.of(0xff))
    return keys
  })
}

function inIndex(options: InspectOptions, work: (txn: KeyTxn) => KeyCounts): KeyCounts {
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

/** Checks every entry with from ≤ key < to. Returns the number of keys among them, by pool. */
function checkEntries(txn: KeyTxn, folder: string, from: Uint8Array, to: Uint8Array): KeyCounts {
  const file = join(folder, LMDB_FILES.data)
  const keys = new Map<number, number>()
  let before: Uint8Array | undefined
  for (const [key, value] of entriesBetween(txn, from, to)) {
    if (before !== undefined && Buffer.compare(before, key) >= 0)
      throw new Damaged(file, 0, `its keys are not in order at ${Buffer.from(key).toString('hex')}`)
    const problem = problemOf(key, value)
    if (problem !== undefined)
      throw new Damaged(file, 0, `the entry ${Buffer.from(key).toString('hex')} ${problem}`)
    if (key[0] === TAG.key) keys.set(poolOfKey(key), (keys.get(poolOfKey(key)) ?? 0) + 1)
    before = key
  }
  return keys
}

/** The problem with an entry's form; undefined where it can be read. */
function problemOf(key: Uint8Array, value: Uint8Array): string | undefined {
  switch (key[0]) {
    case TAG.identity:
      return key.byteLength === IDENTITY_KEY.byteLength ? jsonProblem(value) : 'has a long key'
    case TAG.key:
      return key.byteLength > 5 && value.byteLength >= PLACE_BYTES ? undefined : 'points nowhere'
    case TAG.deletionVector:
      return key.byteLength === 17 && value.byteLength % 4 === 0 ? undefined : 'holds no row numbers'
    case TAG.pool:
      return key.byteLength === 5 ? jsonProblem(value) : 'has a long key'
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

function jsonProblem(value: Uint8Array): string | undefined {
  try {
    return typeof JSON.parse(new TextDecoder().decode(value)) === 'object' ? undefined : 'is no object'
  } catch {
    return 'is not JSON'
  }
}

/**
 * Opens existing files: LMDB would create missing ones. Nothing is synced, because nothing is
 * written.
 */
function openForReading({ disk, folder, kernel }: InspectOptions): KeyStore {
  checkLmdbFile(folder, disk)
  try {
    return openKeyStore(kernel, folder)
  } catch (error) {
    throw failedToOpen(folder, error)
  }
}

/** The place that a key points to. */
interface KeyEntry {
  readonly segment: number
  readonly row: number
}

/** All keys of a pool and their places, with a transaction for each bounded read. */
export function* keysOfPool(store: KeyStore, pool: number): Generator<[key: Uint8Array, entry: KeyEntry]> {
  const prefix = poolKey(TAG.key, pool)
  const range: KeyTxn['range'] = (...bounds) => store.transact(txn => txn.range(...bounds))
  for (const [key, value] of entriesBetween({ range }, prefix, after(prefix)))
    yield [key.subarray(prefix.byteLength), entryOf(value)]
}

function entryOf(value: Uint8Array): KeyEntry {
  const view = new DataView(value.buffer, value.byteOffset, 8)
  return { segment: view.getUint32(0, true), row: view.getUint32(4, true) }
}

/**
 * The version in the entry of each key of a run, VERSION_BYTES each in the run's order; zeros where
 * there is no entry or no version.
 */
export function lookupVersions(store: KeyStore, pool: number, run: KeyRun): Uint8Array {
  const { count, offsets, bytes } = viewRun(run)
  const prefix = poolKey(TAG.key, pool)
  const versions = new Uint8Array(VERSION_BYTES * count)
  store.transact(txn => {
    for (let i = 0; i < count; i++) {
      const value = txn.get(Buffer.concat([prefix, bytes.subarray(offsets[i], offsets[i + 1])]))
      if (value !== undefined && value.byteLength === PLACE_BYTES + VERSION_BYTES)
        versions.set(value.subarray(PLACE_BYTES), VERSION_BYTES * i)
    }
  })
  return versions
}
