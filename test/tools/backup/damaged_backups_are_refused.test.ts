/** A restore refuses damaged and unfinished backups, and a server refuses an unfinished restore. */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { events, KEYED } from '../../path/damage.ts'
import {
  send,
  spawnServer,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../../util/server.ts'
import { weir } from '../folder.ts'
import { askBackup, backUp, readBackup, restoreAndStart } from './backups.ts'

const root = temporaryFolder('weir-damage-')
const good = join(root, 'good')
let pool: TestPool
let dataDir = ''

async function filled(server: TestServer): Promise<TestPool> {
  const made = await server.createPool(KEYED)
  expect((await send(made.url, events(0, 200))).status).toBe(200)
  expect(await server.count(made.poolId)).toBe('200')
  expect((await send(made.url, events(0, 50), 'DELETE')).status).toBe(200)
  return made
}

beforeAll(async () => {
  const server = await startServer()
  dataDir = server.dataDir
  pool = await filled(server)
  await backUp(server, good)
  expect((await server.stop()).code).toBe(0)
})

test('a flipped bit, a lost end, a lost file or an added byte is refused by name, and nothing is made', async () => {
  const { files } = readBackup(good)
  expect(files.length).toBeGreaterThan(5)
  const to = join(root, 'refused')
  for (const { path, bytes } of [
    ...files,
    { path: 'BACKUP', bytes: readFileSync(join(good, 'BACKUP')).length },
  ]) {
    const bad = join(root, 'bad')
    const file = join(bad, path)
    const damages: (() => void)[] = [
      () => {
        const content = readFileSync(file)
        const at = Math.floor(Math.random() * bytes)
        content[at] = content[at]! ^ 4
        writeFileSync(file, content)
      },
      () => truncateSync(file, bytes - 1),
      () => truncateSync(file, bytes + 1),
      () => rmSync(file),
    ]
    for (const damage of damages) {
      cpSync(good, bad, { recursive: true })
      damage()
      const { code, output } = await weir(['restore', bad, '--data-dir', to])
      expect([path, code !== 0, output.includes(path), existsSync(to)]).toEqual([path, true, true, false])
      rmSync(bad, { recursive: true })
    }
  }
})

test('restore refuses a data folder that is not empty or in use, and leaves it as it is', async () => {
  const to = join(root, 'taken')
  mkdirSync(to)
  writeFileSync(join(to, 'mine'), 'mine')
  const refused = await weir(['restore', good, '--data-dir', to])
  expect(refused).toMatchObject({ code: 2, output: expect.stringContaining('not empty') })
  expect(readFileSync(join(to, 'mine'), 'utf8')).toBe('mine')
  const server = await startServer({ dataDir })
  const used = await weir(['restore', good, '--data-dir', dataDir])
  expect(used).toMatchObject({ code: 2, output: expect.stringContaining('is not empty') })
  expect((await server.stop()).code).toBe(0)
})

for (const point of ['backup.copied', 'backup.synced'])
  test(`after a kill at ${point} there is no backup, and the server recovers`, async () => {
    const own = join(root, point)
    const server = await startServer({ dataDir: own, args: ['--crash-at', point] })
    const made = await filled(server)
    const folder = join(root, `${point} backup`)
    await expect(askBackup(server, { folder })).rejects.toThrow()
    expect((await server.ended).signal).toBe('SIGKILL')
    expect([existsSync(folder), existsSync(join(folder, 'BACKUP'))]).toEqual([true, false])
    const refused = await weir(['restore', folder, '--data-dir', join(root, `${point} no`)])
    expect(refused).toMatchObject({ code: 2, output: expect.stringContaining('is not a complete backup') })
    const next = await startServer({ dataDir: own })
    expect(await next.count(made.poolId)).toBe('150')
    const { problem } = await askBackup(next, { folder })
    expect(problem).toMatchObject({
      code: 'bad_folder',
      detail: expect.stringContaining('has an unfinished backup'),
    })
    expect((await next.stop()).code).toBe(0)
  })

for (const point of ['restore.copied', 'restore.synced'])
  test(`after a kill at ${point} the server refuses to start, and restore starts again`, async () => {
    const to = join(root, point)
    const killed = await weir(['restore', good, '--data-dir', to], { WEIR_CRASH_AT: point })
    expect(killed.signal).toBe('SIGKILL')
    const { code, output } = await spawnServer({ dataDir: to }).ended
    expect({ code, output }).toEqual({ code: 2, output: expect.stringContaining('has not finished') })
    expect((await weir(['backup', join(root, 'none'), '--data-dir', to])).code).toBe(2)
    const server = await restoreAndStart(good, to)
    expect(await server.count(pool.poolId)).toBe('150')
    expect((await server.stop()).code).toBe(0)
  })
