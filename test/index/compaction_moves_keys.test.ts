/**
 * W-4, W-7: compaction commits between flushes, against a model, with deletion vectors and
 * snapshots.
 */
import { describe, expect, test } from 'vitest'
import type { SegmentMeta } from '../../src/format/segment-meta.ts'
import { DELETION_VECTOR_ENTRIES_MAX } from '../../src/index/apply-commit.ts'
import { deletionVectorPrefix, poolKey, TAG } from '../../src/index/index-entry.ts'
import { NOWHERE } from '../../src/index/index-store.ts'
import type { CompactionCommit } from '../../src/index/index-types.ts'
import { Index } from '../../src/index/key-index.ts'
import { Manifest } from '../../src/index/manifest.ts'
import { fromWire, must, SegmentsDisagree, toWire } from '../../src/util/errors.ts'
import { integersFrom, newSeed } from '../util/random.ts'
import { temporaryFolder } from '../util/server.ts'
import { flushOf, MAP_BYTES, metaOf, runOf, STORES } from './flushes.ts'

/**
 * The expected index: the place of each key's row, and the keys of each segment by row.
 */
class Model {
  readonly entries = new Map<string, readonly [segment: number, row: number]>()
  readonly rowsOf = new Map<number, string[]>()

  isLive(segment: number, row: number): boolean {
    const entry = this.entries.get(must(this.rowsOf.get(segment)?.[row], 'a row'))
    return entry?.[0] === segment && entry[1] === row
  }
}

function flush(index: Index, model: Model, segment: number, random: (below: number) => number): void {
  const keys = new Map<string, number>()
  const rows: string[] = []
  for (let i = 0; i < 40; i++) {
    const key = `key${random(150)}`
    if (!keys.has(key)) keys.set(key, random(5) === 0 ? -1 : rows.push(key) - 1)
  }
  for (const [key, row] of keys) row < 0 ? model.entries.delete(key) : model.entries.set(key, [segment, row])
  model.rowsOf.set(segment, rows)
  const add = metaOf(segment, { rows: rows.length, deletes: 1 })
  const run = runOf(Object.fromEntries(keys))
  index.commit([{ pool: 1, add, remove: [], keys: run, flushedSequence: add.sequenceTo }])
}

/** Reads the live rows of some segments as a merge does; some of the rows are expired. */
function beginMerge(model: Model, output: number, random: (below: number) => number): CompactionCommit {
  const all = [...model.rowsOf.keys()].sort((a, b) => a - b)
  const remove = all.slice(random(all.length)).slice(0, 1 + random(3))
  const keys: Record<string, number> = {}
  let rows = 0
  for (const segment of remove)
    for (const [row, key] of must(model.rowsOf.get(segment), 'a segment').entries())
      if (model.isLive(segment, row)) keys[key] = random(6) === 0 ? -1 : rows++
  // An expired key has no row in the output. A merge without rows leaves nothing, or a segment of
  // deletes alone.
  const add: SegmentMeta | undefined =
    rows > 0 || random(2) === 0 ? metaOf(output, { rows, deletes: 1 }) : undefined
  return { pool: 1, add, remove, keys: runOf(keys) }
}

function endMerge(index: Index, model: Model, compaction: CompactionCommit): void {
  const copies = new Map<number, string>()
  const view = new Map<string, number>()
  const run = must(compaction.keys, 'keys')
  const count = new Int32Array(run, 0, 1)[0] as number
  const rows = new Int32Array(run, 8, count)
  const offsets = new Int32Array(run, 8 + 4 * count, count + 1)
  for (let i = 0; i < count; i++) {
    const at = 12 + 8 * count
    const key = Buffer.from(
      run,
      at + (offsets[i] as number),
      (offsets[i + 1] as number) - (offsets[i] as number),
    )
    view.set(key.toString(), rows[i] as number)
  }
  const superseded: number[] = []
  for (const [key, row] of view) {
    if (row >= 0) copies.set(row, key)
    const entry = model.entries.get(key)
    if (entry === undefined || !compaction.remove.includes(entry[0])) {
      if (row >= 0) superseded.push(row)
    } else if (row < 0) model.entries.delete(key)
    else model.entries.set(key, [must(compaction.add, 'an output').segment, row])
  }
  for (const segment of compaction.remove) model.rowsOf.delete(segment)
  if (compaction.add !== undefined)
    model.rowsOf.set(
      compaction.add.segment,
      [...copies].sort(([a], [b]) => a - b).map(([, key]) => key),
    )
  const { deletionVectors } = index.commitCompaction(compaction)
  expect(deletionVectors.flatMap(delta => [...delta.rows])).toEqual(superseded.sort((a, b) => a - b))
}

/** Compares every key with its entry, every deletion vector, and the counts. */
function check(index: Index, model: Model, seed: number): void {
  const keys = Array.from({ length: 150 }, (_, i) => `key${i}`).sort()
  const places = index.lookupKeys(1, runOf(Object.fromEntries(keys.map(key => [key, 0]))))
  for (const [i, key] of keys.entries()) {
    const want = model.entries.get(key) ?? [NOWHERE, NOWHERE]
    expect([places[2 * i], places[2 * i + 1]], `seed ${seed}: ${key}`).toEqual([...want])
  }
  expect(index.countKeys(1)).toBe(model.entries.size)
  const deletionVectors = new Map(
    index.readDeletionVectors(1).deletionVectors.map(({ segment, rows }) => [segment, [...rows]]),
  )
  const want = new Map<number, number[]>()
  for (const [segment, rows] of model.rowsOf) {
    const dead = [...rows.keys()].filter(row => !model.isLive(segment, row))
    if (dead.length > 0) want.set(segment, dead)
  }
  expect(new Map([...deletionVectors].sort(([a], [b]) => a - b)), `seed ${seed}`).toEqual(
    new Map([...want].sort(([a], [b]) => a - b)),
  )
  const segments = index.state().pools[0]?.segments.map(({ segment, deletedRows }) => [segment, deletedRows])
  const live = [...model.rowsOf.keys()].sort((a, b) => a - b)
  expect(segments).toEqual(live.map(segment => [segment, want.get(segment)?.length ?? 0]))
}

function tryTo(work: () => unknown): unknown {
  try {
    return work()
  } catch (error) {
    return error
  }
}

describe.each(STORES)('compaction commit, %s', (_name, open) => {
  test('W-7 moves keys that still point into the inputs and puts the other rows into the deletion vector, with flushes in between', () => {
    const seed = newSeed()
    const random = integersFrom(seed)
    const index = new Index(open({ folder: temporaryFolder(), mapBytes: MAP_BYTES }), 'here')
    const model = new Model()
    let next = 1
    for (let i = 0; i < 4; i++) flush(index, model, next++, random)
    for (let round = 0; round < 25; round++) {
      const compaction = beginMerge(model, next++, random)
      for (let i = random(4); i > 0; i--) flush(index, model, next++, random)
      endMerge(index, model, compaction)
      check(index, model, seed)
    }
    index.close()
  })

  test('does nothing in a pool that is being dropped, and keeps flushed sequence and other segments', () => {
    const index = new Index(open({ folder: temporaryFolder(), mapBytes: MAP_BYTES }), 'here')
    for (let segment = 1; segment <= 3; segment++)
      index.commit([{ ...flushOf(1, segment, {}), keys: undefined }])
    index.commitCompaction({ pool: 1, add: metaOf(9), remove: [1], keys: undefined })
    index.commitCompaction({ pool: 1, add: undefined, remove: [2], keys: undefined })
    const [pool] = index.state().pools
    expect(pool).toMatchObject({ flushedSequence: 39, nextSegment: 10 })
    expect(pool?.segments.map(({ segment }) => segment)).toEqual([3, 9])
    while (index.dropSlice(1));
    expect(index.commitCompaction({ pool: 1, add: metaOf(10), remove: [3], keys: undefined })).toMatchObject({
      deletionVectors: [],
    })
    expect(index.state().pools).toEqual([])
    index.close()
  })

  test('W-7 refuses to move the rest where keys are lost, names the segments, and changes nothing', () => {
    const store = open({ folder: temporaryFolder(), mapBytes: MAP_BYTES })
    const index = new Index(store, 'here')
    const rows = { rows: 3 }
    index.commit([{ ...flushOf(1, 1, { a: 0, b: 1, c: 2 }), add: metaOf(1, rows) }])
    index.commit([{ ...flushOf(1, 2, { d: 0, e: 1, f: 2 }), add: metaOf(2, rows) }])
    index.commit([{ ...flushOf(1, 3, { g: 0, h: 1, b: -1 }), add: metaOf(3, { rows: 2, deletes: 1 }) }])
    const compaction = () => ({
      pool: 1,
      add: metaOf(9, { rows: 7 }),
      remove: [3, 1, 2],
      keys: runOf({ a: 0, c: 1, d: 2, e: 3, f: -1, g: 4, h: 5 }),
    })
    const lose = (key: string) =>
      store.transact(txn => txn.remove(Buffer.concat([poolKey(TAG.key, 1), Buffer.from(key)])))
    const whole = index.state()
    lose('e')
    const refused = tryTo(() => index.commitCompaction(compaction()))
    expect(refused).toBeInstanceOf(SegmentsDisagree)
    expect(refused).toMatchObject({
      segments: [2],
      message:
        'the index does not agree with its segments: segment 2 has 3 visible rows, of which it has the keys of 2',
    })
    expect(fromWire(toWire(refused))).toMatchObject({ name: 'SegmentsDisagree', segments: [2] })
    expect(index.state()).toEqual(whole)
    expect([...index.lookupKeys(1, runOf({ a: 0, g: 0 }))]).toEqual([1, 0, 3, 0])
    lose('g')
    expect(tryTo(() => index.commitCompaction(compaction()))).toMatchObject({ segments: [2, 3] })
    // For the index, a merge that read fewer rows looks the same as lost keys.
    const { keys: _, ...rest } = compaction()
    expect(tryTo(() => index.commitCompaction({ ...rest, keys: runOf({ d: 0, f: 1, h: 2 }) }))).toMatchObject(
      {
        segments: [1, 2, 3],
      },
    )
    // Rows that were updated or deleted since the merge began are no disagreement.
    index.commit([{ ...flushOf(1, 4, { a: 0, c: -1 }), add: metaOf(4, { rows: 1, deletes: 1 }) }])
    const [moved] = index.commitCompaction({
      pool: 1,
      add: metaOf(10, { rows: 2 }),
      remove: [1],
      keys: runOf({ a: 0, c: 1 }),
    }).deletionVectors
    expect([moved?.segment, ...(moved?.rows ?? [])]).toEqual([10, 0, 1])
    index.close()
  })

  test('merges the short deletion vector entries of a segment, and loses no row', () => {
    const store = open({ folder: temporaryFolder(), mapBytes: MAP_BYTES })
    const index = new Index(store, 'here')
    const commits = 3 * DELETION_VECTOR_ENTRIES_MAX + 5
    const keys = Object.fromEntries(Array.from({ length: commits }, (_, row) => [`m${row}`, row]))
    index.commit([{ ...flushOf(1, 1, keys), add: metaOf(1, { rows: commits }) }])
    for (let i = 0; i < commits; i++) index.commit([flushOf(1, 2 + i, { [`m${i}`]: 0 })])
    const entries = store.transact(txn =>
      txn.range(deletionVectorPrefix(1, 1), deletionVectorPrefix(1, 2), 1000),
    )
    expect(entries.length).toBeLessThan(DELETION_VECTOR_ENTRIES_MAX)
    const first = index.readDeletionVectors(1).deletionVectors.find(({ segment }) => segment === 1)
    expect([...must(first, 'a deletion vector').rows]).toEqual(
      Array.from({ length: commits }, (_, row) => row),
    )
    index.close()
  })
})

test('W-8 a snapshot keeps the replaced segments until it is released, segments of deletes alone too', async () => {
  const [, open] = must(STORES[0], 'the native store')
  const index = new Index(open({ folder: temporaryFolder(), mapBytes: MAP_BYTES }), 'here')
  index.commit([{ ...flushOf(1, 1, { a: 0, b: 1 }), add: metaOf(1, { rows: 2 }) }])
  index.commit([{ ...flushOf(1, 2, { b: -1 }), add: metaOf(2, { rows: 0, deletes: 1 }) }])
  const unpinned: string[] = []
  const manifest = new Manifest({
    ...index.state(),
    readDeletionVectors: async pool => index.readDeletionVectors(pool),
    folderOf: () => '/s',
    onUnpinned: files => void unpinned.push(...files),
  })
  const before = await manifest.snapshot(1)
  expect(before.segments.map(({ meta }) => meta.segment)).toEqual([1])
  expect(before.all.map(({ meta }) => meta.segment)).toEqual([1, 2])
  const compaction = { pool: 1, add: metaOf(3, { rows: 1 }), remove: [1, 2], keys: runOf({ a: 0 }) }
  const late = flushOf(1, 4, { a: 0 })
  const flushed = index.commit([late])
  manifest.apply([late], flushed)
  const committed = index.commitCompaction(compaction)
  manifest.applyCompaction(compaction, committed)
  expect(manifest.pool(1)?.segments.map(({ segment, deletedRows }) => [segment, deletedRows])).toEqual([
    [4, 0],
    [3, 1],
  ])
  expect(unpinned).toEqual([])
  before.release()
  expect(unpinned.sort()).toEqual(['/s/0000000001.parquet', '/s/0000000002.deletes'])
  const after = await manifest.snapshot(1)
  expect(
    after.segments.map(({ meta, deletionVectors }) => [
      meta.segment,
      deletionVectors.flatMap(part => [...part.rows]),
    ]),
  ).toEqual([
    [3, [0]],
    [4, []],
  ])
  const withoutOutput = { pool: 1, add: undefined, remove: [3], keys: runOf({}) }
  manifest.applyCompaction(withoutOutput, index.commitCompaction(withoutOutput))
  expect(manifest.uncovered(1)).toMatchObject([{ segment: 3, rows: 1 }])
  after.release()
  expect([manifest.uncovered(1), unpinned.slice(2)]).toEqual([[], ['/s/0000000003.parquet']])
  manifest.drop(1)
  unpinned.length = 0
  const dropped = { pool: 1, add: metaOf(5), remove: [3], keys: undefined }
  manifest.applyCompaction(dropped, { pool: 1, commit: committed.commit + 2, deletionVectors: [] })
  expect(unpinned).toEqual(['/s/0000000005.parquet'])
  index.close()
})
