/** Random flushes, updates, deletes, merges and expiries of real segments, against a model. */
import { describe, expect, test } from 'vitest'
import type { PoolSchema } from '../../../src/format/schema.ts'
import type { Value } from '../../util/make-batch.ts'
import { keySchema, randomOf, randomRow, schemaOfAll } from '../rows.ts'
import { DAY_US, MergeHarness } from './merge-harness.ts'

const BASE_DAY = 19_000

/** The key is (day, id); no tenant; every column type. */
function schemaByDay(): PoolSchema {
  const schema = schemaOfAll(true)
  const columns = [
    ...schema.columns.slice(0, 12),
    { name: 'day', type: 'DATE', jsonProperty: 'day', required: true } as const,
  ]
  return { ...schema, columns, tenant: -1 }
}

/** Few tenants (INT32 and null), so that each has many rows. */
function schemaByTenant(): PoolSchema {
  return { ...schemaOfAll(true), tenant: 6 }
}

const SCHEMAS: readonly (readonly [string, PoolSchema])[] = [
  ['by id as its tenant', schemaOfAll(true)],
  ['by day', schemaByDay()],
  ['by received-at', keySchema],
  ['without a key, with a tenant', schemaOfAll(false)],
  ['without a key or tenant', { ...schemaOfAll(false), tenant: -1 }],
]

/** A row of one of few keys, so that updates are frequent; its timestamp follows from its id. */
function rowOf(schema: PoolSchema, random: (below: number) => number): readonly Value[] {
  const number = random(60)
  const { values } = randomRow(schema, random, `k${number}`)
  const day = BASE_DAY + (number % 8)
  return values!.map((value, i) => {
    const { name } = schema.columns[i]!
    if (name === 'at') return BigInt(day) * BigInt(DAY_US) + BigInt(number)
    return name === 'day' ? day : value
  })
}

/**
 * Deletes rows of one segment as a job does, or sets columns of them. A rebuild must agree (W-6).
 */
async function rewriteOne(harness: MergeHarness, random: (below: number) => number): Promise<void> {
  if (harness.segments.length === 0) return
  const at = random(harness.segments.length)
  const [of, rest] = [1 + random(3), random(3)]
  const matches = (row: number) => row % of === rest % of
  if (random(3) === 0) {
    const { columns, tenant } = harness.schema
    const settable = ['boolean', 'string', 'int32', 'double', 'json']
    const set = columns
      .map(({ name }, i) => [name, i] as const)
      .filter(([name, i]) => settable.includes(name) && i !== tenant)
    const texts: Readonly<Record<string, string>> = {
      boolean: 'true',
      string: 'new',
      int32: '-7',
      double: '2.5',
      json: '{}',
    }
    const values = new Map(set.map(([name, i]) => [i, random(4) === 0 ? null : texts[name]!]))
    if (values.size > 0) await harness.rewrite(at, matches, values)
  } else await harness.rewrite(at, matches)
  if (harness.schema.key !== null) harness.checkRebuild()
}

async function run(schema: PoolSchema, seed: number): Promise<void> {
  const random = randomOf(seed)
  const harness = await new MergeHarness(schema).open()
  try {
    for (let round = 0; round < 8; round++) {
      for (let flushes = 1 + random(3); flushes > 0; flushes--) {
        const posts = Array.from({ length: 1 + random(3) }, () => ({
          values: Array.from({ length: 1 + random(25) }, () => rowOf(schema, random)),
        }))
        const deletes =
          schema.key === null ? [] : Array.from({ length: random(12) }, () => rowOf(schema, random))
        const only = deletes.length > 0 && random(5) === 0
        harness.flush(only ? [] : posts, deletes, random(2))
      }
      const count = 1 + random(Math.min(5, harness.segments.length))
      const from = random(harness.segments.length - count + 1)
      const cutoff = random(3) === 0 ? (BASE_DAY + random(9)) * DAY_US : undefined
      await harness.merge(from, count, cutoff)
      await rewriteOne(harness, random)
    }
    if (harness.segments.length > 0) await harness.merge(0, harness.segments.length, (BASE_DAY + 4) * DAY_US)
    expect(harness.segments.length).toBeLessThanOrEqual(1)
  } finally {
    await harness.close()
  }
}

describe('merges of a pool hold the rows, keys and deletes of the model', () => {
  test.each(SCHEMAS)(
    '%s',
    async (_, schema) => {
      const seed = Math.floor(Math.random() * 2 ** 31)
      try {
        await run(schema, seed)
      } catch (error) {
        throw new Error(`seed ${seed}`, { cause: error })
      }
    },
    60_000,
  )

  test('by a tenant of integers with nulls', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const random = randomOf(seed)
    const schema = schemaByTenant()
    const harness = await new MergeHarness(schema).open()
    for (let flushes = 0; flushes < 4; flushes++)
      harness.flush([{ values: Array.from({ length: 50 }, () => rowOf(schema, random)) }], [], flushes % 2)
    const task = harness.task(0, 4)
    const done = await harness.client.merge(task)
    expect(done.meta?.rows, `seed ${seed}`).toBe(harness.live.size)
    await harness.close()
  })
})
