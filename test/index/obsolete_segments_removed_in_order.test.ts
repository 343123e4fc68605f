/** W-6, W-8: the order in which the files of obsolete segments are removed. */
import { beforeEach, expect, test } from 'vitest'
import { type ObsoleteFiles, ObsoleteSegments } from '../../src/index/obsolete-segments.ts'
import { metaOf } from './flushes.ts'

interface Asked {
  readonly files: readonly string[]
  readonly answer: (error?: Error) => Promise<void>
}

let asked: Asked[]
let removedUncovered: number[]
let obsolete: ObsoleteSegments

beforeEach(() => {
  asked = []
  removedUncovered = []
  const unlink = (files: readonly string[]) =>
    new Promise<void>((resolve, reject) => {
      const answer = async (error?: Error) => {
        if (error === undefined) resolve()
        else reject(error)
        await new Promise(setImmediate)
      }
      asked.push({ files, answer })
    })
  obsolete = new ObsoleteSegments(unlink, pool => removedUncovered.push(pool))
})

/** A segment of sequences `from` to `to`. */
function files(segment: number, from: number, to: number, more: { pins?: number; deletes?: number } = {}) {
  const meta = metaOf(segment, { sequenceFrom: from, sequenceTo: to, deletes: more.deletes ?? 0 })
  return { pool: 1, meta, file: `${segment}.parquet`, deletes: `${segment}.deletes`, pins: more.pins ?? 0 }
}

const unlinked = () => asked.map(one => one.files.join(' '))
const uncovered = () => obsolete.uncovered(1).map(one => one.sequenceFrom)

function release(one: ObsoleteFiles & { pins: number }): void {
  one.pins -= 1
  obsolete.released([one])
}

test('a replaced segment is removed when no snapshot holds it, together with the others of its commit', () => {
  const [a, b, c] = [files(1, 10, 19), files(2, 20, 29, { pins: 2, deletes: 1 }), files(3, 30, 39)]
  obsolete.add([a, b, c], false)
  expect(unlinked()).toEqual(['1.parquet 3.parquet'])
  release(b)
  expect(asked.length).toBe(1)
  release(b)
  expect(unlinked().slice(1)).toEqual(['2.parquet 2.deletes'])
  expect(uncovered()).toEqual([])
})

test('an uncovered segment is reported until its removal is durable', async () => {
  const one = files(1, 10, 19, { pins: 1 })
  obsolete.add([one], true)
  expect([uncovered(), unlinked()]).toEqual([[10], []])
  release(one)
  expect([uncovered(), unlinked(), removedUncovered]).toEqual([[10], ['1.parquet'], []])
  await asked[0]?.answer()
  expect([uncovered(), removedUncovered]).toEqual([[], [1]])
})

test('an uncovered segment waits until the removal of all segments within its sequences is durable', async () => {
  const inner = files(1, 10, 19, { pins: 1 })
  const beside = files(2, 0, 9, { pins: 1 })
  obsolete.add([inner, beside], false)
  obsolete.add([files(3, 10, 29)], true)
  expect(unlinked()).toEqual([])
  release(inner)
  expect(unlinked()).toEqual(['1.parquet'])
  await asked[0]?.answer()
  expect(unlinked()).toEqual(['1.parquet', '3.parquet'])
  await asked[1]?.answer()
  expect([uncovered(), removedUncovered]).toEqual([[], [1]])
})

test('an uncovered segment with deletes waits for the older ones, whose rows it may have deleted', async () => {
  const older = files(3, 0, 9)
  const deletes = files(2, 10, 19, { deletes: 1 })
  obsolete.add([deletes, older, files(4, 20, 29)], true)
  expect(unlinked()).toEqual(['3.parquet 4.parquet'])
  await asked[0]?.answer()
  expect(unlinked().slice(1)).toEqual(['2.parquet 2.deletes'])
  await asked[1]?.answer()
  expect([uncovered(), removedUncovered]).toEqual([[], [1, 1]])
})

test('a removal that the disk refuses is tried again with the next one', async () => {
  obsolete.add([files(1, 10, 19)], true)
  await asked[0]?.answer(new Error('EIO'))
  expect([uncovered(), removedUncovered, asked.length]).toEqual([[10], [], 1])
  obsolete.add([files(2, 20, 29)], false)
  expect(unlinked().slice(1)).toEqual(['1.parquet 2.parquet'])
  await asked[1]?.answer()
  expect([uncovered(), removedUncovered]).toEqual([[], [1]])
})

test('beside files of an earlier run no uncovered segment is removed, and rows of any age may exist', async () => {
  obsolete.keepUncovered(1)
  obsolete.add([files(1, 10, 19)], true)
  obsolete.add([files(2, 20, 29)], false)
  expect(unlinked()).toEqual(['2.parquet'])
  await asked[0]?.answer()
  expect(unlinked().length).toBe(1)
  expect(obsolete.uncovered(1)[0]).toEqual({
    rows: 1,
    sequenceFrom: 0,
    timestampFromUs: null,
    timestampToUs: null,
  })
  expect(uncovered()).toEqual([0, 10])
  expect(obsolete.uncovered(2)).toEqual([])
})

test('the files of a deleted pool are removed in any order, each once', async () => {
  const pinned = files(2, 20, 29, { pins: 1 })
  const inner = files(3, 30, 35, { pins: 1 })
  obsolete.add([files(1, 10, 19)], false)
  obsolete.add([pinned, inner], false)
  obsolete.add([files(4, 30, 39)], true)
  obsolete.drop(1)
  expect(unlinked()).toEqual(['1.parquet', '4.parquet'])
  release(pinned)
  release(inner)
  expect(unlinked().slice(2)).toEqual(['2.parquet', '3.parquet'])
  for (const one of asked) await one.answer()
  expect([uncovered(), removedUncovered]).toEqual([[], []])
})
