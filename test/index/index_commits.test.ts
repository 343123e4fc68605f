/** W-4, W-7: the changes of a commit, over both stores. */
import { describe, expect, test } from 'vitest'
import { buildKeyRun } from '../../src/format/key-run.ts'
import { poolKey, TAG } from '../../src/index/index-entry.ts'
import type { FlushCommit } from '../../src/index/index-types.ts'
import { Index } from '../../src/index/key-index.ts'
import { must } from '../../src/util/errors.ts'
import { integersFrom, newSeed } from '../util/random.ts'
import { temporaryFolder } from '../util/server.ts'
import { flushOf, MAP_BYTES, metaOf, runOf, STORES } from './flushes.ts'

const plain = (deletionVectors: readonly { segment: number; rows: Uint32Array }[]) =>
  deletionVectors.map(({ segment, rows }) => [segment, [...rows]])

describe.each(STORES)('index over %s', (_, open) => {
  const openIn = (folder: string) => new Index(open({ folder, mapBytes: MAP_BYTES }), 'here')

  test('W-7 puts exactly the superseded rows into deletion vectors', () => {
    const index = openIn(temporaryFolder())
    expect(
      plain(must(index.commit([flushOf(1, 1, { a: 0, b: 1, c: 2, d: 3 })])[0], 'answer').deletionVectors),
    ).toEqual([])
    const [second] = index.commit([flushOf(1, 2, { b: 0, d: -1, x: -1, e: 1 })])
    expect(second).toMatchObject({ pool: 1, commit: 2 })
    expect(plain(must(second, 'answer').deletionVectors)).toEqual([[1, [1, 3]]])
    const [third] = index.commit([flushOf(1, 3, { a: 0, b: 1, d: 2 })])
    expect(plain(must(third, 'answer').deletionVectors)).toEqual([
      [1, [0]],
      [2, [0]],
    ])
    const { commit, deletionVectors } = index.readDeletionVectors(1)
    expect(commit).toBe(3)
    expect(plain(deletionVectors)).toEqual([
      [1, [0, 1, 3]],
      [2, [0]],
    ])
    expect(
      index.state().pools[0]?.segments.map(({ segment, deletedRows }) => [segment, deletedRows]),
    ).toEqual([
      [1, 3],
      [2, 1],
      [3, 0],
    ])
    index.close()
  })

  test('drops the deletion vectors of replaced segments and adds none', () => {
    const index = openIn(temporaryFolder())
    index.commit([flushOf(1, 1, { a: 0, b: 1 })])
    index.commit([flushOf(1, 2, { b: 0, c: 1 })])
    const [third] = index.commit([flushOf(1, 3, { a: 2, b: 0, c: 1 }, { remove: [2] })])
    expect(plain(must(third, 'answer').deletionVectors)).toEqual([[1, [0]]])
    index.commit([flushOf(1, 4, { a: 0, b: 1, c: 2 }, { remove: [1] })])
    expect(plain(index.readDeletionVectors(1).deletionVectors)).toEqual([[3, [0, 1, 2]]])
    expect(index.state().pools[0]?.segments.map(({ segment }) => segment)).toEqual([3, 4])
    index.close()
  })

  test('keeps the latest received-at of a pool after its rows are removed, and reads it from the segments of older versions', () => {
    const folder = temporaryFolder()
    const index = openIn(folder)
    index.commit([{ ...flushOf(1, 1, {}), add: metaOf(1, { receivedToUs: 7000 }), keys: undefined }])
    index.commit([{ ...flushOf(1, 2, {}), add: metaOf(2, { receivedToUs: 3000 }), keys: undefined }])
    index.commitCompaction({ pool: 1, add: undefined, remove: [1], keys: undefined })
    index.close()
    const store = open({ folder, mapBytes: MAP_BYTES })
    expect(new Index(store, 'here').state().pools).toMatchObject([{ pool: 1, receivedToUs: 7000 }])
    store.transact(txn => {
      txn.put(poolKey(TAG.pool, 1), Buffer.from('{"flushedSequence":29,"nextSegment":3}'))
    })
    const again = new Index(store, 'here')
    expect(again.state().pools).toMatchObject([{ pool: 1, receivedToUs: 3000 }])
    again.commit([{ ...flushOf(1, 3, {}), add: metaOf(3, { receivedToUs: 5000 }), keys: undefined }])
    expect(again.state().pools).toMatchObject([{ pool: 1, receivedToUs: 5000 }])
    again.close()
  })

  test('adds no deletion vector to a segment that retention dropped', () => {
    const index = openIn(temporaryFolder())
    index.commit([flushOf(1, 1, { a: 0 })])
    index.commit([{ pool: 1, add: undefined, remove: [1], keys: undefined, flushedSequence: 30 }])
    expect(must(index.commit([flushOf(1, 4, { a: 0 })])[0], 'answer').deletionVectors).toEqual([])
    expect(index.readDeletionVectors(1).deletionVectors).toEqual([])
    index.close()
  })

  test('keeps pools apart, neighbours and the last one too', () => {
    const index = openIn(temporaryFolder())
    const pools = [1, 2, 255, 256, 0xffff_ffff]
    for (const pool of pools) index.commit([flushOf(pool, 1, { a: 0, b: 1 })])
    const answers = index.commit([flushOf(2, 2, { a: 0 }), flushOf(256, 2, { b: -1 })])
    expect(answers.map(({ pool, deletionVectors }) => [pool, plain(deletionVectors)])).toEqual([
      [2, [[1, [0]]]],
      [256, [[1, [1]]]],
    ])
    for (const pool of [1, 255, 0xffff_ffff])
      expect(index.readDeletionVectors(pool).deletionVectors).toEqual([])
    while (index.dropSlice(255));
    expect(index.state().pools.map(({ pool }) => pool)).toEqual([1, 2, 256, 0xffff_ffff])
    expect(plain(must(index.commit([flushOf(1, 2, { b: 0 })])[0], 'answer').deletionVectors)).toEqual([
      [1, [1]],
    ])
    index.close()
  })

  test('takes two flushes of a pool in one commit, the second over the first', () => {
    const index = openIn(temporaryFolder())
    index.commit([flushOf(1, 1, { a: 0, b: 1, c: 2 })])
    const answers = index.commit([flushOf(1, 2, { a: 0 }), flushOf(1, 3, { a: 0, c: -1 })])
    expect(answers.map(({ commit, deletionVectors }) => [commit, plain(deletionVectors)])).toEqual([
      [2, [[1, [0]]]],
      [
        2,
        [
          [1, [2]],
          [2, [0]],
        ],
      ],
    ])
    expect(plain(index.readDeletionVectors(1).deletionVectors)).toEqual([
      [1, [0, 2]],
      [2, [0]],
    ])
    index.close()
  })

  test('W-4 changes nothing where one flush of a commit fails, and gives the state back when reopened', () => {
    const folder = temporaryFolder()
    const index = openIn(folder)
    index.commit([flushOf(1, 1, { a: 0, b: 1 })])
    const broken: FlushCommit = { ...flushOf(1, 3, {}), keys: new ArrayBuffer(16) }
    new Int32Array(must(broken.keys, 'keys')).set([1, 900])
    expect(() => index.commit([flushOf(2, 1, { z: 0 }), flushOf(1, 2, { a: 0 }), broken])).toThrow()
    const state = index.state()
    expect(state.lastCommit).toBe(1)
    expect(state.pools).toEqual([
      {
        pool: 1,
        flushedSequence: 19,
        nextSegment: 2,
        receivedToUs: 1,
        segments: [{ ...metaOf(1), deletedRows: 0 }],
      },
    ])
    index.close()
    const again = openIn(folder)
    expect(again.state()).toEqual(state)
    expect(plain(must(again.commit([flushOf(1, 2, { a: 0 })])[0], 'answer').deletionVectors)).toEqual([
      [1, [0]],
    ])
    again.close()
  })

  test('drops a pool in bounded steps and ignores its late flushes', () => {
    const index = openIn(temporaryFolder())
    const keys = Array.from({ length: 25_000 }, (_x, row) => ({ key: Buffer.from(`key${row}`), row }))
    const add = metaOf(1, { rows: 25_000 })
    index.commit([{ pool: 7, add, remove: [], keys: buildKeyRun(keys), flushedSequence: 9 }])
    let steps = 1
    while (index.dropSlice(7)) steps += 1
    expect(steps).toBe(3)
    expect(index.commit([flushOf(7, 2, { a: 0 })])).toMatchObject([{ pool: 7, deletionVectors: [] }])
    expect(index.state().pools).toEqual([])
    index.close()
  })

  test('W-7 shows of every key exactly its last row, whatever the flushes were', () => {
    const seed = newSeed()
    const random = integersFrom(seed)
    const index = openIn(temporaryFolder())
    const want = new Map<string, string>()
    const rowsOf = new Map<number, string[]>()
    for (let segment = 1; segment <= 40; segment++) {
      const keys = new Map<string, number>()
      const rows: string[] = []
      // Every third flush replaces the newest segment, as small flushes do.
      const taken = segment % 3 === 0 ? (rowsOf.get(segment - 1) ?? []) : []
      for (const key of taken)
        if (want.get(key)?.startsWith(`${segment - 1}:`)) keys.set(key, rows.push(key) - 1)
      for (let i = 0; i < 60; i++) {
        const key = `key${random(200)}`
        if (keys.has(key)) continue
        keys.set(key, random(5) === 0 ? -1 : rows.push(key) - 1)
      }
      for (const [key, row] of keys) row < 0 ? want.delete(key) : want.set(key, `${segment}:${row}`)
      const remove = segment % 3 === 0 ? [segment - 1] : []
      for (const removed of remove) rowsOf.delete(removed)
      rowsOf.set(segment, rows)
      const add = metaOf(segment, { rows: rows.length })
      const run = runOf(Object.fromEntries(keys))
      index.commit([{ pool: 1, add, remove, keys: run, flushedSequence: add.sequenceTo }])
    }
    const deletionVectors = new Map(
      index.readDeletionVectors(1).deletionVectors.map(({ segment, rows }) => [segment, new Set(rows)]),
    )
    const visible = new Map<string, string>()
    for (const [segment, rows] of rowsOf)
      for (const [row, key] of rows.entries()) {
        if (deletionVectors.get(segment)?.has(row)) continue
        expect(visible.has(key), `seed ${seed}: ${key} is visible twice`).toBe(false)
        visible.set(key, `${segment}:${row}`)
      }
    expect(new Map([...visible].sort()), `seed ${seed}`).toEqual(new Map([...want].sort()))
    index.close()
  })
})
