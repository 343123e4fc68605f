/** W-13: which requests the log still holds, as an index asks that finds files of seals which it does not know. */
import { expect, test } from 'vitest'
import { heldSequences } from '../../src/commit/held.ts'
import { MemoryDisk } from '../util/memory-disk.ts'
import { randomFrom } from '../util/random.ts'
import { FOLDER, openOn, spanOf } from './log.ts'

const POOLS = new Set([1, 3])
const SEALED = new Map([
  [1, 0],
  [2, 0],
  [3, 0],
])

/** Requests 1 to 12, each synced by itself: of pool 1, 2, 3, 1, 2, 3, …; every fourth one deletes. */
async function filled(disk = new MemoryDisk()): Promise<MemoryDisk> {
  const { commit } = await openOn(disk, { sealed: SEALED })
  for (let sequence = 1; sequence <= 12; sequence++) {
    const kind = sequence % 4 === 0 ? 'delete' : 'post'
    const body = { text: `request ${sequence}`, pool: 1 + ((sequence - 1) % 3), kind } as const
    await commit.append([spanOf(body)], 1).durable
  }
  await commit.stop()
  return disk
}

const held = (disk: MemoryDisk) => {
  const found = heldSequences(disk, FOLDER, POOLS)
  return found && Object.fromEntries([...found].map(([pool, sequences]) => [pool, [...sequences]]))
}

test('posts and deletes of the pools that are asked for, and of no other', async () => {
  const disk = await filled()
  expect(held(disk)).toEqual({ 1: [1, 4, 7, 10], 3: [3, 6, 9, 12] })
  expect(held(disk.killed())).toEqual({ 1: [1, 4, 7, 10], 3: [3, 6, 9, 12] })
})

test('requests that were sealed when the log was last recovered are not there any more', async () => {
  const disk = (await filled()).killed()
  const sealed = new Map([
    [1, 7],
    [2, 12],
    [3, 0],
  ])
  const { commit } = await openOn(disk, { sealed })
  await commit.append([spanOf({ text: 'later', pool: 1 })], 1).durable
  await commit.stop()
  // The mark of the clean stop had number 13.
  expect(held(disk)).toEqual({ 1: [10, 14], 3: [3, 6, 9, 12] })
})

test('an unfinished group at the end is no damage: what stands before it is held', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk, { sealed: SEALED })
  await commit.append([spanOf({ text: 'synced' })], 1).durable
  disk.failNext('fdatasync', 'EIO', /-\d{8}\.log/)
  await commit.append([spanOf({ text: 'x'.repeat(3000) })], 1).durable.catch(() => undefined)
  await commit.stop()
  for (let cut = 0; cut < 20; cut++) expect(held(disk.cut(randomFrom(cut)))?.[1]).toContain(1)
})

test('nobody knows what a damaged log holds', async () => {
  const disk = await filled()
  const [path = '', bytes] = [...disk.content().files].find(([name]) => /\/\d+-\d{8}\.log$/.test(name)) ?? []
  for (const sequence of [1, 5, 11]) {
    const at = Buffer.from(bytes!).indexOf(`request ${sequence}`)
    disk.damage(path, at)
    expect(held(disk)).toBeUndefined()
    disk.damage(path, at)
  }
  expect(held(disk)).toBeDefined()
  disk.unlink(path)
  expect(held(disk)).toBeUndefined()
})

test('no log, or one that was never written, holds nothing', async () => {
  expect(held(new MemoryDisk())).toEqual({ 1: [], 3: [] })
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk, { sealed: SEALED })
  await commit.stop()
  expect(held(disk)).toEqual({ 1: [], 3: [] })
})
