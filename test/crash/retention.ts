/**
 * Retention under load: the days of one pool change all the time, and each change begins a pass
 * over its old rows.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { must } from '../../src/util/errors.ts'
import { ask, ConnectionLost, Violation } from './client.ts'
import { askCount, type ClientState } from './client-state.ts'
import { KEEPS_DAYS } from './pools.ts'
import { mayLose, type Target } from './requests.ts'

/** Between two passes: time for a few posts and a merge. */
const PAUSE_MS = 150
/** A server without load removes old rows within this time. */
const EXPIRY_MS_MAX = 90_000
const POLL_MS = 100

/** Flushes the pool and changes its days until the target is over. */
export async function runRetention(state: ClientState, target: Target): Promise<void> {
  const pool = state.pools.find(({ kind }) => kind.spec.uniqueName === KEEPS_DAYS)
  // Each query flushes, so old rows come into segments before each pass.
  const { poolId } = must(pool, 'the pool with a retention')
  try {
    for (let days = 30; !target.isOver; days = 61 - days) {
      await askCount(target.base, target.token, poolId)
      await keepDays(state, target, days)
      await delay(PAUSE_MS)
    }
  } catch (error) {
    if (error instanceof ConnectionLost ? mayLose(target) : target.isStopping) return
    throw error
  }
}

/** Throws ConnectionLost, Violation. */
async function keepDays(state: ClientState, target: Target, days: number): Promise<void> {
  const { errors } = await ask(
    target.base,
    target.token,
    `mutation { modifyDataPool(input: { idOrUniqueName: { uniqueName: "${KEEPS_DAYS}" }, dataRetentionInDays: ${days} }) {
       ... on FailureResponse { error { message } } } }`,
  )
  if (errors !== undefined) throw new Violation(`modifyDataPool: ${errors[0]?.message}`)
  state.tally.retentions += 1
}

/**
 * In a server without load all old rows must be removed, and no other rows. Throws Violation or
 * ConnectionLost.
 */
export async function mustExpire(state: ClientState, target: Target): Promise<void> {
  await keepDays(state, target, 7)
  for (const { kind, poolId, spaces } of state.pools) {
    if (kind.isOld === undefined) continue
    const rows = BigInt(spaces.reduce((sum, space) => sum + space.rows, 0))
    const deadline = performance.now() + EXPIRY_MS_MAX
    for (;;) {
      const found = await askCount(target.base, target.token, poolId)
      if (found === rows) {
        for (const { old } of spaces) old.allRemoved()
        break
      }
      if (found < rows || performance.now() > deadline)
        throw new Violation(`pool ${poolId}: ${found} rows where ${rows} are not expired`)
      await delay(POLL_MS)
    }
  }
}
