/**
 * The key store over lmdb-js: the fallback where the native module is not built. See
 * index-store.ts.
 *
 * Only `transactionSync` with `overlappingSync: false` is used. Any other way makes a change
 * visible before it is on disk.
 */
import type * as Lmdb from 'lmdb'
import type { Key, RootDatabase } from 'lmdb'
import { VERSION_BYTES } from '../format/key.ts'
import { type KeyRun, rowOfWord, viewRun } from '../format/key-run.ts'
import { must } from '../util/errors.ts'
import { loadPackage } from '../util/load-package.ts'
import { PLACE_BYTES } from './index-entry.ts'
import {
  type KeyStore,
  type KeyTxn,
  type KeyValue,
  type MovedKeys,
  NOWHERE,
  OutcomeUnknown,
  type StoreOptions,
} from './index-store.ts'

/** Opens the store. Throws LMDB's error. */
export function openLmdbStore(options: StoreOptions): KeyStore {
  const { open } = loadPackage('lmdb') as typeof Lmdb
  const root = open({
    path: options.folder,
    name: null as unknown as string, // the unnamed database, as the native store uses
    noSubdir: false,
    mapSize: options.mapBytes,
    permissionsMode: 0o600,
    overlappingSync: false,
    keyEncoding: 'binary',
    encoding: 'binary',
    cache: false,
    compression: false,
    useVersions: false,
    eventTurnBatching: false,
  } as unknown as Parameters<typeof open>[0]) as RootDatabase<Buffer, Key>
  const txn = txnOver(root)
  return {
    keyLoop: 'js',
    transact: work => transact(root, () => work(txn)),
    close: () => {
      void root.close() // synchronous where no asynchronous write is queued, and none ever is
    },
  }
}

function transact<T>(root: RootDatabase<Buffer, Key>, work: () => T): T {
  try {
    return root.transactionSync(work)
  } catch (error) {
    throw isBroken(root) ? new OutcomeUnknown((error as Error).message) : error
  }
}

/**
 * True where a commit failed at its meta page. LMDB then refuses every transaction, for which
 * lmdb-js gives other reasons.
 */
function isBroken(root: RootDatabase<Buffer, Key>): boolean {
  try {
    root.transactionSync(() => undefined)
    return false
  } catch {
    return true
  }
}

function txnOver(root: RootDatabase<Buffer, Key>): KeyTxn {
  const range = (from: Uint8Array, to: Uint8Array, limit: number): KeyValue[] => {
    const entries: KeyValue[] = []
    for (const { key, value } of root.getRange({ start: from, end: to, limit }))
      entries.push([Uint8Array.from(key as Uint8Array), Uint8Array.from(value)])
    return entries
  }
  return {
    get: key => {
      // not getBinaryFast, which returns a view of a shared buffer
      const value = root.getBinary(key)
      return value === undefined ? undefined : Uint8Array.from(value)
    },
    put: (key, value) => {
      root.putSync(key, asBuffer(value))
    },
    remove: key => root.removeSync(key),
    range,
    removeRange: (from, to, limit) => {
      const entries = range(from, to, limit)
      for (const [key] of entries) root.removeSync(key)
      return entries.length
    },
    upsertKeys: (prefix, run, segment) => upsertKeys(root, prefix, run, segment),
    moveKeys: (prefix, run, segment, replaced) => moveKeys(root, prefix, run, segment, replaced),
    lookupKeys: (prefix, run) => lookupKeys(root, prefix, run),
    countRange: (start, end) => root.getKeysCount({ start, end }),
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Each key of the run behind the prefix, its row as the run gives it, and its version, if any. */
function* keysOf(
  prefix: Uint8Array,
  run: KeyRun,
): Generator<readonly [key: Buffer, word: number, version: Buffer | undefined]> {
  const { count, rows, offsets, bytes, versions } = viewRun(run)
  for (let i = 0; i < count; i++) {
    const key = Buffer.concat([prefix, bytes.subarray(offsets[i], offsets[i + 1])])
    const version = versions?.subarray(VERSION_BYTES * i, VERSION_BYTES * (i + 1))
    yield [key, rows[i] as number, version]
  }
}

/** The value of a key. */
function placeOf(segment: number, row: number, version?: Uint8Array): Buffer {
  const place = Buffer.alloc(PLACE_BYTES)
  place.writeUInt32LE(segment, 0)
  place.writeUInt32LE(row, 4)
  return version === undefined ? place : Buffer.concat([place, version])
}

/** The version in a key's value; undefined where it has none. */
function versionIn(value: Buffer): Buffer | undefined {
  // NOTE: lmdb-js sets `length`; `byteLength` is that of the shared buffer.
  if (value.length < PLACE_BYTES + VERSION_BYTES) return undefined
  return value.subarray(PLACE_BYTES, PLACE_BYTES + VERSION_BYTES)
}

function upsertKeys(
  root: RootDatabase<Buffer, Key>,
  prefix: Uint8Array,
  run: KeyRun,
  segment: number,
): Uint32Array {
  const superseded: [segment: number, row: number][] = []
  for (const [key, word, version] of keysOf(prefix, run)) {
    const row = rowOfWord(word)
    const old = root.getBinaryFast(key)
    const isBelow = old !== undefined && word >= 0 && version !== undefined && isVersionBelow(version, old)
    if (isBelow) {
      superseded.push([segment, row])
      continue
    }
    if (old !== undefined) superseded.push([old.readUInt32LE(0), old.readUInt32LE(4)])
    if (row >= 0) root.putSync(key, placeOf(segment, row, version))
    else if (old !== undefined) root.removeSync(key)
  }
  superseded.sort((a, b) => a[0] - b[0] || a[1] - b[1])
  return Uint32Array.from(superseded.flat())
}

function isVersionBelow(version: Buffer, old: Buffer): boolean {
  return Buffer.compare(version, must(versionIn(old), 'the version of an entry')) < 0
}

function moveKeys(
  root: RootDatabase<Buffer, Key>,
  prefix: Uint8Array,
  run: KeyRun,
  segment: number,
  replaced: Uint32Array,
): MovedKeys {
  const places = new Map([...replaced].map((one, at) => [one, at]))
  const found = new Uint32Array(replaced.length)
  const superseded: number[] = []
  for (const [key, row] of keysOf(prefix, run)) {
    const now = root.getBinaryFast(key)
    const at = now === undefined ? undefined : places.get(now.readUInt32LE(0))
    if (at === undefined) {
      if (row >= 0) superseded.push(row)
      continue
    }
    found[at] = (found[at] as number) + 1
    if (row >= 0) root.putSync(key, placeOf(segment, row, versionIn(now as Buffer)))
    else root.removeSync(key)
  }
  return { superseded: Uint32Array.from(superseded).sort(), found }
}

function lookupKeys(root: RootDatabase<Buffer, Key>, prefix: Uint8Array, run: KeyRun): Uint32Array {
  const places: number[] = []
  for (const [key] of keysOf(prefix, run)) {
    const now = root.getBinaryFast(key)
    if (now === undefined) places.push(NOWHERE, NOWHERE)
    else places.push(now.readUInt32LE(0), now.readUInt32LE(4))
  }
  return Uint32Array.from(places)
}
