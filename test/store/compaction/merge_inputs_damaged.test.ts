/** A merge over damaged inputs names the damaged one and leaves no file, and the thread goes on. */
import { copyFileSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { SegmentDamaged } from '../../../src/util/errors.ts'
import { deleteFile } from '../../../src/util/paths.ts'
import { randomOf, randomRow, schemaOfAll } from '../rows.ts'
import { MergeHarness } from './merge-harness.ts'

const schema = schemaOfAll(true)
const random = randomOf(1)
let harness: MergeHarness
let copies: Map<string, Buffer>

const rowsOf = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => randomRow(schema, random, `k${from + i}`).values!)

beforeEach(async () => {
  harness = await new MergeHarness(schema).open()
  const old = rowsOf(0, 40)
  harness.flush([{ values: old }]) // segment 1 is older, so that deletes stay
  harness.flush([{ values: rowsOf(100, 100) }], [old[3]!])
  harness.flush([{ values: rowsOf(500, 100) }], [old[4]!], 1)
  copies = new Map(readdirSync(harness.folder).map(name => [name, readFileSync(join(harness.folder, name))]))
})

afterEach(() => harness.close())

/** The merge fails and names `file`; with the files as they were it succeeds. */
async function expectNamed(file: string, what?: RegExp): Promise<void> {
  const task = harness.task(1, 2)
  const error = await harness.client.merge(task).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(SegmentDamaged)
  expect(error).toMatchObject({ file })
  if (what !== undefined) expect((error as Error).message).toMatch(what)
  expect(readdirSync(harness.folder).filter(name => !copies.has(name))).toEqual([])
  expect(readdirSync(join(harness.root, 'tmp', 'merge'))).toEqual(['spill'])
  for (const [name, bytes] of copies) writeFileSync(join(harness.folder, name), bytes)
  await harness.merge(1, 2)
}

describe.each([2, 3])('a merge names input segment %d', segment => {
  test('when it is missing', async () => {
    rmSync(harness.file(segment))
    await expectNamed(harness.file(segment))
  })

  test('when it is truncated', async () => {
    truncateSync(harness.file(segment), 1000)
    await expectNamed(harness.file(segment))
  })

  test('when it is empty', async () => {
    truncateSync(harness.file(segment), 0)
    await expectNamed(harness.file(segment))
  })

  test('when its pages are overwritten', async () => {
    const bytes = Buffer.from(copies.get(`000000000${segment}.parquet`)!)
    bytes.fill(0xff, 4, bytes.length >> 1)
    writeFileSync(harness.file(segment), bytes)
    await expectNamed(harness.file(segment))
  })

  test('when its pages are overwritten, though all its rows are expired', async () => {
    const bytes = Buffer.from(copies.get(`000000000${segment}.parquet`)!)
    bytes.fill(0xff, 4, bytes.length >> 1)
    writeFileSync(harness.file(segment), bytes)
    const error = await harness.client.merge(harness.task(1, 2, 9e15)).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ name: 'SegmentDamaged', file: harness.file(segment) })
  })

  test('when it is another segment', async () => {
    copyFileSync(harness.file(1), harness.file(segment))
    await expectNamed(harness.file(segment), /its footer has weir\.segment 1, not/)
  })

  test('when its delete file is missing', async () => {
    const file = join(harness.folder, deleteFile(segment))
    rmSync(file)
    await expectNamed(file, /missing/)
  })

  test('when its delete file has a wrong byte', async () => {
    const file = join(harness.folder, deleteFile(segment))
    const bytes = Buffer.from(copies.get(deleteFile(segment))!)
    bytes[60]! ^= 1
    writeFileSync(file, bytes)
    await expectNamed(file, /checksum/)
  })

  test('when its delete file belongs to another segment', async () => {
    const file = join(harness.folder, deleteFile(segment))
    copyFileSync(join(harness.folder, deleteFile(5 - segment)), file)
    await expectNamed(file, /another flush/)
  })
})

test('a merge names an expired segment whose keys are unreadable', async () => {
  truncateSync(harness.file(2), 1000)
  const error = await harness.client.merge(harness.task(1, 2, 9e15)).catch((reason: unknown) => reason)
  expect(error).toMatchObject({ name: 'SegmentDamaged', file: harness.file(2) })
})
