/**
 * Bodies: copied once, from the socket's chunks into slabs. A body for which there is no room
 * waits.
 *
 *   W-9  A request waits at most WAIT_MS_MAX, then it gets 429. A body has BODY_MS_MAX to arrive,
 *        then it gets 408. A pool has at most POOL_PLACES_BYTES_MAX of incomplete bodies in slabs:
 *        further bodies of it wait, so other pools always find room. An incomplete body that
 *        brought less than BODY_BYTES_PER_SECOND_MIN in its last window gets 408 while others wait
 *        for its space. While nobody waits it may go on: a phone on a slow link has BODY_MS_MAX.
 */

import { monotonicMs } from '../../util/clock.ts'
import { assert, must, type Refusal } from '../../util/errors.ts'
import {
  BODY_BYTES_MAX,
  BODY_BYTES_PER_SECOND_MIN,
  BODY_WAIT_ON_MS,
  SLAB_BYTES,
  SLABS_MAX,
  SLABS_SMALL_MIN,
} from '../../util/limits.ts'
import type { ApiTimes } from '../api-types.ts'
import { refuse, TOO_SLOW } from '../problem.ts'
import { tooLarge } from './admission.ts'
import {
  contextBytesOf,
  copyIn,
  type IngestRequest,
  type Line,
  lineOf,
  type SlabPool,
  Waiting,
} from './body-memory.ts'

/** Bytes of slabs for one pool's incomplete bodies. A quarter of the large ones is for others. */
const POOL_PLACES_BYTES_MAX = ((SLABS_MAX - SLABS_SMALL_MIN) * SLAB_BYTES * 3) / 4

interface BodyDeps {
  room(): boolean
  ready(request: IngestRequest): void
  /** Refuses a request that has no complete body. It holds no memory any more. */
  refuse(request: IngestRequest, refusal: Refusal): void
  readonly times: ApiTimes
}

export class Bodies {
  readonly waiting = new Waiting()
  readonly #slabs: SlabPool<IngestRequest>
  readonly #deps: BodyDeps
  readonly #rates: BodyRates
  /** Incomplete bodies that arrive in several pieces, in the order of their first pieces. */
  readonly #receiving = new Set<IngestRequest>()
  #waitOnAtMs = 0
  #pumping = false

  constructor(slabs: SlabPool<IngestRequest>, deps: BodyDeps) {
    this.#slabs = slabs
    this.#deps = deps
    this.#rates = new BodyRates(deps.times.bodyWindowMs)
  }

  /** Takes a chunk from the socket. The memory of the chunk is valid only during the call. */
  chunk(request: IngestRequest, chunk: Uint8Array, last: boolean): void {
    if (request.state === 'over') return
    if (chunk.byteLength === 0 && !last) return // `Expect: 100-continue` begins with an empty chunk
    const bytes = contextBytesOf(request.admission) + request.bytes + request.bufferedBytes
    if (bytes + chunk.byteLength > BODY_BYTES_MAX) {
      this.#refuse(request, tooLarge())
      return
    }
    if (last) {
      request.complete = true
      const { target, reservedUs } = request.admission
      request.receivedAtUs = reservedUs ?? target.received.next()
      this.#receiving.delete(request)
    }
    if (request.state === 'new') this.#begin(request, chunk)
    else if (request.state === 'waiting') this.#buffer(request, chunk)
    else this.#copy(request, chunk)
  }

  pump(): void {
    if (this.#pumping || this.waiting.length === 0) return
    this.#pumping = true
    for (const line of LINES)
      for (;;) {
        const request = this.#next(line)
        if (request === undefined || !this.#deps.room() || !this.#admitWaiting(line, request)) break
      }
    this.#pumping = false
  }

  tick(nowMs: number): void {
    this.pump()
    this.#rates.tick(nowMs)
    this.#takeSpace()
    for (const request of this.waiting.expired(nowMs)) this.#refuse(request, busy())
    for (const request of this.#receiving) {
      if (request.untilMs > nowMs) break
      this.#refuse(request, TOO_SLOW)
    }
    if (nowMs < this.#waitOnAtMs) return
    this.#waitOnAtMs = nowMs + BODY_WAIT_ON_MS
    for (const request of this.#receiving) request.responder.waitOn()
  }

  /** Refuses slow bodies while others wait for space and the memtable has room. */
  #takeSpace(): void {
    const isWanted = () => !this.waiting.isEmpty('large') && this.#deps.room()
    if (!isWanted()) return
    for (const request of this.#rates.slow()) {
      if (!isWanted()) return
      this.#refuse(request, TOO_SLOW)
    }
  }

  /** The request whose turn is next, among those that wait for a slab only. */
  #next(line: Line): IngestRequest | undefined {
    return this.waiting.next(line, request => this.#mayGo(request))
  }

  #mayGo(request: IngestRequest): boolean {
    return request.complete || this.#rates.hasRoom(request)
  }

  #begin(request: IngestRequest, chunk: Uint8Array): void {
    if (!request.complete) this.#startBodyTime(request)
    // A new body does not overtake requests that wait for the same slabs.
    const isNext = this.#next(lineOf(request.complete, chunk.byteLength)) === undefined
    if (isNext && this.#mayGo(request) && this.#deps.room() && this.#allocate(request, chunk.byteLength)) {
      this.#copy(request, chunk)
      return
    }
    if (this.#buffer(request, chunk)) this.#wait(request)
  }

  /** Takes space for a complete body, else for the declared size, else for BODY_BYTES_MAX. */
  #allocate(request: IngestRequest, bytes: number): boolean {
    const { declaredBytes: declared, context } = request.admission
    const contextBytes = contextBytesOf(request.admission)
    const capacity = request.complete ? bytes : declared >= 0 ? declared : BODY_BYTES_MAX - contextBytes
    const space = this.#slabs.allocate(contextBytes + capacity, lineOf(request.complete, bytes) === 'large')
    if (space === undefined) return false
    if (context !== undefined) copyIn(space.slab, space.offset, context)
    request.slab = space.slab
    request.offset = space.offset + contextBytes
    request.capacity = capacity
    request.state = 'placed'
    if (!request.complete) this.#rates.begin(request, monotonicMs())
    return true
  }

  #copy(request: IngestRequest, chunk: Uint8Array): void {
    const slab = must(request.slab, 'the slab of a placed body')
    const end = request.bytes + chunk.byteLength
    assert(end <= request.capacity, 'a body is not longer than its space')
    copyIn(slab, request.offset + request.bytes, chunk)
    request.bytes = end
    if (!request.complete) return
    this.#rates.end(request)
    if (end < request.capacity) {
      const contextBytes = contextBytesOf(request.admission)
      const space = { slab, offset: request.offset - contextBytes }
      this.#slabs.shrink(space, contextBytes + request.capacity, contextBytes + end)
    }
    request.state = 'ready'
    this.#deps.ready(request)
    this.pump()
  }

  #admitWaiting(line: Line, request: IngestRequest): boolean {
    if (!this.#allocate(request, request.bufferedBytes)) return false
    this.waiting.delete(request)
    this.waiting.endTurn(line, request)
    const buffered = request.buffer.subarray(0, request.bufferedBytes)
    this.waiting.release(request)
    if (!request.complete) this.#startBodyTime(request)
    request.responder.resume()
    this.#copy(request, buffered)
    return true
  }

  /** Starts the time in which the body must arrive. Time spent waiting does not count. */
  #startBodyTime(request: IngestRequest): void {
    request.untilMs = monotonicMs() + this.#deps.times.bodyMsMax
    this.#receiving.add(request)
  }

  #wait(request: IngestRequest): void {
    this.#receiving.delete(request)
    request.state = 'waiting'
    request.untilMs = monotonicMs() + this.#deps.times.waitMsMax
    this.waiting.add(request)
    if (!request.complete) request.responder.pause()
  }

  /** Keeps a chunk of a request without space. False where the request had to be refused. */
  #buffer(request: IngestRequest, chunk: Uint8Array): boolean {
    while (this.waiting.isFull(request, chunk.byteLength)) {
      const other = this.waiting.victimFor(request)
      this.#refuse(other ?? request, busy())
      if (other === undefined) return false
    }
    this.waiting.buffer(request, chunk, BODY_BYTES_MAX)
    return true
  }

  #refuse(request: IngestRequest, refusal: Refusal): void {
    this.drop(request)
    this.#deps.refuse(request, refusal)
  }

  /** Frees all memory of a request. A ready request belongs to Ingest, which frees its memory. */
  drop(request: IngestRequest): void {
    if (request.state === 'over' || request.state === 'ready') return
    request.state = 'over'
    this.#receiving.delete(request)
    this.#rates.end(request)
    this.waiting.delete(request)
    this.waiting.release(request)
    const slab = request.slab
    request.slab = undefined
    if (slab !== undefined) this.#slabs.release(slab)
  }
}

const LINES: readonly Line[] = ['small', 'large']

/** 429 for a request that waited WAIT_MS_MAX, or for which there was no room to wait. */
export function busy(): Refusal {
  return refuse(429, 'busy', 'the server has no room for this request; retry later', { 'retry-after': '1' })
}

/** The rates of incomplete bodies that have space in a slab, and the bytes of it by pool. */
class BodyRates {
  readonly #windowMs: number
  /** In the order in which their windows began. */
  readonly #windows = new Set<IngestRequest>()
  readonly #pools = new Map<number, number>()
  #tickedMs = 0

  constructor(windowMs: number) {
    this.#windowMs = windowMs
  }

  hasRoom({ admission }: IngestRequest): boolean {
    return (this.#pools.get(admission.target.poolNumber) ?? 0) < POOL_PLACES_BYTES_MAX
  }

  begin(request: IngestRequest, nowMs: number): void {
    request.bytesPerSecond = Number.POSITIVE_INFINITY
    this.#count(request, request.capacity)
    this.#open(request, nowMs)
  }

  end(request: IngestRequest): void {
    if (this.#windows.delete(request)) this.#count(request, -request.capacity)
  }

  /** Computes the rates of ended windows, but not late: chunks may still wait in the sockets. */
  tick(nowMs: number): void {
    const isLate = nowMs - this.#tickedMs > this.#windowMs / 2
    this.#tickedMs = nowMs
    for (const request of this.#windows) {
      const ms = nowMs - request.windowFromMs
      if (ms < this.#windowMs) return
      if (!isLate) request.bytesPerSecond = ((request.bytes - request.windowFromBytes) * 1000) / ms
      this.#open(request, nowMs)
    }
  }

  slow(): IngestRequest[] {
    return [...this.#windows].filter(one => one.bytesPerSecond < BODY_BYTES_PER_SECOND_MIN)
  }

  #count({ admission }: IngestRequest, bytes: number): void {
    const pool = admission.target.poolNumber
    const sum = (this.#pools.get(pool) ?? 0) + bytes
    if (sum > 0) this.#pools.set(pool, sum)
    else this.#pools.delete(pool)
  }

  #open(request: IngestRequest, nowMs: number): void {
    request.windowFromMs = nowMs
    request.windowFromBytes = request.bytes
    this.#windows.delete(request)
    this.#windows.add(request)
  }
}
