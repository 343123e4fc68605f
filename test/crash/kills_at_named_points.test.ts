import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { casesOf } from '../util/random.ts'
import { everyPoint, POINT_NAMES } from './points.ts'
import { Rounds } from './rounds.ts'

/** A kill comes after fewer passings of its point than in the long run and in `npm run crash`. */
const PART = casesOf(1, 2) / 2

const seed = Date.now() % 2 ** 31

test(`every acknowledged event outlives a kill at each named point (seed ${seed})`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-crash-'))
  const rounds = new Rounds(join(folder, 'data'), seed, { checkEvery: 3, crossReadEvery: casesOf(20, 10) })
  try {
    // First starts are killed too: before and after the first commit of the catalog, and inside the
    // first recovery of the log.
    for (const point of ['catalog.before-commit', 'catalog.committed', 'recover.copied', 'recover.renamed'])
      await rounds.kill({ at: 'point', point, nth: 1 })
    for (const kill of everyPoint(rounds.state.random, PART)) await rounds.kill(kill)
    await rounds.finish()
  } catch (error) {
    await rounds.end()
    throw new Error(`seed ${seed}, folder kept: ${folder}\n${(error as Error).stack}`)
  }
  expect([...rounds.kills.keys()]).toEqual(expect.arrayContaining([...POINT_NAMES]))
  expect(rounds.killCount).toBeGreaterThanOrEqual(35)
  const never = (
    [
      'changedMeanwhile',
      'retentions',
      'unansweredBackups',
      'checked',
      'crossRead',
      'rejected',
      'tailed',
    ] as const
  ).filter(count => rounds.state.tally[count] === 0)
  expect(never).toEqual([])
  rmSync(folder, { recursive: true, force: true })
}, 1_800_000)
