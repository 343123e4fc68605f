/** Backups into a bucket of a test: a filled folder, commands, and what their restores hold. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { expect } from 'vitest'
import { readStore } from '../../../src/catalog/lmdb/catalog-store.ts'
import { send, startServer, type TestPool, type TestServer, temporaryFolder } from '../../util/server.ts'
import { contents, weir, weirInside } from '../folder.ts'
import type { FakeS3 } from './fake-s3.ts'

export const BUCKET = 's3://bucket/weir'

const column = (name: string, type: string) => ({ name, jsonProperty: name, type, nullable: false })
export const POOL = {
  uniqueName: 'orders',
  columns: [column('at', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')],
  timestamp: 'at',
  uniqueId: 'id',
}

export interface Orders {
  readonly dataDir: string
  readonly pool: TestPool
  /** Starts a server on the folder, does the work, and stops it cleanly. */
  change(work: (server: TestServer, url: string) => Promise<void>): Promise<void>
}

/** Orders with these numbers. `padBytes`: noise in each, which no segment compresses. */
export function orders(from: number, to: number, n: number, padBytes = 0): object[] {
  const pad = () => randomBytes(padBytes).toString('base64').slice(0, padBytes)
  return Array.from({ length: to - from }, (_, i) => ({
    at: '2026-01-01T00:00:00Z',
    id: `o${from + i}`,
    n,
    pad: pad(),
  }))
}

/** Events of a request: those of 2,500 bytes fit in a body. */
const EACH = 250

export async function post(url: string, events: readonly object[], method: 'POST' | 'DELETE' = 'POST') {
  for (let from = 0; from < events.length; from += EACH)
    expect((await send(url, events.slice(from, from + EACH), method)).status).toBe(200)
}

/** A stopped folder with one pool, which is empty. */
export async function makeOrders(): Promise<Orders> {
  const dataDir = join(temporaryFolder(), 'data')
  const first = await startServer({ dataDir })
  const pool = await first.createPool(POOL)
  expect((await first.stop()).code).toBe(0)
  return ordersIn(dataDir, pool)
}

/** A folder with the pool, such as a copy. */
export function ordersIn(dataDir: string, pool: TestPool): Orders {
  const path = new URL(pool.url).pathname
  return {
    dataDir,
    pool,
    change: async work => {
      const server = await startServer({ dataDir, args: ['--compact-tick-ms', '3600000'] })
      await work(server, `${server.base}${path}`)
      await server.count(pool.poolId) // flushes
      expect((await server.stop()).code).toBe(0)
    },
  }
}

/** Runs `weir` inside this process, with the bucket of the fake. */
export async function weirAt(fake: Pick<FakeS3, 'environment'>, ...args: readonly string[]) {
  Object.assign(process.env, fake.environment)
  return await weirInside(args)
}

/** Restores into a new folder, and compares documents and segments, byte by byte. */
export async function expectRestored(
  fake: Pick<FakeS3, 'environment'>,
  of: Orders,
  more: readonly string[] = [],
): Promise<string> {
  const dataDir = join(temporaryFolder(), 'restored')
  const restored = await weirAt(fake, 'restore', BUCKET, '--data-dir', dataDir, ...more)
  expect(restored, restored.output).toMatchObject({ code: 0 })
  expect(await readStore(join(dataDir, 'catalog'))).toEqual(await readStore(join(of.dataDir, 'catalog')))
  const [there, here] = [dataDir, of.dataDir].map(folder => contents(join(folder, 'segment')))
  expect(there).toEqual(here)
  return dataDir
}

/** The live rows of a stopped folder as text. `weir verify` finds no damage in it. */
export async function rowsOf(dataDir: string): Promise<string[]> {
  const exported = await weir(['export', 'orders', '--format', 'ndjson', '--out', '-', '--data-dir', dataDir])
  expect(exported, exported.err).toMatchObject({ code: 0 })
  expect(await weir(['verify', '--data-dir', dataDir])).toMatchObject({ code: 0 })
  return exported.out.split('\n').sort()
}
