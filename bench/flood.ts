/**
 * A process that posts and deletes known records at full speed, 500 per request, so that the
 * remaining records are known.
 *
 *   record i   id and time from i; quantity 10 + i mod 90 when inserted, 10 + (7 i + 3) mod 90 once
 *              updated
 *   deleted    the records on a walk of a fixed stride over all records, each once
 *   updated    random records, also several times, never a deleted one: the end does not depend on
 *              the order of requests
 *
 * A body is one template whose digits are overwritten, so the generator takes a fraction of the
 * server's CPU. Refused and unanswered requests are sent again.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Connection, NO_ANSWER, PREFER_MINIMAL, requestHead } from './connection.ts'
import { BATCH_EVENTS, BENCH_SEED, benchEvent, createRandom, eventId } from './events.ts'
import { tracked } from './leftovers.ts'

/** One piece of work. */
export type FloodWork = {
  readonly url: string
  readonly connections: number
} & (
  | { readonly kind: 'insert'; readonly rows: number }
  /** Inserts rows until the time is over. */
  | { readonly kind: 'fill'; readonly seconds: number }
  | { readonly kind: 'churn'; readonly rows: number; readonly updates: number; readonly deletes: number }
)

export interface FloodDone {
  readonly events: number
  readonly seconds: number
  /** Requests that were sent again. */
  readonly again: number
  /** After 'churn': the rows and the sum that the pool must have. */
  readonly rows: number
  readonly sum: number
}

/**
 * Runs one piece of work in a process of its own; `onProgress` gets the events so far, each second.
 */
export function flood(work: FloodWork, onProgress: (events: number) => void): Promise<FloodDone> {
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), ['flood'], { stdio: 'inherit' })
  tracked(child)
  return new Promise((resolve, reject) => {
    child.on('message', (message: { readonly events: number } | FloodDone) => {
      if ('seconds' in message) resolve(message)
      else onProgress(message.events)
    })
    child.once('exit', code => reject(new Error(`the generator ended with ${code}`)))
    child.send(work)
  })
}

const START_MS = Date.UTC(2026, 0, 1)
/** Coprime to every number of rows that does not divide by it. */
const STRIDE = 7_368_787

/** Record `index` is deleted when it is among the first `deletes` steps of the walk. */
function deletedOf(rows: number, deletes: number): Uint8Array {
  if (rows % STRIDE === 0) throw new Error(`not a multiple of ${STRIDE} rows`)
  const isDeleted = new Uint8Array(rows)
  for (let step = 0; step < deletes; step++) isDeleted[(step * STRIDE) % rows] = 1
  return isDeleted
}

const inserted = (index: number) => 10 + (index % 90)
const updated = (index: number) => 10 + ((7 * index + 3) % 90)

/** A request of BATCH_EVENTS records, whose digits are overwritten. */
class Body {
  readonly bytes: Buffer
  readonly #ids: number[] = []
  readonly #times: number[] = []
  readonly #quantities: number[] = []

  constructor(method: 'POST' | 'DELETE', url: string) {
    const full = benchEvent(0, createRandom(BENCH_SEED)).replace(/"quantity":\d+/, '"quantity":10')
    const { id, time } = JSON.parse(full) as { id: string; time: string }
    const event = method === 'POST' ? full : JSON.stringify({ id, time })
    const body = `[${Array(BATCH_EVENTS).fill(event).join(',')}]`
    this.bytes = Buffer.from(requestHead(method, url, Buffer.byteLength(body), PREFER_MINIMAL) + body)
    for (let at = this.bytes.indexOf('evt-'); at >= 0; at = this.bytes.indexOf('evt-', at + 4)) {
      this.#ids.push(at)
      this.#times.push(this.bytes.indexOf('"time":"', at) + 8)
      if (method === 'POST') this.#quantities.push(this.bytes.indexOf('"quantity":', at) + 11)
    }
  }

  set(place: number, index: number, quantity: number): void {
    this.bytes.write(eventId(0, index), this.#ids[place]!, 'latin1')
    this.bytes.write(new Date(START_MS + index).toISOString(), this.#times[place]!, 'latin1')
    if (this.#quantities.length > 0) this.bytes.write(String(quantity), this.#quantities[place]!, 'latin1')
  }
}

/** The next request of a connection; undefined at the end. */
type Next = (bodies: { readonly post: Body; readonly remove: Body }) => Body | undefined

function nextOf(work: FloodWork): Next {
  let index = 0
  if (work.kind !== 'churn') {
    const end = work.kind === 'insert' ? work.rows : Number.POSITIVE_INFINITY
    let endMs = 0
    return ({ post }) => {
      // The time begins with the first request, so there is always one.
      if (endMs === 0)
        endMs = performance.now() + (work.kind === 'fill' ? work.seconds * 1000 : Number.POSITIVE_INFINITY)
      if (index >= end || performance.now() >= endMs) return undefined
      for (let place = 0; place < BATCH_EVENTS; place++, index++) post.set(place, index, inserted(index))
      return post
    }
  }
  const { rows, updates, deletes } = work
  const isDeleted = deletedOf(rows, deletes)
  const random = createRandom(BENCH_SEED)
  let [step, done] = [0, 0]
  return ({ post, remove }) => {
    // Deletes keep step with updates.
    if (step < deletes && (done >= updates || step * updates <= done * deletes)) {
      for (let place = 0; place < BATCH_EVENTS; place++, step++) remove.set(place, (step * STRIDE) % rows, 0)
      return remove
    }
    if (done >= updates) return undefined
    for (let place = 0; place < BATCH_EVENTS; place++, done++) {
      do index = Math.floor(random() * rows)
      while (isDeleted[index] === 1)
      wasUpdated[index] = 1
      post.set(place, index, updated(index))
    }
    return post
  }
}

/** The records that 'churn' has updated. */
let wasUpdated = new Uint8Array(0)

function expected(work: FloodWork): { rows: number; sum: number } {
  if (work.kind !== 'churn') return { rows: 0, sum: 0 }
  const isDeleted = deletedOf(work.rows, work.deletes)
  let [rows, sum] = [0, 0]
  for (let index = 0; index < work.rows; index++) {
    if (isDeleted[index] === 1) continue
    rows += 1
    sum += wasUpdated[index] === 1 ? updated(index) : inserted(index)
  }
  return { rows, sum }
}

async function runWork(work: FloodWork): Promise<void> {
  if (work.kind === 'churn') wasUpdated = new Uint8Array(work.rows)
  const next = nextOf(work)
  let [events, again] = [0, 0]
  const begin = performance.now()
  const progress = setInterval(() => process.send?.({ events }), 1000)
  const drive = async () => {
    const connection = new Connection(work.url)
    const bodies = { post: new Body('POST', work.url), remove: new Body('DELETE', work.url) }
    for (let body = next(bodies); body !== undefined; body = next(bodies)) {
      for (;;) {
        const status = await connection.send(body.bytes)
        if (status === 200) break
        if (status !== NO_ANSWER && status !== 429 && status !== 503)
          throw new Error(`the server answered ${status}`)
        again += 1
        await new Promise(resolve => setTimeout(resolve, 100))
      }
      events += BATCH_EVENTS
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: work.connections }, drive))
  clearInterval(progress)
  const seconds = (performance.now() - begin) / 1000
  process.send?.({ events, seconds, again, ...expected(work) }, () => process.exit(0))
}

if (process.argv[2] === 'flood' && process.send !== undefined) {
  process.once('message', (work: FloodWork) => void runWork(work))
  process.once('disconnect', () => process.exit(1))
}
