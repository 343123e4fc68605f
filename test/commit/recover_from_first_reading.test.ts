/**
 * The log is read before anybody knows what is sealed: what that reading keeps in memory, what it reads again, and what is
 * held against it later are the same as one reading of everything (W-2, W-13).
 */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { FILE_HEADER_BYTES, listFolder } from '../../src/commit/file.ts'
import { readFirst } from '../../src/commit/first-reading.ts'
import { recoverLog } from '../../src/commit/recover.ts'
import type { Disk } from '../../src/util/disk.ts'
import { FOLDER, faultOf, foundIn, SMALL_FILE, severalFiles } from './log.ts'

const REQUESTS = 30

/** Requests of pool 1, but 7 and 8, which are of pool 2. */
const twoPools = () => severalFiles(REQUESTS, sequence => (sequence === 7 || sequence === 8 ? 2 : 1))

const sealed = (one: number, two: number) =>
  new Map([
    [1, one],
    [2, two],
  ])

/** Reads with so much kept, calls `between`, recovers. */
async function recoverKept(
  disk: Disk,
  options: { kept: number; sealed: ReadonlyMap<number, number>; between?: () => void },
) {
  const reading = readFirst(disk, FOLDER, options.kept)
  options.between?.()
  const texts: string[] = []
  const replay = async (chunk: Parameters<typeof foundIn>[0]) => {
    texts.push(...foundIn(chunk).map(({ text }) => text))
  }
  const { summary } = await recoverLog({
    disk,
    folder: FOLDER,
    fileBytes: SMALL_FILE,
    sealed: options.sealed,
    replay,
    reading,
  })
  return { summary, texts }
}

test.each([0, SMALL_FILE, 2 * SMALL_FILE, 1e9])(
  'of a log in files of 8 KiB, %d bytes are kept: all comes back',
  async kept => {
    const { disk, texts } = await twoPools()
    expect(listFolder(disk, FOLDER).files.length).toBeGreaterThan(3)
    const found = await recoverKept(disk, { kept, sealed: sealed(0, 0) })
    expect(found.texts).toEqual(texts)
    expect(found.summary).toMatchObject({ lastSequence: REQUESTS, replayed: REQUESTS, skipped: 0 })
    const again = await recoverKept(disk.killed(), { kept, sealed: sealed(20, 7) })
    expect(again.texts).toEqual([texts[7], ...texts.slice(20)])
    expect(again.summary).toMatchObject({ lastSequence: REQUESTS, replayed: 11, skipped: REQUESTS - 11 })
  },
)

test.each([0, 1e9])(
  'W-2 what is sealed is held against what was read, %d bytes kept, and nothing is changed',
  async kept => {
    const { disk } = await twoPools()
    const before = disk.readdir(FOLDER)
    const unknown = await faultOf(recoverKept(disk, { kept, sealed: new Map([[1, 0]]) }))
    expect(unknown.name).toBe('Damaged')
    expect(unknown.message).toContain('sequence 7 belongs to pool 2, which was never known')
    const above = await faultOf(recoverKept(disk, { kept, sealed: sealed(REQUESTS + 1, 0) }))
    expect(above.message).toContain(
      `no valid record of sequence ${REQUESTS + 1}, but sequence ${REQUESTS + 1} is sealed`,
    )
    expect(disk.readdir(FOLDER)).toEqual(before)
  },
)

test('W-2 a file that is another one when it is read again is damage', async () => {
  const { disk } = await twoPools()
  const last = join(FOLDER, listFolder(disk, FOLDER).files.at(-1)!.name)
  const between = () => {
    const file = disk.open(last, 'r+')
    disk.write(file, [new Uint8Array(SMALL_FILE - FILE_HEADER_BYTES)], FILE_HEADER_BYTES)
    disk.close(file)
  }
  const error = await faultOf(recoverKept(disk, { kept: SMALL_FILE, sealed: sealed(0, 0), between }))
  expect(error.name).toBe('Damaged')
  expect(error.message).toMatch(/a moment ago it ended with 30|sequence 30 was synced/)
})
