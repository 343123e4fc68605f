/**
 * Backups of a folder into a bucket: what is sent, what retention removes, and what comes back. The
 * bucket also lies, loses and breaks off.
 */
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { readStore } from '../../../src/catalog/lmdb/catalog-store.ts'
import { temporaryFolder } from '../../util/server.ts'
import { weir } from '../folder.ts'
import {
  BUCKET,
  expectRestored,
  makeOrders,
  type Orders,
  orders,
  ordersIn,
  post,
  rowsOf,
  weirAt,
} from './buckets.ts'
import { FakeS3 } from './fake-s3.ts'

const fake = await FakeS3.start()
afterAll(() => fake.stop())

let filled: Orders
beforeAll(async () => {
  filled = await makeOrders()
  // One segment of more than 8 MiB, which is sent in parts, and a small one.
  await filled.change((_, url) => post(url, orders(0, 5000, 1, 2500)))
  await filled.change((_, url) => post(url, orders(5000, 5100, 1)))
}, 240_000)

beforeEach(() => fake.reset())

/** A copy of the filled folder that a test may change. */
function copyOfFilled(): Orders {
  const dataDir = join(temporaryFolder(), 'data')
  cpSync(filled.dataDir, dataDir, { recursive: true })
  return ordersIn(dataDir, filled.pool)
}

async function backUp(of: Orders, ...more: readonly string[]) {
  const before = fake.requests.length
  const { code, out, output } = await weirAt(fake, 'backup', BUCKET, '--data-dir', of.dataDir, ...more)
  expect([code, output]).toEqual([0, expect.stringContaining('of them sent, as')])
  const id = /sent, as (\w+)/.exec(out)?.[1] ?? ''
  return { id, out, sent: fake.sentSince(before) }
}

const ids = () => fake.names('weir/backups/').map(name => /(\w+)\.json$/.exec(name)?.[1])
const objects = () => fake.names('weir/objects/')
const segmentFiles = (of: Orders) => {
  const folder = join(of.dataDir, 'segment', of.pool.poolId)
  return readdirSync(folder).map(name => join(folder, name))
}

test('a second backup sends what is new, and each restore is equal row by row', async () => {
  const own = await makeOrders()
  await own.change((_, url) => post(url, orders(0, 5000, 1, 2500)))
  fake.pageSize = 3
  const first = await backUp(own)
  expect(first.sent).toBeGreaterThan(8 * 1024 * 1024)
  expect(fake.requests.some(({ what }) => what === 'PART')).toBe(true)
  await expectRestored(fake, own)

  await own.change(async (_, url) => {
    await post(url, orders(0, 50, 2, 2500))
    await post(url, orders(100, 120, 1), 'DELETE')
  })
  const second = await backUp(own)
  expect(second.sent).toBeLessThan(first.sent / 20)
  const restored = await rowsOf(await expectRestored(fake, own))
  expect(restored).toEqual(await rowsOf(own.dataDir))
  expect(restored.length).toBe(4981) // an empty line behind the last row
  expect(ids()).toEqual([first.id, second.id])

  const list = await weirAt(fake, 'backups', BUCKET)
  expect(list.code).toBe(0)
  expect(list.out.split('\n').filter(line => line.endsWith(' complete')).length).toBe(2)
  const json = JSON.parse((await weirAt(fake, 'backups', BUCKET, '--json')).out) as { id: string }[]
  expect(json.map(({ id }) => id)).toEqual([first.id, second.id])
  expect(readFileSync(join(own.dataDir, 'admin.json'), 'utf8')).toContain('clientSecret')
}, 240_000)

test('retention keeps the last backups, removes what they do not name, and nothing else', async () => {
  const of = copyOfFilled()
  const one = await backUp(of)
  const shared = objects().length
  const two = await backUp(of, '--keep', '2')
  const three = await backUp(of, '--keep', '2')
  expect(ids()).toEqual([two.id, three.id])
  expect(one.id < two.id).toBe(true)
  fake.put(`weir/objects/${'0'.repeat(64)}`, Buffer.from('x'))
  fake.put('weir/notes.txt', Buffer.from('not of Weir'))
  fake.put('weir/backups/notes.txt', Buffer.from('not of Weir'))
  fake.uploads.set('left', { name: `weir/objects/${'1'.repeat(64)}`, parts: new Map() })
  fake.uploads.set('other', { name: 'other/objects/left', parts: new Map() })
  const four = await backUp(of, '--keep', '1')
  expect(ids().filter(id => id !== undefined)).toEqual([four.id])
  expect(four.out).toContain('; removed 2 backups and ')
  expect(objects().length).toBe(shared)
  expect([...fake.uploads.keys()]).toEqual(['other'])
  expect(fake.names('weir/').filter(name => name.endsWith('notes.txt')).length).toBe(2)
  expect(fake.names('weir/working/')).toEqual([])
  await expectRestored(fake, of, ['--backup', four.id])
}, 240_000)

test('a manifest of a later version is refused, and keeps every object in the bucket', async () => {
  const of = copyOfFilled()
  const { id } = await backUp(of)
  const later = { format: 2, weir: '9.0.0', anything: true }
  fake.put('weir/backups/20990101T000000000Z.json', Buffer.from(JSON.stringify(later)))
  const dataDir = join(temporaryFolder(), 'restored')
  const refused = await weirAt(fake, 'restore', BUCKET, '--data-dir', dataDir)
  expect([refused.code, refused.err]).toEqual([
    2,
    expect.stringContaining(
      'has format 2, and this version of Weir reads up to 1: use the version that wrote it ("9.0.0")',
    ),
  ])
  expect(existsSync(dataDir)).toBe(false)
  const before = objects()
  const kept = await weirAt(fake, 'backup', BUCKET, '--data-dir', of.dataDir, '--keep', '3')
  expect([kept.code, kept.err]).toEqual([2, expect.stringContaining('no older backup was removed')])
  expect(objects()).toEqual(expect.arrayContaining(before))
  // Its id is above that of the later version, although the clock is not.
  expect(ids().at(-1)?.startsWith('20990101')).toBe(true)
  expect((await weirAt(fake, 'backups', BUCKET)).out).toContain('reads up to 1')
  await expectRestored(fake, of, ['--backup', id])
}, 240_000)

/** Changes a bit in the last segment of a folder. Returns its path. */
function damageLast(of: Orders): string {
  const file = segmentFiles(of).at(-1) ?? ''
  const bytes = readFileSync(file)
  bytes[bytes.byteLength >> 1]! ^= 1
  writeFileSync(file, bytes)
  return file
}

test('what was damaged since the last backup stays whole in the bucket', async () => {
  const of = copyOfFilled()
  await backUp(of)
  damageLast(of)
  await backUp(of)
  await expectRestored(fake, filled)
}, 240_000)

test('a damaged new segment makes the backup incomplete, which pushes no complete one out', async () => {
  const of = copyOfFilled()
  const good = await backUp(of)
  await of.change((_, url) => post(url, orders(6000, 6100, 1)))
  const file = damageLast(of)
  const bad = await weirAt(fake, 'backup', BUCKET, '--data-dir', of.dataDir, '--keep', '1')
  expect([bad.code, bad.err]).toEqual([1, expect.stringContaining(`${file} (its bytes do not match`)])
  rmSync(file)
  const lost = await weirAt(fake, 'backup', BUCKET, '--data-dir', of.dataDir, '--keep', '1')
  expect([lost.code, lost.err]).toEqual([1, expect.stringContaining(`${file} (it is missing)`)])
  expect(ids().length).toBe(3)
  expect((await weirAt(fake, 'backups', BUCKET)).out).toContain('incomplete: 1 damaged files')
  const dataDir = join(temporaryFolder(), 'restored')
  const refused = await weirAt(fake, 'restore', BUCKET, '--data-dir', dataDir)
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('the backup is incomplete')])
  expect(existsSync(dataDir)).toBe(false)
  expect((await weirAt(fake, 'restore', BUCKET, '--data-dir', dataDir, '--incomplete')).code).toBe(1)
  expect(await readStore(join(dataDir, 'catalog'))).toEqual(await readStore(join(of.dataDir, 'catalog')))
  await expectRestored(fake, filled, ['--backup', good.id])
}, 240_000)

test('each changed, cut or missing object is found by the restore, which leaves no folder', async () => {
  const of = copyOfFilled()
  await backUp(of)
  const whole = new Map(fake.objects)
  for (const name of [...objects(), ...fake.names('weir/backups/')])
    for (const how of ['flip', 'cut', 'remove']) {
      const { bytes } = whole.get(name)!
      const changed = Buffer.from(bytes)
      if (how === 'flip') changed[changed.byteLength >> 1]! ^= 1
      if (how === 'remove') fake.objects.delete(name)
      else fake.put(name, how === 'flip' ? changed : changed.subarray(0, -1))
      const dataDir = join(temporaryFolder(), 'restored')
      const { code, err } = await weirAt(fake, 'restore', BUCKET, '--data-dir', dataDir)
      const isGone = how === 'remove' && name.includes('backups')
      expect([name, how, code, err]).toEqual([name, how, isGone ? 2 : 1, expect.stringContaining(BUCKET)])
      expect(existsSync(join(dataDir, 'FORMAT'))).toBe(false)
      fake.objects.set(name, whole.get(name)!)
    }
  await expectRestored(fake, of)
}, 240_000)

test.each(['weir/backups/', 'weir/objects/'])(
  'a page in place of the list of %s removes nothing that a backup names',
  async list => {
    const of = copyOfFilled()
    await backUp(of)
    const before = objects()
    let asked = 0
    // The first list of each kind is of the backup, the last one of its retention.
    const last = list === 'weir/backups/' ? 2 : 3
    fake.fault = ({ what, name }) => {
      if (what === 'LIST' && name === list) asked += 1
      return what === 'LIST' && name === list && asked === last ? 'page' : undefined
    }
    const { code, err } = await weirAt(fake, 'backup', BUCKET, '--data-dir', of.dataDir, '--keep', '2')
    expect([code, err]).toEqual([2, expect.stringContaining('the answer is not one of S3')])
    expect(objects()).toEqual(expect.arrayContaining(before))
    // A backup that no list shows is taken back.
    expect(ids().length).toBe(list === 'weir/backups/' ? 1 : 2)
    fake.fault = () => undefined
    await expectRestored(fake, of)
  },
  240_000,
)

test('a bucket that stores less than it says gets no manifest', async () => {
  const of = copyOfFilled()
  fake.checksums = 'ignored'
  fake.fault = ({ what, name }) => (what === 'PUT' && name.includes('objects/') ? 'keep half' : undefined)
  const { code, err } = await weirAt(fake, 'backup', BUCKET, '--data-dir', of.dataDir)
  expect([code, err]).toEqual([
    2,
    expect.stringMatching(/was sent, and it has \d+ bytes, it should have \d+/),
  ])
  expect([ids(), fake.names('weir/working/')]).toEqual([[], []])
}, 240_000)

test('a full bucket ends the backup with one line, and a later one goes on', async () => {
  const of = copyOfFilled()
  fake.fault = ({ what }) => (what === 'PART' ? { status: 507, code: 'XMinioStorageFull' } : undefined)
  const { code, err } = await weirAt(fake, 'backup', BUCKET, '--data-dir', of.dataDir)
  expect([code, err]).toEqual([
    2,
    expect.stringContaining('there is no room left (HTTP 507 XMinioStorageFull)'),
  ])
  expect([ids(), fake.uploads.size, fake.names('weir/working/')]).toEqual([[], 0, []])
  fake.fault = () => undefined
  await backUp(of)
  await expectRestored(fake, of)
}, 240_000)

test('flags go with a bucket, and without credentials nothing is sent', async () => {
  const of = copyOfFilled()
  const folder = join(temporaryFolder(), 'backup')
  const wrong: readonly (readonly [readonly string[], string])[] = [
    [['backup', folder, '--keep', '3'], '--keep and --endpoint are for a bucket'],
    [['backup', BUCKET, '--keep', '0'], '--keep takes a number'],
    [['backup', BUCKET, '--endpoint', 'http://x', '--url', 'http://127.0.0.1:9'], 'its own environment'],
    [['backup', BUCKET, '--endpoint', 'ftp://x'], 'the endpoint of the bucket'],
    [['restore', folder, '--backup', 'x'], '--backup and --endpoint are for a bucket'],
    [['restore', BUCKET], 'has no backup: there is none'],
    [['restore', BUCKET, '--backup', 'x'], 'has no backup x'],
    [['backup', 's3://Bucket'], 'a bucket is named as'],
    [['backups', folder], 'a bucket is named as'],
  ]
  for (const [args, part] of wrong) {
    const dataDir = args[0] === 'restore' ? join(temporaryFolder(), 'new') : of.dataDir
    const { code, err } = await weirAt(fake, ...args, '--data-dir', dataDir)
    expect([args, code, err]).toEqual([args, 2, expect.stringContaining(part)])
  }
  const { AWS_SECRET_ACCESS_KEY: _, ...rest } = fake.environment
  const before = fake.requests.length
  for (const name of Object.keys(fake.environment)) delete process.env[name]
  const bare = await weir(['backup', BUCKET, '--data-dir', of.dataDir], rest)
  expect([bare.code, bare.err]).toEqual([2, expect.stringContaining('set AWS_SECRET_ACCESS_KEY')])
  expect(fake.requests.length).toBe(before)
}, 240_000)
