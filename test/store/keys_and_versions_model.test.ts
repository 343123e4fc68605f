/**
 * W-6, W-7: random posts, deletes, flushes, flushes that are written again, merges, expiries and
 * rebuilds, with keys of one to three columns and a version column of each type, against a Map.
 * Whatever their order, the visible rows are those of the Map, and a rebuilt index is the index.
 */
import { describe, expect, test } from 'vitest'
import type { ColumnType, PoolSchema } from '../../src/format/schema.ts'
import { casesOf, integersFrom, newSeed, someOf, TEST_RUNS } from '../util/random.ts'
import { COLUMN, type Event, KeyedPool, schemaWith, VERSIONS } from './keyed-pool.ts'

const { id, at, region, ver } = COLUMN
const ALL_TYPES = Object.keys(VERSIONS) as ColumnType[]
/** `npm test` takes four of the types, each time others, and sanitizers take a third. */
const TYPES =
  TEST_RUNS > 1 ? someOf(ALL_TYPES, 4, newSeed()) : ALL_TYPES.filter((_, index) => index % 3 === 0)

const SCHEMAS: readonly (readonly [what: string, schema: PoolSchema])[] = [
  ['by (at, id)', schemaWith([at, id])],
  ['by id', schemaWith([id])],
  ['by (region, id)', schemaWith([region, id])],
  ['by (region, id, at)', schemaWith([region, id, at])],
  ['by id, the latest time wins', schemaWith([id], at)],
  ['by (id, at), the highest version wins', schemaWith([id, at], ver)],
  ['by (region, id), the highest version wins', schemaWith([region, id], ver)],
  ...TYPES.map(type => [`by id, the highest ${type} wins`, schemaWith([id], ver, type)] as const),
]

const IDS = ['', 'a', 'b', 'é', 'x'.repeat(200), 'y'.repeat(300)]
const STEPS = casesOf(60, 80)

function randomEvents(random: (below: number) => number, most: number): Event[] {
  return Array.from({ length: 1 + random(most) }, () => ({
    id: IDS[random(IDS.length)]!,
    region: ['eu', 'us'][random(2)]!,
    day: random(4),
    rank: random(4),
  }))
}

async function step(pool: KeyedPool, random: (below: number) => number): Promise<void> {
  const kernel = (['native', 'js'] as const)[random(2)]!
  switch (random(12)) {
    case 0:
    case 1:
    case 2:
      return pool.post(randomEvents(random, 8))
    case 3:
    case 4:
      return pool.delete(randomEvents(random, 3))
    case 5:
    case 6:
    case 7:
      return pool.flush(random(2), false)
    case 8:
      return pool.flush(random(2), true)
    case 9:
    case 10: {
      if (pool.segments === 0) return
      const count = 1 + random(Math.min(3, pool.segments))
      const keepFrom = pool.canExpire && random(2) === 0 ? random(4) : undefined
      await pool.merge(random(pool.segments - count + 1), count, keepFrom)
      // What the merge left out is of no more use to a rebuild.
      return random(2) === 0 ? await rebuildAndCheck(pool, kernel) : undefined
    }
    default:
      return random(2) === 0 ? await rebuildAndCheck(pool, kernel) : await pool.reopen(kernel)
  }
}

async function rebuildAndCheck(pool: KeyedPool, kernel: 'native' | 'js'): Promise<void> {
  if (pool.segments === 0) return
  await pool.rebuild(kernel)
  pool.flush(0, false)
  await pool.check()
}

describe.each(SCHEMAS)('%s', (_, schema) => {
  const seed = newSeed()
  test(`the visible rows are the records, seed ${seed}`, async () => {
    const random = integersFrom(seed)
    const pool = new KeyedPool(schema)
    await pool.open('native')
    let superseded = 0
    for (let i = 0; i < STEPS; i++) {
      await step(pool, random)
      if (random(3) > 0) continue
      pool.flush(random(2), false)
      superseded = Math.max(superseded, pool.deletedRows)
      await pool.check()
    }
    pool.flush(0, true)
    await pool.check()
    if (pool.segments > 0) await pool.rebuild('native')
    await pool.check()
    expect(superseded).toBeGreaterThan(0)
    await pool.close()
  }, 60_000)
})
