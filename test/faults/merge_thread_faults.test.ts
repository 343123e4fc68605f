/**
 * W-5: a merge whose write, sync or rename the disk refuses leaves no file beside the segments or
 * in its own folder, and names the failed call. The same merge succeeds when the disk works again,
 * and equals the model.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { unlinkSegments } from '../../src/store/segment/publish-segment.ts'
import { disk } from '../../src/util/disk.ts'
import { setFaults } from '../../src/util/fault-injection.ts'
import { MergeHarness } from '../store/compaction/merge-harness.ts'
import { randomOf, randomRow, schemaOfAll } from '../store/rows.ts'
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
const schema = schemaOfAll(true)
let harness: MergeHarness

/** The row with this number, from which its time follows. */
function rowOf(number: number): readonly Value[] {
  const { values } = randomRow(schema, random, `k${number}`)
  return values!.map((value, i) => (schema.columns[i]!.name === 'at' ? BigInt(number) * 1_000_000n : value))
}

beforeAll(async () => {
  const spec = FAULTS.map(
    ([operation, path, code], i) => `${operation} ${path} 1 ${code} ${join(triggers, `${i}`)}`,
  )
  setFaults(spec.join(';'))
  harness = await new MergeHarness(schema).open()
  // The oldest segment may hold all keys and is in no merge, so deletes of its keys stay.
  harness.flush([{ values: Array.from({ length: 100 }, (_, number) => rowOf(number)) }])
})
afterAll(() => harness.close())

test.each(FAULTS.map((fault, i) => [fault.join(' '), i] as const))(`%s (seed ${seed})`, async (_, i) => {
  const some = (count: number) => Array.from({ length: count }, () => rowOf(random(100)))
  harness.flush([{ values: some(30) }], some(5))
  harness.flush([{ values: some(30) }], [...some(5), rowOf(i)])
  const count = harness.segments.length - 1
  const before = disk.readdir(harness.folder)
  const trigger = join(triggers, `${i}`)
  writeFileSync(trigger, '')
  for (let time = 0; time < 2; time++) {
    const task = harness.task(1, count)
    const failed = harness.client.merge(task)
    await expect(failed).rejects.toMatchObject({
      name: 'Unavailable',
      code: 'merge_io',
      message: expect.stringContaining(FAULTS[i]![2]),
    })
    // Where the disk refuses the removal too, the scheduler repeats it before the pool's next
    // merge.
    rmSync(trigger)
    unlinkSegments(disk, harness.folder, [task.segment])
    if (time === 0) writeFileSync(trigger, '')
    expect(disk.readdir(harness.folder)).toEqual(before)
    expect(disk.readdir(join(harness.root, 'tmp', 'merge'))).toEqual(['spill'])
  }
  const done = await harness.merge(1, count)
  expect(done.meta?.deletes).toBeGreaterThan(0)
})
