/** Retention under load: one pool keeps more days, then fewer again, so that a pass over its old rows begins all the time. */
import { setTimeout as delay } from 'node:timers/promises'
import { must } from '../../src/util/assert.ts'
import { ask, ConnectionLost, Violation } from './client.ts'
import { KEEPS_DAYS } from './pools.ts'
import { mayLose, type Target } from './requests.ts'
import { askCount, type World } from './world.ts'

/** Time for a few posts and a merge between two passes. */
const PAUSE_MS = 150
/** Old rows are gone by then, in a server without load. */
const GONE_MS_MAX = 90_000
const POLL_MS = 100

/** Flushes the pool and changes its days until the target is over. */
export async function runRetention(world: World, target: Target): Promise<void> {
  const pool = world.pools.find(({ kind }) => kind.spec.uniqueName === KEEPS_DAYS)
  // A query is what flushes: old rows come into segments with each pass.
  const { poolId } = must(pool, 'the pool with a retention')
  try {
    for (let days = 30; !target.isOver; days = 61 - days) {
      await askCount(target.base, target.token, poolId)
      await keepDays(world, target, days)
      await delay(PAUSE_MS)
    }
  } catch (error) {
    if (error instanceof ConnectionLost ? mayLose(target) : target.isStopping) return
    throw error
  }
}

/** Throws ConnectionLost, Violation. */
async function keepDays(world: World, target: Target, days: number): Promise<void> {
  const { errors } = await ask(
    target.base,
    target.token,
    `mutation { modifyDataPool(input: { idOrUniqueName: { uniqueName: "${KEEPS_DAYS}" }, dataRetentionInDays: ${days} }) {
       ... on FailureResponse { error { message } } } }`,
  )
  if (errors !== undefined) throw new Violation(`modifyDataPool: ${errors[0]?.message}`)
  world.tally.retentions += 1
}

/** In a server without load: the old rows go, all of them, and no other. Throws Violation, ConnectionLost. */
export async function mustExpire(world: World, target: Target): Promise<void> {
  await keepDays(world, target, 7)
  for (const { kind, poolId, spaces } of world.pools) {
    if (kind.isOld === undefined) continue
    const rows = BigInt(spaces.reduce((sum, space) => sum + space.rows, 0))
    const deadline = performance.now() + GONE_MS_MAX
    for (;;) {
      const found = await askCount(target.base, target.token, poolId)
      if (found === rows) {
        for (const { old } of spaces) old.noneLeft()
        break
      }
      if (found < rows || performance.now() > deadline)
        throw new Violation(`pool ${poolId}: ${found} rows where ${rows} are younger than it keeps`)
      await delay(POLL_MS)
    }
  }
}
