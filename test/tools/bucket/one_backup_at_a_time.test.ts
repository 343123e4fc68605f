/**
 * Two backups of one prefix, and backups that died: retention never takes an object from another
 * backup, and what is half done is never listed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { readBucketAddress } from '../../../src/tools/bucket/bucket-address.ts'
import { CLAIM_DEAD_MS, Claim } from '../../../src/tools/bucket/claim.ts'
import { S3Client } from '../../../src/tools/bucket/s3-client.ts'
import { startServer, temporaryFolder } from '../../util/server.ts'
import { BUCKET, expectRestored, makeOrders, type Orders, orders, POOL, post, weirAt } from './buckets.ts'
import { FakeS3 } from './fake-s3.ts'

const MAIN = fileURLToPath(new URL('../../../src/app/main.js', import.meta.url))
const fake = await FakeS3.start()
afterAll(() => fake.stop())
let filled: Orders
beforeAll(async () => {
  filled = await makeOrders()
  await filled.change((_, url) => post(url, orders(0, 5000, 1, 2500)))
  await filled.change((_, url) => post(url, orders(5000, 5010, 1)))
}, 240_000)
beforeEach(() => fake.reset())

const client = () => new S3Client(readBucketAddress(BUCKET, undefined, fake.environment), { firstWaitMs: 1 })
/** As a backup of another folder has it. */
const claim = () => Claim.make(client(), join(temporaryFolder(), 'bucket-claim'))
const IN_USE = { code: 'bucket_in_use' }
const backUp = (...more: readonly string[]) =>
  weirAt(fake, 'backup', BUCKET, '--data-dir', filled.dataDir, ...more)

test('of two claims at once at most one is given, and the next one finds nothing left', async () => {
  for (let round = 0; round < 20; round++) {
    const made = await Promise.allSettled([claim(), claim(), claim()])
    const given = made.filter(one => one.status === 'fulfilled')
    expect(given.length).toBeLessThanOrEqual(1)
    for (const one of made) if (one.status === 'rejected') expect(one.reason).toMatchObject(IN_USE)
    for (const one of given) await one.value.end()
    expect(fake.names('weir/working/')).toEqual([])
  }
})

test('a second backup is refused while one works, and sends no object', async () => {
  const other = await claim()
  const before = fake.requests.length
  const { code, err } = await backUp('--keep', '1')
  expect([code, err]).toEqual([2, expect.stringContaining('another backup works there, renewed ')])
  expect(fake.sentSince(before)).toBe(0)
  await other.end()
  expect(await backUp('--keep', '1')).toMatchObject({ code: 0 })
})

test('a copy of a folder, made while its backup worked, does not end the claim of that', async () => {
  const [note, copy] = [temporaryFolder(), temporaryFolder()].map(folder => join(folder, 'bucket-claim'))
  const working = await Claim.make(client(), note!)
  const names = fake.names('weir/working/')
  copyFileSync(note!, copy!)
  await expect(Claim.make(client(), copy!)).rejects.toMatchObject(IN_USE)
  expect(fake.names('weir/working/')).toEqual(names)
  // In its own folder it would be the claim of a backup that died.
  const next = await Claim.make(client(), note!)
  await next.end()
  await working.end()
  expect(fake.names('weir/working/')).toEqual([])
})

test('the claim of a backup that died ends, and one that only slept gives up', async () => {
  const slept = await claim()
  fake.aheadMs = CLAIM_DEAD_MS - 5_000
  await expect(claim()).rejects.toMatchObject(IN_USE)
  fake.aheadMs = CLAIM_DEAD_MS + 5_000
  const next = await claim()
  const now = Date.now
  Date.now = () => now() + 60_000 // the machine slept: its monotonic clock stood still
  try {
    await expect(slept.check()).rejects.toMatchObject({
      code: 'bucket_in_use',
      message: expect.stringContaining('another backup works there'),
    })
    await next.check()
    await next.end()
    await expect(slept.check()).rejects.toThrow('the backup lost its place')
  } finally {
    Date.now = now
    await slept.end()
  }
})

test('a backup that lost its claim on the way names no backup', async () => {
  fake.fault = ({ what, name }) => {
    if (what === 'BEGIN') for (const one of fake.names('weir/working/')) fake.objects.delete(one)
    if (what === 'LIST' && name === 'weir/objects/') fake.aheadMs += CLAIM_DEAD_MS + 1
    return undefined
  }
  const now = Date.now
  Date.now = () => now() + fake.aheadMs
  const { code, err } = await backUp().finally(() => {
    Date.now = now
  })
  expect([code, err]).toEqual([2, expect.stringContaining('the backup lost its place')])
  expect(fake.names('weir/backups/')).toEqual([])
})

test('a renewal that comes after a sleep brings no claim back', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const slept = await claim()
  fake.aheadMs = CLAIM_DEAD_MS + 5_000
  const other = await claim()
  await other.end()
  expect(fake.names('weir/working/')).toEqual([])
  vi.advanceTimersByTime(60_000)
  await vi.waitUntil(() => fake.names('weir/working/').length === 1)
  const now = Date.now
  Date.now = () => now() + CLAIM_DEAD_MS
  try {
    await expect(slept.check()).rejects.toThrow('the backup lost its place')
  } finally {
    Date.now = now
    await slept.end()
  }
})

test('a machine that sleeps while it sends the manifest names no backup', async () => {
  const now = Date.now
  fake.fault = ({ what, name }) => {
    if (what !== 'PUT' || !name.includes('/backups/')) return undefined
    for (const one of fake.names('weir/working/')) fake.objects.delete(one)
    Date.now = () => now() + CLAIM_DEAD_MS
    return undefined
  }
  const { code, err } = await backUp().finally(() => {
    Date.now = now
  })
  expect([code, err]).toEqual([2, expect.stringContaining('the backup lost its place')])
  expect(fake.names('weir/backups/')).toEqual([])
})

test('a request is not tried again after a sleep: its claim may be dead', async () => {
  const now = Date.now
  fake.fault = () => {
    Date.now = () => now() + CLAIM_DEAD_MS
    return 'break'
  }
  const removal = client().remove('objects/x')
  await expect(removal)
    .rejects.toMatchObject({ code: 'bucket_unreachable' })
    .finally(() => {
      Date.now = now
    })
  expect(fake.requests.length).toBe(1)
})

/** Kills a backup at the first request of this kind. */
async function killAt(isMoment: (what: string, name: string) => boolean): Promise<void> {
  const child = spawn(
    process.execPath,
    [MAIN, 'backup', BUCKET, '--keep', '1', '--data-dir', filled.dataDir],
    {
      env: { ...process.env, ...fake.environment },
      stdio: 'ignore',
    },
  )
  const ended = once(child, 'exit')
  fake.fault = ({ what, name }) => {
    if (!isMoment(what, name)) return undefined
    child.kill('SIGKILL')
    return 'hang'
  }
  expect(await ended).toEqual([null, 'SIGKILL'])
  fake.fault = () => undefined
}

const MOMENTS: readonly (readonly [string, (what: string, name: string) => boolean])[] = [
  ['the first object', (what, name) => what === 'PUT' && name.includes('/objects/')],
  ['a part of a large one', what => what === 'PART'],
  ['the manifest', (what, name) => what === 'PUT' && name.includes('/backups/')],
  ['the first removal', (what, name) => what === 'DELETE' && !name.includes('/working/')],
]

test.each(MOMENTS)(
  'a backup that is killed at %s is not listed, and the next one goes on',
  async (at, isMoment) => {
    const isAfter = at === 'the first removal'
    if (isAfter) expect(await backUp()).toMatchObject({ code: 0 })
    await killAt(isMoment)
    const named = fake.names('weir/backups/')
    expect(named.length).toBe(isAfter ? 2 : 0)
    // Its claim blocks others, and not the folder that it was of.
    await expect(claim()).rejects.toThrow('where it was killed, 5 minutes after')
    const left = new Set(fake.names('weir/objects/'))
    const large = [...left].filter(name => fake.objects.get(name)!.bytes.byteLength > 8 * 1024 * 1024)
    const before = fake.requests.length
    expect(await backUp('--keep', '1')).toMatchObject({ code: 0 })
    if (large.length > 0) expect(fake.sentSince(before)).toBeLessThan(1024 * 1024)
    expect(fake.names('weir/backups/').length).toBe(1)
    expect([fake.uploads.size, fake.names('weir/working/')]).toEqual([0, []])
    // Only what the one backup names is left.
    const manifest = fake.objects.get(fake.names('weir/backups/')[0] ?? '')!.bytes.toString()
    for (const name of fake.names('weir/objects/')) expect(manifest).toContain(name.split('/').at(-1))
    await expectRestored(fake, filled)
  },
  240_000,
)

test('a claim whose end fails keeps only other folders out', async () => {
  let refused = 0
  fake.fault = ({ what, name }) => {
    if (what !== 'DELETE' || !name.includes('/working/')) return undefined
    refused += 1
    return { status: 503, code: 'SlowDown' }
  }
  expect(await backUp()).toMatchObject({ code: 0 })
  expect(refused).toBe(2)
  fake.fault = () => undefined
  expect(fake.names('weir/working/').length).toBe(1)
  await expect(claim()).rejects.toMatchObject(IN_USE)
  expect(await backUp()).toMatchObject({ code: 0 })
  expect(fake.names('weir/working/')).toEqual([])
  // Once is no trouble to anybody.
  let left = 1
  fake.fault = ({ what, name }) =>
    what === 'DELETE' && name.includes('/working/') && left-- > 0 ? 'break' : undefined
  expect(await backUp()).toMatchObject({ code: 0 })
  expect(fake.names('weir/working/')).toEqual([])
}, 240_000)

test('backups that are killed again and again end, and no object is sent twice', async () => {
  const own = await makeOrders()
  // One segment each: those of one pool would be merged.
  await own.change(async server => {
    for (let n = 0; n < 3; n++)
      await post((await server.createPool({ ...POOL, uniqueName: `more${n}` })).url, orders(0, 500, n, 2500))
  })
  const args = ['--data-dir', own.dataDir]
  const sent = new Map<string, number>()
  let kills = 0
  for (; kills < 20; kills++) {
    const child = spawn(process.execPath, [MAIN, 'backup', BUCKET, ...args], {
      env: { ...process.env, ...fake.environment },
      stdio: 'ignore',
    })
    const ended = once(child, 'exit')
    let here = 0
    fake.fault = ({ what, name, bytes }) => {
      if (what !== 'PUT' || bytes < 500_000) return undefined
      if (++here === 2) child.kill('SIGKILL')
      if (here >= 2) return 'hang'
      sent.set(name, (sent.get(name) ?? 0) + 1)
      return undefined
    }
    const [code] = (await ended) as [number | null]
    if (code === 0) break
  }
  fake.fault = () => undefined
  expect(kills).toBe(2)
  expect([...sent.values()]).toEqual(Array(3).fill(1))
  expect(fake.names('weir/unfinished')).toEqual([])
  await expectRestored(fake, own)
}, 240_000)

test('what a dead backup left is compared by its checksum, not by its length', async () => {
  await killAt((what, name) => what === 'PUT' && name.includes('/backups/'))
  fake.objects.delete('weir/unfinished.json') // as earlier versions leave it
  const [large = ''] = fake
    .names('weir/objects/')
    .filter(name => fake.objects.get(name)!.bytes.byteLength > 8e6)
  fake.change(large, 'by another tool')
  const before = fake.requests.length
  expect(await backUp()).toMatchObject({ code: 0 })
  expect(fake.sentSince(before)).toBeGreaterThan(8e6)
  await expectRestored(fake, filled)
}, 240_000)

test('requests that a killed backup copied leave the folder at the next start', async () => {
  const own = await makeOrders()
  const left = join(own.dataDir, 'tmp', 'backup-log')
  const server = await startServer({ dataDir: own.dataDir })
  await post(`${server.base}${new URL(own.pool.url).pathname}`, orders(0, 10, 1))
  const killed = new Promise<void>(resolve => {
    fake.fault = ({ what, name }) => {
      if (what !== 'PUT' || !name.includes('/objects/')) return undefined
      void server.kill().then(() => resolve())
      return 'hang'
    }
  })
  Object.assign(process.env, fake.environment)
  await weirAt(fake, 'backup', BUCKET, '--url', server.base, '--data-dir', own.dataDir)
  await killed
  fake.fault = () => undefined
  expect(readdirSync(left).length).toBeGreaterThan(0)
  await own.change(() => Promise.resolve())
  expect(existsSync(left)).toBe(false)
}, 240_000)

test('Ctrl-C ends a backup soon, and its claim with it', async () => {
  const args = ['backup', BUCKET, '--data-dir', filled.dataDir]
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { ...process.env, ...fake.environment },
    stdio: 'ignore',
  })
  const ended = once(child, 'exit')
  fake.fault = ({ what }) => {
    if (what !== 'PART') return undefined
    child.kill('SIGINT')
    return 'hang'
  }
  expect(await ended).toEqual([null, 'SIGINT'])
  expect([fake.names('weir/backups/'), fake.names('weir/working/'), fake.uploads.size]).toEqual([[], [], 0])
  fake.fault = () => undefined
  expect(await backUp()).toMatchObject({ code: 0 })
}, 240_000)
