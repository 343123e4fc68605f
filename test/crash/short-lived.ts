/**
 * Pools that are created, filled and deleted under load.
 *
 * A creation or deletion without an answer was done or not, whole either way; after its answer a created pool takes
 * POSTs, and a deleted one's URL is 404 for ever.
 */
import { below, type Random } from '../util/random.ts'
import { createPool, type TestPool } from '../util/server.ts'
import { ask, ConnectionLost, send, Violation } from './client.ts'
import { POOL_KINDS, SHORT_LIVED } from './pools.ts'
import { makeBatch, mayLose, request, type Target } from './requests.ts'
import { findPool, poolIsThere, type ShortLived, type World } from './world.ts'

const ALIVE_MAX = 3
/** Posts to each pool between a creation and a deletion. */
const FILLS = 4
/** How many of the deleted pools each check asks for again. */
const GONE_CHECKED = 10

const kind = { ...POOL_KINDS[0]!, spec: SHORT_LIVED }

/** Creates, fills and deletes until the target is over. */
export async function runShortLived(world: World, target: Target, random: Random): Promise<void> {
  if (world.creating !== undefined || world.deleting !== undefined) return
  try {
    while (!target.isOver) {
      if (world.alive.length < ALIVE_MAX) await create(world, target)
      for (let time = 0; time < FILLS; time++)
        for (const one of world.alive) await fill(world, target, random, one)
      if (world.alive.length === ALIVE_MAX && !target.isOver)
        await remove(world, target, random, world.alive[below(random, ALIVE_MAX)]!)
    }
  } catch (error) {
    if (error instanceof ConnectionLost ? mayLose(target) : target.isStopping) return
    throw error
  }
}

async function create(world: World, target: Target): Promise<void> {
  world.creating = world.nextName()
  const graphql = async (query: string, variables?: unknown) =>
    (await ask(target.base, target.token, query, variables as object)) as never
  const made: TestPool = await createPool(graphql, { ...SHORT_LIVED, uniqueName: world.creating })
  world.born(world.creating, made)
  world.creating = undefined
  world.tally.created += 1
}

async function fill(world: World, target: Target, random: Random, one: ShortLived): Promise<void> {
  if (target.isOver || one.space.isPending) return
  const { events, mutations } = makeBatch(world, kind, one.space, random, 1 + below(random, 100))
  await request(world, target, one.space, one.path, 'POST', JSON.stringify(events), mutations, 200)
}

async function remove(world: World, target: Target, random: Random, one: ShortLived): Promise<void> {
  world.deleting = one
  // Posts that run while the pool is deleted are answered 200 or 404; the rows of both are gone.
  const { events } = makeBatch(world, kind, one.space, random, 5)
  const post = send(`${target.base}${one.path}`, 'POST', JSON.stringify(events))
  const mutation =
    random() < 0.5
      ? `mutation { deleteDataPool(id: "${one.poolId}") }`
      : `mutation { deleteDataSource(id: "${one.sourceId}") }`
  const [{ errors }, outcome] = await Promise.all([ask(target.base, target.token, mutation), post])
  if (errors !== undefined) throw new Violation(`deletion of ${one.name}: ${errors[0]?.message}`)
  if (outcome.kind === 'answered' && outcome.status !== 200 && outcome.status !== 404)
    throw new Violation(`a post during the deletion of ${one.name}: ${outcome.status} ${outcome.text}`)
  world.died(one)
  world.tally.deleted += 1
  await mustBeGone(target, one)
}

/** After a restart: settles what had no answer, and asks again for what is gone. Throws Violation, ConnectionLost. */
export async function verifyShortLived(world: World, target: Target): Promise<void> {
  const { base, token } = target
  if (world.creating !== undefined) {
    const found = await findPool(base, token, world.creating)
    const born = found === undefined ? undefined : world.born(world.creating, found)
    world.creating = undefined
    if (born !== undefined) await fill(world, target, world.random, born)
  }
  if (world.deleting !== undefined) {
    const one = world.deleting
    const isThere = await poolIsThere(base, token, one.poolId)
    if (!isThere) world.died(one)
    // A pool that outlived its deletion may hold the post that ran beside it: it is deleted again.
    else await removeAgain(world, target, one)
    await mustBeGone(target, one)
  }
  for (const one of world.gone.slice(-GONE_CHECKED)) await mustBeGone(target, one)
}

async function removeAgain(world: World, target: Target, one: ShortLived): Promise<void> {
  const posted = await send(`${target.base}${one.path}`, 'POST', '[]')
  if (posted.kind === 'unknown') throw new ConnectionLost('at a post')
  if (posted.status !== 200) throw new Violation(`${one.name} is there, its URL answers ${posted.status}`)
  const { errors } = await ask(target.base, target.token, `mutation { deleteDataPool(id: "${one.poolId}") }`)
  if (errors !== undefined) throw new Violation(`deletion of ${one.name}: ${errors[0]?.message}`)
  world.died(one)
}

async function mustBeGone({ base, token }: Target, one: ShortLived): Promise<void> {
  const outcome = await send(`${base}${one.path}`, 'POST', '[]')
  if (outcome.kind === 'unknown') throw new ConnectionLost('at a post')
  if (outcome.status !== 404)
    throw new Violation(`the URL of deleted pool ${one.name} answers ${outcome.status}: ${outcome.text}`)
  if (await poolIsThere(base, token, one.poolId)) throw new Violation(`deleted pool ${one.name} is there`)
}
