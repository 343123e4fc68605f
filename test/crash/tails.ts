/**
 * Tails beside the load. A tail shows rows that clients sent, each once, and none that a kill takes
 * back: the space of the row compares what was shown with what it finds after the next start.
 */
import { once } from 'node:events'
import { below } from '../util/random.ts'
import { TailReader } from '../util/tail-reader.ts'
import { Violation } from './client.ts'
import type { ClientState, LoadPool } from './client-state.ts'
import { oldName } from './pools.ts'
import { mayLose, type Target } from './requests.ts'

/** Each on a pool of its own; the others have none. */
const TAILS = 2

/** Reads tails until `over`, or until the server ends. Rejects with Violation. */
export async function runTails(state: ClientState, target: Target, over: AbortSignal): Promise<void> {
  const first = below(state.random, state.pools.length)
  const pools = Array.from({ length: TAILS }, (_, i) => state.pools[(first + i) % state.pools.length]!)
  await Promise.all(pools.map(pool => runTail(state, target, pool, over)))
}

async function runTail(state: ClientState, target: Target, pool: LoadPool, over: AbortSignal): Promise<void> {
  const reader = await openTail(target, pool, over)
  if (reader === undefined) return
  await Promise.race([reader.untilClosed(), once(over, 'abort')])
  const { ended, isClosed, rows } = reader
  if (isClosed && !over.aborted && !mayLose(target) && !target.isStopping)
    throw new Violation(`the tail of ${pool.poolId} ended, and the server runs: ${JSON.stringify(ended)}`)
  const shown = new Set<number>()
  for (const { client, stamp } of rows) {
    const space = pool.spaces.find(({ name }) => name === client || oldName(name) === client)
    if (space === undefined) throw new Violation(`the tail of ${pool.poolId} showed a row of ${client}`)
    space.show(Number(stamp))
    if (shown.has(Number(stamp))) throw new Violation(`the tail of ${pool.poolId} showed ${stamp} twice`)
    shown.add(Number(stamp))
  }
  state.tally.tailed += rows.length
}

/** A tail that has begun; undefined where the server ended or stops. */
async function openTail(
  target: Target,
  { poolId }: LoadPool,
  over: AbortSignal,
): Promise<TailReader | undefined> {
  const url = `${target.base}/v1/pools/${poolId}/tail?columns=client,stamp`
  const headers = { authorization: `Bearer ${target.token}` }
  let answer: Response
  try {
    answer = await fetch(url, { headers, signal: over })
  } catch {
    if (over.aborted || mayLose(target)) return undefined
    throw new Violation(`the tail of ${poolId}: the connection ended, and the server runs`)
  }
  if (answer.status === 200) return new TailReader(answer)
  if (target.isStopping || mayLose(target)) return undefined
  throw new Violation(`the tail of ${poolId}: ${answer.status} ${await answer.text()}`)
}
