/**
 * W-7: the highest version of a key keeps it, over both stores: flushes, deletes and moved keys.
 */
import { describe, expect, test } from 'vitest'
import { VERSION_BYTES, writeVersion } from '../../src/format/key.ts'
import { afterDelete, buildKeyRun, type KeyRun, rowOfWord, withVersions } from '../../src/format/key-run.ts'
import { poolKey, TAG } from '../../src/index/index-entry.ts'
import type { KeyStore } from '../../src/index/index-store.ts'
import { Index } from '../../src/index/key-index.ts'
import { must } from '../../src/util/errors.ts'
import { integersFrom, newSeed } from '../util/random.ts'
import { temporaryFolder } from '../util/server.ts'
import { flushOf, MAP_BYTES, metaOf, runOf, STORES } from './flushes.ts'

/** A key's row and version; `isAfterDelete`: a delete of the key comes before the row. */
interface Ranked {
  readonly row: number
  readonly version: number
  readonly isAfterDelete?: boolean
}

/** A run with versions; -1 is a delete. */
function rankedRun(keys: Readonly<Record<string, Ranked | -1>>): KeyRun {
  const versions = new Uint8Array(VERSION_BYTES * 1000)
  const run = Object.entries(keys).map(([key, ranked]) => {
    if (ranked === -1) return { key: Buffer.from(key), row: -1 }
    writeVersion(versions, VERSION_BYTES * ranked.row, 'INT64', BigInt(ranked.version))
    const row = ranked.isAfterDelete === true ? afterDelete(ranked.row) : ranked.row
    return { key: Buffer.from(key), row }
  })
  return withVersions(buildKeyRun(run), versions)
}

const plain = (deletionVectors: readonly { segment: number; rows: Uint32Array }[]) =>
  deletionVectors.map(({ segment, rows }) => [segment, [...rows]])

describe.each(STORES)('index over %s', (name, open) => {
  const begin = () => new Index(open({ folder: temporaryFolder(), mapBytes: MAP_BYTES }), 'here')
  const flush = (segment: number, keys: Readonly<Record<string, Ranked | -1>>) =>
    flushOf(1, segment, {}, { keys: rankedRun(keys) })

  test('W-7 a lower version joins the deletion vector of its own segment, an equal one wins', () => {
    const index = begin()
    index.commit([flush(1, { a: { row: 0, version: 5 }, b: { row: 1, version: 5 } })])
    const [second] = index.commit([
      flush(2, { a: { row: 0, version: 4 }, b: { row: 1, version: 5 }, c: { row: 2, version: -9 } }),
    ])
    expect(plain(must(second, 'answer').deletionVectors)).toEqual([
      [1, [1]],
      [2, [0]],
    ])
    expect(index.state().pools[0]?.segments.map(({ deletedRows }) => deletedRows)).toEqual([1, 1])
    expect([...index.lookupKeys(1, runOf({ a: 0, b: 0, c: 0 }))]).toEqual([1, 0, 2, 1, 2, 2])
    index.close()
  })

  test('W-7 a delete beats every version, and a row after a delete replaces every version', () => {
    const index = begin()
    index.commit([
      flush(1, { a: { row: 0, version: 9 }, b: { row: 1, version: 9 }, c: { row: 2, version: 9 } }),
    ])
    const [second] = index.commit([
      flush(2, { a: -1, b: { row: 0, version: 1, isAfterDelete: true }, c: { row: 1, version: 1 } }),
    ])
    expect(plain(must(second, 'answer').deletionVectors)).toEqual([
      [1, [0, 1]],
      [2, [1]],
    ])
    const [third] = index.commit([flush(3, { a: { row: 0, version: -3 }, b: { row: 1, version: 0 } })])
    expect(plain(must(third, 'answer').deletionVectors)).toEqual([[3, [1]]])
    index.close()
  })

  test('a moved key keeps its version', () => {
    const index = begin()
    const of = (segment: number, rows: number, keys: Readonly<Record<string, Ranked | -1>>) => ({
      ...flush(segment, keys),
      add: metaOf(segment, { rows }),
    })
    index.commit([of(1, 2, { a: { row: 0, version: 5 }, b: { row: 1, version: 5 } })])
    index.commitCompaction({ pool: 1, add: metaOf(2, { rows: 2 }), remove: [1], keys: runOf({ a: 1, b: 0 }) })
    const [third] = index.commit([of(3, 2, { a: { row: 0, version: 4 }, b: { row: 1, version: 6 } })])
    expect(plain(must(third, 'answer').deletionVectors)).toEqual([
      [2, [0]],
      [3, [0]],
    ])
    index.close()
  })

  test('W-7 random versions do what a Map does, opened by both stores', () => {
    const seed = newSeed()
    const random = integersFrom(seed)
    const folder = temporaryFolder()
    const model = new Map<string, { segment: number; row: number; version: number }>()
    const prefix = poolKey(TAG.key, 1)
    for (let segment = 1; segment <= 40; segment++) {
      const opener = segment % 3 === 0 ? STORES.find(([other]) => other !== name)?.[1] : open
      const store = (opener ?? open)({ folder, mapBytes: MAP_BYTES })
      const keys: Record<string, Ranked | -1> = {}
      for (let row = 0; row < 1 + random(60); row++)
        keys[`k${random(80)}`] =
          random(6) === 0 ? -1 : { row, version: random(5) - 2, isAfterDelete: random(5) === 0 }
      const wanted = applyToModel(model, keys, segment)
      const found = store.transact(txn => [...txn.upsertKeys(prefix, rankedRun(keys), segment)])
      expect(found, `seed ${seed}`).toEqual(wanted)
      expect(contents(store, prefix), `seed ${seed}`).toEqual(sorted(model))
      store.close()
    }
  })
})

type Model = Map<string, { segment: number; row: number; version: number }>

function applyToModel(model: Model, keys: Readonly<Record<string, Ranked | -1>>, segment: number): number[] {
  const superseded: [number, number][] = []
  for (const [key, ranked] of Object.entries(keys)) {
    const old = model.get(key)
    if (ranked !== -1 && ranked.isAfterDelete !== true && old !== undefined && ranked.version < old.version) {
      superseded.push([segment, ranked.row])
      continue
    }
    if (old !== undefined) superseded.push([old.segment, old.row])
    if (ranked === -1) model.delete(key)
    else model.set(key, { segment, row: ranked.row, version: ranked.version })
  }
  return superseded.sort((a, b) => a[0] - b[0] || a[1] - b[1]).flat()
}

/** Every entry below `prefix`: key, segment, row, version. */
function contents(store: KeyStore, prefix: Uint8Array): [string, number, number, bigint][] {
  const end = Uint8Array.from(prefix)
  end[4]! += 1
  return store.transact(txn =>
    txn.range(prefix, end, 1000).map(([key, value]) => {
      expect(value.byteLength).toBe(8 + VERSION_BYTES)
      const view = new DataView(value.buffer, value.byteOffset)
      return [
        Buffer.from(key.subarray(5)).toString(),
        view.getUint32(0, true),
        view.getUint32(4, true),
        BigInt.asIntN(64, view.getBigUint64(8) ^ (1n << 63n)),
      ]
    }),
  )
}

function sorted(model: Model): [string, number, number, bigint][] {
  return [...model]
    .sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    .map(([key, { segment, row, version }]) => [key, segment, row, BigInt(version)])
}

test('a row after a delete is told from every row and from a delete', () => {
  for (const row of [0, 1, 2, 2 ** 31 - 2]) {
    expect(afterDelete(row)).toBeLessThan(-1)
    expect(rowOfWord(afterDelete(row))).toBe(row)
    expect(rowOfWord(row)).toBe(row)
  }
  expect(rowOfWord(-1)).toBe(-1)
})
