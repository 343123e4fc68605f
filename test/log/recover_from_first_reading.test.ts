/**
 * W-2, W-13: a start reads the log before it knows what is flushed, and caches part of it. The
 * result is the same as with one reading of everything, for any size of the cache.
 */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { FILE_HEADER_BYTES, listFolder } from '../../src/log/log-folder.ts'
import { readFirst, recoverLog } from '../../src/log/recover-log.ts'
import type { Disk } from '../../src/util/disk.ts'
import { errorOf, FOLDER, foundIn, SMALL_FILE, severalFiles } from './log.ts'

const REQUESTS = 30

/** Requests of pool 1, but 7 and 8, which are of pool 2. */
const twoPools = () => severalFiles(REQUESTS, sequence => (sequence === 7 || sequence === 8 ? 2 : 1))

const flushed = (one: number, two: number) =>
  new Map([
    [1, one],
    [2, two],
  ])

/** Reads the log with a cache of `cached` bytes, calls `between`, then recovers. */
async function recoverCached(
  disk: Disk,
  options: { cached: number; flushed: ReadonlyMap<number, number>; between?: () => void },
) {
  const reading = readFirst(disk, FOLDER, options.cached)
  options.between?.()
  const texts: string[] = []
  const replay = async (chunk: Parameters<typeof foundIn>[0]) => {
    texts.push(...foundIn(chunk).map(({ text }) => text))
  }
  const { summary } = await recoverLog({
    disk,
    folder: FOLDER,
    fileBytesMax: SMALL_FILE,
    flushed: options.flushed,
    replay,
    reading,
  })
  return { summary, texts }
}

test.each([0, SMALL_FILE, 2 * SMALL_FILE, 1e9])(
  'with a cache of %d bytes, a log of 8 KiB files is replayed as a whole',
  async cached => {
    const { disk, texts } = await twoPools()
    expect(listFolder(disk, FOLDER).files.length).toBeGreaterThan(3)
    const found = await recoverCached(disk, { cached, flushed: flushed(0, 0) })
    expect(found.texts).toEqual(texts)
    expect(found.summary).toMatchObject({ lastSequence: REQUESTS, replayed: REQUESTS, skipped: 0 })
    const again = await recoverCached(disk.killed(), { cached, flushed: flushed(20, 7) })
    expect(again.texts).toEqual([texts[7], ...texts.slice(20)])
    expect(again.summary).toMatchObject({ lastSequence: REQUESTS, replayed: 11, skipped: REQUESTS - 11 })
  },
)

test.each([0, 1e9])(
  'W-2 with a cache of %d bytes, a log that disagrees with the flushed sequences is damage and stays as it is',
  async cached => {
    const { disk } = await twoPools()
    const before = disk.readdir(FOLDER)
    const unknown = await errorOf(recoverCached(disk, { cached, flushed: new Map([[1, 0]]) }))
    expect(unknown.name).toBe('Damaged')
    expect(unknown.message).toContain('sequence 7 belongs to pool 2, which was never known')
    const above = await errorOf(recoverCached(disk, { cached, flushed: flushed(REQUESTS + 1, 0) }))
    expect(above.message).toContain(
      `no valid record of sequence ${REQUESTS + 1}, but sequence ${REQUESTS + 1} is flushed`,
    )
    expect(disk.readdir(FOLDER)).toEqual(before)
  },
)

test('W-2 a file that changed between the two readings is damage', async () => {
  const { disk } = await twoPools()
  const last = join(FOLDER, listFolder(disk, FOLDER).files.at(-1)!.name)
  const between = () => {
    const file = disk.open(last, 'r+')
    disk.write(file, [new Uint8Array(SMALL_FILE - FILE_HEADER_BYTES)], FILE_HEADER_BYTES)
    disk.close(file)
  }
  const error = await errorOf(recoverCached(disk, { cached: SMALL_FILE, flushed: flushed(0, 0), between }))
  expect(error.name).toBe('Damaged')
  expect(error.message).toMatch(/ended with 30 when the start read it first|sequence 30 was synced/)
})
