/** One request of the load: the events that it posts, and what its answer settles. */
import { below, type Random } from '../util/random.ts'
import { type Outcome, send, Violation } from './client.ts'
import { oldName } from './pools.ts'
import type { Mutation, Space } from './space.ts'
import type { LoadPool, World } from './world.ts'

/** Keys of a space in a pool: few, so that rows are often replaced, deleted and put again. */
export const KEYS = 300
/** Most events are small; some batches are near the largest body. */
const PAD_BYTES_MAX = 400
const LARGE_PAD_BYTES = 1900

/** One server under load. */
export interface Target {
  readonly base: string
  readonly token: string
  /** No new requests are sent; set when the server was killed or told to stop. */
  isOver: boolean
  /** The server was told to stop: it may refuse. */
  isStopping: boolean
  /** A crash point is armed: the server may die by itself. */
  readonly isArmed: boolean
  /** Backups are made of it all the time, into this folder; undefined: none. */
  readonly backups?: string | undefined
}

/** May a connection end without an answer now? */
export function mayLose(target: Target): boolean {
  return target.isOver || target.isStopping || target.isArmed
}

interface Batch {
  readonly events: Record<string, unknown>[]
  readonly mutations: Mutation[]
}

/** Events of a space; keys come again within a batch, where the later one wins. */
export function makeBatch(
  world: World,
  kind: LoadPool['kind'],
  space: Space,
  random: Random,
  count: number,
): Batch {
  const events: Record<string, unknown>[] = []
  const mutations: Mutation[] = []
  const pad = 'x'.repeat(random() < 0.05 ? LARGE_PAD_BYTES : below(random, PAD_BYTES_MAX))
  for (let i = 0; i < count; i++) {
    const n = below(random, KEYS)
    const mark = world.nextMark()
    const isOld = kind.isOld?.(n) === true
    const client = isOld ? oldName(space.name) : space.name
    events.push({ ...kind.keyOf(space.name, n, random), client, mark, pad })
    mutations.push({ key: kind.isKeyed ? String(n) : String(mark), mark, isOld })
  }
  return { events, mutations }
}

/** Sends, and settles the space by what comes back. */
export async function request(
  world: World,
  target: Target,
  space: Space,
  path: string,
  method: 'POST' | 'DELETE',
  body: string,
  mutations: readonly Mutation[],
  expected: 200 | 400,
): Promise<Outcome> {
  space.begin(expected === 200 ? mutations : [])
  world.tally.requests += 1
  const outcome = await send(`${target.base}${path}`, method, body, mutations.length % 8 === 7)
  if (outcome.kind === 'unknown') {
    world.tally.unknown += 1
    if (!mayLose(target)) throw new Violation(`${method} ${path}: the connection ended, the server lives`)
    return outcome
  }
  const { status, accepted, text } = outcome
  if (status === expected) {
    if (status === 200 && accepted !== mutations.length)
      throw new Violation(`${method} ${path}: ${accepted} accepted, not ${mutations.length}: ${text}`)
    space.settle(status === 200)
    return outcome
  }
  // Nothing of a request that was refused like this is stored.
  const mayRefuse = status === 429 || (status === 503 && target.isStopping)
  if (!mayRefuse) throw new Violation(`${method} ${path}: ${status}, not ${expected}: ${text}`)
  space.settle(false)
  return outcome
}
