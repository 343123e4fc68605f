/**
 * W-2, W-3: writes of the log that find no room on the disk, as on file systems that copy on write.
 * The group is refused with `disk_full`, none of it comes back, and the log goes on without a
 * restart.
 */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { logFileName } from '../../src/log/log-folder.ts'
import type { LogState } from '../../src/log/log-types.ts'
import type { LogWriter } from '../../src/log/log-writer.ts'
import { planSalvage } from '../../src/log/salvage.ts'
import { recordLog } from '../util/log-lines.ts'
import { MemoryDisk } from '../util/memory-disk.ts'
import { below, type Random, randomFrom } from '../util/random.ts'
import {
  errorOf,
  FILE_BYTES,
  FOLDER,
  openOn,
  recover,
  SMALL_FILE,
  severalFiles,
  spanOf,
  writerOver,
} from './log.ts'

const LOG = /-\d{8}\.log$/
const ANY_FILE = /\.log$/
const NO_LIMIT = Number.POSITIVE_INFINITY

function entered(commit: { onState: (state: LogState) => void }, state: LogState): Promise<void> {
  return new Promise(resolve => {
    commit.onState = now => {
      if (now === state) resolve()
    }
  })
}

test('W-3 a write without room refuses its group and the queue, and the log goes on by itself', async () => {
  const lines = recordLog()
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  await commit.append([spanOf({ text: 'first' })], 1).durable
  const full = entered(commit, 'disk_full')
  disk.limitWrites(ANY_FILE, 100)
  const bodies = [{ text: 'no 1' }, { text: 'no 2' }, { text: 'no 3' }]
  const refused = errorOf(commit.append([spanOf(...bodies)], 3).durable)
  const queued = errorOf(commit.append([spanOf({ text: 'no 4' })], 1).durable)
  expect([(await refused).code, (await queued).code]).toEqual(['disk_full', 'disk_full'])
  await full
  await commit.syncAll()
  const open = entered(commit, 'open')
  disk.limitWrites(ANY_FILE, NO_LIMIT)
  await open
  expect(lines.map(({ level, message }) => [level, message])).toEqual([
    ['error', expect.stringMatching(/^the log has no room, requests get 503 disk_full; .*ENOSPC/)],
    ['info', 'the log has room again and takes requests'],
  ])
  const { firstSequence, durable } = commit.append([spanOf({ text: 'yes' })], 1)
  await durable
  expect(firstSequence).toBe(2)
  await commit.stop()
  const log = await recover(disk.killed())
  expect([log.texts, log.summary.cleanStop]).toEqual([['first', 'yes'], true])
})

test('W-3 a sync without room poisons the log', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  disk.failNext('fdatasync', 'ENOSPC', LOG)
  expect((await errorOf(commit.append([spanOf({ text: 'no' })], 1).durable)).code).toBe('log_refused')
  expect(commit.stats().state).toBe('poisoned')
  await commit.stop()
})

test('a stop while the disk is full keeps what was acknowledged, and only that', async () => {
  for (const room of [0, 10, 64, 100, 200]) {
    const disk = new MemoryDisk()
    const { commit } = await openOn(disk)
    await commit.append([spanOf({ text: 'yes' })], 1).durable
    disk.limitWrites(ANY_FILE, room)
    const bodies = [{ text: 'no 1' }, { text: 'no 2' }, { text: 'no 3' }]
    expect((await errorOf(commit.append([spanOf(...bodies)], 3).durable)).code).toBe('disk_full')
    await commit.stop()
    expect((await recover(disk.cut(randomFrom(room)))).texts).toEqual(['yes'])
  }
})

test('a stop without room for the clean-stop record is a stop', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  await commit.append([spanOf({ text: 'yes' })], 1).durable
  disk.limitWrites(LOG, 30)
  await commit.stop()
  const log = await recover(disk.killed())
  expect([log.texts, log.summary.cleanStop]).toEqual([['yes'], false])
})

test('a repair takes no record of a refused group for one that came later', async () => {
  const { disk, writer } = await opened()
  writer.write(groupOf(1, ['one']))
  disk.limitWrites(LOG, 8 + 64 + 8 + 64 + 8)
  expect(writer.write(groupOf(2, ['no 2', 'no 3', 'no 4']))).toMatchObject({ noRoom: expect.any(String) })
  disk.limitWrites(LOG, NO_LIMIT)
  addSpare(disk, writer, 1)
  writer.write(groupOf(2, ['two', 'three']))
  const path = join(FOLDER, logFileName(1, 0))
  disk.damage(path, 4096 + 64)
  const found = await planSalvage({
    disk,
    folder: FOLDER,
    fileBytesMax: SMALL_FILE,
    isKnown: () => true,
    flushedSequence: 0,
  })
  expect([found.salvaged, found.missing]).toEqual([2, [{ from: 1, to: 1 }]])
  expect(found.files).toEqual([]) // the damaged record is the last one of its file
})

test('a repair without a log header finds each record, wherever a start was cut', async () => {
  const all = Array.from({ length: 20 }, (_, n) => n + 1)
  for (let change = 1, cut = true; cut; change++) {
    const { disk } = await severalFiles(all.length)
    disk.stopAfter(change)
    cut = await recover(disk, new Map([[1, 10]]), SMALL_FILE).then(
      () => false,
      () => true,
    )
    const left = disk.killed()
    left.unlink(join(FOLDER, 'head'))
    const { salvaged, missing, lastSequence } = await planSalvage({
      disk: left,
      folder: FOLDER,
      fileBytesMax: SMALL_FILE,
      isKnown: () => true,
      flushedSequence: 10,
    })
    expect([salvaged, missing, lastSequence], `change ${change}`).toEqual([all.length, [], all.length])
  }
})

test.each([['fsync'], ['os']] as const)(
  'W-1 W-2 durability %s: of 300 logs with writes without room, each holds what was acknowledged',
  async durability => {
    const seed = 57_001
    const random = randomFrom(seed)
    for (let round = 0; round < 300; round++)
      await oneLog(durability, random, `seed ${seed}, round ${round}, ${durability}`)
  },
)

/** Groups of equal records, so that a record of a refused group would fit at a later place. */
async function oneLog(durability: 'fsync' | 'os', random: Random, where: string): Promise<void> {
  const { disk, writer } = await opened(durability)
  const acked: string[] = []
  let spares = 0
  for (let turn = 0; turn < 12; turn++) {
    const texts = Array.from({ length: 1 + below(random, 4) }, (_, n) => `${turn}.${n}`.padEnd(8))
    if (random() < 0.5) disk.limitWrites(random() < 0.7 ? LOG : ANY_FILE, below(random, 400))
    const group = { ...groupOf(acked.length + 1, texts), sync: random() < 0.2 }
    let outcome = writer.write(group)
    while (outcome === 'no_spare') {
      disk.limitWrites(LOG, NO_LIMIT)
      addSpare(disk, writer, ++spares)
      outcome = writer.write(group)
    }
    disk.limitWrites(LOG, NO_LIMIT)
    if (!('noRoom' in outcome)) acked.push(...texts)
    // Such a group comes from a reader that waits while the disk is full.
    if (random() < 0.2) writer.write({ firstSequence: acked.length + 1, spans: [], sync: true })
  }
  const stops = random() < 0.3
  if (stops) writer.stop()
  const isCut = durability === 'fsync' || stops
  const log = await recover(isCut && random() < 0.5 ? disk.cut(random) : disk.killed(), undefined, SMALL_FILE)
  expect(log.texts, where).toEqual(acked)
  const next = writerOver(log, durability)
  if (log.spares.length === 0) addSpare(disk, next, ++spares)
  next.write(groupOf(log.summary.lastSequence + 1, ['again']))
}

async function opened(
  durability: 'fsync' | 'os' = 'fsync',
): Promise<{ disk: MemoryDisk; writer: LogWriter }> {
  const disk = new MemoryDisk()
  return { disk, writer: writerOver(await recover(disk, undefined, SMALL_FILE), durability) }
}

function groupOf(firstSequence: number, texts: readonly string[]) {
  return { firstSequence, spans: [spanOf(...texts.map(text => ({ text })))], sync: false }
}

function addSpare(disk: MemoryDisk, writer: LogWriter, number: number): void {
  const name = `spare-${1000 + number}.log`
  disk.put(join(FOLDER, name), new Uint8Array(SMALL_FILE))
  writer.addSpare(name)
}

test('a group has room again only where a whole group can be written', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  disk.limitWrites(ANY_FILE, 0)
  expect((await errorOf(commit.append([spanOf({ text: 'no' })], 1).durable)).code).toBe('disk_full')
  disk.limitWrites(ANY_FILE, FILE_BYTES / 2)
  const begin = disk.calls.length
  while (disk.calls.slice(begin).filter(call => /^write \S*spare-\d+\.log/.test(call)).length < 2)
    await new Promise<void>(resolve => {
      disk.onCall = () => resolve()
    })
  expect(commit.stats().state).toBe('disk_full')
  const open = entered(commit, 'open')
  disk.limitWrites(ANY_FILE, NO_LIMIT)
  await open
  await commit.append([spanOf({ text: 'yes' })], 1).durable
  await commit.stop()
  expect((await recover(disk.killed())).texts).toEqual(['yes'])
})
