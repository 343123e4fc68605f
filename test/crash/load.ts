/**
 * The load: clients that post, delete and query, and expect the server to die at any moment.
 *
 * Each client waits for an answer before its next request. After a refusal nothing of the request
 * may be stored. Only a connection that ended leaves an outcome unknown.
 */
import { below, type Random, randomFrom } from '../util/random.ts'
import { runBackups } from './backups.ts'
import { ConnectionLost, Violation } from './client.ts'
import { askSum, CLIENTS, type ClientState, type LoadPool } from './client-state.ts'
import { runFlushes } from './flushes.ts'
import { KEYS, makeBatch, mayLose, request, type Target } from './requests.ts'
import { runRetention } from './retention.ts'
import { runShortLived } from './short-lived.ts'
import type { Space } from './space.ts'
import { runTails } from './tails.ts'

/** Runs all clients until the target is over. Rejects with the first Violation. */
export async function runLoad(state: ClientState, target: Target): Promise<void> {
  const shared = { isBusy: false }
  const seed = below(state.random, 2 ** 31)
  const clients = Array.from({ length: CLIENTS }, (_, client) =>
    runClient({ state, target, client, shared, random: randomFrom(seed + client) }),
  )
  clients.push(runShortLived(state, target, randomFrom(seed + CLIENTS)))
  clients.push(runRetention(state, target))
  if (target.isFlushed === true) clients.push(runFlushes(state, target))
  if (target.backups !== undefined) clients.push(runBackups(state, target, target.backups))
  const stopAll = (error: unknown) => {
    target.isOver = true
    throw error
  }
  const over = new AbortController()
  const tails = runTails(state, target, over.signal).catch(stopAll)
  const ends = await Promise.allSettled(clients.map(client => client.catch(stopAll)))
  over.abort()
  ends.push(...(await Promise.allSettled([tails])))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}

interface Client {
  readonly state: ClientState
  readonly target: Target
  readonly client: number
  /** Tells whether a client writes to the shared space: one at a time may. */
  readonly shared: { isBusy: boolean }
  readonly random: Random
}

async function runClient(one: Client): Promise<void> {
  const { state, target, shared, client, random } = one
  while (!target.isOver) {
    const pool = state.pools[below(random, state.pools.length)]!
    const takesShared = !shared.isBusy && random() < 0.15
    const space = pool.spaces[takesShared ? CLIENTS : client]!
    if (takesShared) shared.isBusy = true
    // The last check may have ended before it settled this space. Such a server is not loaded.
    if (!space.isPending) await step(one, pool, space)
    else return
    if (takesShared) shared.isBusy = false
  }
}

async function step({ state, target, random }: Client, pool: LoadPool, space: Space): Promise<void> {
  const choice = random()
  if (choice < 0.08) await query(target, pool, space)
  else if (choice < 0.25 && pool.kind.isKeyed) await remove(state, target, pool, space, random)
  else if (choice < 0.33) await postInvalid(state, target, pool, space, random, choice < 0.29)
  else await post(state, target, pool, space, random, choice < 0.42 ? 500 : 1 + below(random, 20))
}

async function post(
  state: ClientState,
  target: Target,
  pool: LoadPool,
  space: Space,
  random: Random,
  count: number,
): Promise<void> {
  const eventsMax = pool.kind.sender?.eventsMax ?? count
  const { events, mutations } = makeBatch(state, pool.kind, space, random, Math.min(count, eventsMax))
  await request(state, target, space, pool, 'POST', events, mutations, 200)
}

/**
 * Posts events of which one is invalid: the others are stored, or none where the client asks for
 * that.
 */
async function postInvalid(
  state: ClientState,
  target: Target,
  pool: LoadPool,
  space: Space,
  random: Random,
  all: boolean,
): Promise<void> {
  const count = Math.min(2 + below(random, 20), pool.kind.sender?.eventsMax ?? 500)
  const { events, mutations } = makeBatch(state, pool.kind, space, random, count)
  const bad = below(random, events.length)
  events[bad] = { ...events[bad], stamp: `not a number ${state.nextStamp()}` }
  state.refuses(pool, all ? events : [events[bad]])
  const query = all ? { disable_partial_success: 'true' } : undefined
  const rest = mutations.filter((_, i) => i !== bad)
  await request(state, target, space, pool, 'POST', events, rest, all || rest.length === 0 ? 400 : 200, query)
}

async function remove(
  state: ClientState,
  target: Target,
  pool: LoadPool,
  space: Space,
  random: Random,
): Promise<void> {
  const numbers = Array.from({ length: 1 + below(random, 30) }, () => below(random, KEYS))
  const keys = numbers.map(n => pool.kind.keyOf(space.name, n, random))
  const mutations = numbers.map(n => ({ key: String(n), stamp: null, isOld: pool.kind.isOld?.(n) === true }))
  await request(state, target, space, pool, 'DELETE', keys, mutations, 200)
}

/**
 * Queries a space. A query sees everything that was acknowledged before it (W-8), so it flushes
 * during the load.
 */
async function query(target: Target, pool: LoadPool, space: Space): Promise<void> {
  let found: bigint
  try {
    found = await askSum(target.base, target.token, pool.poolId, space)
  } catch (error) {
    if (error instanceof ConnectionLost ? mayLose(target) : target.isStopping) return
    throw error
  }
  if (found !== space.sum)
    throw new Violation(`under load: pool ${pool.poolId}, ${space.name}: ${found}, not ${space.sum}`)
}
