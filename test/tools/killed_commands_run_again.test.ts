/**
 * Backup, restore and rebuild are killed at every named point. Nothing takes an unfinished result
 * for a complete one, and each command can run again.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test, vi } from 'vitest'
import { spawnServer, temporaryFolder } from '../util/server.ts'
import { contents, copyOf, type Filled, fillFolder, weir, weirInside } from './folder.ts'

// Each test runs several processes, one after the other.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

const SOURCES = fileURLToPath(new URL('../../../src', import.meta.url))
const root = temporaryFolder('weir-kills-')
const good = join(root, 'good')
let filled: Filled

beforeAll(async () => {
  filled = await fillFolder()
  expect(await weir(['backup', good, '--data-dir', filled.dataDir])).toMatchObject({ code: 0 })
})

/** Kills a command at a point. */
async function killed(point: string, ...args: string[]): Promise<void> {
  const { signal, out } = await weir(args, { WEIR_CRASH_AT: point })
  expect([point, signal, out]).toEqual([point, 'SIGKILL', ''])
}

async function isClean(dataDir: string): Promise<void> {
  const { code, out } = await weirInside(['verify', '--data-dir', dataDir])
  expect([code, out]).toEqual([0, expect.stringMatching(/^clean: .*4,507 rows/)])
}

/** A backup is complete where BACKUP exists, also when the kill came before it was reported. */
function backupIs(made: 'none' | 'complete') {
  return async (point: string) => {
    const folder = join(root, point)
    await killed(point, 'backup', folder, '--data-dir', filled.dataDir)
    expect(existsSync(join(folder, 'BACKUP'))).toBe(made === 'complete')
    const to = join(root, `${point} restored`)
    const restored = await weir(['restore', folder, '--data-dir', to])
    if (made === 'complete') return expect(restored.code).toBe(0)
    expect([restored.code, restored.err]).toEqual([2, expect.stringContaining('is not a complete backup')])
    expect(existsSync(to)).toBe(false)
    for (const command of ['start', 'inspect', 'verify']) {
      const run = command === 'start' ? weir : weirInside
      const taken = await run([command, '--data-dir', folder])
      expect([command, taken.code, taken.err]).toEqual([
        command,
        2,
        expect.stringContaining('is an unfinished backup'),
      ])
    }
    const again = await weirInside(['backup', folder, '--data-dir', filled.dataDir])
    expect([again.code, again.err]).toEqual([2, expect.stringContaining('has an unfinished backup')])
    expect((await weir(['backup', `${folder} 2`, '--data-dir', filled.dataDir])).code).toBe(0)
  }
}

/** No server and no command takes the folder. A second restore starts again and says so. */
async function restoreStartsAgain(point: string): Promise<void> {
  const to = join(root, point)
  await killed(point, 'restore', good, '--data-dir', to)
  const started = await spawnServer({ dataDir: to }).ended
  expect([started.code, started.output]).toEqual([
    2,
    expect.stringContaining('run weir restore with --data-dir'),
  ])
  const looked = await weirInside(['inspect', '--data-dir', to])
  expect([looked.code, looked.err]).toEqual([2, expect.stringContaining('has not finished')])
  const again = await weir(['restore', good, '--data-dir', to])
  expect([again.code, again.err]).toEqual([0, expect.stringContaining('starts again with an empty folder')])
  await isClean(to)
}

function indexOf(dataDir: string): Buffer {
  return readFileSync(join(dataDir, 'index', 'data.mdb'))
}

/** The index is the old one, byte for byte, or the new one. The next command removes index.new. */
function rebuildLeaves(index: 'old' | 'new') {
  return async (point: string) => {
    const dataDir = copyOf(filled)
    const before = indexOf(dataDir)
    await killed(point, 'rebuild', '--data-dir', dataDir)
    expect(indexOf(dataDir).equals(before)).toBe(index === 'old')
    expect(existsSync(join(dataDir, 'index.new'))).toBe(true)
    const left = contents(dataDir)
    const { code, err } = await weirInside(['verify', '--data-dir', dataDir])
    expect([code, err]).toEqual([0, expect.stringContaining('index.new is left of an interrupted rebuild')])
    expect(contents(dataDir)).toEqual(left)
    if (index === 'old') expect((await weir(['rebuild', '--data-dir', dataDir])).code).toBe(0)
    else
      expect((await weir(['export', 'plain', '--out', join(root, point), '--data-dir', dataDir])).code).toBe(
        0,
      )
    expect(readdirSync(dataDir).filter(name => name.startsWith('index'))).toEqual(['index'])
    await isClean(dataDir)
  }
}

const AFTER: Readonly<Record<string, (point: string) => Promise<void>>> = {
  'backup.copied': backupIs('none'),
  'backup.synced': backupIs('none'),
  'backup.named': backupIs('complete'),
  'restore.begun': restoreStartsAgain,
  'restore.copied': restoreStartsAgain,
  'restore.synced': restoreStartsAgain,
  'rebuild.committed': rebuildLeaves('old'),
  'rebuild.built': rebuildLeaves('old'),
  'rebuild.swapped': rebuildLeaves('new'),
}

test('the table has every crash point of backup, restore and rebuild', () => {
  const points = ['tools', 'tools/backup', 'index'].flatMap(folder =>
    readdirSync(join(SOURCES, folder))
      .filter(name => name.endsWith('.ts'))
      .flatMap(name => [
        ...readFileSync(join(SOURCES, folder, name), 'utf8').matchAll(
          /crashPoint\('((backup|restore|rebuild)\..*?)'\)/g,
        ),
      ])
      .map(match => match[1]),
  )
  expect(points.sort()).toEqual(Object.keys(AFTER).sort())
})

test.each(Object.entries(AFTER))('after a kill at %s the command can run again', async (point, check) => {
  await check(point)
})
