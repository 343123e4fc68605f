/** Random seals, updates, deletes, merges and expiries of real segments, against a model. */
import { describe, expect, it } from 'vitest'
import type { Plan } from '../../src/batch/plan.ts'
import { keyPlan, planOfAll, randomOf, randomRow } from '../segment/rows.ts'
import type { Value } from '../util/make-batch.ts'
import { DAY_US, World } from './merge-world.ts'

const BASE_DAY = 19_000

/** Key: (day, id), no tenant, every type. */
function planByDay(): Plan {
  const plan = planOfAll(true)
  const columns = [
    ...plan.columns.slice(0, 12),
    { name: 'day', type: 'DATE', jsonProperty: 'day', required: true } as const,
  ]
  return { ...plan, columns, tenant: -1 }
}

/** A tenant among few, so that clusters hold many rows: INT32, nulls too. */
function planByTenant(): Plan {
  return { ...planOfAll(true), tenant: 6 }
}

const PLANS: readonly (readonly [string, Plan])[] = [
  ['by id as its tenant', planOfAll(true)],
  ['by day', planByDay()],
  ['by received-at', keyPlan],
  ['without a key, with a tenant', planOfAll(false)],
  ['without a key or tenant', { ...planOfAll(false), tenant: -1 }],
]

/** A row of one of few records, so that they are updated often; its timestamp follows from its id. */
function rowOf(plan: Plan, random: (below: number) => number): readonly Value[] {
  const number = random(60)
  const { values } = randomRow(plan, random, `k${number}`)
  const day = BASE_DAY + (number % 8)
  return values!.map((value, i) => {
    const { name } = plan.columns[i]!
    if (name === 'at') return BigInt(day) * BigInt(DAY_US) + BigInt(number)
    return name === 'day' ? day : value
  })
}

async function run(plan: Plan, seed: number): Promise<void> {
  const random = randomOf(seed)
  const world = await new World(plan).open()
  try {
    for (let round = 0; round < 8; round++) {
      for (let seals = 1 + random(3); seals > 0; seals--) {
        const posts = Array.from({ length: 1 + random(3) }, () => ({
          values: Array.from({ length: 1 + random(25) }, () => rowOf(plan, random)),
        }))
        const deletes = plan.key === null ? [] : Array.from({ length: random(12) }, () => rowOf(plan, random))
        const only = deletes.length > 0 && random(5) === 0
        world.seal(only ? [] : posts, deletes, random(2))
      }
      const count = 1 + random(Math.min(5, world.segments.length))
      const from = random(world.segments.length - count + 1)
      const cutoff = random(3) === 0 ? (BASE_DAY + random(9)) * DAY_US : undefined
      await world.merge(from, count, cutoff)
    }
    await world.merge(0, world.segments.length, (BASE_DAY + 4) * DAY_US)
    expect(world.segments.length).toBeLessThanOrEqual(1)
  } finally {
    await world.close()
  }
}

describe('merges of a pool', () => {
  it.each(PLANS)(
    '%s hold the rows, keys and deletes of the model',
    async (_, plan) => {
      const seed = Math.floor(Math.random() * 2 ** 31)
      try {
        await run(plan, seed)
      } catch (error) {
        throw new Error(`seed ${seed}`, { cause: error })
      }
    },
    60_000,
  )

  it('by a tenant of integers with nulls hold them too', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const random = randomOf(seed)
    const plan = planByTenant()
    const world = await new World(plan).open()
    for (let seals = 0; seals < 4; seals++)
      world.seal([{ values: Array.from({ length: 50 }, () => rowOf(plan, random)) }], [], seals % 2)
    const job = world.job(0, 4)
    const done = await world.client.merge(job)
    expect(done.meta?.rows, `seed ${seed}`).toBe(world.live.size)
    await world.close()
  })
})
