/** The rows of the benchmarks that need a large pool: posted in full batches, and settled. */
import type { TestPool, TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS, benchEvent, createRandom } from './events.ts'
import { print, row, short } from './measure.ts'
import { scrape } from './weir.ts'

const POSTS_UNDER_WAY = 8
const SETTLE_MS_MAX = 600_000

/** Posts every `step`th event from `from` to `to`; `round` changes their quantities. */
export async function post(
  url: string,
  from: number,
  to: number,
  step: number,
  round: number,
  make = eventOf,
): Promise<void> {
  const begin = performance.now()
  const bodies = batches(from, to, step, round, make)
  const send = async () => {
    for (let next = bodies.next(); next.done !== true; next = bodies.next())
      for (;;) {
        const headers = { 'content-type': 'application/json' }
        const answer = await fetch(url, { method: 'POST', headers, body: `[${next.value.join(',')}]` })
        await answer.arrayBuffer()
        if (answer.status === 200) break
        if (answer.status !== 429) throw new Error(`POST answered ${answer.status}`)
      }
  }
  await Promise.all(Array.from({ length: POSTS_UNDER_WAY }, send))
  const taken = (performance.now() - begin) / 1000
  print(row(`posted ${Math.ceil((to - from) / step)} events`, `${taken.toFixed(1)} s`))
}

/** The events in batches of one request each. */
export function* batches(
  from: number,
  to: number,
  step: number,
  round: number,
  make = eventOf,
): Generator<readonly string[]> {
  let batch: string[] = []
  for (let index = from; index < to; index += step) {
    batch.push(make(index, round))
    if (batch.length < BATCH_EVENTS) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

/** The event has the same key, time and tenant in every round. */
export function eventOf(index: number, round: number): string {
  const event = benchEvent(index, createRandom(index))
  return round === 0 ? event : event.replace(/"quantity":\d+/, `"quantity":${100 + round}`)
}

/** Waits until every row is visible and nothing is left to merge. */
export async function settled(server: TestServer, pool: TestPool, rows: number): Promise<void> {
  const counted = await server.count(pool.poolId)
  if (counted !== String(rows)) throw new Error(`Weir shows ${counted} of ${rows} rows`)
  const begin = performance.now()
  for (let quiet = 0; quiet < 4; ) {
    const page = await scrape(server.base)
    const waits = ['small_segments', 'bytes_to_merge', 'pools_waiting', 'running']
    quiet = waits.every(name => page.value(`weir_compaction_${name}`) === 0) ? quiet + 1 : 0
    if (performance.now() - begin > SETTLE_MS_MAX) throw new Error('compaction does not end')
    await new Promise(resolve => setTimeout(resolve, 250))
  }
  const page = await scrape(server.base)
  const deleted = short(page.value('weir_compaction_deleted_rows'))
  print(row('settled', `${page.value('weir_segments')} segments, ${deleted} deleted rows in them`))
}

/** Twenty batches in one, as peers load them. */
export function* large(all: Generator<readonly string[]>): Generator<readonly string[]> {
  let joined: string[] = []
  for (const batch of all) {
    joined.push(...batch)
    if (joined.length < 20 * BATCH_EVENTS) continue
    yield joined
    joined = []
  }
  if (joined.length > 0) yield joined
}
