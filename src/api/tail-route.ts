/**
 * `GET /v1/pools/{id or name}/tail`: the rows of a pool as they are acknowledged, as Server-Sent
 * Events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
 *
 *   data: {"column": "value", …}                 a row, as queries print its values
 *   event: missed   data: {"count": 12}          rows that the reader does not get
 *   event: end      data: {"code", "message"}    why the stream ends; then it is closed
 *   : a comment                                  every TAIL_HEARTBEAT_MS, while nothing comes
 *
 * Readers that ask the same share a poller, which runs one query at most every TAIL_INTERVAL_MS,
 * and none while the store knows of nothing new. Without readers there is no poller.
 *
 *   W-9  At most TAIL_READERS_MAX readers, in shares of applications. A step has at most
 *        TAIL_STEP_BYTES of rows. A reader that has not taken what it got misses the next steps,
 *        and is told how many rows; it is disconnected after TAIL_STALL_MS.
 *   W-11 A step words at most TAIL_ROWS_MAX rows: a millisecond for rows of 1 kB.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Identity } from '../catalog/access/token.ts'
import type { Pool } from '../catalog/documents/model.ts'
import { isBadQuery } from '../query/expression/values.ts'
import type { LimitedPool } from '../query/plan/policy.ts'
import type { Selection } from '../query/selection.ts'
import type { OpenTail, Tail, TailStep } from '../query/tail.ts'
import { monotonicMs, wallMs } from '../util/clock.ts'
import { type Refusal, Unavailable } from '../util/errors.ts'
import { KiB, ROUTE_BODY_BYTES_MAX } from '../util/limits.ts'
import { joinIds, type RequestIds } from '../util/request-id.ts'
import { mayTake } from '../util/shares.ts'
import type { ControlRequest, ControlRoute, OpenAnswer, Reply } from './api-types.ts'
import type { Responder } from './http/responder.ts'
import { StreamAhead } from './http/stream.ts'
import { accessTo, QUERY_SCOPE, type ReaderDeps, readerOf, selectionOf } from './pool-reader.ts'
import { problemReply, refusalOfError, refuse } from './problem.ts'

/** Between the begins of two queries of a poller. */
const TAIL_INTERVAL_MS = 500
/** Proxies close a connection on which nothing comes for a minute or less. */
const TAIL_HEARTBEAT_MS = 5_000
/** A reader that took nothing for so long is gone. */
const TAIL_STALL_MS = 60_000
/** Readers at once, in shares of applications: each holds a connection and up to one step. */
const TAIL_READERS_MAX = 256
/** Bytes of the rows of one step; further rows of it are missed. */
const TAIL_STEP_BYTES = 256 * KiB

const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  // Proxies such as nginx would hold events back.
  'x-accel-buffering': 'no',
}
const SELECTION: readonly (keyof Selection)[] = ['columns', 'filters']

interface RouteDeps extends ReaderDeps {
  readonly openTail: OpenTail
}

/** Why a stream ends. */
interface End {
  readonly code: string
  readonly message: string
}

const STOPPING: End = { code: 'stopping', message: 'the server is stopping' }
const POOL_DELETED: End = { code: 'pool_deleted', message: 'the Data Pool was deleted' }

export function tailRoute(deps: RouteDeps): ControlRoute {
  const tails = new Tails(deps)
  return {
    methods: ['GET'],
    path: '/v1/pools/:pool/tail',
    bodyBytesMax: ROUTE_BODY_BYTES_MAX,
    handle: request => tails.answer(request),
    stop: () => tails.stop(),
  }
}

class Tails {
  readonly #deps: RouteDeps
  readonly #pollers = new Map<string, Poller>()
  #isStopping = false

  constructor(deps: RouteDeps) {
    this.#deps = deps
  }

  stop(): void {
    this.#isStopping = true
    for (const poller of this.#pollers.values()) poller.end(STOPPING)
  }

  async answer(request: ControlRequest): Promise<Reply | OpenAnswer> {
    const reader = await readerOf(request, this.#deps)
    if ('status' in reader) return problemReply(reader)
    const { caller, pool } = reader
    const selection = selectionOf(request.query, SELECTION)
    if ('badRequest' in selection) return problemReply(refuse(400, 'bad_parameter', selection.badRequest))
    if (this.#isStopping) return problemReply(refuse(503, STOPPING.code, STOPPING.message))
    const own = this.#count(({ applicationId }) => applicationId === caller.applicationId)
    if (!mayTake(own, TAIL_READERS_MAX - this.#count(() => true)))
      return problemReply(
        refuse(429, 'too_many_tails', 'too many tails are open: close some', { 'retry-after': '5' }),
      )
    const poller = this.#pollerOf(pool, selection, caller)
    // So that a reader gets what comes from now on, and nothing older.
    const refused = await poller.join(request, caller)
    if (refused !== undefined) return problemReply(refused)
    return { open: responder => poller.add(new Reader(responder, caller)) }
  }

  #pollerOf(pool: Pool, selection: Selection, caller: Identity): Poller {
    const { applicationId, policyValues, scopes } = caller
    const key = JSON.stringify([pool.id, applicationId, policyValues, scopes.has('admin'), selection])
    const known = this.#pollers.get(key)
    if (known !== undefined && !known.isOver) return known
    const made = new Poller(pool.id, selection, caller, this.#deps, () => {
      if (this.#pollers.get(key) === made) this.#pollers.delete(key)
    })
    this.#pollers.set(key, made)
    return made
  }

  #count(isCounted: (poller: Poller) => boolean): number {
    let count = 0
    for (const poller of this.#pollers.values()) if (isCounted(poller)) count += poller.size
    return count
  }
}

/** Asks for all readers that ask the same. */
class Poller {
  readonly applicationId: string
  isOver = false
  readonly #poolId: string
  readonly #selection: Selection
  readonly #caller: Identity
  readonly #deps: RouteDeps
  readonly #onOver: () => void
  readonly #readers = new Set<Reader>()
  readonly #gone = new AbortController()
  /** Requests of readers that join: the poller goes on for them. */
  readonly #joining = new Set<ControlRequest>()
  #tail: Tail | undefined
  #running: Promise<Refusal | undefined> = Promise.resolve(undefined)
  /** A step that has not begun. It serves all who ask before it begins. */
  #next: Promise<Refusal | undefined> | undefined

  constructor(poolId: string, selection: Selection, caller: Identity, deps: RouteDeps, onOver: () => void) {
    this.#poolId = poolId
    this.#selection = selection
    this.#caller = caller
    this.applicationId = caller.applicationId
    this.#deps = deps
    this.#onOver = onOver
  }

  get size(): number {
    return this.#readers.size + this.#joining.size
  }

  /** Resolves after a step, with a refusal where the caller may not read what it asks for. */
  async join(request: ControlRequest, caller: Identity): Promise<Refusal | undefined> {
    this.#joining.add(request)
    try {
      caller.verifyAgain(QUERY_SCOPE)
      return await this.#run()
    } catch (error) {
      return refusalOfError(error, 'tail', request.ids)
    } finally {
      this.#joining.delete(request)
      if (this.size === 0) setImmediate(() => this.#leave(undefined))
    }
  }

  add(reader: Reader): void {
    const isFirst = this.#readers.size === 0
    if (!reader.begin(() => this.#leave(reader))) return
    this.#readers.add(reader)
    if (isFirst) void this.#loop()
  }

  end(why: End): void {
    for (const reader of [...this.#readers]) {
      this.#readers.delete(reader)
      reader.end(why)
    }
    this.#leave(undefined)
  }

  #leave(reader: Reader | undefined): void {
    if (reader !== undefined) this.#readers.delete(reader)
    if (this.size > 0 || this.isOver) return
    this.isOver = true
    this.#gone.abort()
    this.#onOver()
  }

  /** Readers hear from the server beside a step that takes long. */
  async #loop(): Promise<void> {
    let isStepping = false
    while (this.#readers.size > 0) {
      const beganMs = monotonicMs()
      for (const reader of [...this.#readers]) if (!reader.tick(beganMs)) this.#leave(reader)
      if (!isStepping && this.#hasNews()) {
        isStepping = true
        const ended = () => {
          isStepping = false
        }
        void this.#run().then(ended, ended) // after a failure the next step tries again
      }
      await sleep(Math.max(0, TAIL_INTERVAL_MS - (monotonicMs() - beganMs)))
    }
  }

  #hasNews(): boolean {
    const isThere = this.#deps.catalog.read.pools.has(this.#poolId) // else the step says it
    return !isThere || this.#tail?.hasNews() !== false
  }

  /**
   * A step that begins after this call. Steps never run beside each other: both would send the same
   * rows. Rejects with Unavailable where the engine or the disk refuses for now.
   */
  #run(): Promise<Refusal | undefined> {
    this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined
        this.#running = this.#endedStep()
        return this.#running
      })
    return this.#next
  }

  /** A step; where it is refused for good, the end of all readers. */
  async #endedStep(): Promise<Refusal | undefined> {
    let refused: Refusal | undefined
    try {
      refused = await this.#step()
    } catch (error) {
      if (error instanceof Unavailable) throw error
      const asking = [...this.#joining, ...this.#readers]
      refused = refusalOfError(error, 'tail', joinIds(asking.map(one => one.ids)))
    }
    if (refused !== undefined) this.end({ code: refused.code, message: refused.message })
    return refused
  }

  /** A caller that may still read: the readers share a policy and its values. */
  get #asker(): Identity {
    const [reader] = this.#readers
    return reader?.caller ?? this.#caller
  }

  async #step(): Promise<Refusal | undefined> {
    const asker = this.#asker
    const seen = this.#seenBy(asker)
    if ('status' in seen) return seen
    this.#tail ??= this.#deps.openTail(seen.schema.pool)
    const step = await this.#tail.step({
      pool: seen,
      selection: this.#selection,
      asker: {
        fairKey: this.applicationId,
        verify: () => asker.verifyAgain(QUERY_SCOPE),
        gone: this.#gone.signal,
      },
      nowMs: wallMs(),
    })
    if (isBadQuery(step)) return refuse(400, 'bad_parameter', step.badRequest)
    const now = this.#seenBy(asker)
    if ('status' in now) return now
    // What was read by an earlier policy is not told.
    if (JSON.stringify(now.policy) !== JSON.stringify(seen.policy)) return undefined
    const { text, sent, missed } = wordsOf(step)
    if (sent + missed > 0) for (const reader of this.#readers) reader.give(text, sent, missed)
    return undefined
  }

  /** What the caller may see of the pool; or 403 or 404. */
  #seenBy(caller: Identity): LimitedPool | Refusal {
    const { read } = this.#deps.catalog
    const pool = read.pools.get(this.#poolId)
    if (pool === undefined) return refuse(404, POOL_DELETED.code, POOL_DELETED.message)
    const access = accessTo(pool, caller, read)
    if ('forbidden' in access) return refuse(403, 'forbidden', access.forbidden)
    return { schema: read.currentSchema(pool), policy: access.policy }
  }
}

/** The events of a step, within TAIL_STEP_BYTES: the newest rows, but at least one. */
function wordsOf({ columns, rows, missed }: TailStep) {
  const texts: string[] = []
  let bytes = 0
  for (let at = rows.length - 1; at >= 0; at--) {
    const row = rows[at]!
    const text = JSON.stringify(Object.fromEntries(columns.map((name, index) => [name, row[index] ?? null])))
    bytes += Buffer.byteLength(text)
    if (texts.length > 0 && bytes > TAIL_STEP_BYTES) break
    texts.push(`data: ${text}\n\n`)
  }
  const sent = texts.length
  return { text: texts.reverse().join(''), sent, missed: missed + rows.length - sent }
}

/** One connection. */
class Reader {
  readonly caller: Identity
  readonly #responder: Responder
  readonly #ahead: StreamAhead
  #isWriting = false
  #missed = 0
  #wroteMs = monotonicMs()

  constructor(responder: Responder, caller: Identity) {
    this.#responder = responder
    this.caller = caller
    this.#ahead = new StreamAhead(responder)
  }

  get ids(): RequestIds {
    return this.#responder.ids
  }

  /** Sends the head; false where the client is gone. */
  begin(onGone: () => void): boolean {
    const { onGone: before } = this.#responder
    this.#responder.onGone = () => {
      before()
      onGone()
    }
    if (!this.#responder.open || this.#responder.beginChunks(200, HEADERS)) return false
    this.#write(': connected\n\n')
    return true
  }

  /** Gives rows, or counts them where the client has not taken the last ones. */
  give(text: string, sent: number, missed: number): void {
    this.#missed += missed
    if (this.#isWriting) this.#missed += sent
    else this.#write(this.#missedEvent() + text)
  }

  /** Twice a second. False where the client may not read any more, or takes nothing. */
  tick(nowMs: number): boolean {
    try {
      this.caller.verifyAgain(QUERY_SCOPE)
    } catch (error) {
      const { code, message } = refusalOfError(error, 'tail', this.ids)
      this.end({ code, message })
      return false
    }
    this.#responder.waitOn() // uWebSockets.js ends an answer whose client says nothing for 10 s
    if (this.#isWriting) {
      if (nowMs - this.#wroteMs < TAIL_STALL_MS) return true
      this.#responder.close()
      return false
    }
    if (this.#missed > 0) this.#write(this.#missedEvent())
    else if (nowMs - this.#wroteMs >= TAIL_HEARTBEAT_MS) this.#write(': still here\n\n')
    return true
  }

  end(why: End): void {
    if (!this.#responder.open) return
    if (this.#isWriting) {
      this.#responder.close()
      return
    }
    void this.#ahead
      .take(Buffer.from(`event: end\ndata: ${JSON.stringify(why)}\n\n`))
      .then(() => this.#ahead.flushed())
      .then(isThere => {
        if (isThere) this.#responder.endChunks(200)
      })
  }

  #missedEvent(): string {
    if (this.#missed === 0) return ''
    const event = `event: missed\ndata: {"count":${this.#missed}}\n\n`
    this.#missed = 0
    return event
  }

  #write(text: string): void {
    this.#isWriting = true
    this.#wroteMs = monotonicMs()
    void this.#ahead
      .take(Buffer.from(text))
      .then(() => this.#ahead.flushed())
      .then(() => {
        this.#isWriting = false
      })
  }
}
