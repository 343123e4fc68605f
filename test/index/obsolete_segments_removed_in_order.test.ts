/** W-6, W-8: when the files of segments that were given up go. */
import { beforeEach, expect, test } from 'vitest'
import { type ObsoleteFiles, ObsoleteSegments } from '../../src/index/obsolete-segments.ts'
import { metaOf } from './help.ts'

interface Asked {
  readonly files: readonly string[]
  readonly answer: (error?: Error) => Promise<void>
}

let asked: Asked[]
let gone: number[]
let givenUp: ObsoleteSegments

beforeEach(() => {
  asked = []
  gone = []
  const unlink = (files: readonly string[]) =>
    new Promise<void>((resolve, reject) => {
      const answer = async (error?: Error) => {
        if (error === undefined) resolve()
        else reject(error)
        await new Promise(setImmediate)
      }
      asked.push({ files, answer })
    })
  givenUp = new ObsoleteSegments(unlink, pool => gone.push(pool))
})

/** A segment of sequences `from` to `to`. */
function files(segment: number, from: number, to: number, more: { pins?: number; deletes?: number } = {}) {
  const meta = metaOf(segment, { sequenceFrom: from, sequenceTo: to, deletes: more.deletes ?? 0 })
  return { pool: 1, meta, file: `${segment}.parquet`, deletes: `${segment}.deletes`, pins: more.pins ?? 0 }
}

const unlinked = () => asked.map(one => one.files.join(' '))
const emptied = () => givenUp.uncovered(1).map(one => one.sequenceFrom)

function release(one: ObsoleteFiles & { pins: number }): void {
  one.pins -= 1
  givenUp.released([one])
}

test('a replaced segment goes when nobody reads it, together with the others of its swap', () => {
  const [a, b, c] = [files(1, 10, 19), files(2, 20, 29, { pins: 2, deletes: 1 }), files(3, 30, 39)]
  givenUp.add([a, b, c], false)
  expect(unlinked()).toEqual(['1.parquet 3.parquet'])
  release(b)
  expect(asked.length).toBe(1)
  release(b)
  expect(unlinked().slice(1)).toEqual(['2.parquet 2.deletes'])
  expect(emptied()).toEqual([])
})

test('an emptied segment is known until its removal is durable, and then said', async () => {
  const one = files(1, 10, 19, { pins: 1 })
  givenUp.add([one], true)
  expect([emptied(), unlinked()]).toEqual([[10], []])
  release(one)
  expect([emptied(), unlinked(), gone]).toEqual([[10], ['1.parquet'], []])
  await asked[0]?.answer()
  expect([emptied(), gone]).toEqual([[], [1]])
})

test('an emptied segment waits until all that it stands for is gone for good', async () => {
  const inner = files(1, 10, 19, { pins: 1 })
  const beside = files(2, 0, 9, { pins: 1 })
  givenUp.add([inner, beside], false)
  givenUp.add([files(3, 10, 29)], true)
  expect(unlinked()).toEqual([])
  release(inner)
  expect(unlinked()).toEqual(['1.parquet'])
  await asked[0]?.answer()
  expect(unlinked()).toEqual(['1.parquet', '3.parquet'])
  await asked[1]?.answer()
  expect([emptied(), gone]).toEqual([[], [1]])
})

test('an emptied segment with deletes waits for the older ones: they may be of their rows', async () => {
  const older = files(3, 0, 9)
  const deletes = files(2, 10, 19, { deletes: 1 })
  givenUp.add([deletes, older, files(4, 20, 29)], true)
  expect(unlinked()).toEqual(['3.parquet 4.parquet'])
  await asked[0]?.answer()
  expect(unlinked().slice(1)).toEqual(['2.parquet 2.deletes'])
  await asked[1]?.answer()
  expect([emptied(), gone]).toEqual([[], [1, 1]])
})

test('what the disk refuses stays known, and is tried again with the next', async () => {
  givenUp.add([files(1, 10, 19)], true)
  await asked[0]?.answer(new Error('EIO'))
  expect([emptied(), gone, asked.length]).toEqual([[10], [], 1])
  givenUp.add([files(2, 20, 29)], false)
  expect(unlinked().slice(1)).toEqual(['1.parquet 2.parquet'])
  await asked[1]?.answer()
  expect([emptied(), gone]).toEqual([[], [1]])
})

test('with stale files of an earlier run in the folder nothing emptied goes, and rows of any age may be there', async () => {
  givenUp.keepUncovered(1)
  givenUp.add([files(1, 10, 19)], true)
  givenUp.add([files(2, 20, 29)], false)
  expect(unlinked()).toEqual(['2.parquet'])
  await asked[0]?.answer()
  expect(unlinked().length).toBe(1)
  expect(givenUp.uncovered(1)[0]).toEqual({
    rows: 1,
    sequenceFrom: 0,
    timestampFromUs: null,
    timestampToUs: null,
  })
  expect(emptied()).toEqual([0, 10])
  expect(givenUp.uncovered(2)).toEqual([])
})

test('the files of a deleted pool go in any order, those of running removals once', async () => {
  const pinned = files(2, 20, 29, { pins: 1 })
  const inner = files(3, 30, 35, { pins: 1 })
  givenUp.add([files(1, 10, 19)], false)
  givenUp.add([pinned, inner], false)
  givenUp.add([files(4, 30, 39)], true)
  givenUp.drop(1)
  expect(unlinked()).toEqual(['1.parquet', '4.parquet'])
  release(pinned)
  release(inner)
  expect(unlinked().slice(2)).toEqual(['2.parquet', '3.parquet'])
  for (const one of asked) await one.answer()
  expect([emptied(), gone]).toEqual([[], []])
})
