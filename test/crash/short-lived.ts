/**
 * Pools that are created, filled and deleted under load.
 *
 * A creation or deletion without an answer was either done as a whole or not at all. After its
 * answer a created pool accepts posts, and the URL of a deleted one answers 404 for ever.
 */
import { below, type Random } from '../util/random.ts'
import { createPool, type TestPool } from '../util/server.ts'
import { ask, ConnectionLost, send, Violation } from './client.ts'
import { type ClientState, findPool, pairExists, type ShortLived } from './client-state.ts'
import { POOL_KINDS, SHORT_LIVED } from './pools.ts'
import { makeBatch, mayLose, request, type Target } from './requests.ts'

const ALIVE_MAX = 3
/** Posts to a pool between its creation and its deletion. */
const FILLS = 4
/** The number of deleted pools that each check asks for again. */
const DELETED_CHECKED = 10

const kind = { ...POOL_KINDS[0]!, spec: SHORT_LIVED }

/** Creates, fills and deletes until the target is over. */
export async function runShortLived(state: ClientState, target: Target, random: Random): Promise<void> {
  if (state.creating !== undefined || state.deleting !== undefined) return
  try {
    while (!target.isOver) {
      if (state.alive.length < ALIVE_MAX) await create(state, target)
      for (let time = 0; time < FILLS; time++)
        for (const one of state.alive) await fill(state, target, random, one)
      if (state.alive.length === ALIVE_MAX && !target.isOver)
        await remove(state, target, random, state.alive[below(random, ALIVE_MAX)]!)
    }
  } catch (error) {
    if (error instanceof ConnectionLost ? mayLose(target) : target.isStopping) return
    throw error
  }
}

async function create(state: ClientState, target: Target): Promise<void> {
  state.creating = state.nextName()
  const graphql = async (query: string, variables?: unknown) =>
    (await ask(target.base, target.token, query, variables as object)) as never
  const made: TestPool = await createPool(graphql, { ...SHORT_LIVED, uniqueName: state.creating })
  state.created(state.creating, made)
  state.creating = undefined
  state.tally.created += 1
}

async function fill(state: ClientState, target: Target, random: Random, one: ShortLived): Promise<void> {
  if (target.isOver || one.space.isPending) return
  const { events, mutations } = makeBatch(state, kind, one.space, random, 1 + below(random, 100))
  await request(state, target, one.space, one, 'POST', events, mutations, 200)
}

async function remove(state: ClientState, target: Target, random: Random, one: ShortLived): Promise<void> {
  state.deleting = one
  // A post during the deletion is answered 200 or 404. Its rows are deleted in both cases.
  const { events } = makeBatch(state, kind, one.space, random, 5)
  const post = send(`${target.base}${one.path}`, 'POST', JSON.stringify(events))
  const mutation =
    random() < 0.5
      ? `mutation { deleteDataPool(id: "${one.poolId}") }`
      : `mutation { deleteDataSource(id: "${one.sourceId}") }`
  const [{ errors }, outcome] = await Promise.all([ask(target.base, target.token, mutation), post])
  if (errors !== undefined) throw new Violation(`deletion of ${one.name}: ${errors[0]?.message}`)
  if (outcome.kind === 'answered' && outcome.status !== 200 && outcome.status !== 404)
    throw new Violation(`a post during the deletion of ${one.name}: ${outcome.status} ${outcome.text}`)
  state.deleted(one)
  state.tally.deleted += 1
  await mustBeDeleted(target, one)
}

/**
 * After a restart: settles the creation and the deletion without an answer, and asks again for
 * deleted pools. Throws Violation or ConnectionLost.
 */
export async function verifyShortLived(state: ClientState, target: Target): Promise<void> {
  const { base, token } = target
  if (state.creating !== undefined) {
    const found = await findPool(base, token, state.creating)
    const created = found === undefined ? undefined : state.created(state.creating, found)
    state.creating = undefined
    if (created !== undefined) await fill(state, target, state.random, created)
  }
  if (state.deleting !== undefined) {
    const one = state.deleting
    const exists = await pairExists(base, token, one)
    if (!exists) state.deleted(one)
    // The deletion did not happen. The pool may hold the post that ran beside it, so it is deleted
    // again.
    else await removeAgain(state, target, one)
    await mustBeDeleted(target, one)
  }
  for (const one of state.deletedPools.slice(-DELETED_CHECKED)) await mustBeDeleted(target, one)
}

async function removeAgain(state: ClientState, target: Target, one: ShortLived): Promise<void> {
  const posted = await send(`${target.base}${one.path}`, 'POST', '[]')
  if (posted.kind === 'unknown') throw new ConnectionLost('at a post')
  if (posted.status !== 200) throw new Violation(`${one.name} exists, its URL answers ${posted.status}`)
  const { errors } = await ask(target.base, target.token, `mutation { deleteDataPool(id: "${one.poolId}") }`)
  if (errors !== undefined) throw new Violation(`deletion of ${one.name}: ${errors[0]?.message}`)
  state.deleted(one)
}

async function mustBeDeleted({ base, token }: Target, one: ShortLived): Promise<void> {
  const outcome = await send(`${base}${one.path}`, 'POST', '[]')
  if (outcome.kind === 'unknown') throw new ConnectionLost('at a post')
  if (outcome.status !== 404)
    throw new Violation(`the URL of deleted pool ${one.name} answers ${outcome.status}: ${outcome.text}`)
  if (await pairExists(base, token, one)) throw new Violation(`deleted pool ${one.name} exists`)
}
