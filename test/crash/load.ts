/**
 * The load: clients that post, delete, query and expect the server to die at any moment.
 *
 * Each client waits for its answer before its next request. A refusal that says nothing was stored is checked as
 * such; only a connection that ended leaves an outcome unknown.
 */
import { below, type Random, randomFrom } from '../util/random.ts'
import { runBackups } from './backups.ts'
import { ConnectionLost, Violation } from './client.ts'
import { KEYS, makeBatch, mayLose, request, type Target } from './requests.ts'
import { runRetention } from './retention.ts'
import { runShortLived } from './short-lived.ts'
import type { Space } from './space.ts'
import { askSum, CLIENTS, type LoadPool, type World } from './world.ts'

/** Runs all clients until the target is over. Rejects with the first Violation. */
export async function runLoad(world: World, target: Target): Promise<void> {
  const shared = { isBusy: false }
  const seed = below(world.random, 2 ** 31)
  const clients = Array.from({ length: CLIENTS }, (_, client) =>
    runClient({ world, target, client, shared, random: randomFrom(seed + client) }),
  )
  clients.push(runShortLived(world, target, randomFrom(seed + CLIENTS)))
  clients.push(runRetention(world, target))
  if (target.backups !== undefined) clients.push(runBackups(world, target, target.backups))
  const stopAll = (error: unknown) => {
    target.isOver = true
    throw error
  }
  const ends = await Promise.allSettled(clients.map(client => client.catch(stopAll)))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}

interface Client {
  readonly world: World
  readonly target: Target
  readonly client: number
  /** The space that all clients write to, one at a time. */
  readonly shared: { isBusy: boolean }
  readonly random: Random
}

async function runClient(one: Client): Promise<void> {
  const { world, target, shared, client, random } = one
  while (!target.isOver) {
    const pool = world.pools[below(random, world.pools.length)]!
    const takesShared = !shared.isBusy && random() < 0.15
    const space = pool.spaces[takesShared ? CLIENTS : client]!
    if (takesShared) shared.isBusy = true
    // After a death before the last check a space may still be unsettled; then the server is not loaded at all.
    if (!space.isPending) await step(one, pool, space)
    else return
    if (takesShared) shared.isBusy = false
  }
}

async function step({ world, target, random }: Client, pool: LoadPool, space: Space): Promise<void> {
  const choice = random()
  if (choice < 0.08) await query(target, pool, space)
  else if (choice < 0.25 && pool.kind.isKeyed) await remove(world, target, pool, space, random)
  else if (choice < 0.33) await postInvalid(world, target, pool, space, random, choice < 0.29)
  else await post(world, target, pool, space, random, choice < 0.42 ? 500 : 1 + below(random, 20))
}

async function post(
  world: World,
  target: Target,
  pool: LoadPool,
  space: Space,
  random: Random,
  count: number,
): Promise<void> {
  const { events, mutations } = makeBatch(world, pool.kind, space, random, count)
  const body = JSON.stringify(count === 1 && random() < 0.7 ? events[0] : events)
  await request(world, target, space, pool.path, 'POST', body, mutations, 200)
}

/** One event of several is invalid: the others are stored, or, where the client asks so, none. */
async function postInvalid(
  world: World,
  target: Target,
  pool: LoadPool,
  space: Space,
  random: Random,
  all: boolean,
): Promise<void> {
  const { events, mutations } = makeBatch(world, pool.kind, space, random, 2 + below(random, 20))
  const bad = below(random, events.length)
  events[bad] = { ...events[bad], mark: 'not a number' }
  const path = all ? `${pool.path}?disable_partial_success=true` : pool.path
  const rest = mutations.filter((_, i) => i !== bad)
  await request(world, target, space, path, 'POST', JSON.stringify(events), rest, all ? 400 : 200)
}

async function remove(
  world: World,
  target: Target,
  pool: LoadPool,
  space: Space,
  random: Random,
): Promise<void> {
  const numbers = Array.from({ length: 1 + below(random, 30) }, () => below(random, KEYS))
  const keys = numbers.map(n => pool.kind.keyOf(space.name, n, random))
  const mutations = numbers.map(n => ({ key: String(n), mark: null, isOld: pool.kind.isOld?.(n) === true }))
  const body = JSON.stringify(keys.length === 1 ? keys[0] : keys)
  await request(world, target, space, pool.path, 'DELETE', body, mutations, 200)
}

/** A query sees everything acknowledged before it (W-8), and so it flushes in the middle of the load. */
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
