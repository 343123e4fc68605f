import { test } from 'vitest'
import { newSeed } from '../util/random.ts'
import { killEach } from './kill-each.ts'
import { pointsToTheIndex } from './points.ts'

const seed = newSeed()

test(`every acknowledged event outlives a kill at each point on its way into the index (seed ${seed})`, async () => {
  await killEach({
    seed,
    // First starts are killed too: before and after the first commit of the catalog, and inside the
    // first recovery of the log.
    firstStarts: ['catalog.before-commit', 'catalog.committed', 'recover.copied', 'recover.renamed'],
    kills: pointsToTheIndex,
    happened: ['retentions', 'checked', 'crossRead', 'rejected', 'tailed'],
  })
}, 1_800_000)
