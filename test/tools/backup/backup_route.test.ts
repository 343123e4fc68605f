/** The route refuses bad requests, and the server goes on however a backup ends. */
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { events, KEYED } from '../../path/damage.ts'
import {
  fetchToken,
  send,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../../util/server.ts'
import { mountSmall, NO_SMALL_DISK } from '../../util/small-disk.ts'
import { askBackup, backUp } from './backups.ts'

let server: TestServer
let pool: TestPool
const root = temporaryFolder('weir-backups-')
beforeAll(async () => {
  // The backup is slow, so that the tests can act before it ends.
  server = await startServer({ args: ['--backup-bytes-per-second', '6000000'] })
  pool = await server.createPool(KEYED)
  for (let from = 0; from < 4000; from += 500) {
    const padded = events(from, from + 500).map(event => ({ ...event, pad: noise(2000) }))
    expect((await send(pool.url, padded)).status).toBe(200)
  }
  expect(await server.count(pool.poolId)).toBe('4000')
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

function noise(bytes: number): string {
  return Array.from({ length: bytes }, () => String.fromCharCode(33 + Math.floor(Math.random() * 90))).join(
    '',
  )
}

test('a folder that cannot be used is refused with 400, and nothing is made', async () => {
  const full = join(root, 'full')
  mkdirSync(full)
  writeFileSync(join(full, 'x'), 'x')
  const link = join(root, 'link')
  symlinkSync(server.dataDir, link)
  const refused: readonly (readonly [unknown, string])[] = [
    ['{', 'bad_request'],
    ['null', 'bad_request'],
    [{}, 'bad_request'],
    [{ folder: 7 }, 'bad_request'],
    [{ folder: 'relative' }, 'bad_folder'],
    [{ folder: full }, 'bad_folder'],
    [{ folder: server.dataDir }, 'bad_folder'],
    [{ folder: join(server.dataDir, 'new') }, 'bad_folder'],
    [{ folder: join(link, 'new') }, 'bad_folder'],
    [{ folder: join(full, 'x', 'below a file') }, 'bad_folder'],
  ]
  for (const [body, code] of refused) {
    const { status, problem } = await askBackup(server, body)
    expect([body, status, problem?.code]).toEqual([body, 400, code])
  }
  expect(readdirSync(full)).toEqual(['x'])
  expect(existsSync(join(server.dataDir, 'new'))).toBe(false)
})

test('no token gives 401, no scope 403, another method 405', async () => {
  const url = `${server.base}/v1/admin/backup`
  const body = JSON.stringify({ folder: join(root, 'never') })
  expect((await fetch(url, { method: 'POST', body })).status).toBe(401)
  const token = await fetchToken(server.base, server.dataDir, 'data_pool:query')
  const headers = { authorization: `Bearer ${token}` }
  expect((await fetch(url, { method: 'POST', body, headers })).status).toBe(403)
  expect((await fetch(url)).status).toBe(405)
  expect(existsSync(join(root, 'never'))).toBe(false)
})

test('a second backup at once gives 409, and an existing empty folder is accepted', async () => {
  const folder = join(root, 'one')
  mkdirSync(folder)
  let second: Promise<unknown> | undefined
  const { lines } = await askBackup(server, { folder }, () => {
    second ??= askBackup(server, { folder: join(root, 'two') })
  })
  expect(await second).toMatchObject({ status: 409, problem: { code: 'backup_running', retryable: true } })
  expect(lines.at(-1)).toMatchObject({ done: true, pools: 3 })
  expect(lines.filter(line => 'phase' in line).map(line => line.phase)).toContain('segments')
  expect(existsSync(join(root, 'two'))).toBe(false)
  expect(readdirSync(folder).sort()).toEqual([
    'BACKUP',
    'FORMAT',
    'admin.json',
    'catalog',
    'log',
    'secret.key',
    'segment',
  ])
})

test('a client that disconnects cancels the backup: nothing is left, and the next one works', async () => {
  const folder = join(root, 'gone')
  const abort = new AbortController()
  const asked = askBackup(
    server,
    { folder },
    line => {
      if ('phase' in line && line.phase === 'segments') abort.abort()
    },
    abort.signal,
  )
  await expect(asked).rejects.toThrow()
  while (existsSync(folder)) await delay(20)
  const again = join(root, 'again')
  for (;;) {
    const { status } = await askBackup(server, { folder: again })
    if (status === 200) break
    expect(status).toBe(409) // the thread is ending
  }
  expect(existsSync(join(again, 'BACKUP'))).toBe(true)
})

test('a full disk gives a clear error, the part is removed, and the server goes on', async context => {
  const folder = temporaryFolder('weir-small-')
  const small = mountSmall(folder, '6m')
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  try {
    const { lines } = await askBackup(server, { folder: join(folder, 'backup') })
    expect(lines.at(-1)).toMatchObject({ code: 'disk_full', error: expect.stringContaining('ENOSPC') })
    expect(readdirSync(folder)).toEqual([])
    expect((await send(pool.url, events(0, 1))).status).toBe(200)
    expect(await server.count(pool.poolId)).toBe('4000')
    await backUp(server, join(root, 'after full'))
  } finally {
    small.end()
  }
})

test('a missing segment is named, and the backup never ends with done', async () => {
  const own = await startServer()
  const made = await own.createPool(KEYED)
  expect((await send(made.url, events(0, 10))).status).toBe(200)
  expect(await own.count(made.poolId)).toBe('10')
  const segments = join(own.dataDir, 'segment', made.poolId)
  for (const name of readdirSync(segments)) rmSync(join(segments, name))
  const folder = join(root, 'damaged')
  const { lines } = await askBackup(own, { folder })
  expect(lines.at(-1)).toMatchObject({ code: 'backup_incomplete', error: expect.stringContaining(segments) })
  expect(lines.some(line => 'done' in line)).toBe(false)
  await own.kill()
})

test('SIGTERM ends a backup with an error line, and the process in time', async () => {
  const own = await startServer({ args: ['--backup-bytes-per-second', '1000'] })
  const made = await own.createPool(KEYED)
  expect((await send(made.url, events(0, 500))).status).toBe(200)
  const folder = join(root, 'stopped')
  let stopped: ReturnType<typeof own.stop> | undefined
  const { lines } = await askBackup(own, { folder }, line => {
    if ('phase' in line && line.phase !== 'flush') stopped ??= own.stop()
  })
  expect(lines.at(-1)).toMatchObject({ code: 'backup_cancelled' })
  expect(await stopped).toMatchObject({ code: 0, signal: null })
  expect(existsSync(folder)).toBe(false)
})
