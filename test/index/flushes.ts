/** Flushes, segment metas and key runs for tests of the key index, and both stores. */
import type { KeyRun } from '../../src/format/key-run.ts'
import { buildKeyRun } from '../../src/format/key-run.ts'
import type { SegmentMeta } from '../../src/format/segment-meta.ts'
import type { KeyStore, StoreOptions } from '../../src/index/index-store.ts'
import { openLmdbStore } from '../../src/index/index-store-lmdb.ts'
import { tryOpenNativeStore } from '../../src/index/index-store-native.ts'
import type { FlushCommit } from '../../src/index/index-types.ts'
import { must } from '../../src/util/errors.ts'

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

/** A flush of pool 1 that writes `segment` with `count` new keys. */
export function flushOfNewKeys(segment: number, count: number): FlushCommit {
  const keys = Object.fromEntries(Array.from({ length: count }, (_, row) => [`key ${segment} ${row}`, row]))
  return flushOf(1, segment, keys, { add: metaOf(segment, { rows: count }) })
}
