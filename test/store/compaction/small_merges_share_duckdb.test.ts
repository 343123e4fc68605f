/**
 * Small merges share one instance of DuckDB: no merge sees data of another one, and a large or
 * failed merge frees its memory.
 */
import { copyFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import {
  MERGE_REUSE_BYTES_MAX,
  MERGE_SORTED_ROW_BYTES_MAX,
  MergeWriter,
} from '../../../src/store/compaction/merge.ts'
import { MergeEngine } from '../../../src/store/compaction/merge-engine.ts'
import { MergeThrottle } from '../../../src/store/compaction/merge-throttle.ts'
import { monotonicMs } from '../../../src/util/clock.ts'
import { SegmentDamaged } from '../../../src/util/errors.ts'
import { keySchema } from '../rows.ts'
import { MergeHarness } from './merge-harness.ts'

const opened = vi.spyOn(MergeEngine, 'open')
const closed = vi.spyOn(MergeEngine.prototype, 'close')
let harness: MergeHarness
let writer: MergeWriter

beforeEach(async () => {
  harness = await new MergeHarness(keySchema).open()
  const clock = { cpuMs: () => 0, nowMs: monotonicMs, after: () => () => undefined }
  writer = new MergeWriter(new MergeThrottle(clock, 'full'), join(harness.root, 'tmp', 'own'))
  vi.clearAllMocks()
})

afterEach(async () => {
  writer.close()
  expect(closed.mock.calls.length, 'all instances are closed').toBe(opened.mock.calls.length)
  await harness.close()
})

/** The number of instances ever opened, and of those still open. */
const instances = () => [opened.mock.calls.length, opened.mock.calls.length - closed.mock.calls.length]

function flush(ids: string, payloadBytes = 2): void {
  const values = [...ids].map(id => [id])
  harness.flush([{ values, payloads: [...ids].map(id => JSON.stringify(id.repeat(payloadBytes - 2))) }])
}

const idsIn = async (segment: number) => {
  const reader = await harness.duck.runAndReadAll(`SELECT id FROM '${harness.file(segment)}'`)
  return reader
    .getRows()
    .map(([id]) => id)
    .sort()
    .join('')
}

test('small merges share one instance, each with its own deletion vectors', async () => {
  flush('abc')
  flush('def')
  flush('gh')
  const deletionVectors = harness.segments.map(segment => segment.deletionVectors)
  deletionVectors[0]!.add(0)
  const first = await writer.merge(harness.task(0, 2))
  deletionVectors[0]!.clear()
  deletionVectors[1]!.add(2)
  const second = await writer.merge(harness.task(0, 3))
  const third = await writer.merge(harness.task(2, 1))
  deletionVectors[2]!.add(0).add(1)
  const none = await writer.merge(harness.task(2, 1))
  expect(await idsIn(first.meta!.segment)).toBe('bcdef')
  expect(await idsIn(second.meta!.segment)).toBe('abcdegh')
  expect(await idsIn(third.meta!.segment)).toBe('gh')
  expect(none.meta).toMatchObject({ rows: 0, deletes: 0 })
  expect(instances()).toEqual([1, 1])
})

test('a segment that was damaged since the last merge is named', async () => {
  for (const ids of ['ab', 'cd', 'ef']) flush(ids)
  const file = harness.file(2)
  const bytes = readFileSync(file)
  const breaks = [
    () => copyFileSync(harness.file(1), file),
    () => truncateSync(file, 100),
    () => writeFileSync(file, Buffer.from(bytes).fill(0xff, 4, bytes.length >> 1)),
  ]
  for (const [i, damage] of breaks.entries()) {
    expect((await writer.merge(harness.task(0, 3))).meta).toMatchObject({ rows: 6 })
    expect(instances()).toEqual([i + 1, 1])
    damage()
    const error = await writer.merge(harness.task(0, 3)).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(SegmentDamaged)
    expect(error).toMatchObject({ file })
    expect(instances(), 'a failed merge leaves none').toEqual([i + 1, 0])
    writeFileSync(file, bytes)
  }
})

test('a large merge leaves no instance, and a small one after it opens another', async () => {
  const ids = 'abcdefghijklmnopqrstuvwxyz'
  const letters = Array.from({ length: 800 }, (_, i) => String.fromCharCode(0x4e00 + i)).join('')
  flush(ids)
  flush(letters, MERGE_REUSE_BYTES_MAX / letters.length / 3)
  flush('0', 2 * MERGE_SORTED_ROW_BYTES_MAX) // few bytes, but the row needs more memory
  const merges = [
    [0, 1, 1],
    [0, 2, 0],
    [0, 1, 1],
    [2, 1, 0],
    [0, 1, 1],
  ] as const
  for (const [from, count, left] of merges) {
    const { meta } = await writer.merge(harness.task(from, count))
    expect(meta!.rows).toBe([26, 826, 1][from === 2 ? 2 : count - 1])
    expect(instances()[1]).toBe(left)
  }
  expect(instances()[0]).toBe(3)
})
