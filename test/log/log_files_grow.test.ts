/** The log's files begin small and grow with the load; a recovery uses files of any size. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listFolder } from '../../src/log/log-folder.ts'
import { SPARE_FILES_MIN } from '../../src/log/spare-thread.ts'
import { GROUP_BYTES_MAX, LOG_FILE_BYTES_MIN } from '../../src/util/limits.ts'
import { MemoryDisk } from '../util/memory-disk.ts'
import { FOLDER, openOn, recover, spanOf } from './log.ts'

const MiB = 2 ** 20
const FILE_BYTES_MAX = 4 * LOG_FILE_BYTES_MIN
const OPTIONS = { fileBytesMax: FILE_BYTES_MAX }

/** Sizes of the log's files and of its spares, in MiB. */
function sizes(disk: MemoryDisk): { files: number[]; spares: number[] } {
  const { files, spares } = listFolder(disk, FOLDER)
  const sizeOf = (name: string) => disk.size(join(FOLDER, name)) / MiB
  return { files: files.map(({ name }) => sizeOf(name)), spares: spares.map(sizeOf).sort((a, b) => a - b) }
}

function megabytes(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${index}`.padEnd(MiB - 100, '.'))
}

test('W-1: files double while the log is filled quickly, and a recovery reads all of them', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk, OPTIONS)
  const texts = megabytes(30)
  for (const text of texts) await commit.append([spanOf({ text })], 1).durable
  expect(sizes(disk).files).toEqual([4, 4, 4, 8, 16])
  await commit.stop()
  const again = await recover(disk.killed(), new Map([[1, 0]]), FILE_BYTES_MAX)
  expect(again.texts).toEqual(texts)
})

test('old files of the size of the next file are recycled, and smaller ones are removed', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk, OPTIONS)
  for (const text of megabytes(60)) await commit.append([spanOf({ text })], 1).durable
  commit.release(60)
  await commit.stop()
  const { files, spares } = sizes(disk)
  expect(files).toEqual([16])
  expect(spares.length).toBeGreaterThanOrEqual(SPARE_FILES_MIN)
  expect(spares.every(size => size === 16)).toBe(true)
})

test('a queue larger than the next file is written in groups that fit in it', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk, OPTIONS)
  const groups: number[] = []
  commit.onSync = (_, bytes) => groups.push(bytes)
  const texts = megabytes(40)
  await Promise.all(texts.map(text => commit.append([spanOf({ text })], 1).durable))
  await commit.stop()
  expect(Math.max(...groups.slice(0, 3))).toBeLessThan(LOG_FILE_BYTES_MIN)
  expect(Math.max(...groups)).toBeGreaterThan(LOG_FILE_BYTES_MIN)
  expect(Math.max(...groups)).toBeLessThanOrEqual(GROUP_BYTES_MAX)
  expect((await recover(disk.killed(), new Map([[1, 0]]), FILE_BYTES_MAX)).texts).toEqual(texts)
})

test('a start with a smaller setting removes larger spares; one with a larger setting uses smaller ones', async () => {
  const disk = new MemoryDisk()
  await (await openOn(disk, { fileBytesMax: 2 * LOG_FILE_BYTES_MIN })).commit.stop()
  await (await openOn(disk, OPTIONS)).commit.stop()
  expect(sizes(disk)).toEqual({ files: [4], spares: [4, 4] })
  await (await openOn(disk, { fileBytesMax: MiB })).commit.stop()
  expect(sizes(disk)).toEqual({ files: [1], spares: [1, 1] })
})
