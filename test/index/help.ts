/** What tests of the key index share. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach } from 'vitest'
import type { KeyRun } from '../../src/format/key-run.ts'
import { buildKeyRun } from '../../src/format/key-run.ts'
import type { SegmentMeta } from '../../src/format/segment-meta.ts'
import type { KeyStore, StoreOptions } from '../../src/index/index-store.ts'
import { openLmdbStore } from '../../src/index/index-store-lmdb.ts'
import { tryOpenNativeStore } from '../../src/index/index-store-native.ts'
import type { FlushCommit } from '../../src/index/index-types.ts'
import { must } from '../../src/util/assert.ts'

const folders: string[] = []

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** A new folder, removed after the test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'weir-keys-'))
  folders.push(folder)
  return folder
}

/** Both stores, for describe.each. */
export const STORES: readonly (readonly [name: string, open: (options: StoreOptions) => KeyStore])[] = [
  ['native', options => must(tryOpenNativeStore(options), 'the native module')],
  ['lmdb-js', openLmdbStore],
]

export const MAP_BYTES = 1024 * 1024 * 1024

/** A run of text keys: `{a: 3, b: -1}`. */
export function runOf(rows: Readonly<Record<string, number>>): KeyRun {
  return buildKeyRun(Object.entries(rows).map(([key, row]) => ({ key: Buffer.from(key), row })))
}

export function metaOf(segment: number, more: Partial<SegmentMeta> = {}): SegmentMeta {
  return {
    segment,
    rows: 100,
    bytes: 1000,
    checksum: 1,
    schemaVersion: 1,
    sequenceFrom: segment * 10,
    sequenceTo: segment * 10 + 9,
    receivedFromUs: 0,
    receivedToUs: 1,
    timestampFromUs: 0,
    timestampToUs: 1,
    tenant: null,
    deletes: 0,
    ...more,
  }
}

/** A flush of `pool` that writes `segment` with `rows`. */
export function flushOf(
  pool: number,
  segment: number,
  rows: Readonly<Record<string, number>>,
  more: Partial<FlushCommit> = {},
): FlushCommit {
  const add = metaOf(segment)
  return { pool, add, remove: [], keys: runOf(rows), flushedSequence: add.sequenceTo, ...more }
}

/** Random numbers below `below`, by a seed that a failing test prints. */
export function randomBy(seed: number): (below: number) => number {
  let state = seed >>> 0
  return below => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** A new seed. */
export function newSeed(): number {
  return Math.floor(Math.random() * 2 ** 31)
}
