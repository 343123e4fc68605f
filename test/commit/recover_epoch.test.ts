import { join } from 'node:path'
import { expect, test } from 'vitest'
import { logFileName } from '../../src/commit/file.ts'
import { MemoryDisk, PowerCut } from '../util/memory-disk.ts'
import { below, randomFrom } from '../util/random.ts'
import { FOLDER, faultOf, recover, SMALL_FILE, severalFiles, spanOf, writerOver } from './log.ts'

test('a log of several files comes back in order, into several files of the next epoch', async () => {
  const { disk, texts } = await severalFiles(30)
  const log = await recover(disk, undefined, SMALL_FILE)
  expect(log.texts).toEqual(texts)
  expect(log.found.map(each => each.sequence)).toEqual(texts.map((_, index) => index + 1))
  expect(log.epoch.files.length).toBeGreaterThan(3)
  const again = await recover(disk.killed(), undefined, SMALL_FILE)
  expect(again.texts).toEqual(texts)
  expect(again.summary.epoch).toBe(3)
})

test('a partial bitmap, kind, version and received-at come back as written', async () => {
  const disk = new MemoryDisk()
  const writer = writerOver(await recover(disk))
  const bits = new Uint8Array([0b1010_1010, 1])
  const spans = [spanOf({ text: 'p', events: 9, bits }), spanOf({ text: 'd', kind: 'delete', pool: 2 })]
  writer.write({ firstSequence: 1, spans, sync: false })
  const pools = new Map([
    [1, 0],
    [2, 0],
  ])
  const { found } = await recover(disk.killed(), pools)
  expect(found[0]!.bits).toEqual(bits)
  expect(found[0]!.record).toMatchObject({
    kind: 'post',
    pool: 1,
    version: 7,
    receivedAtMs: 1_700_000_000_123,
  })
  expect(found[1]!.record).toMatchObject({ kind: 'delete', pool: 2, sequence: 2, bitsOffset: -1 })
})

test('W-2 a missing file in the middle, at the front or a missing head is damage', async () => {
  for (const position of [0, 1]) {
    const { disk } = await severalFiles(30)
    disk.unlink(join(FOLDER, logFileName(1, position)))
    const error = await faultOf(recover(disk, undefined, SMALL_FILE))
    expect(error.name).toBe('Damaged')
    expect(error.message).toContain(`log file ${position} of epoch 1 is missing`)
  }
  const { disk } = await severalFiles(3)
  disk.unlink(join(FOLDER, 'head'))
  expect((await faultOf(recover(disk, undefined, SMALL_FILE))).name).toBe('Damaged')
})

test('W-2 a record lost at the end of a full file is damage: the next file tells', async () => {
  const { disk } = await severalFiles(30)
  const path = join(FOLDER, logFileName(1, 1))
  // Seven records of 568 bytes fit in a file of 8 KiB; the last begins at the seventh place at most.
  const error = await (async () => {
    for (let at = SMALL_FILE - 64; at > 4096; at -= 8) {
      const probe = new Uint8Array(4)
      const file = disk.open(path, 'r')
      disk.read(file, probe, at)
      disk.close(file)
      if (new TextDecoder().decode(probe) !== 'WREC') continue
      disk.damage(path, at + 70)
      return faultOf(recover(disk, undefined, SMALL_FILE))
    }
    throw new Error('no record')
  })()
  expect(error.message).toMatch(/expected sequence \d+, found no valid record; the next file begins with/)
  expect(error.file).toBe(path)
})

test('W-13 sealed records and those of deleted pools are not replayed; numbers keep going up', async () => {
  const disk = new MemoryDisk()
  const writer = writerOver(await recover(disk))
  const spans = [1, 2, 3, 1, 2, 3].map((pool, index) => spanOf({ text: String(index + 1), pool }))
  writer.write({ firstSequence: 1, spans, sync: false })
  const pools = new Map([
    [1, 1],
    [2, 5],
    [3, -1],
  ])
  const log = await recover(disk.killed(), pools)
  expect(log.texts).toEqual(['4'])
  const again = await recover(disk.killed(), new Map(pools).set(1, 4))
  expect(again.texts).toEqual([])
  expect(again.summary.lastSequence).toBe(6)
  expect((await recover(disk.killed(), new Map(pools).set(1, 4))).summary.lastSequence).toBe(6)
})

test('a record of a pool never known is damage', async () => {
  const disk = new MemoryDisk()
  const writer = writerOver(await recover(disk))
  writer.write({ firstSequence: 1, spans: [spanOf({ text: 'x', pool: 9 })], sync: false })
  expect((await faultOf(recover(disk.killed()))).message).toContain('pool 9, which was never known')
})

test('a new folder counts on above the highest sealed sequence', async () => {
  const log = await recover(new MemoryDisk(), new Map([[1, 41]]))
  expect(log.summary.lastSequence).toBe(41)
})

test('W-3 killed at each step of recovery, twice in a row, nothing is lost', async () => {
  const seed = 20_240_601
  const random = randomFrom(seed)
  const { disk: origin, texts } = await severalFiles(24)
  let disk = origin
  const steps = await changesOf(disk.killed())
  expect(steps).toBeGreaterThan(10)
  for (let first = 1; first <= steps; first++) {
    disk = (await severalFiles(24)).disk
    for (const step of [first, 1 + below(random, steps)]) {
      disk.stopAfter(step)
      await recover(disk, undefined, SMALL_FILE).catch((error: unknown) => {
        if (!(error instanceof PowerCut)) throw error
      })
      disk = random() < 0.3 ? disk.killed() : disk.cut(random)
    }
    const log = await recover(disk, undefined, SMALL_FILE)
    expect(log.texts, `seed ${seed}, cut at ${first}`).toEqual(texts)
  }
})

async function changesOf(disk: MemoryDisk): Promise<number> {
  await recover(disk, undefined, SMALL_FILE)
  return disk.changes
}
