/**
 * Small merges share one instance of DuckDB: nothing of one is seen by the next, and after a large or failed one its memory
 * goes back.
 */
import { copyFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { MergeWriter } from '../../src/compact/merge.ts'
import { MergeEngine } from '../../src/compact/merge-engine.ts'
import { Pacer } from '../../src/compact/pace.ts'
import { SegmentDamaged } from '../../src/errors.ts'
import { readSegmentKeys } from '../../src/keys/segment-keys.ts'
import { MERGE_KEPT_BYTES_MAX, MERGE_SORTED_ROW_BYTES_MAX } from '../../src/limits.ts'
import { readDeleteFile, writeDeleteFile } from '../../src/segment/deletes.ts'
import { publishInPieces } from '../../src/segment/publish.ts'
import { monotonicMs } from '../../src/util/clock.ts'
import { keyPlan } from '../segment/rows.ts'
import { World } from './merge-world.ts'

const CALLS = { readSegmentKeys, readDeleteFile, writeDeleteFile, publishInPieces }
const opened = vi.spyOn(MergeEngine, 'open')
const closed = vi.spyOn(MergeEngine.prototype, 'close')
let world: World
let writer: MergeWriter

beforeEach(async () => {
  world = await new World(keyPlan).open()
  const clock = { cpuMs: () => 0, nowMs: monotonicMs, after: () => () => undefined }
  writer = new MergeWriter(CALLS, new Pacer(clock, 'alone'), join(world.root, 'tmp', 'own'))
  vi.clearAllMocks()
})

afterEach(async () => {
  writer.close()
  expect(closed.mock.calls.length, 'all are closed').toBe(opened.mock.calls.length)
  await world.close()
})

/** Instances that were opened and those that are open. */
const instances = () => [opened.mock.calls.length, opened.mock.calls.length - closed.mock.calls.length]

function seal(ids: string, payloadBytes = 2): void {
  const values = [...ids].map(id => [id])
  world.seal([{ values, payloads: [...ids].map(id => JSON.stringify(id.repeat(payloadBytes - 2))) }])
}

const idsIn = async (segment: number) => {
  const reader = await world.duck.runAndReadAll(`SELECT id FROM '${world.file(segment)}'`)
  return reader
    .getRows()
    .map(([id]) => id)
    .sort()
    .join('')
}

it('small ones share one, with the marks of each', async () => {
  seal('abc')
  seal('def')
  seal('gh')
  const marks = world.segments.map(segment => segment.marks)
  marks[0]!.add(0)
  const first = await writer.merge(world.job(0, 2))
  marks[0]!.clear()
  marks[1]!.add(2)
  const second = await writer.merge(world.job(0, 3))
  const third = await writer.merge(world.job(2, 1))
  marks[2]!.add(0).add(1)
  const none = await writer.merge(world.job(2, 1))
  expect(await idsIn(first.meta!.segment)).toBe('bcdef')
  expect(await idsIn(second.meta!.segment)).toBe('abcdegh')
  expect(await idsIn(third.meta!.segment)).toBe('gh')
  expect(none.meta).toBeUndefined()
  expect(instances()).toEqual([1, 1])
})

it('a segment that was whole in the last merge and is not any more is named', async () => {
  for (const ids of ['ab', 'cd', 'ef']) seal(ids)
  const file = world.file(2)
  const bytes = readFileSync(file)
  const breaks = [
    () => copyFileSync(world.file(1), file),
    () => truncateSync(file, 100),
    () => writeFileSync(file, Buffer.from(bytes).fill(0xff, 4, bytes.length >> 1)),
  ]
  for (const [i, damage] of breaks.entries()) {
    expect((await writer.merge(world.job(0, 3))).meta).toMatchObject({ rows: 6 })
    expect(instances()).toEqual([i + 1, 1])
    damage()
    const error = await writer.merge(world.job(0, 3)).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(SegmentDamaged)
    expect(error).toMatchObject({ file })
    expect(instances(), 'a merge that failed leaves none').toEqual([i + 1, 0])
    writeFileSync(file, bytes)
  }
})

it('a large one leaves none, a small one after it opens another', async () => {
  const ids = 'abcdefghijklmnopqrstuvwxyz'
  const letters = Array.from({ length: 800 }, (_, i) => String.fromCharCode(0x4e00 + i)).join('')
  seal(ids)
  seal(letters, MERGE_KEPT_BYTES_MAX / letters.length / 3)
  seal('0', 2 * MERGE_SORTED_ROW_BYTES_MAX) // few bytes; but its row takes more memory
  const plans = [
    [0, 1, 1],
    [0, 2, 0],
    [0, 1, 1],
    [2, 1, 0],
    [0, 1, 1],
  ] as const
  for (const [from, count, left] of plans) {
    const { meta } = await writer.merge(world.job(from, count))
    expect(meta!.rows).toBe([26, 826, 1][from === 2 ? 2 : count - 1])
    expect(instances()[1]).toBe(left)
  }
  expect(instances()[0]).toBe(3)
})
