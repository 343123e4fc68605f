/**
 * The catalog cannot be rebuilt: a start without it, or with a damaged one, ends with exit 1 and
 * changes nothing.
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { newSeed, someOf } from '../util/random.ts'
import { send, spawnServer, startServer, temporaryFolder } from '../util/server.ts'
import { events, KEYED } from './damage.ts'

/** Two folders, one stopped in order, one killed before it had flushed anything. */
const filled = { stopped: '', killed: '' }

beforeAll(async () => {
  for (const how of ['stopped', 'killed'] as const) {
    const server = await startServer()
    const pool = await server.createPool(KEYED)
    expect((await send(pool.url, events(0, 50))).status).toBe(200)
    if (how === 'killed') await server.kill()
    else {
      expect(await server.count(pool.poolId)).toBe('50')
      expect((await server.stop()).code).toBe(0)
    }
    filled[how] = server.dataDir
  }
})

type Damage = (catalog: string, dataDir: string) => void

function changed(change: (bytes: Buffer) => Buffer): Damage {
  return catalog => writeFileSync(join(catalog, 'data.mdb'), change(readFileSync(join(catalog, 'data.mdb'))))
}

/** Flips a bit of each copy of a text; old copies stay in pages that are free by now. */
function flipped(text: string, offset: number): Damage {
  return changed(bytes => {
    expect(bytes.indexOf(text)).toBeGreaterThan(0)
    for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) bytes[at + offset]! ^= 1
    return bytes
  })
}

const DAMAGES: Record<string, Damage> = {
  'a catalog that was removed': catalog => rmSync(catalog, { recursive: true }),
  'a catalog whose file was removed': catalog => rmSync(join(catalog, 'data.mdb')),
  'an empty catalog': changed(() => Buffer.alloc(0)),
  'a catalog that is not LMDB': changed(bytes => bytes.fill(7)),
  'a catalog that was cut short': changed(bytes => bytes.subarray(0, 3 * 4096)),
  'a catalog whose first meta page is zeros': changed(bytes => bytes.fill(0, 0, 4096)),
  'a catalog whose second meta page is zeros': changed(bytes => bytes.fill(0, 4096, 2 * 4096)),
  'a catalog whose second meta page was overwritten': changed(bytes => bytes.fill(255, 4096, 2 * 4096)),
  'a catalog whose pages were overwritten': changed(bytes => bytes.fill(255, 2 * 4096)),
  'a document that is not JSON': changed(bytes => {
    for (let at = bytes.indexOf('{"'); at >= 0; at = bytes.indexOf('{"')) bytes[at] = 7
    return bytes
  }),
  // The documents read well: the pool and its column have other names.
  'a flipped bit in the name of a pool': flipped('"uniqueName":"keyed"', '"uniqueName":"'.length),
  'a flipped bit in the name of a column': flipped('"name":"n"', '"name":"'.length),
  'a catalog and an index that were removed': (catalog, dataDir) => {
    for (const folder of [catalog, join(dataDir, 'index')]) rmSync(folder, { recursive: true })
  },
}

/** The size of every file except LMDB's lock files. */
function filesOf(folder: string): string[] {
  return (readdirSync(folder, { recursive: true }) as string[])
    .filter(name => !name.endsWith('lock.mdb') && statSync(join(folder, name)).isFile())
    .map(name => `${name} ${statSync(join(folder, name)).size}`)
    .sort()
}

const seed = newSeed()

// `npm test` has one of the two folders, by lot, and the long run both.
for (const [index, [name, damage]] of Object.entries(DAMAGES).entries())
  for (const how of someOf(['stopped', 'killed'] as const, 1, seed + index))
    test(`${name}, of a server that was ${how} (seed ${seed}): exit 1 names it, nothing is made anew`, async () => {
      const dataDir = join(temporaryFolder(), 'data')
      cpSync(filled[how], dataDir, { recursive: true })
      const catalog = join(dataDir, 'catalog')
      damage(catalog, dataDir)
      const before = filesOf(dataDir)
      const { code, output } = await spawnServer({ dataDir }).ended
      expect([code, output]).toEqual([1, expect.stringContaining(catalog)])
      expect(output).not.toMatch(/\n\s+at /)
      expect(filesOf(dataDir)).toEqual(before)
    })

test('FORMAT removed: exit 1; another folder with a log of its own is not taken for an empty one', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  cpSync(filled.stopped, dataDir, { recursive: true })
  rmSync(join(dataDir, 'FORMAT'))
  const foreign = temporaryFolder()
  mkdirSync(join(foreign, 'log'))
  writeFileSync(join(foreign, 'log', 'today.log'), 'a line of another program')
  for (const folder of [dataDir, foreign]) {
    const { code, output } = await spawnServer({ dataDir: folder }).ended
    expect([code, output]).toEqual([1, expect.stringContaining(`${join(folder, 'FORMAT')} is damaged`)])
  }
})
