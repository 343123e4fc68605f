/**
 * A copy of the running log has exactly its span and nothing that is written meanwhile. Recovery
 * takes it as a log.
 */
import { expect, test } from 'vitest'
import { extractLog } from '../../../src/log/copy-log.ts'
import { FOLDER, openOn, recover, spanOf } from '../../log/log.ts'
import { MemoryDisk } from '../../util/memory-disk.ts'
import { below, randomFrom } from '../../util/random.ts'

const COPY = '/copy'
/** Moves the copy to FOLDER, which `recover` reads. */
function asLog(disk: MemoryDisk): MemoryDisk {
  for (const name of disk.readdir(FOLDER)) disk.unlink(`${FOLDER}/${name}`)
  for (const name of disk.readdir(COPY)) disk.rename(`${COPY}/${name}`, `${FOLDER}/${name}`)
  return disk
}

const SEED = Math.floor(Math.random() * 2 ** 32)

test(`W-2, W-6: the copy has all unflushed requests up to the end of its span, and no others (seed ${SEED})`, async () => {
  const random = randomFrom(SEED)
  for (let round = 0; round < 15; round++) {
    const disk = new MemoryDisk()
    const pools = new Map([
      [1, 0],
      [2, 0],
      [3, -1],
    ])
    const { commit } = await openOn(disk, { flushed: pools })
    const texts: { sequence: number; pool: number; text: string }[] = []
    const append = async () => {
      const pool = 1 + below(random, 3)
      const text = `${texts.length} ${'x'.repeat(below(random, 9000))}`
      const { firstSequence, durable } = commit.append([spanOf({ text, pool })], 1)
      texts.push({ sequence: firstSequence, pool, text })
      await durable
    }
    const count = below(random, 40)
    for (let i = 0; i < count; i++) await append()
    const { span, release } = commit.pin()
    expect(span.lastSequence).toBe(count)
    const flushed = new Map([
      [1, below(random, count + 1)],
      [2, below(random, count + 1)],
      [3, -1],
    ])
    // Pinned files stay after a flush of everything, and the log grows while the copy is made.
    commit.release(count + 1)
    let more = 6
    const onBytes = async () => {
      if (more-- > 0) await append()
    }
    const names = await extractLog({ disk, from: FOLDER, to: COPY, span, flushed, onBytes })
    expect(names.sort()).toEqual(disk.readdir(COPY))
    release()
    await append()
    await commit.stop()
    const copy = await recover(asLog(disk.killed()), flushed)
    const wanted = texts.filter(
      ({ sequence, pool }) => sequence <= count && pool !== 3 && sequence > flushed.get(pool)!,
    )
    expect(copy.texts).toEqual(wanted.map(({ text }) => text))
    expect(copy.summary.lastSequence).toBe(count)
  }
})

test('pinned files stay until the last release', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  const grow = async () => {
    for (let i = 0; i < 30; i++) await commit.append([spanOf({ text: 'x'.repeat(9000) })], 1).durable
  }
  await grow()
  const files = commit.stats().files
  expect(files).toBeGreaterThan(3)
  const [one, two] = [commit.pin(), commit.pin()]
  commit.release(31)
  expect(commit.stats().files).toBe(files)
  one.release()
  expect(commit.stats().files).toBe(files)
  two.release()
  expect(commit.stats().files).toBe(1)
  await commit.stop()
})

test('a log that ends before its span is damage, not a shorter copy', async () => {
  const disk = new MemoryDisk()
  const { commit } = await openOn(disk)
  await commit.append([spanOf({ text: 'one' })], 1).durable
  const { span } = commit.pin()
  const options = { disk, from: FOLDER, to: COPY, flushed: new Map([[1, 0]]), onBytes: async () => {} }
  await expect(extractLog({ ...options, span: { ...span, lastSequence: 2 } })).rejects.toMatchObject({
    name: 'Damaged',
  })
  await commit.stop()
})
