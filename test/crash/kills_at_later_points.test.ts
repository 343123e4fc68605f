import { test } from 'vitest'
import { newSeed } from '../util/random.ts'
import { killEach } from './kill-each.ts'
import { laterPoints } from './points.ts'

const seed = newSeed()

test(`every acknowledged event outlives a kill at each point of merges, retention, deletions and backups (seed ${seed})`, async () => {
  await killEach({
    seed,
    firstStarts: [],
    kills: laterPoints,
    happened: ['changedMeanwhile', 'retentions', 'unansweredBackups', 'checked', 'crossRead', 'rejected'],
  })
}, 1_800_000)
