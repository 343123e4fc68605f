import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { expect, test } from 'vitest'
import { writeU64 } from '../../src/format/log-record.ts'
import { decodeFileHeader, FILE_HEADER_BYTES, logFileName } from '../../src/log/log-folder.ts'
import { stampHeader, viewOf, wholeRecordBytes } from '../../src/log/record-codec.ts'
import { readFile } from '../../src/util/disk.ts'
import { MemoryDisk, PowerCut } from '../util/memory-disk.ts'
import { below, randomFrom } from '../util/random.ts'
import { errorOf, FOLDER, recover, SMALL_FILE, severalFiles, spanOf, writerOver } from './log.ts'

test('a log of several files comes back in order, into several files of the next generation', async () => {
  const { disk, texts } = await severalFiles(30)
  const log = await recover(disk, undefined, SMALL_FILE)
  expect(log.texts).toEqual(texts)
  expect(log.found.map(each => each.sequence)).toEqual(texts.map((_, index) => index + 1))
  expect(log.generation.files.length).toBeGreaterThan(3)
  const again = await recover(disk.killed(), undefined, SMALL_FILE)
  expect(again.texts).toEqual(texts)
  expect(again.summary.generation).toBe(3)
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
    receivedAtUs: 1_700_000_000_123_456,
  })
  expect(found[1]!.record).toMatchObject({ kind: 'delete', pool: 2, sequence: 2, bitsOffset: -1 })
})

/**
 * Turns the log's one file into version 1: its records hold milliseconds and do not name the unit.
 */
function writeAsVersion1(disk: MemoryDisk): void {
  const path = join(FOLDER, logFileName(1, 0))
  const bytes = readFile(disk, path)
  const { salt } = decodeFileHeader(bytes, path)
  const view = viewOf(bytes)
  view.setUint32(8, 1, true)
  view.setUint32(4, crc32(bytes.subarray(8, 64)), true)
  for (let sequence = 1, at = FILE_HEADER_BYTES; sequence <= 2; sequence++) {
    writeU64(view, at + 24, 1_700_000_000_123)
    view.setUint16(at + 58, view.getUint16(at + 58, true) & ~2, true)
    stampHeader(bytes, view, at, { sequence, group: 1, salt })
    at += wholeRecordBytes(view, at)
  }
  const file = disk.open(path, 'r+')
  disk.write(file, [bytes], 0)
  disk.fdatasync(file)
  disk.close(file)
}

test('a log of version 1 is replayed, and stays readable when each start copies it into a new generation', async () => {
  const disk = new MemoryDisk()
  const writer = writerOver(await recover(disk))
  const bits = new Uint8Array([3])
  writer.write({
    firstSequence: 1,
    spans: [spanOf({ text: 'a' }, { text: 'b', events: 3, bits })],
    sync: true,
  })
  writeAsVersion1(disk)
  for (let start = 0; start < 3; start++) {
    const { found } = await recover(disk)
    const records = found.map(({ text, record }) => [text, record.receivedAtUs, record.bitsOffset >= 0])
    expect(records).toEqual([
      ['a', 1_700_000_000_123_000, false],
      ['b', 1_700_000_000_123_000, true],
    ])
  }
})

test('a log of a later version is refused', async () => {
  const disk = new MemoryDisk()
  writerOver(await recover(disk)).write({ firstSequence: 1, spans: [spanOf({ text: 'a' })], sync: true })
  const path = join(FOLDER, logFileName(1, 0))
  const bytes = readFile(disk, path)
  viewOf(bytes).setUint32(8, 5, true)
  viewOf(bytes).setUint32(4, crc32(bytes.subarray(8, 64)), true)
  const file = disk.open(path, 'r+')
  disk.write(file, [bytes], 0)
  disk.close(file)
  expect((await errorOf(recover(disk))).message).toContain('log version 5, not 1 to 4')
})

test('W-2 a missing file in the middle, at the front or a missing log header is damage', async () => {
  for (const position of [0, 1]) {
    const { disk } = await severalFiles(30)
    disk.unlink(join(FOLDER, logFileName(1, position)))
    const error = await errorOf(recover(disk, undefined, SMALL_FILE))
    expect(error.name).toBe('Damaged')
    expect(error.message).toContain(`log file ${position} of generation 1 is missing`)
  }
  const { disk } = await severalFiles(3)
  disk.unlink(join(FOLDER, 'head'))
  expect((await errorOf(recover(disk, undefined, SMALL_FILE))).name).toBe('Damaged')
})

test('W-2 a record lost at the end of a full file is damage, which the next file shows', async () => {
  const { disk } = await severalFiles(30)
  const path = join(FOLDER, logFileName(1, 1))
  // Seven records of 568 bytes fit in a file of 8 KiB. The last begins at the seventh place at
  // most.
  const error = await (async () => {
    for (let at = SMALL_FILE - 64; at > 4096; at -= 8) {
      const probe = new Uint8Array(4)
      const file = disk.open(path, 'r')
      disk.read(file, probe, at)
      disk.close(file)
      if (new TextDecoder().decode(probe) !== 'WREC') continue
      disk.damage(path, at + 70)
      return errorOf(recover(disk, undefined, SMALL_FILE))
    }
    throw new Error('no record')
  })()
  expect(error.message).toMatch(/expected sequence \d+, found no valid record; the next file begins with/)
  expect(error.file).toBe(path)
})

test('W-13 flushed records and those of deleted pools are not replayed; sequences keep rising', async () => {
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

test('a record of a pool that the catalog never had is damage', async () => {
  const disk = new MemoryDisk()
  const writer = writerOver(await recover(disk))
  writer.write({ firstSequence: 1, spans: [spanOf({ text: 'x', pool: 9 })], sync: false })
  expect((await errorOf(recover(disk.killed()))).message).toContain('pool 9, which was never known')
})

test('a new log folder goes on above the highest flushed sequence', async () => {
  const log = await recover(new MemoryDisk(), new Map([[1, 41]]))
  expect(log.summary.lastSequence).toBe(41)
})

test('W-3 a recovery that is killed at any step, twice in a row, loses nothing', async () => {
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
