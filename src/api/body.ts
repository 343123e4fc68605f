/**
 * Bodies: from the socket's chunks into slabs, copied once. Bodies for which there is no room wait here.
 *
 *   W-9  Held bytes ≤ WAITING_BYTES_MAX, waiting requests ≤ WAITING_REQUESTS_MAX, a wait ≤ WAIT_MS_MAX and then
 *        429; a body takes ≤ BODY_MS_MAX and then 408. The wait is first in, first out.
 *        Bodies that bring nothing for STALLED_MS give their places to those that wait: 408 as well.
 */
import type { Refusal } from '../errors.ts'
import {
  BODY_BYTES_MAX,
  BODY_WAIT_ON_MS,
  SMALL_BODY_BYTES_MAX,
  WAITING_BYTES_MAX,
  WAITING_REQUESTS_MAX,
} from '../limits.ts'
import { assert, must } from '../util/assert.ts'
import { monotonicMs, wallMs } from '../util/clock.ts'
import { tooLarge } from './admit.ts'
import { Fifo } from './fifo.ts'
import { refuse } from './problem.ts'
import type { IngestRequest } from './request.ts'
import { copyIn, type SlabPool } from './slab.ts'

/** What Bodies needs from around it. */
interface BodyHooks {
  /** Is there room in the tail? */
  room(): boolean
  /** A body is complete in its slab. */
  ready(request: IngestRequest): void
  /** A request ends without its body; it holds nothing any more. */
  refuse(request: IngestRequest, refusal: Refusal): void
  readonly waitMsMax: number
  readonly bodyMsMax: number
  readonly stalledMs: number
}

export class Bodies {
  readonly #slabs: SlabPool<IngestRequest>
  readonly #hooks: BodyHooks
  readonly #waiting = new Fifo<IngestRequest>()
  #waitingLive = 0
  #heldBytes = 0
  /** Bodies that came in more than one piece and are not complete, by the time they began. */
  readonly #receiving = new Set<IngestRequest>()
  /** Those of them that have a place, by the time of their last chunk. */
  readonly #progress = new Set<IngestRequest>()
  #tickedMs = 0
  #waitOnAtMs = 0
  #pumping = false

  constructor(slabs: SlabPool<IngestRequest>, hooks: BodyHooks) {
    this.#slabs = slabs
    this.#hooks = hooks
  }

  get waiting(): number {
    return this.#waitingLive
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /** A chunk from the socket; its memory is gone after the call. */
  chunk(request: IngestRequest, chunk: ArrayBuffer, last: boolean): void {
    if (request.state === 'over') return
    if (chunk.byteLength === 0 && !last) return // `Expect: 100-continue` begins with an empty chunk
    if (request.bytes + request.heldBytes + chunk.byteLength > BODY_BYTES_MAX) {
      this.#refuse(request, tooLarge())
      return
    }
    if (last) {
      request.complete = true
      request.receivedAtMs = wallMs()
      this.#receiving.delete(request)
    }
    if (request.state === 'new') this.#begin(request, chunk)
    else if (request.state === 'waiting') this.#hold(request, new Uint8Array(chunk))
    else this.#copy(request, new Uint8Array(chunk))
  }

  /** The client went away. */
  gone(request: IngestRequest): void {
    this.#drop(request)
  }

  /** Lets waiting requests in, oldest first, while there is room. */
  pump(): void {
    if (this.#pumping || this.#waitingLive === 0) return
    this.#pumping = true
    for (;;) {
      const request = this.#waiting.peek()
      if (request === undefined) break
      if (request.state === 'waiting' && !(this.#hooks.room() && this.#admitWaiting(request))) break
      this.#waiting.shift()
    }
    this.#pumping = false
  }

  /** Ends waits and bodies whose time is over. */
  tick(nowMs: number): void {
    this.pump()
    this.#endStalled(nowMs)
    for (;;) {
      const request = this.#waiting.peek()
      if (request === undefined) break
      if (request.state === 'waiting') {
        if (request.untilMs > nowMs) break
        this.#refuse(request, busy())
      }
      this.#waiting.shift()
    }
    for (const request of this.#receiving) {
      if (request.untilMs > nowMs) break
      this.#refuse(request, TOO_SLOW)
    }
    if (nowMs < this.#waitOnAtMs) return
    this.#waitOnAtMs = nowMs + BODY_WAIT_ON_MS
    for (const request of this.#receiving) request.responder.waitOn()
  }

  /** Takes the places of stalled bodies, one after the other, while others wait for a place and not for the tail. */
  #endStalled(nowMs: number): void {
    // After a late tick chunks may wait in their sockets: then nobody is judged.
    const isLate = nowMs - this.#tickedMs > this.#hooks.stalledMs / 2
    this.#tickedMs = nowMs
    if (isLate) return
    for (const request of this.#progress) {
      if (this.#waitingLive === 0 || request.progressMs + this.#hooks.stalledMs > nowMs) break
      if (!this.#hooks.room()) break
      this.#refuse(request, TOO_SLOW)
    }
  }

  #begin(request: IngestRequest, chunk: ArrayBuffer): void {
    if (!request.complete) this.#startBodyTime(request)
    // A new body does not overtake those that wait.
    if (this.#waitingLive === 0 && this.#hooks.room() && this.#place(request, chunk.byteLength)) {
      this.#copy(request, new Uint8Array(chunk))
      return
    }
    if (this.#hold(request, new Uint8Array(chunk))) this.#wait(request)
  }

  /**
   * A place in a slab: as large as the body where it is complete, as declared, or as large as can be.
   * @param bytes of the body so far
   */
  #place(request: IngestRequest, bytes: number): boolean {
    const declared = request.admission.declaredBytes
    const capacity = request.complete ? bytes : declared >= 0 ? declared : BODY_BYTES_MAX
    const small = request.complete && bytes <= SMALL_BODY_BYTES_MAX
    const place = this.#slabs.place(capacity, !small)
    if (place === undefined) return false
    request.slab = place.slab
    request.offset = place.offset
    request.capacity = capacity
    request.state = 'placed'
    return true
  }

  #copy(request: IngestRequest, chunk: Uint8Array): void {
    const slab = must(request.slab, 'the slab of a placed body')
    const end = request.bytes + chunk.byteLength
    assert(end <= request.capacity, 'a body is not longer than its place')
    copyIn(slab, request.offset + request.bytes, chunk)
    request.bytes = end
    this.#progress.delete(request)
    if (!request.complete) {
      request.progressMs = monotonicMs()
      this.#progress.add(request)
      return
    }
    if (end < request.capacity) this.#slabs.shrink({ slab, offset: request.offset }, request.capacity, end)
    request.state = 'ready'
    this.#hooks.ready(request)
  }

  /** A waiting request's turn. False: no slab is free. */
  #admitWaiting(request: IngestRequest): boolean {
    if (!this.#place(request, request.heldBytes)) return false
    this.#waitingLive -= 1
    const held = request.held.subarray(0, request.heldBytes)
    this.#forget(request)
    if (!request.complete) this.#startBodyTime(request)
    request.responder.resume()
    this.#copy(request, held)
    return true
  }

  /** The time in which the body has to come; waiting does not count. */
  #startBodyTime(request: IngestRequest): void {
    request.untilMs = monotonicMs() + this.#hooks.bodyMsMax
    this.#receiving.add(request)
  }

  #wait(request: IngestRequest): void {
    if (this.#waitingLive >= WAITING_REQUESTS_MAX) {
      this.#refuse(request, busy())
      return
    }
    this.#receiving.delete(request)
    request.state = 'waiting'
    request.untilMs = monotonicMs() + this.#hooks.waitMsMax
    this.#waitingLive += 1
    this.#waiting.push(request)
    if (!request.complete) request.responder.pause()
  }

  /** Copies a chunk aside. False: there is no room for it, and the request was refused. */
  #hold(request: IngestRequest, chunk: Uint8Array): boolean {
    if (this.#heldBytes + chunk.byteLength > WAITING_BYTES_MAX) {
      this.#refuse(request, busy())
      return false
    }
    const end = request.heldBytes + chunk.byteLength
    if (end > request.held.byteLength) {
      const more = new Uint8Array(Math.max(end, Math.min(2 * request.heldBytes, BODY_BYTES_MAX)))
      more.set(request.held.subarray(0, request.heldBytes))
      request.held = more
    }
    request.held.set(chunk, request.heldBytes)
    request.heldBytes = end
    this.#heldBytes += chunk.byteLength
    return true
  }

  #forget(request: IngestRequest): void {
    this.#heldBytes -= request.heldBytes
    request.heldBytes = 0
    request.held = NO_BYTES
  }

  #refuse(request: IngestRequest, refusal: Refusal): void {
    this.#drop(request)
    this.#hooks.refuse(request, refusal)
  }

  /** Gives back all that a request holds. One that is ready belongs to the dispatcher. */
  #drop(request: IngestRequest): void {
    if (request.state === 'over' || request.state === 'ready') return
    if (request.state === 'waiting') this.#waitingLive -= 1
    request.state = 'over'
    this.#receiving.delete(request)
    this.#progress.delete(request)
    this.#forget(request)
    const slab = request.slab
    request.slab = undefined
    if (slab !== undefined) this.#slabs.release(slab)
  }
}

const NO_BYTES = new Uint8Array(0)
const TOO_SLOW = refuse(408, 'body_too_slow', 'the body did not arrive in time')

/** There is no room, and was none for as long as a request waits. */
export function busy(): Refusal {
  return refuse(429, 'busy', 'the server has no room just now', { 'retry-after': '1' })
}
