/** A merge over damaged inputs names the damaged one, leaves nothing behind, and the thread goes on. */
import { copyFileSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SegmentDamaged } from '../../src/errors.ts'
import { deleteFile } from '../../src/paths.ts'
import { planOfAll, randomOf, randomRow } from '../segment/rows.ts'
import { World } from './merge-world.ts'

const plan = planOfAll(true)
const random = randomOf(1)
let world: World
let copies: Map<string, Buffer>

const rowsOf = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => randomRow(plan, random, `k${from + i}`).values!)

beforeEach(async () => {
  world = await new World(plan).open()
  const old = rowsOf(0, 40)
  world.seal([{ values: old }]) // 1: older, so that deletes stay
  world.seal([{ values: rowsOf(100, 100) }], [old[3]!])
  world.seal([{ values: rowsOf(500, 100) }], [old[4]!], 1)
  copies = new Map(readdirSync(world.folder).map(name => [name, readFileSync(join(world.folder, name))]))
})

afterEach(() => world.close())

/** The merge fails naming `file`; with the files as they were it comes about. */
async function expectNamed(file: string, what?: RegExp): Promise<void> {
  const job = world.job(1, 2)
  const error = await world.client.merge(job).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(SegmentDamaged)
  expect(error).toMatchObject({ file })
  if (what !== undefined) expect((error as Error).message).toMatch(what)
  expect(readdirSync(world.folder).filter(name => !copies.has(name))).toEqual([])
  expect(readdirSync(join(world.root, 'tmp', 'merge'))).toEqual(['spill'])
  for (const [name, bytes] of copies) writeFileSync(join(world.folder, name), bytes)
  await world.merge(1, 2)
}

describe.each([2, 3])('segment %d of a merge', segment => {
  it('that is missing is named', async () => {
    rmSync(world.file(segment))
    await expectNamed(world.file(segment))
  })

  it('that is cut short is named', async () => {
    truncateSync(world.file(segment), 1000)
    await expectNamed(world.file(segment))
  })

  it('that is empty is named', async () => {
    truncateSync(world.file(segment), 0)
    await expectNamed(world.file(segment))
  })

  it('whose pages are overwritten is named', async () => {
    const bytes = Buffer.from(copies.get(`000000000${segment}.parquet`)!)
    bytes.fill(0xff, 4, bytes.length >> 1)
    writeFileSync(world.file(segment), bytes)
    await expectNamed(world.file(segment))
  })

  it('whose pages are overwritten is named though all its rows are expired', async () => {
    const bytes = Buffer.from(copies.get(`000000000${segment}.parquet`)!)
    bytes.fill(0xff, 4, bytes.length >> 1)
    writeFileSync(world.file(segment), bytes)
    const error = await world.client.merge(world.job(1, 2, 9e15)).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ name: 'SegmentDamaged', file: world.file(segment) })
  })

  it('that is another segment is named', async () => {
    copyFileSync(world.file(1), world.file(segment))
    await expectNamed(world.file(segment), /its footer has weir\.segment 1, not/)
  })

  it('whose delete file is missing is named', async () => {
    const file = join(world.folder, deleteFile(segment))
    rmSync(file)
    await expectNamed(file, /missing/)
  })

  it('whose delete file has a wrong byte is named', async () => {
    const file = join(world.folder, deleteFile(segment))
    const bytes = Buffer.from(copies.get(deleteFile(segment))!)
    bytes[60]! ^= 1
    writeFileSync(file, bytes)
    await expectNamed(file, /checksum/)
  })

  it('whose delete file is of another segment is named', async () => {
    const file = join(world.folder, deleteFile(segment))
    copyFileSync(join(world.folder, deleteFile(5 - segment)), file)
    await expectNamed(file, /another seal/)
  })
})

it('an expired segment whose keys cannot be read is named', async () => {
  truncateSync(world.file(2), 1000)
  const error = await world.client.merge(world.job(1, 2, 9e15)).catch((reason: unknown) => reason)
  expect(error).toMatchObject({ name: 'SegmentDamaged', file: world.file(2) })
})
