/**
 * W-13: the sequences that the log still holds. The index asks for them when it finds the file of
 * an unknown flush.
 */
import { expect, test } from 'vitest'
import { loggedSequences } from '../../src/log/read-log.ts'
import { MemoryDisk } from '../util/memory-disk.ts'
import { randomFrom } from '../util/random.ts'
import { FOLDER, openOn, spanOf } from './log.ts'

const POOLS = new Set([1, 3])
const FLUSHED = new Map([
  [1, 0],
  [2, 0],
  [3, 0],
])

/**
 * Requests 1 to 12, each synced by itself, of pools 1, 2, 3, 1, 2, 3, … Every fourth one deletes.
 */
async function filled(disk = new MemoryDisk()): Promise<MemoryDisk> {
  const { commit } = await openOn(disk, { flushed: FLUSHED })
  for (let sequence = 1; sequence <= 12; sequence++) {
    const kind = sequence % 4 === 0 ? 'delete' : 'post'
    const body = { text: `request ${sequence}`, pool: 1 + ((sequence - 1) % 3), kind } as const
    await commit.append([spanOf(body)], 1).durable
  }
  await commit.stop()
  return disk
}

const held = (disk: MemoryDisk) => {
  const found = loggedSequences(disk, FOLDER, POOLS)
  return found && Object.fromEntries([...found].map(([pool, sequences]) => [pool, [...sequences]]))
}

test('the log holds the posts and deletes of the pools asked for, and of no other', async () => {
  const disk = await filled()
  expect(held(disk)).toEqual({ 1: [1, 4, 7, 10], 3: [3, 6, 9, 12] })
  expect(held(disk.killed())).toEqual({ 1: [1, 4, 7, 10], 3: [3, 6, 9, 12] })
})

test('the log no longer holds requests that were flushed at its last recovery', async () => {
  const disk = (await filled()).killed()
  const flushed = new Map([
    [1, 7],
    [2, 12],
    [3, 0],
  ])
  const { commit } = await openOn(disk, { flushed })
  await commit.append([spanOf({ text: 'later', pool: 1 })], 1).durable
  await commit.stop()
  // The clean-stop record has sequence 13.
  expect(held(disk)).toEqual({ 1: [10, 14], 3: [3, 6, 9, 12] })
})

test('an unfinished group at the end is no damage: the log holds the requests before it', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk, { flushed: FLUSHED })
  await commit.append([spanOf({ text: 'synced' })], 1).durable
  disk.failNext('fdatasync', 'EIO', /-\d{8}\.log/)
  await commit.append([spanOf({ text: 'x'.repeat(3000) })], 1).durable.catch(() => undefined)
  await commit.stop()
  for (let cut = 0; cut < 20; cut++) expect(held(disk.cut(randomFrom(cut)))?.[1]).toContain(1)
})

test('a damaged log has no answer', async () => {
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

test('a missing log and an empty log hold nothing', async () => {
  expect(held(new MemoryDisk())).toEqual({ 1: [], 3: [] })
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk, { flushed: FLUSHED })
  await commit.stop()
  expect(held(disk)).toEqual({ 1: [], 3: [] })
})
