import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  send,
  spawnServer,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import { fillDisk, mountSmall, NO_SMALL_DISK, type SmallDisk } from '../util/small-disk.ts'
import { events, KEYED } from './damage.ts'

const MiB = 1024 * 1024
const ARGS = ['--log-file-bytes', String(4 * MiB)]
const DISK_SIZE = '96m'
/** Requests that fill the log's open file and its spares several times over. */
const REQUESTS_MAX = 400

let disk = ''
let small: SmallDisk | undefined
beforeEach(() => {
  disk = temporaryFolder('weir-full-')
  small = mountSmall(disk, DISK_SIZE)
})
afterEach(() => small?.end())

/** Fills the disk. */
const fill = () => fillDisk(join(disk, 'ballast'))
const free = () => rmSync(join(disk, 'ballast'))

/**
 * Posts new rows until one request is refused. Returns the number of acknowledged rows, and the
 * refusal.
 */
async function postUntilRefused(server: TestServer, pool: TestPool, from: number) {
  let rows = 0
  for (let request = 0; request < REQUESTS_MAX; request++) {
    const body = events(from + rows, from + rows + 200).map(event => ({ ...event, pad: 'x'.repeat(300) }))
    const answer = await send(`${server.base}${new URL(pool.url).pathname}`, body)
    if (answer.status !== 200) return { rows, answer }
    rows += 200
  }
  throw new Error(`the disk is full and ${REQUESTS_MAX} requests were accepted`)
}

async function readyz(server: TestServer): Promise<number> {
  const answer = await fetch(`${server.base}/readyz`)
  await answer.arrayBuffer()
  return answer.status
}

/** Waits until the server is ready again; the time limit of the test ends it. */
async function readyAgain(server: TestServer): Promise<void> {
  while ((await readyz(server)) !== 200) await delay(100)
}

test('a full disk: 503 disk_full, nothing acknowledged is lost, service again when there is room', async context => {
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  const server = await startServer({ dataDir: join(disk, 'data'), args: ARGS })
  const pool = await server.createPool(KEYED)
  expect((await send(pool.url, events(0, 50))).status).toBe(200)
  expect(await server.count(pool.poolId)).toBe('50')
  fill()
  const { rows, answer } = await postUntilRefused(server, pool, 50)
  expect(answer).toMatchObject({ status: 503, body: { code: 'disk_full', retryable: true } })
  expect(await readyz(server)).toBe(503)
  // A query that cannot flush answers with an error, never with a short count.
  await expect(server.count(pool.poolId)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  free()
  await readyAgain(server)
  const url = `${server.base}${new URL(pool.url).pathname}`
  expect((await send(url, events(50 + rows, 60 + rows))).status).toBe(200)
  let counted: string | null = null
  // The failed flush is tried again within about a second.
  while (counted === null) counted = await server.count(pool.poolId).catch(() => delay(100, null))
  expect(counted).toBe(String(60 + rows))
  await server.kill()
  const next = await startServer({ dataDir: join(disk, 'data'), args: ARGS })
  expect(await next.count(pool.poolId)).toBe(String(60 + rows))
  expect((await next.stop()).code).toBe(0)
})

for (const isLogFull of [true, false]) {
  const what = isLogFull ? 'with no log file left' : 'with log files left'
  test(`a kill while the disk is full, ${what}: nothing acknowledged is lost once there is room`, async context => {
    if (small === undefined) return context.skip(NO_SMALL_DISK)
    const dataDir = join(disk, 'data')
    const server = await startServer({ dataDir, args: ARGS })
    const pool = await server.createPool(KEYED)
    expect((await send(pool.url, events(0, 100))).status).toBe(200)
    fill()
    const more = isLogFull ? (await postUntilRefused(server, pool, 100)).rows : 0
    await server.kill()
    fill()
    const { code, output } = await spawnServer({ dataDir, args: ARGS }).ended
    expect({ code, output }).toEqual({ code: 2, output: expect.stringContaining('the disk is full') })
    expect(output).toContain(dataDir)
    free()
    const next = await startServer({ dataDir, args: ARGS })
    expect(await next.count(pool.poolId)).toBe(String(100 + more))
    expect((await next.stop()).code).toBe(0)
  })
}
