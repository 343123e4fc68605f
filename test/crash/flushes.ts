/**
 * Flushes beside the load. A query flushes its pool, so that what waits for flushes of all pools
 * (the release of a log file) or for a flush during a merge does not wait for their age.
 */
import { must } from '../../src/util/errors.ts'
import { ask, ConnectionLost, Violation } from './client.ts'
import { type ClientState, counterField } from './client-state.ts'
import { mayLose, type Target } from './requests.ts'

/** Counts the rows of all pools again and again until the target is over. */
export async function runFlushes(state: ClientState, target: Target): Promise<void> {
  const rejected = must(state.rejectedPoolId, 'the pool of rejected events')
  try {
    while (!target.isOver) {
      const ids = [...state.pools, ...state.alive].map(({ poolId }) => poolId)
      const fields = [...ids, rejected].map((poolId, p) => counterField(`p${p}`, poolId, false))
      const { errors = [] } = await ask(target.base, target.token, `{ ${fields.join(' ')} }`)
      // A short-lived pool may be deleted meanwhile.
      const wrong = errors.find(({ extensions }) => extensions?.code !== 'NOT_FOUND')
      if (wrong !== undefined) throw new Violation(`counts under load: ${JSON.stringify(wrong)}`)
    }
  } catch (error) {
    if (error instanceof ConnectionLost ? mayLose(target) : target.isStopping) return
    throw error
  }
}
