/**
 * The key store over lmdb-js: the fallback where the native module is not built. See store.ts.
 *
 * Only `transactionSync` with `overlappingSync: false`: any other way is visible before it is on disk.
 */
import type * as Lmdb from 'lmdb'
import type { Key, RootDatabase } from 'lmdb'
import { loadPackage } from '../util/load-package.ts'
import { OutcomeUnknown } from './commit-failure.ts'
import { viewRun } from './key-run.ts'
import type { KeyRun } from './protocol.ts'
import {
  type Entry,
  type KeyStore,
  type KeyTxn,
  NOWHERE,
  type StoreOptions,
  type SwappedKeys,
} from './store.ts'

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

/** Did a commit fail at its meta page? LMDB refuses every transaction from then on; lmdb-js gives other reasons for it. */
function isBroken(root: RootDatabase<Buffer, Key>): boolean {
  try {
    root.transactionSync(() => undefined)
    return false
  } catch {
    return true
  }
}

function txnOver(root: RootDatabase<Buffer, Key>): KeyTxn {
  const range = (from: Uint8Array, to: Uint8Array, limit: number): Entry[] => {
    const entries: Entry[] = []
    for (const { key, value } of root.getRange({ start: from, end: to, limit }))
      entries.push([Uint8Array.from(key as Uint8Array), Uint8Array.from(value)])
    return entries
  }
  return {
    get: key => {
      const value = root.getBinary(key) // not getBinaryFast: that one is a window on a shared buffer
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
    swapKeys: (prefix, run, segment, gone) => swapKeys(root, prefix, run, segment, gone),
    lookupKeys: (prefix, run) => lookupKeys(root, prefix, run),
    countRange: (start, end) => root.getKeysCount({ start, end }),
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Each key of the run with its prefix, in one buffer that is used again, and its row. */
function* keysOf(prefix: Uint8Array, run: KeyRun): Generator<readonly [key: Buffer, row: number]> {
  const { count, rows, offsets, bytes } = viewRun(run)
  const scratch = Buffer.alloc(prefix.byteLength + 2048)
  scratch.set(prefix)
  for (let i = 0; i < count; i++) {
    const from = offsets[i] as number
    const to = offsets[i + 1] as number
    scratch.set(bytes.subarray(from, to), prefix.byteLength)
    yield [scratch.subarray(0, prefix.byteLength + to - from), rows[i] as number]
  }
}

/** A key's value; in one buffer that is used again. */
function placeWriter(): (segment: number, row: number) => Buffer {
  const value = Buffer.alloc(8)
  return (segment, row) => {
    value.writeUInt32LE(segment, 0)
    value.writeUInt32LE(row, 4)
    return value
  }
}

function upsertKeys(
  root: RootDatabase<Buffer, Key>,
  prefix: Uint8Array,
  run: KeyRun,
  segment: number,
): Uint32Array {
  const place = placeWriter()
  const superseded: [segment: number, row: number][] = []
  for (const [key, row] of keysOf(prefix, run)) {
    const old = root.getBinaryFast(key)
    if (old !== undefined) superseded.push([old.readUInt32LE(0), old.readUInt32LE(4)])
    if (row >= 0) root.putSync(key, place(segment, row))
    else if (old !== undefined) root.removeSync(key)
  }
  superseded.sort((a, b) => a[0] - b[0] || a[1] - b[1])
  return Uint32Array.from(superseded.flat())
}

function swapKeys(
  root: RootDatabase<Buffer, Key>,
  prefix: Uint8Array,
  run: KeyRun,
  segment: number,
  gone: Uint32Array,
): SwappedKeys {
  const place = placeWriter()
  const places = new Map([...gone].map((one, at) => [one, at]))
  const found = new Uint32Array(gone.length)
  const stale: number[] = []
  for (const [key, row] of keysOf(prefix, run)) {
    const now = root.getBinaryFast(key)
    const at = now === undefined ? undefined : places.get(now.readUInt32LE(0))
    if (at === undefined) {
      if (row >= 0) stale.push(row)
      continue
    }
    found[at] = (found[at] as number) + 1
    if (row >= 0) root.putSync(key, place(segment, row))
    else root.removeSync(key)
  }
  return { stale: Uint32Array.from(stale).sort(), found }
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
