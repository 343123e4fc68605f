import { expect, test } from 'vitest'
import type { LogState } from '../../src/log/log-types.ts'
import { recordLog } from '../util/log-lines.ts'
import { MemoryDisk, PowerCut } from '../util/memory-disk.ts'
import { below, randomFrom } from '../util/random.ts'
import { errorOf, FILE_BYTES, openOn, recover, spanOf, writerOver } from './log.ts'

const SMALL_FILE = 16 * 1024

/** Resolves when `state` was entered. */
function entered(commit: { onState: (state: LogState) => void }, state: LogState): Promise<void> {
  return new Promise(resolve => {
    commit.onState = now => {
      if (now === state) resolve()
    }
  })
}

test('W-1 no answer before the fdatasync that covers the record', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  for (let round = 0; round < 20; round++) {
    const begin = disk.calls.length
    const { durable } = commit.append([spanOf({ text: `round ${round}` })], 1)
    let atAck: string[] = []
    await durable.then(() => {
      atAck = disk.calls.slice(begin).filter(call => /-\d{8}\.log/.test(call))
    })
    expect(atAck.map(call => call.split(' ')[0])).toEqual(['write', 'write', 'fdatasync'])
  }
  await commit.stop()
})

test('W-2 concurrent appends are numbered without gaps and answered in order', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  const answered: number[] = []
  const texts: string[] = []
  const all: Promise<void>[] = []
  for (let index = 0; index < 200; index++) {
    const bodies = Array.from({ length: 1 + (index % 3) }, (_, part) => ({ text: `${index}.${part}` }))
    texts.push(...bodies.map(body => body.text))
    const { firstSequence, durable } = commit.append([spanOf(...bodies)], bodies.length)
    all.push(durable.then(() => void answered.push(firstSequence)))
    if (index % 7 === 0) await durable
  }
  await Promise.all(all)
  expect(answered).toEqual([...answered].sort((a, b) => a - b))
  await commit.stop()
  const log = await recover(disk.killed())
  expect(log.texts).toEqual(texts)
  expect(log.summary.cleanStop).toBe(true)
})

test('W-3 a failed write and a failed sync poison the log for good', async () => {
  for (const operation of ['write', 'fdatasync'] as const) {
    const disk = new MemoryDisk()
    const { commit } = await openOn(disk)
    await commit.append([spanOf({ text: 'good' })], 1).durable
    const poisoned = entered(commit, 'poisoned')
    disk.failNext(operation, 'EIO', /-\d{8}\.log/)
    const first = errorOf(commit.append([spanOf({ text: 'bad' })], 1).durable)
    const second = errorOf(commit.append([spanOf({ text: 'queued' })], 1).durable)
    expect((await first).code).toBe('log_refused')
    expect((await second).code).toBe('log_refused')
    await poisoned
    expect((await errorOf(commit.append([spanOf({ text: 'later' })], 1).durable)).code).toBe('log_refused')
    expect((await errorOf(commit.syncAll())).code).toBe('log_refused')
    expect(commit.stats().state).toBe('poisoned')
    await commit.stop()
    const log = await recover(disk.cut(randomFrom(1)))
    expect(log.texts.slice(0, 1)).toEqual(['good'])
    expect(log.texts).not.toContain('later')
  }
})

test('a full disk refuses appends and opens again when there is room', async () => {
  const disk = new MemoryDisk()
  disk.limitBytes(FILE_BYTES + 1000)
  const { commit } = await openOn(disk)
  await entered(commit, 'disk_full')
  expect((await errorOf(commit.append([spanOf({ text: 'no' })], 1).durable)).code).toBe('disk_full')
  const open = entered(commit, 'open')
  disk.limitBytes(100 * FILE_BYTES)
  await open
  const { firstSequence, durable } = commit.append([spanOf({ text: 'yes' })], 1)
  await durable
  expect(firstSequence).toBe(1)
  await commit.stop()
  expect((await recover(disk.killed())).texts).toEqual(['yes'])
})

test('a group that fits nowhere on a full disk is refused unwritten, and its numbers are used again', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  const big = 'x'.repeat(20_000)
  const accepted: string[] = []
  disk.failNext('write', 'ENOSPC', /spare-.*tmp/)
  disk.limitBytes(disk.usedBytes())
  let refused: Error & { code?: string } = new Error('none')
  for (let index = 0; refused.code === undefined && index < 50; index++) {
    const text = `${index}${big}`
    await commit.append([spanOf({ text })], 1).durable.then(
      () => accepted.push(text),
      (error: Error) => {
        refused = error
      },
    )
  }
  expect(refused.code).toBe('disk_full')
  const open = entered(commit, 'open')
  disk.limitBytes(100 * FILE_BYTES)
  await open
  const { firstSequence, durable } = commit.append([spanOf({ text: 'after' })], 1)
  await durable
  expect(firstSequence).toBe(accepted.length + 1)
  await commit.stop()
  expect((await recover(disk.killed())).texts).toEqual([...accepted, 'after'])
})

test.each([
  ['EMFILE', /spare-\d+\.log$/],
  ['ENFILE', /spare-\d+\.log$/],
  ['EMFILE', /\/log$/],
] as const)(
  '%s at %s before the next file is used refuses the group unwritten, and is tried again',
  async (code, path) => {
    const lines = recordLog()
    const disk = new MemoryDisk()
    const { commit } = await openOn(disk)
    const accepted: string[] = []
    let refused: Error & { code?: string } = new Error('none')
    const full = entered(commit, 'disk_full')
    for (let index = 0; refused.code === undefined && index < 50; index++) {
      const text = `${index}${'x'.repeat(20_000)}`
      if (index === 2) disk.failNext('open', code, path) // the third fits in the first file no more
      await commit.append([spanOf({ text })], 1).durable.then(
        () => accepted.push(text),
        (error: Error) => {
          refused = error
        },
      )
    }
    expect([refused.code, refused.message]).toEqual(['disk_full', expect.stringContaining(code)])
    await full
    await entered(commit, 'open')
    const errors = lines.filter(({ level }) => level === 'error')
    expect(errors.map(({ message }) => message)).toContainEqual(expect.stringContaining(code))
    const { firstSequence, durable } = commit.append([spanOf({ text: 'after' })], 1)
    await durable
    expect(firstSequence).toBe(accepted.length + 1)
    await commit.stop()
    expect((await recover(disk.killed())).texts).toEqual([...accepted, 'after'])
  },
)

test('W-13 with durability os a group is not synced, and syncAll covers all of it', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk, { durability: 'os' })
  const begin = disk.calls.length
  for (let index = 0; index < 5; index++) await commit.append([spanOf({ text: `${index}` })], 1).durable
  const synced = () => disk.calls.slice(begin).filter(call => /^fdatasync .*-\d{8}\.log/.test(call)).length
  expect(synced()).toBe(0)
  await commit.syncAll()
  expect(synced()).toBe(1)
  const log = await recover(disk.cut(randomFrom(3)))
  expect(log.texts).toEqual(['0', '1', '2', '3', '4'])
  await commit.stop()
})

test('W-2 with durability os a power cut between syncs is a torn tail, whatever sectors were lost', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const disk = new MemoryDisk()
    const { commit } = await openOn(disk, { durability: 'os' })
    for (let index = 0; index < 4; index++) await commit.append([spanOf({ text: `a${index}` })], 1).durable
    await commit.syncAll()
    for (let index = 0; index < 6; index++) {
      await commit.append([spanOf({ text: `b${index}${'.'.repeat(900)}` })], 1).durable
    }
    const log = await recover(disk.cut(randomFrom(seed)))
    expect(log.texts.slice(0, 4), `seed ${seed}`).toEqual(['a0', 'a1', 'a2', 'a3'])
    await commit.stop()
  }
})

test('rollover and release: files go below the sequence, are recycled, and the rest comes back', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  const text = (index: number) => `${index}${'y'.repeat(9000)}`
  for (let index = 1; index <= 40; index++) await commit.append([spanOf({ text: text(index) })], 1).durable
  expect(commit.stats().files).toBeGreaterThan(4)
  commit.release(31)
  expect(commit.stats().files).toBeLessThan(4)
  for (let index = 41; index <= 60; index++) await commit.append([spanOf({ text: text(index) })], 1).durable
  await commit.stop()
  const log = await recover(disk.killed(), new Map([[1, 30]]))
  expect(log.texts).toEqual(Array.from({ length: 30 }, (_, index) => text(index + 31)))
  expect(disk.calls.some(call => /^rename .*-\d{8}\.log spare-\d+\.log$/.test(call))).toBe(true)
})

test('W-13 a log file stays until its last record is below the lowest unflushed sequence', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  const count = 24
  const text = 'y'.repeat(9000)
  for (let index = 1; index <= count; index++) await commit.append([spanOf({ text })], 1).durable
  const files = commit.stats().files
  for (let lowest = 2; lowest <= count; lowest++) {
    commit.release(lowest)
    const pinned = commit.pin()
    expect(pinned.span.firstSequence, `lowest unflushed sequence ${lowest}`).toBeLessThanOrEqual(lowest)
    pinned.release()
  }
  expect(commit.stats().files).toBeLessThan(files)
  await commit.stop()
})

test('W-3 the writer refuses every group and the stop after a failed sync', async () => {
  const disk = new MemoryDisk()
  const writer = writerOver(await recover(disk))
  const group = (firstSequence: number) => ({
    firstSequence,
    spans: [spanOf({ text: `${firstSequence}` })],
    sync: true,
  })
  writer.write(group(1))
  disk.failNext('fdatasync', 'EIO', /-\d{8}\.log/)
  for (const sequence of [2, 3, 3]) expect(() => writer.write(group(sequence))).toThrow(/no more writes/)
  expect(() => writer.stop()).toThrow(/no more writes/)
})

test('W-1 W-2 W-3 after 300 power cuts every acknowledged record is replayed once, in order', async () => {
  const seed = 77_001
  const random = randomFrom(seed)
  for (let round = 0; round < 300; round++) {
    await oneCut(random, `seed ${seed}, round ${round}`)
  }
})

/** Three processes on one log, each ended by a power cut at a random change of the disk. */
async function oneCut(random: () => number, where: string): Promise<void> {
  let disk = new MemoryDisk()
  let flushed = 0
  const acked = new Map<number, string>()
  for (let run = 0; run < 3; run++) {
    disk.stopAfter(1 + below(random, 160))
    const opened = await openOn(disk, { fileBytesMax: SMALL_FILE, flushed: new Map([[1, flushed]]) }).catch(
      (error: Error) => error,
    )
    if (!(opened instanceof Error))
      flushed = await oneProcess(opened.commit, random, acked, flushed, `${run}`)
    else if (!(opened.name === 'PowerCut' || opened instanceof PowerCut)) throw opened
    disk = disk.cut(random)
    // The power is gone by then, so the stop may fail.
    if (!(opened instanceof Error)) await opened.commit.stop().catch(() => {})
  }
  const log = await recover(disk, new Map([[1, flushed]]), SMALL_FILE)
  const found = new Map(log.found.map(each => [each.sequence, each.text]))
  expect(log.found.length, where).toBe(found.size)
  for (const [sequence, text] of acked) {
    if (sequence > flushed) expect(found.get(sequence), `${where}, sequence ${sequence}`).toBe(text)
  }
  const sequences = log.found.map(each => each.sequence)
  expect(sequences).toEqual([...sequences].sort((a, b) => a - b))
}

/** Appends until the power goes; returns the flushed sequence. */
async function oneProcess(
  commit: Awaited<ReturnType<typeof openOn>>['commit'],
  random: () => number,
  acked: Map<number, string>,
  flushed: number,
  run: string,
): Promise<number> {
  for (let turn = 0; turn < 200; turn++) {
    const appends = Array.from({ length: 1 + below(random, 4) }, (_, index) => {
      const text = `${run}.${turn}.${index}.${'z'.repeat(below(random, 1500))}`
      const { firstSequence, durable } = commit.append([spanOf({ text })], 1)
      return durable.then(() => void acked.set(firstSequence, text))
    })
    const outcomes = await Promise.allSettled(appends)
    if (outcomes.some(outcome => outcome.status === 'rejected')) return flushed
    if (random() < 0.1) {
      flushed = Math.max(flushed, ...acked.keys())
      commit.release(flushed + 1)
    }
  }
  return flushed
}

test('a boundary divides the records appended before it from those appended later', async () => {
  const random = randomFrom(7)
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  for (let round = 0; round < 20; round++) {
    const sequences = (count: number) =>
      Array.from({ length: count }, () => {
        const { firstSequence, durable } = commit.append(
          [spanOf({ text: 'x'.repeat(below(random, 3000)) })],
          1,
        )
        return durable.then(() => firstSequence)
      })
    const before = sequences(below(random, 5))
    const boundary = commit.boundary()
    const later = sequences(1 + below(random, 5))
    const at = await boundary
    expect(Math.max(0, ...(await Promise.all(before)))).toBeLessThan(at)
    expect(Math.min(...(await Promise.all(later)))).toBe(at)
  }
  await commit.stop()
  expect((await errorOf(commit.boundary())).code).toBe('log_refused')
})

test('the boundary behind a refused group is the number that is used again', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  disk.failNext('write', 'ENOSPC', /spare-.*tmp/)
  disk.limitBytes(disk.usedBytes())
  const text = 'x'.repeat(20_000)
  const appends = Array.from({ length: 6 }, () =>
    commit.append([spanOf({ text })], 1).durable.then(
      () => true,
      () => false,
    ),
  )
  const boundary = commit.boundary()
  const accepted = (await Promise.all(appends)).filter(Boolean).length
  expect(accepted).toBeLessThan(appends.length)
  expect(await boundary).toBe(accepted + 1)
  const open = entered(commit, 'open')
  disk.limitBytes(100 * FILE_BYTES)
  await open
  expect(commit.append([spanOf({ text: 'after' })], 1).firstSequence).toBe(accepted + 1)
  await commit.stop()
})
