/** One request of the load: its events, and the effect of its answer on the space. */
import { gzipSync } from 'node:zlib'
import { below, type Random } from '../util/random.ts'
import { type Outcome, send, Violation } from './client.ts'
import type { ClientState, LoadPool } from './client-state.ts'
import { oldName, type PoolKind } from './pools.ts'
import { PLAIN } from './senders.ts'
import type { Mutation, Space } from './space.ts'

/**
 * The number of keys of a space: few, so that rows are often replaced, deleted and written again.
 */
export const KEYS = 300
/**
 * Most events are small; some batches are near the largest body. 500 events with the longest keys
 * stay below it.
 */
const PAD_BYTES_MAX = 400
const LARGE_PAD_BYTES = 1700

/** One server under load. */
export interface Target {
  readonly base: string
  readonly token: string
  /** True once the server was killed or told to stop: no new requests are sent. */
  isOver: boolean
  /** True once the server was told to stop: it may refuse requests. */
  isStopping: boolean
  /** True where a crash point is armed: the server may die at any moment. */
  readonly isArmed: boolean
  /** Backups are made into this folder; undefined where none are made. */
  readonly backups?: string | undefined
  /** All pools are flushed again and again. */
  readonly isFlushed?: boolean
}

/** True where a connection may end without an answer now. */
export function mayLose(target: Target): boolean {
  return target.isOver || target.isStopping || target.isArmed
}

interface Batch {
  readonly events: Record<string, unknown>[]
  readonly mutations: Mutation[]
}

/** Makes random events of a space. A key may come twice in a batch: the later event wins. */
export function makeBatch(
  state: ClientState,
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
    const stamp = state.nextStamp()
    const isOld = kind.isOld?.(n) === true
    const client = isOld ? oldName(space.name) : space.name
    events.push({ ...kind.keyOf(space.name, n, random), client, stamp, pad })
    mutations.push({ key: kind.isKeyed ? String(n) : String(stamp), stamp, isOld })
  }
  return { events, mutations }
}

/** Sends a request as the pool's sender does, and settles the space by the answer. */
export async function request(
  state: ClientState,
  target: Target,
  space: Space,
  { path, kind }: { readonly path: string; readonly kind?: PoolKind },
  method: 'POST' | 'DELETE',
  events: readonly Record<string, unknown>[],
  mutations: readonly Mutation[],
  expected: 200 | 400,
  parameters: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  space.begin(expected === 200 ? mutations : [])
  state.tally.requests += 1
  const sender = kind?.sender ?? PLAIN
  const { body, query, headers } = sender.encode(method, events, space.name)
  const bytes = mutations.length % 8 === 7 ? gzipSync(body) : Buffer.from(body)
  const url = `${target.base}${path}?${new URLSearchParams({ ...query, ...parameters })}`
  const outcome = await send(url, method, bytes, {
    ...headers,
    ...(mutations.length % 8 === 7 ? { 'content-encoding': 'gzip' } : {}),
    ...sender.sign?.(method, bytes),
  })
  if (outcome.kind === 'unknown') {
    state.tally.unknown += 1
    if (!mayLose(target)) throw new Violation(`${method} ${path}: the connection ended, and the server runs`)
    return outcome
  }
  const { status, accepted, text } = outcome
  if (status === expected) {
    if (status === 200 && accepted !== mutations.length)
      throw new Violation(`${method} ${path}: ${accepted} accepted, not ${mutations.length}: ${text}`)
    space.settle(status === 200)
    return outcome
  }
  // Such a refusal means that nothing of the request is stored.
  const mayRefuse = status === 429 || (status === 503 && target.isStopping)
  if (!mayRefuse) throw new Violation(`${method} ${path}: ${status}, not ${expected}: ${text}`)
  space.settle(false)
  return outcome
}
