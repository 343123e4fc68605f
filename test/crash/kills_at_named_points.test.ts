import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { everyPoint, POINT_NAMES } from './points.ts'
import { Rounds } from './rounds.ts'

const seed = Date.now() % 2 ** 31

it(`every acknowledged event outlives a kill at each named point (seed ${seed})`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-crash-'))
  const rounds = new Rounds(join(folder, 'data'), seed)
  try {
    // A first start is killed too: before and after the catalog's first commit, and inside the log's first recovery.
    for (const point of ['catalog.before-commit', 'catalog.committed', 'recover.copied', 'recover.renamed'])
      await rounds.kill({ at: 'point', point, nth: 1 })
    for (const kill of everyPoint(rounds.world.random)) await rounds.kill(kill)
    await rounds.finish()
  } catch (error) {
    await rounds.end()
    throw new Error(`seed ${seed}, folder kept: ${folder}\n${(error as Error).stack}`)
  }
  expect([...rounds.kills.keys()]).toEqual(expect.arrayContaining([...POINT_NAMES]))
  expect(rounds.killCount).toBeGreaterThanOrEqual(25)
  rmSync(folder, { recursive: true, force: true })
}, 600_000)
