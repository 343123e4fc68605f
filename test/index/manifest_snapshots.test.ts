/** W-8: snapshots are consistent and pinned, whenever the deletion vectors are loaded. */
import { describe, expect, test } from 'vitest'
import type { DeletionVector, FlushCommit } from '../../src/index/index-types.ts'
import { Index } from '../../src/index/key-index.ts'
import { Manifest, type Snapshot } from '../../src/index/manifest.ts'
import { must } from '../../src/util/errors.ts'
import { integersFrom, newSeed } from '../util/random.ts'
import { temporaryFolder } from '../util/server.ts'
import { flushOf, MAP_BYTES, metaOf, runOf, STORES } from './flushes.ts'

type Answer = { commit: number; deletionVectors: readonly DeletionVector[] }

/**
 * An index with deletion vectors and its manifest as after a start. The test decides when deletion
 * vectors arrive.
 */
function setUp() {
  const [, open] = must(STORES[0], 'the native store')
  const store = open({ folder: temporaryFolder(), mapBytes: MAP_BYTES })
  const index = new Index(store, 'here')
  index.commit([flushOf(1, 1, { a: 0, b: 1, c: 2, d: 3 })])
  index.commit([flushOf(1, 2, { a: 0 })])
  const asked: { answer: () => void }[] = []
  const unpinned: string[] = []
  const manifest = new Manifest({
    ...index.state(),
    readDeletionVectors: pool =>
      new Promise<Answer>(resolve => {
        asked.push({ answer: () => resolve(index.readDeletionVectors(pool)) })
      }),
    folderOf: pool => `/segments/${pool}`,
    onUnpinned: files => void unpinned.push(...files),
  })
  const flush = (one: FlushCommit) => {
    const committed = index.commit([one])
    return () => manifest.apply([one], committed)
  }
  return { index, manifest, asked, unpinned, flush }
}

/** Visible rows as `segment:row`, given the rows of each segment. */
function deletionVectorsOf(snapshot: Snapshot): Record<number, number[]> {
  const deletionVectors: Record<number, number[]> = {}
  for (const segment of snapshot.segments)
    deletionVectors[segment.meta.segment] = segment.deletionVectors
      .flatMap(({ rows }) => [...rows])
      .sort((a, b) => a - b)
  return deletionVectors
}

describe('manifest', () => {
  test('a pool has another version after each of its commits, and after no other one', async () => {
    const { index, manifest, asked, flush } = setUp()
    const seen = [manifest.version(1)]
    const change = (one: FlushCommit) => {
      flush(one)()
      expect(seen).not.toContain(manifest.version(1))
      seen.push(manifest.version(1))
    }
    change(flushOf(1, 3, { b: 0 }))
    // Nothing but the deletion vector of another segment changes.
    const deletes = { ...flushOf(1, 4, { c: -1 }), add: metaOf(4, { rows: 0, deletes: 1 }) }
    change(deletes)
    change({ ...flushOf(1, 5, { d: -1 }), add: metaOf(5, { rows: 0, deletes: 1 }), remove: [4] })
    const first = manifest.snapshot(1)
    must(asked[0], 'request').answer()
    expect((await first).version).toBe(manifest.version(1))
    expect(manifest.version(2)).toBeUndefined()
    flush(flushOf(2, 1, { a: 0 }))()
    expect([manifest.version(1), manifest.version(2)]).toEqual([seen.at(-1), expect.any(Number)])
    manifest.drop(1)
    expect(manifest.version(1)).toBeUndefined()
    index.close()
  })

  test('W-10 loads deletion vectors at the first snapshot, and counts a commit in between once', async () => {
    const { index, manifest, asked, flush } = setUp()
    const early = flush(flushOf(1, 3, { b: 0 }))
    early()
    const waiting = manifest.snapshot(1)
    flush(flushOf(1, 4, { c: 0 }))() // after the request and before the answer, which has it too
    must(asked[0], 'request').answer()
    flush(flushOf(1, 5, { d: 0 }))() // after the answer
    const snapshot = await waiting
    expect(deletionVectorsOf(snapshot)).toEqual({ 1: [0, 1, 2, 3], 2: [], 3: [], 4: [], 5: [] })
    expect(asked).toHaveLength(1)
    expect(deletionVectorsOf(await manifest.snapshot(1))).toEqual(deletionVectorsOf(snapshot))
    expect(asked).toHaveLength(1)
    index.close()
  })

  test('W-8 waits for a commit that the loaded deletion vectors already have: no row vanishes', async () => {
    const { index, manifest, asked, flush } = setUp()
    const late = flush(flushOf(1, 3, { b: 0 }))
    const waiting = manifest.snapshot(1)
    must(asked[0], 'request').answer()
    let done = false
    void waiting.then(() => {
      done = true
    })
    await new Promise(setImmediate)
    expect(done).toBe(false)
    late()
    expect(deletionVectorsOf(await waiting)).toEqual({ 1: [0, 1], 2: [], 3: [] })
    index.close()
  })

  test('W-8 keeps a snapshot as it was, and its files until the last release', async () => {
    const { index, manifest, asked, unpinned, flush } = setUp()
    const first = manifest.snapshot(1)
    must(asked[0], 'request').answer()
    const before = await first
    const other = await manifest.snapshot(1)
    const add = metaOf(3, { deletes: 1 })
    flush({ ...flushOf(1, 3, { a: 0, b: -1 }), add, remove: [2] })()
    expect(deletionVectorsOf(before)).toEqual({ 1: [0], 2: [] })
    const after = await manifest.snapshot(1)
    expect(deletionVectorsOf(after)).toEqual({ 1: [0, 1], 3: [] })
    expect(after.commit).toBe(before.commit + 1)
    before.release()
    expect(unpinned).toEqual([])
    other.release()
    expect(unpinned).toEqual(['/segments/1/0000000002.parquet'])
    manifest.drop(1)
    expect(unpinned).toHaveLength(1)
    after.release()
    expect(unpinned.slice(1)).toEqual([
      '/segments/1/0000000001.parquet',
      '/segments/1/0000000003.parquet',
      '/segments/1/0000000003.deletes',
    ])
    expect((await manifest.snapshot(1)).segments).toEqual([])
    index.close()
  })

  test('removes the files of a flush that ends after its pool was dropped', async () => {
    const { index, manifest, unpinned, flush } = setUp()
    const late = flush(flushOf(1, 3, { z: 0 }))
    manifest.drop(1)
    unpinned.length = 0
    late()
    expect(unpinned).toEqual(['/segments/1/0000000003.parquet'])
    expect(manifest.pool(1)).toBeUndefined()
    expect(await manifest.snapshot(1)).toMatchObject({ commit: 3, segments: [] })
    index.close()
  })

  test('asks again and may succeed where loading failed', async () => {
    const segments = [{ ...metaOf(1), deletedRows: 1 }]
    const pools = [{ pool: 1, flushedSequence: 1, nextSegment: 2, receivedToUs: 1, segments }]
    let calls = 0
    const manifest = new Manifest({
      pools,
      lastCommit: 4,
      readDeletionVectors: async () => {
        calls += 1
        if (calls === 1) throw new Error('not now')
        return { commit: 4, deletionVectors: [{ segment: 1, rows: Uint32Array.of(7) }] }
      },
      folderOf: () => '/x',
      onUnpinned: () => undefined,
    })
    await expect(manifest.snapshot(1)).rejects.toThrow('not now')
    expect(deletionVectorsOf(await manifest.snapshot(1))).toEqual({ 1: [7] })
  })

  test('joins many short lists of marks by reading them again, and loses none', async () => {
    const { index, manifest, asked, flush } = setUp()
    const seed = newSeed()
    const random = integersFrom(seed)
    const first = manifest.snapshot(1)
    must(asked[0], 'request').answer()
    await first
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, row) => [`m${row}`, row]))
    flush(flushOf(1, 3, many))()
    for (let segment = 4; segment < 104; segment++) {
      const add = metaOf(segment, { rows: 1 })
      const keys = runOf({ [`m${segment - 4}`]: 0 })
      flush({ pool: 1, add, remove: [], keys, flushedSequence: add.sequenceTo })()
      if (random(8) === 0) {
        for (const request of asked.splice(1)) request.answer()
        await new Promise(setImmediate)
      }
    }
    for (const request of asked.splice(1)) request.answer()
    await new Promise(setImmediate)
    const snapshot = await manifest.snapshot(1)
    const third = must(
      snapshot.segments.find(({ meta }) => meta.segment === 3),
      'segment 3',
    )
    expect(deletionVectorsOf(snapshot)[3], `seed ${seed}`).toEqual(
      Array.from({ length: 100 }, (_, row) => row),
    )
    expect(third.deletionVectors.length).toBeLessThanOrEqual(65)
    index.close()
  })
})
