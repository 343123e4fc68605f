/** W-4, W-7: what a commit changes, over both stores. */
import { describe, expect, it } from 'vitest'
import { createIndex } from '../../src/keys/index.ts'
import { buildKeyRun } from '../../src/keys/key-run.ts'
import type { SealCommit } from '../../src/keys/protocol.ts'
import { must } from '../../src/util/assert.ts'
import { MAP_BYTES, metaOf, newSeed, randomBy, runOf, STORES, sealOf, temporaryFolder } from './help.ts'

const plain = (marks: readonly { segment: number; rows: Uint32Array }[]) =>
  marks.map(({ segment, rows }) => [segment, [...rows]])

describe.each(STORES)('index over %s', (_, open) => {
  const openIn = (folder: string) => createIndex(open({ folder, mapBytes: MAP_BYTES }), 'here')

  it('W-7 marks exactly the rows that updates and deletes supersede', () => {
    const index = openIn(temporaryFolder())
    expect(plain(must(index.commit([sealOf(1, 1, { a: 0, b: 1, c: 2, d: 3 })])[0], 'answer').marks)).toEqual(
      [],
    )
    const [second] = index.commit([sealOf(1, 2, { b: 0, d: -1, x: -1, e: 1 })])
    expect(second).toMatchObject({ pool: 1, commit: 2 })
    expect(plain(must(second, 'answer').marks)).toEqual([[1, [1, 3]]])
    const [third] = index.commit([sealOf(1, 3, { a: 0, b: 1, d: 2 })])
    expect(plain(must(third, 'answer').marks)).toEqual([
      [1, [0]],
      [2, [0]],
    ])
    const { commit, marks } = index.readMarks(1)
    expect(commit).toBe(3)
    expect(plain(marks)).toEqual([
      [1, [0, 1, 3]],
      [2, [0]],
    ])
    expect(index.state().pools[0]?.segments.map(({ segment, marked }) => [segment, marked])).toEqual([
      [1, 3],
      [2, 1],
      [3, 0],
    ])
    index.close()
  })

  it('drops the marks of replaced segments and makes none in them', () => {
    const index = openIn(temporaryFolder())
    index.commit([sealOf(1, 1, { a: 0, b: 1 })])
    index.commit([sealOf(1, 2, { b: 0, c: 1 })])
    const [third] = index.commit([sealOf(1, 3, { a: 2, b: 0, c: 1 }, { remove: [2] })])
    expect(plain(must(third, 'answer').marks)).toEqual([[1, [0]]])
    index.commit([sealOf(1, 4, { a: 0, b: 1, c: 2 }, { remove: [1] })])
    expect(plain(index.readMarks(1).marks)).toEqual([[3, [0, 1, 2]]])
    expect(index.state().pools[0]?.segments.map(({ segment }) => segment)).toEqual([3, 4])
    index.close()
  })

  it('makes no marks in a segment that was dropped by its age', () => {
    const index = openIn(temporaryFolder())
    index.commit([sealOf(1, 1, { a: 0 })])
    index.commit([{ pool: 1, add: undefined, remove: [1], keys: undefined, sealedSequence: 30 }])
    expect(must(index.commit([sealOf(1, 4, { a: 0 })])[0], 'answer').marks).toEqual([])
    expect(index.readMarks(1).marks).toEqual([])
    index.close()
  })

  it('keeps pools apart, neighbours and the last one too', () => {
    const index = openIn(temporaryFolder())
    const pools = [1, 2, 255, 256, 0xffff_ffff]
    for (const pool of pools) index.commit([sealOf(pool, 1, { a: 0, b: 1 })])
    const answers = index.commit([sealOf(2, 2, { a: 0 }), sealOf(256, 2, { b: -1 })])
    expect(answers.map(({ pool, marks }) => [pool, plain(marks)])).toEqual([
      [2, [[1, [0]]]],
      [256, [[1, [1]]]],
    ])
    for (const pool of [1, 255, 0xffff_ffff]) expect(index.readMarks(pool).marks).toEqual([])
    while (index.dropSlice(255));
    expect(index.state().pools.map(({ pool }) => pool)).toEqual([1, 2, 256, 0xffff_ffff])
    expect(plain(must(index.commit([sealOf(1, 2, { b: 0 })])[0], 'answer').marks)).toEqual([[1, [1]]])
    index.close()
  })

  it('takes two seals of a pool in one commit, the second over the first', () => {
    const index = openIn(temporaryFolder())
    index.commit([sealOf(1, 1, { a: 0, b: 1, c: 2 })])
    const answers = index.commit([sealOf(1, 2, { a: 0 }), sealOf(1, 3, { a: 0, c: -1 })])
    expect(answers.map(({ commit, marks }) => [commit, plain(marks)])).toEqual([
      [2, [[1, [0]]]],
      [
        2,
        [
          [1, [2]],
          [2, [0]],
        ],
      ],
    ])
    expect(plain(index.readMarks(1).marks)).toEqual([
      [1, [0, 2]],
      [2, [0]],
    ])
    index.close()
  })

  it('W-4 changes nothing where one seal of a commit fails, and gives the state back when reopened', () => {
    const folder = temporaryFolder()
    const index = openIn(folder)
    index.commit([sealOf(1, 1, { a: 0, b: 1 })])
    const broken: SealCommit = { ...sealOf(1, 3, {}), keys: new ArrayBuffer(16) }
    new Int32Array(must(broken.keys, 'keys')).set([1, 900])
    expect(() => index.commit([sealOf(2, 1, { z: 0 }), sealOf(1, 2, { a: 0 }), broken])).toThrow()
    const state = index.state()
    expect(state.lastCommit).toBe(1)
    expect(state.pools).toEqual([
      { pool: 1, sealedSequence: 19, nextSegment: 2, segments: [{ ...metaOf(1), marked: 0 }] },
    ])
    index.close()
    const again = openIn(folder)
    expect(again.state()).toEqual(state)
    expect(plain(must(again.commit([sealOf(1, 2, { a: 0 })])[0], 'answer').marks)).toEqual([[1, [0]]])
    again.close()
  })

  it('drops a pool in bounded steps and ignores its late seals', () => {
    const index = openIn(temporaryFolder())
    const keys = Array.from({ length: 25_000 }, (_x, row) => ({ key: Buffer.from(`key${row}`), row }))
    const add = metaOf(1, { rows: 25_000 })
    index.commit([{ pool: 7, add, remove: [], keys: buildKeyRun(keys), sealedSequence: 9 }])
    let steps = 1
    while (index.dropSlice(7)) steps += 1
    expect(steps).toBe(3)
    expect(index.commit([sealOf(7, 2, { a: 0 })])).toMatchObject([{ pool: 7, marks: [] }])
    expect(index.state().pools).toEqual([])
    index.close()
  })

  it('W-7 shows of every key exactly its last row, whatever the seals were', () => {
    const seed = newSeed()
    const random = randomBy(seed)
    const index = openIn(temporaryFolder())
    const want = new Map<string, string>()
    const rowsOf = new Map<number, string[]>()
    for (let segment = 1; segment <= 40; segment++) {
      const keys = new Map<string, number>()
      const rows: string[] = []
      // Every third seal takes the newest segment with it, as small seals do.
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
      for (const gone of remove) rowsOf.delete(gone)
      rowsOf.set(segment, rows)
      const add = metaOf(segment, { rows: rows.length })
      const run = runOf(Object.fromEntries(keys))
      index.commit([{ pool: 1, add, remove, keys: run, sealedSequence: add.sequenceTo }])
    }
    const marks = new Map(index.readMarks(1).marks.map(({ segment, rows }) => [segment, new Set(rows)]))
    const visible = new Map<string, string>()
    for (const [segment, rows] of rowsOf)
      for (const [row, key] of rows.entries()) {
        if (marks.get(segment)?.has(row)) continue
        expect(visible.has(key), `seed ${seed}: ${key} is visible twice`).toBe(false)
        visible.set(key, `${segment}:${row}`)
      }
    expect(new Map([...visible].sort()), `seed ${seed}`).toEqual(new Map([...want].sort()))
    index.close()
  })
})
