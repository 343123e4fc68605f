/**
 * An object that was changed or lost spoils no later backup: it is found, sent again while its data
 * lives, and left out of a restore that wants the rest.
 */
import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { readBucketAddress } from '../../../src/tools/bucket/bucket-address.ts'
import { checkShare } from '../../../src/tools/bucket/check-objects.ts'
import { S3Client } from '../../../src/tools/bucket/s3-client.ts'
import { temporaryFolder } from '../../util/server.ts'
import { weir } from '../folder.ts'
import { BUCKET, expectRestored, makeOrders, type Orders, orders, post, rowsOf, weirAt } from './buckets.ts'
import { type Checksums, FakeS3 } from './fake-s3.ts'

const fake = await FakeS3.start()
afterAll(() => fake.stop())

let filled: Orders
beforeAll(async () => {
  filled = await makeOrders()
  // One of more than 8 MiB, then 200 rows of which 50 replace older ones, with 20 deletes.
  await filled.change((_, url) => post(url, orders(0, 5000, 1, 2500)))
  await filled.change(async (_, url) => {
    await post(url, orders(4950, 5150, 2))
    await post(url, orders(100, 120, 1), 'DELETE')
  })
}, 240_000)
beforeEach(() => fake.reset())

const backUp = (...more: readonly string[]) =>
  weirAt(fake, 'backup', BUCKET, '--data-dir', filled.dataDir, ...more)

interface Shown {
  readonly state: string
  readonly damaged: readonly { readonly object: string; readonly file: string; readonly what: string }[]
}
async function listed(...more: readonly string[]): Promise<Shown[]> {
  return JSON.parse((await weirAt(fake, 'backups', BUCKET, '--json', ...more)).out) as Shown[]
}

/** The key of the object that holds this file of a segment. */
async function objectOf(file: string): Promise<string> {
  const before = new Map(fake.objects)
  for (const name of fake.names('weir/objects/')) fake.objects.delete(name)
  const [backup] = await listed()
  for (const [name, object] of before) fake.objects.set(name, object)
  const found = backup?.damaged.find(one => one.file.endsWith(file))
  expect(found?.file).toMatch(/^segment\/\w+\/\d{10}\.(parquet|deletes)$/)
  return `weir/${found!.object}`
}

const BAD: readonly (readonly [string, Checksums, (name: string) => void])[] = [
  ['changed by another tool', 'kept', name => fake.change(name, 'by another tool')],
  ['changed', 'ignored', name => fake.change(name, 'by another tool')],
  ['lost', 'kept', name => fake.objects.delete(name)],
]

test.each(BAD)(
  'an object that was %s is sent again by the next backup (checksums %s)',
  async (_, kept, damage) => {
    fake.checksums = kept
    expect(await backUp()).toMatchObject({ code: 0 })
    const names = [await objectOf('01.parquet'), await objectOf('02.deletes')]
    for (const name of names) damage(name)
    const next = await backUp()
    expect([next.code, next.out]).toEqual([
      0,
      expect.stringContaining(
        '; 2 objects of the last backup were missing or wrong: 2 were sent again, 0 are lost',
      ),
    ])
    await expectRestored(fake, filled)
    expect((await backUp()).out).not.toContain('missing or wrong')
    expect((await listed('--read')).map(({ state }) => state)).toEqual(Array(3).fill('complete'))
  },
  240_000,
)

test('weir backups names what is lost, and with --verify what is wrong', async () => {
  expect(await backUp()).toMatchObject({ code: 0 })
  expect(await backUp()).toMatchObject({ code: 0 })
  const [large, small] = [await objectOf('01.parquet'), await objectOf('02.parquet')]
  const all = await weirAt(fake, 'backups', BUCKET, '--verify')
  expect([all.code, all.out]).toEqual([0, expect.stringMatching(/checked: 3 objects by the checksum/)])
  fake.change(large, 'on the disk')
  const read = await weirAt(fake, 'backups', BUCKET, '--read')
  expect([read.code, read.out]).toEqual([1, expect.stringContaining('01.parquet): its checksum is not')])
  fake.change(large, 'on the disk')
  fake.change(small, 'by another tool')
  expect((await listed()).map(({ state }) => state)).toEqual(['complete', 'complete'])
  const verified = await weirAt(fake, 'backups', BUCKET, '--verify')
  const line = `${BUCKET}/${small.slice(5)} (segment/${filled.pool.poolId}/0000000002.parquet): its CRC-32 is another one`
  expect([verified.code, verified.out.split('\n').filter(one => one === line).length]).toEqual([1, 1])
  expect(verified.out.match(/damaged: 1 objects missing or wrong$/gm)?.length).toBe(2)
  // Objects of an earlier version of Weir have no checksum there.
  for (const [name, { bytes }] of fake.objects) if (name !== small) fake.put(name, bytes)
  const old = await weirAt(fake, 'backups', BUCKET, '--verify')
  expect([old.code, old.out]).toEqual([
    1,
    expect.stringMatching(/ 1 objects by the .* keeps no checksum of theirs/),
  ])
  fake.objects.delete(small)
  expect((await listed()).map(({ state }) => state)).toEqual(
    Array(2).fill('damaged: 1 objects missing or wrong'),
  )
}, 240_000)

/** Ids of rows, with their n. */
function ofRows(text: readonly string[]): Map<string, number> {
  return new Map(
    text.filter(Boolean).map(line => {
      const { id, n } = JSON.parse(line) as { id: string; n: number }
      return [id, n]
    }),
  )
}

const LEFT_OUT: readonly (readonly [string, string, string, number, Record<string, number>])[] = [
  ['the older rows', '01.parquet', '5,000 rows of the requests', 200, { o4950: 2, o5149: 2 }],
  // 50 rows come back, and the deletes hold.
  ['the newer rows', '02.parquet', '200 rows of the requests', 4980, { o4950: 1, o99: 1 }],
  ['the deletes', '02.deletes', 'its deletes are lost', 5150, { o4950: 2, o100: 1 }],
]

test.each(LEFT_OUT)(
  'restore --incomplete leaves out %s and restores the rest',
  async (_, file, says, count, some) => {
    expect(await backUp()).toMatchObject({ code: 0 })
    fake.change(await objectOf(file), 'by another tool')
    const dataDir = join(temporaryFolder(), 'restored')
    const refused = await weirAt(fake, 'restore', BUCKET, '--data-dir', dataDir)
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(new RegExp(`it is segment/.*${file}. weir restore --incomplete restores all`)),
    ])
    const restored = await weirAt(fake, 'restore', BUCKET, '--data-dir', dataDir, '--incomplete')
    expect([restored.code, restored.out]).toEqual([1, expect.stringContaining('restored sequence')])
    expect(restored.err).toMatch(new RegExp(`left out, .*${file} of the pool orders .*${says}`))
    if (file.endsWith('parquet')) expect(restored.err).toContain('are back as they were')
    const found = ofRows(await rowsOf(dataDir))
    expect([found.size, Object.fromEntries(Object.keys(some).map(id => [id, found.get(id)]))]).toEqual([
      count,
      some,
    ])
    expect(found.has('o110')).toBe(file.endsWith('deletes'))
  },
  240_000,
)

test('a backup in a folder that lost a segment is restored without it', async () => {
  const folder = join(temporaryFolder(), 'backup')
  expect(await weir(['backup', folder, '--data-dir', filled.dataDir])).toMatchObject({ code: 0 })
  rmSync(join(folder, 'segment', filled.pool.poolId, '0000000002.parquet'))
  const dataDir = join(temporaryFolder(), 'restored')
  expect((await weir(['restore', folder, '--data-dir', dataDir])).code).toBe(1)
  const restored = await weir(['restore', folder, '--data-dir', dataDir, '--incomplete'])
  expect([restored.code, restored.err]).toEqual([
    1,
    expect.stringMatching(/02.parquet of the pool orders .*an unknown number of rows is missing/),
  ])
  expect(ofRows(await rowsOf(dataDir)).size).toBe(4980)
}, 240_000)

const KINDS: readonly (readonly [string, Checksums, lacking: 'none' | 'one' | 'all'])[] = [
  ['keeps them', 'kept', 'none'],
  ['does not know them', 'ignored', 'all'],
  ['refuses them', { refused: 'InvalidArgument' }, 'all'],
  ['says that they are not there yet', { refused: 'NotImplemented' }, 'all'],
  ['has one of the parts of a large object', 'composite', 'one'],
]

test.each(KINDS)(
  'a server that %s takes a backup and gives it back',
  async (_, kind, lacking) => {
    fake.checksums = kind
    expect(await backUp()).toMatchObject({ code: 0 })
    const kept = fake.names('weir/objects/').map(name => fake.objects.get(name)?.crc32)
    const wholes = kept.filter(crc => crc !== undefined && !crc.includes('-')).length
    expect(kept.length - wholes).toBe({ none: 0, one: 1, all: kept.length }[lacking])
    const before = fake.requests.length
    expect(await backUp()).toMatchObject({ code: 0 })
    // Where the server tells no checksum, small objects are sent again, and large ones are read.
    expect(fake.sentSince(before)).toBeLessThan(100_000)
    await expectRestored(fake, filled)
  },
  240_000,
)

test('objects in an archive, which cannot be read, keep no backup from being made', async () => {
  fake.checksums = 'ignored'
  expect(await backUp()).toMatchObject({ code: 0 })
  fake.fault = ({ what, name }) =>
    what === 'GET' && name.includes('/objects/') ? { status: 403, code: 'InvalidObjectState' } : undefined
  const before = fake.requests.length
  expect(await backUp()).toMatchObject({ code: 0 })
  expect(fake.sentSince(before)).toBeLessThan(100_000)
  const restored = await weirAt(fake, 'restore', BUCKET, '--data-dir', join(temporaryFolder(), 'restored'))
  expect([restored.code, restored.err]).toEqual([2, expect.stringContaining('is in an archive')])
}, 240_000)

test('a share is checked, and the next backup goes on behind it', async () => {
  const client = new S3Client(readBucketAddress(BUCKET, undefined, fake.environment))
  const parts = Array.from({ length: 100 }, (_, i) => {
    const bytes = Buffer.from(`object ${i}`)
    const part = { sha256: createHash('sha256').update(bytes).digest('hex'), bytes: bytes.byteLength }
    fake.put(`weir/objects/${part.sha256}`, bytes)
    return part
  })
  for (const part of parts) fake.change(`weir/objects/${part.sha256}`, 'by another tool')
  const found = async (share: { asked: number; readBytes: number }) => {
    const wrong = await checkShare(client, parts, share)
    expect(fake.names('weir/checked/').length).toBeLessThanOrEqual(1)
    return wrong
  }
  for (const share of [
    { asked: 20, readBytes: 1e9 },
    { asked: 1e9, readBytes: 150 },
  ]) {
    for (const name of fake.names('weir/checked/')) fake.objects.delete(name)
    const all = new Set<string>()
    let rounds = 0
    while (all.size < 100) {
      const wrong = await found(share)
      expect(wrong.size).toBeGreaterThan(0)
      expect(wrong.size).toBeLessThanOrEqual(25) // those under way too
      for (const name of wrong) all.add(name)
      rounds += 1
      expect(rounds).toBeLessThanOrEqual(7)
    }
  }
})
