/**
 * W-5: a merge whose writes, syncs or names the disk refuses leaves nothing, neither beside the segments nor in its own
 * folder, and says which it was; the same merge is made when the disk works again, and is what the model says.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { unlinkSegments } from '../../src/segment/publish.ts'
import { disk } from '../../src/util/disk.ts'
import { orderFaults } from '../../src/util/fault.ts'
import { World } from '../compact/merge-world.ts'
import { planOfAll, randomOf, randomRow } from '../segment/rows.ts'
import type { Value } from '../util/make-batch.ts'
import { temporaryFolder } from '../util/server.ts'

const PARQUET = '/pool/.*[.]parquet'
const DELETES = '/pool/.*[.]deletes'
const FAULTS = [
  ['open', `${DELETES}[.]tmp$`, 'EMFILE'],
  ['write', `${DELETES}[.]tmp$`, 'ENOSPC'],
  ['fdatasync', `${DELETES}[.]tmp$`, 'EIO'],
  ['open', `${PARQUET}[.]tmp$`, 'EACCES'],
  ['write', `${PARQUET}[.]tmp$`, 'EDQUOT'],
  ['fdatasync', `${PARQUET}[.]tmp$`, 'EIO'],
  ['rename', `${DELETES}$`, 'EIO'],
  ['rename', `${PARQUET}$`, 'ENOSPC'],
  ['open', '/pool$', 'EIO'],
  ['fsync', '/pool$', 'EIO'],
  ['open', '/tmp/merge/copy[.]parquet$', 'EIO'],
  ['read', '/tmp/merge/copy[.]parquet$', 'EIO'],
] as const

const triggers = temporaryFolder('weir-thread-faults-')
const seed = Math.floor(Math.random() * 2 ** 31)
const random = randomOf(seed)
const plan = planOfAll(true)
let world: World

/** The row of a record: its time follows from its number. */
function rowOf(number: number): readonly Value[] {
  const { values } = randomRow(plan, random, `k${number}`)
  return values!.map((value, i) => (plan.columns[i]!.name === 'at' ? BigInt(number) * 1_000_000n : value))
}

beforeAll(async () => {
  const spec = FAULTS.map(
    ([operation, path, code], i) => `${operation} ${path} 1 ${code} ${join(triggers, `${i}`)}`,
  )
  orderFaults(spec.join(';'))
  world = await new World(plan).open()
  // The oldest segment can hold all keys, and is in no merge: deletes of its keys stay.
  world.seal([{ values: Array.from({ length: 100 }, (_, number) => rowOf(number)) }])
})
afterAll(() => world.close())

test.each(FAULTS.map((fault, i) => [fault.join(' '), i] as const))(`%s (seed ${seed})`, async (_, i) => {
  const some = (count: number) => Array.from({ length: count }, () => rowOf(random(100)))
  world.seal([{ values: some(30) }], some(5))
  world.seal([{ values: some(30) }], [...some(5), rowOf(i)])
  const count = world.segments.length - 1
  const before = disk.readdir(world.folder)
  const trigger = join(triggers, `${i}`)
  writeFileSync(trigger, '')
  for (let time = 0; time < 2; time++) {
    const job = world.job(1, count)
    const failed = world.client.merge(job)
    await expect(failed).rejects.toMatchObject({
      name: 'Unavailable',
      code: 'merge_io',
      message: expect.stringContaining(FAULTS[i]![2]),
    })
    // Where the disk refuses the removal too, the scheduler asks for it again before the pool's next merge.
    rmSync(trigger)
    unlinkSegments(disk, world.folder, [job.segment])
    if (time === 0) writeFileSync(trigger, '')
    expect(disk.readdir(world.folder)).toEqual(before)
    expect(disk.readdir(join(world.root, 'tmp', 'merge'))).toEqual(['spill'])
  }
  const done = await world.merge(1, count)
  expect(done.meta?.deletes).toBeGreaterThan(0)
})
