/**
 * Backups of a running server into a bucket, over its route: refusals, cancellation, and no secret
 * in any output.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { send, startServer, type TestPool, type TestServer } from '../../util/server.ts'
import { askBackup } from '../backup/backups.ts'
import { BUCKET, orders } from './buckets.ts'
import { FAKE_KEYS, FakeS3 } from './fake-s3.ts'

const fake = await FakeS3.start()
let server: TestServer
let pool: TestPool
beforeAll(async () => {
  server = await startServer({ env: fake.environment })
  pool = await server.createPool({ uniqueName: 'orders' })
  expect((await send(pool.url, orders(0, 100, 1))).status).toBe(200)
})
afterAll(async () => {
  fake.stop()
  for (const secret of Object.values(FAKE_KEYS)) expect(server.output()).not.toContain(secret)
})
beforeEach(() => fake.reset())

test('a body that names no bucket is refused, and sends nothing', async () => {
  const refused: readonly (readonly [unknown, string])[] = [
    [{ bucket: 7 }, 'bad_request'],
    [{ bucket: BUCKET, folder: '/x' }, 'bad_request'],
    [{ bucket: BUCKET, keep: 0 }, 'bad_request'],
    [{ bucket: BUCKET, keep: '7' }, 'bad_request'],
    [{ bucket: '/folder' }, 'bad_bucket'],
    [{ bucket: 's3://bucket/../x' }, 'bad_bucket'],
    [{ folder: BUCKET }, 'bad_folder'],
    [{ folder: '/x', keep: 7 }, 'bad_request'],
  ]
  for (const [body, code] of refused) {
    const { status, problem } = await askBackup(server, body)
    expect([body, status, problem?.code]).toEqual([body, 400, code])
  }
  expect(fake.requests).toEqual([])
})

test('the last line has what was sent, and what the retention removed or could not', async () => {
  const first = (await askBackup(server, { bucket: BUCKET })).lines.at(-1)
  expect(first).toMatchObject({ done: true, pools: 3, damaged: [], sent: expect.any(Number) })
  const second = (await askBackup(server, { bucket: BUCKET, keep: 1 })).lines.at(-1)
  expect(second).toMatchObject({ done: true, removed: { backups: 1 } })
  fake.fault = ({ what, name }) =>
    what === 'DELETE' && !name.includes('working') ? { status: 403, code: 'AccessDenied' } : undefined
  const third = (await askBackup(server, { bucket: BUCKET, keep: 1 })).lines.at(-1)
  expect(third).toMatchObject({ done: true, notRemoved: expect.stringContaining('HTTP 403 AccessDenied') })
  expect(fake.names('weir/backups/').length).toBe(2)
})

test.each([
  [{ status: 403, code: 'AccessDenied' }, 'bucket_denied'],
  [{ status: 507, code: '' }, 'bucket_full'],
  [{ status: 404, code: 'NoSuchBucket' }, 'bucket_missing'],
])('%j ends the backup with its code, and ingest goes on', async (fault, code) => {
  fake.fault = ({ name }) => (name.includes('objects/') ? fault : undefined)
  expect((await askBackup(server, { bucket: BUCKET })).lines.at(-1)).toMatchObject({ code })
  expect((await send(pool.url, orders(0, 1, 1))).status).toBe(200)
  expect([fake.names('weir/backups/'), fake.names('weir/working/')]).toEqual([[], []])
})

test('a client that leaves while the bucket is slow cancels the backup, and the next one works', async () => {
  fake.fault = ({ what }) => (what === 'PUT' && fake.names('weir/working/').length > 0 ? 'hang' : undefined)
  const abort = new AbortController()
  const asked = askBackup(
    server,
    { bucket: BUCKET },
    line => {
      if ('phase' in line && line.phase === 'catalog') abort.abort()
      if ('phase' in line && line.phase === 'log') abort.abort()
    },
    abort.signal,
  )
  await expect(asked).rejects.toThrow()
  await expect.poll(() => fake.names('weir/working/'), { timeout: 10_000 }).toEqual([])
  fake.fault = () => undefined
  await expect
    .poll(async () => (await askBackup(server, { bucket: BUCKET })).lines.at(-1), { timeout: 10_000 })
    .toMatchObject({ done: true })
  expect(readdirSync(join(server.dataDir, 'tmp')).filter(name => name.startsWith('backup'))).toEqual([])
})

test('SIGTERM ends a backup to a bucket that does not answer, and the process in time', async () => {
  let stopped: ReturnType<typeof server.stop> | undefined
  fake.fault = ({ what, name }) => {
    if (what !== 'PUT' || !name.includes('objects/')) return undefined
    stopped ??= server.stop()
    return 'hang'
  }
  const { lines } = await askBackup(server, { bucket: BUCKET })
  expect(lines.at(-1)).toMatchObject({ code: 'backup_cancelled' })
  expect(await stopped).toMatchObject({ code: 0, signal: null })
  expect(fake.names('weir/working/')).toEqual([])
  expect(readFileSync(join(server.dataDir, 'FORMAT'), 'utf8')).toBe('weir 6\n')
}, 30_000)
