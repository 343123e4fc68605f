import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { casesOf } from '../util/random.ts'
import { everyPoint, POINT_NAMES } from './points.ts'
import { Rounds } from './rounds.ts'

/**
 * Kills right after a compaction commit, at most. They end earlier, once one merge moved rows that
 * were updated or deleted meanwhile: about every third merge does.
 */
const COMPACTION_KILLS_MAX = 40
/** Such a kill comes at one of the first commits: the later ones need a longer load. */
const COMPACTION_COMMITS = 8

/** A kill comes after fewer passings of its point than in the long run and in `npm run crash`. */
const PART = casesOf(1, 2) / 2

const seed = Date.now() % 2 ** 31

test(`every acknowledged event outlives a kill at each named point (seed ${seed})`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-crash-'))
  const rounds = new Rounds(join(folder, 'data'), seed, { checkEvery: 3, crossReadEvery: 10 })
  try {
    // First starts are killed too: before and after the first commit of the catalog, and inside the
    // first recovery of the log.
    for (const point of ['catalog.before-commit', 'catalog.committed', 'recover.copied', 'recover.renamed'])
      await rounds.kill({ at: 'point', point, nth: 1 })
    for (const kill of everyPoint(rounds.state.random, PART)) await rounds.kill(kill)
    // Where no row was changed meanwhile, the kill comes again, a little later in the load.
    for (let n = 1; rounds.state.tally.changedMeanwhile === 0 && n <= COMPACTION_KILLS_MAX; n++)
      await rounds.kill({
        at: 'point',
        point: 'index.compaction-committed',
        nth: 1 + (n % COMPACTION_COMMITS),
      })
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
