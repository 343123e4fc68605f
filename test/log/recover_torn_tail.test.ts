import { join } from 'node:path'
import { expect, test } from 'vitest'
import { logFileName } from '../../src/log/log-folder.ts'
import { MemoryDisk } from '../util/memory-disk.ts'
import { errorOf, FILE_BYTES, FOLDER, recover, spanOf, writerOver } from './log.ts'

const PAGE = 4096

/** A log of two groups: sequences 1, 2 and then 3, 4 with a bitmap. */
async function twoGroups(): Promise<{ disk: MemoryDisk; path: string; lastGroup: number; end: number }> {
  const disk = new MemoryDisk()
  const log = await recover(disk)
  const writer = writerOver(log)
  const first = spanOf({ text: '{"a":1}' }, { text: '{"a":2}' })
  writer.write({ firstSequence: 1, spans: [first], sync: false })
  const bits = new Uint8Array([0b101])
  const second = spanOf({ text: '{"a":3}' }, { text: '[{"a":4},{},{}]', events: 3, bits })
  writer.write({ firstSequence: 3, spans: [second], sync: false })
  const lastGroup = PAGE + first.bytes
  const path = join(FOLDER, logFileName(log.summary.generation, 0))
  return { disk: disk.killed(), path, lastGroup, end: lastGroup + second.bytes + 8 }
}

test('W-2 a tail torn at any byte of the last group is left out, and whole records before it stay', async () => {
  const { end, lastGroup } = await twoGroups()
  const thirdEnd = lastGroup + 64 + 8
  for (let from = lastGroup; from < end; from++) {
    const { disk, path } = await twoGroups()
    const file = disk.open(path, 'r+')
    disk.write(file, [new Uint8Array(end - from)], from)
    disk.close(file)
    const log = await recover(disk)
    const whole = from >= thirdEnd ? 3 : 2
    // A tear inside trailing zeros changes nothing: then the record is whole.
    const texts = ['{"a":1}', '{"a":2}', '{"a":3}', '[{"a":4},{},{}]']
    expect([whole, whole + 1], `torn at ${from}`).toContain(log.texts.length)
    expect(log.texts).toEqual(texts.slice(0, log.texts.length))
    expect(log.summary.lastSequence).toBe(log.texts.length)
    const writer = writerOver(log)
    const firstSequence = log.summary.lastSequence + 1
    writer.write({ firstSequence, spans: [spanOf({ text: 'new' })], sync: false })
    const again = await recover(disk.killed())
    expect(again.texts).toEqual([...log.texts, 'new'])
  }
})

test('W-2 a flipped byte before the last group is damage, named with file, offset and sequences', async () => {
  const { lastGroup } = await twoGroups()
  for (let at = PAGE; at < lastGroup; at++) {
    const { disk, path } = await twoGroups()
    disk.damage(path, at)
    const before = disk.changes
    const padding = (at - PAGE) % 72 === 71
    if (padding) {
      expect((await recover(disk)).texts.length).toBe(4)
      continue
    }
    const error = await errorOf(recover(disk))
    const bad = at < PAGE + 72 ? 1 : 2
    expect(error.name, `flipped at ${at}`).toBe('Damaged')
    expect(error.file).toBe(path)
    expect(error.message).toContain(`byte ${PAGE + 72 * (bad - 1)}: no valid record of sequence ${bad}`)
    expect(error.message).toMatch(/sequence [34] stands after it/)
    expect(disk.changes, 'damage changes nothing on disk').toBe(before)
  }
})

test('W-2 a bad record at or below a flushed sequence is damage, above it a torn tail', async () => {
  for (const [flushed, damaged] of [
    [2, false],
    [3, true],
    [4, true],
  ] as const) {
    const { disk, path, lastGroup } = await twoGroups()
    disk.damage(path, lastGroup)
    const file = disk.open(path, 'r+')
    disk.write(file, [new Uint8Array(300)], lastGroup)
    disk.close(file)
    const outcome = await recover(disk, new Map([[1, flushed]])).catch((error: Error) => error)
    expect(outcome instanceof Error).toBe(damaged)
    if (outcome instanceof Error) expect(outcome.message).toContain(`sequence ${flushed} is flushed`)
  }
})

test('W-2 a record that an earlier start synced is never a torn tail', async () => {
  const { disk } = await twoGroups()
  const log = await recover(disk)
  const after = disk.killed()
  const path = join(FOLDER, logFileName(log.summary.generation, 0))
  after.damage(path, PAGE + 72 * 3 + 64)
  const error = await errorOf(recover(after))
  expect(error.message).toContain('no valid record of sequence 4, but sequence 4 was synced')
})

test('W-2 before a clean-stop record nothing is a torn tail', async () => {
  const disk = new MemoryDisk()
  const log = await recover(disk)
  const writer = writerOver(log)
  writer.write({ firstSequence: 1, spans: [spanOf({ text: 'one' })], sync: false })
  writer.stop()
  expect((await recover(disk.killed())).summary).toMatchObject({
    cleanStop: true,
    lastSequence: 2,
    replayed: 1,
  })

  const other = new MemoryDisk()
  const opened = await recover(other)
  const second = writerOver(opened)
  second.write({ firstSequence: 1, spans: [spanOf({ text: 'one' })], sync: false })
  second.stop()
  other.damage(join(FOLDER, logFileName(1, 0)), PAGE + 64)
  expect((await errorOf(recover(other.killed()))).message).toContain('sequence 2 stands after it')
})

test('W-2 records of another file or of an earlier process do not validate', async () => {
  const { disk, path, lastGroup, end } = await twoGroups()
  const oldRecords = new Uint8Array(end - PAGE)
  const from = disk.open(path, 'r')
  disk.read(from, oldRecords, PAGE)
  disk.close(from)
  const log = await recover(disk)
  const writer = writerOver(log)
  writer.write({ firstSequence: 5, spans: [spanOf({ text: 'five' })], sync: false })
  // The free room of the new file gets the old file's records, whose sequences fit by chance.
  const now = join(FOLDER, logFileName(log.summary.generation, 0))
  const file = disk.open(now, 'r+')
  disk.write(file, [oldRecords], PAGE + (end - PAGE) + 72)
  disk.close(file)
  expect(lastGroup).toBeGreaterThan(PAGE)
  const again = await recover(disk.killed())
  expect(again.texts).toEqual([...log.texts, 'five'])
  expect(disk.size(now)).toBe(FILE_BYTES)
})
