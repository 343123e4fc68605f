import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { send, startServer, type TestPool, type TestServer, temporaryFolder } from '../util/server.ts'
import { events, KEYED, segmentsOf } from './damage.ts'

/**
 * 300 rows in several segments, after updates and deletes: e0 to e299, n is 1 below e200, and 2
 * from e200 on.
 */
async function filled(server: TestServer): Promise<TestPool> {
  const pool = await server.createPool(KEYED)
  // Each query flushes. Each segment is twice as large as the one before, so that no flush replaces
  // an earlier segment.
  for (const [from, to] of [
    [0, 400],
    [400, 500],
  ] as const) {
    expect((await send(pool.url, events(from, to))).status).toBe(200)
    await server.count(pool.poolId)
  }
  expect((await send(pool.url, events(300, 500), 'DELETE')).status).toBe(200)
  expect((await send(pool.url, events(200, 300, 2))).status).toBe(200)
  await holds(server, pool)
  return pool
}

async function holds(server: TestServer, pool: TestPool, more = 0): Promise<void> {
  expect(await server.count(pool.poolId)).toBe(String(300 + more))
  expect(await server.sum(pool.poolId, 'n')).toBe(String(400 + more))
  const filters = [{ column: 'id', operator: 'EQUALS', value: 'e300' }]
  expect(await server.count(pool.poolId, { filters })).toBe('0')
}

interface Stopped {
  readonly dataDir: string
  readonly pool: TestPool
  /** It has 7 rows. */
  readonly healthy: TestPool
}
let stopped: Promise<Stopped> | undefined

/** A copy of a folder that was stopped with a filled pool and a healthy one. */
async function stoppedFolder(): Promise<Stopped> {
  stopped ??= fillAndStop()
  const { dataDir, ...pools } = await stopped
  const copy = join(temporaryFolder(), 'data')
  cpSync(dataDir, copy, { recursive: true })
  return { dataDir: copy, ...pools }
}

async function fillAndStop(): Promise<Stopped> {
  const server = await startServer()
  const pool = await filled(server)
  const healthy = await server.createPool({ ...KEYED, uniqueName: 'healthy' })
  expect((await send(healthy.url, events(0, 7))).status).toBe(200)
  expect((await server.stop()).code).toBe(0)
  return { dataDir: server.dataDir, pool, healthy }
}

test('a missing segment: queries name it and never answer a short count, ingest goes on', async () => {
  const { dataDir, pool, healthy } = await stoppedFolder()
  const missing = must(segmentsOf(dataDir, pool.poolId)[0], 'a segment')
  rmSync(missing)
  const next = await startServer({ dataDir })
  const damaged = { message: expect.stringMatching(/^SEGMENT_DAMAGED: .*/) }
  await expect(next.sum(pool.poolId, 'n')).rejects.toMatchObject(damaged)
  await expect(next.sum(pool.poolId, 'n')).rejects.toThrow(missing.split('/').slice(-2).join('/'))
  // It reads no file: it answers what was committed.
  expect(await next.count(pool.poolId)).toBe('300')
  expect((await send(`${next.base}${new URL(pool.url).pathname}`, events(600, 610))).status).toBe(200)
  await expect(next.sum(pool.poolId, 'n')).rejects.toThrow(missing.split('/').slice(-2).join('/'))
  expect(await next.count(pool.poolId)).toBe('310')
  expect(await next.count(healthy.poolId)).toBe('7')
  expect((await next.stop()).code).toBe(0)
})

test('data/index removed: it is rebuilt, counts are the same, deletes stay deleted', async () => {
  const { dataDir, pool } = await stoppedFolder()
  rmSync(join(dataDir, 'index'), { recursive: true })
  const next = await startServer({ dataDir })
  expect(next.output()).toContain('the index was built from')
  await holds(next, pool)
  const url = `${next.base}${new URL(pool.url).pathname}`
  expect((await send(url, events(0, 1, 5), 'DELETE')).status).toBe(200)
  expect(await next.count(pool.poolId)).toBe('299')
  expect((await send(url, events(0, 1))).status).toBe(200)
  await holds(next, pool)
  expect((await next.stop()).code).toBe(0)
})

test('data/index removed after a kill: segments and log together hold everything', async () => {
  const server = await startServer()
  const pool = await filled(server)
  expect((await send(pool.url, events(700, 720))).status).toBe(200)
  expect((await send(pool.url, events(700, 710), 'DELETE')).status).toBe(200)
  await server.kill()
  rmSync(join(server.dataDir, 'index'), { recursive: true })
  const next = await startServer({ dataDir: server.dataDir })
  await holds(next, pool, 10)
  await next.kill()
  const last = await startServer({ dataDir: server.dataDir })
  await holds(last, pool, 10)
  expect((await last.stop()).code).toBe(0)
})

const damages: Record<string, (bytes: Buffer) => void> = {
  'a file that is not LMDB': bytes => bytes.fill(7),
  'records that are not JSON': bytes => {
    for (let at = bytes.indexOf('{"format"'); at >= 0; at = bytes.indexOf('{"format"')) bytes[at] = 7
  },
}
for (const [name, damage] of Object.entries(damages)) {
  test(`data/index with ${name}: it is set aside and rebuilt`, async () => {
    const { dataDir, pool } = await stoppedFolder()
    const data = join(dataDir, 'index', 'data.mdb')
    const bytes = readFileSync(data)
    damage(bytes)
    writeFileSync(data, bytes)
    const next = await startServer({ dataDir })
    expect(next.output()).toContain(`${data}.damaged-1`)
    await holds(next, pool)
    expect((await next.stop()).code).toBe(0)
  })
}
