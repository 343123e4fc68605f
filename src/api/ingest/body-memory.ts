/**
 * The memory of bodies: the slabs that hold them, and the waiting requests that have no space yet.
 *
 * A slab is shared memory that holds bodies between admission and ack:
 *
 *   … │ 64 bytes for the record header │ body │ zeros to a multiple of 8 │ 64 bytes │ body │ …
 *
 * A slab counts its users: a body is one from allocate() to release(). A slab without users is
 * reused.
 *
 *   W-9  There are at most SLABS_MAX slabs. SLABS_SMALL_MIN of them take only small bodies that
 *        arrived in one piece. Those stay for milliseconds, so slow uploads never block them. At
 *        most WAITING_REQUESTS_MAX requests wait, with at most WAITING_BYTES_MAX bytes, whatever
 *        the number of connections.
 *
 * Waiting pools take turns, so a pool with thousands of connections does not delay all others.
 * Within a pool the oldest request goes first. Small complete bodies wait in a line of their own,
 * because they have slabs of their own.
 */

import { align8 } from '../../format/batch-layout.ts'
import { RECORD_HEADER_BYTES } from '../../format/log-record.ts'
import { assert, must } from '../../util/errors.ts'
import { getOrMake } from '../../util/get-or-make.ts'
import {
  KiB,
  SLAB_BYTES,
  SLABS_MAX,
  SLABS_SMALL_MIN,
  WAITING_BYTES_MAX,
  WAITING_REQUESTS_MAX,
} from '../../util/limits.ts'
import type { RequestIds } from '../../util/request-id.ts'
import type { Responder } from '../http/responder.ts'
import type { Admission } from './admission.ts'
import type { Answer } from './ingest-answer.ts'
import type { IngestSchema } from './ingest-pool.ts'

/** Bytes at a slab's end that no body covers, so that a kernel may read a little past a body. */
const SLAB_TAIL_BYTES = 64
/** Largest body that shares a slab with others. It must come in one piece. */
export const SMALL_BODY_BYTES_MAX = 64 * KiB

/**
 *   new       no byte of the body has arrived
 *   waiting   there is no room: the bytes so far are buffered, the socket is paused
 *   placed    the body is copied into its space in a slab
 *   ready     the body is complete in its slab, and uses the slab until its answer
 *   over      answered before it was ready, or the client disconnected
 */
type RequestState = 'new' | 'waiting' | 'placed' | 'ready' | 'over'

const NO_BYTES = new Uint8Array(0)

export type BodySocket = Pick<
  Responder,
  'bodyRead' | 'ids' | 'span' | 'pause' | 'resume' | 'waitOn' | 'send' | 'sendAndDrain'
>

/** Takes the outcome of a batch of an import, a request without a client (import-run.ts). */
export interface BatchSink {
  /** Rows of the server's own, which nobody sent: no metric of received events counts them. */
  readonly isOwn?: true
  /** The ids of the import's request; absent for requests of the server's own. */
  readonly ids?: RequestIds
  /** Called when a batch that is given from now on comes after this one. @param version it has */
  sequenced(version: number): void
  answered(answer: Answer): void
}

export class IngestRequest {
  readonly admission: Admission
  /** The client's socket; that of a batch does nothing. */
  readonly responder: BodySocket
  readonly sink: BatchSink | undefined
  state: RequestState = 'new'
  slab: Slab<IngestRequest> | undefined
  offset = 0
  capacity = 0
  bytes = 0
  /** Set for a complete body: upper bounds of its decoded bytes and of the bytes of its batch. */
  bytesMax = 0
  parsedBytesMax = 0
  /** The schema that `parsedBytesMax` is for. */
  weighedBy: IngestSchema | undefined
  /** The first `bufferedBytes` bytes of it are the part of the body that has no space yet. */
  buffer: Uint8Array = NO_BYTES
  bufferedBytes = 0
  complete = false
  /** Wall clock in microseconds when the body was complete. Unique within the pool. */
  receivedAtUs = 0
  /** Start of the current rate window of an incomplete body that has space; monotonic. */
  windowFromMs = 0
  windowFromBytes = 0
  /** The rate in the window before; infinite in the first window. */
  bytesPerSecond = Number.POSITIVE_INFINITY
  /** Monotonic: when a waiting request gets 429, or an incomplete body 408. */
  untilMs = 0

  constructor(admission: Admission, responder: BodySocket, sink?: BatchSink) {
    this.admission = admission
    this.responder = responder
    this.sink = sink
  }

  /** The ids of the client's request, for the log. */
  get ids(): RequestIds {
    return this.sink?.ids ?? this.responder.ids
  }
}

interface Space<T> {
  readonly slab: Slab<T>
  /** Byte offset of the body. The space for the record header is directly before it. */
  readonly offset: number
}

export class Slab<T> {
  readonly memory = new SharedArrayBuffer(SLAB_BYTES)
  readonly bytes = Buffer.from(this.memory)
  /** Requests with complete bodies, oldest first. Ingest takes them. */
  ready: T[] = []
  /** Upper bound of the decoded bytes of all requests in `ready`. */
  readyBytes = 0
  /** Upper bound of the bytes of the batches that `ready` becomes. */
  readyParsedBytes = 0
  used = 0
  users = 0
  filling = false
  /** The slab counts against the share of large bodies. */
  large = false
}

/**
 * Copies bytes into a slab.
 *
 * NOTE: `set()` into shared memory copies byte by byte when source and target are aligned
 * differently, which is usual for chunks from a socket: 88 µs for 221 kB. `Buffer.fill` with bytes
 * is a memcpy: 12 µs.
 */
/** Bytes of the context, which stands directly before the body in its slab and in the log. */
export function contextBytesOf({ context }: Admission): number {
  return context === undefined ? 0 : context.byteLength
}

export function copyIn(slab: Slab<unknown>, offset: number, bytes: Uint8Array): void {
  if (bytes.byteLength > 0) slab.bytes.fill(bytes, offset, offset + bytes.byteLength)
}

export class SlabPool<T> {
  readonly #free: Slab<T>[] = []
  #made = 0
  #largeInUse = 0
  #small: Slab<T> | undefined
  #large: Slab<T> | undefined
  onFree: () => void = () => {}

  get inUse(): number {
    const idle = (this.#small?.users === 0 ? 1 : 0) + (this.#large?.users === 0 ? 1 : 0)
    return this.#made - this.#free.length - idle
  }

  /** Takes space for a body of `bodyBytes` bytes; undefined while every slab is in use. */
  allocate(bodyBytes: number, large: boolean): Space<T> | undefined {
    const slab = this.#slabWith(RECORD_HEADER_BYTES + align8(bodyBytes), large)
    if (slab === undefined) return undefined
    const offset = slab.used + RECORD_HEADER_BYTES
    slab.used = offset + align8(bodyBytes)
    slab.users += 1
    slab.bytes.fill(0, offset + bodyBytes, slab.used)
    return { slab, offset }
  }

  /** Frees what a body leaves of its space, where nothing stands behind it. Zeros pad the body. */
  shrink(space: Space<T>, capacity: number, bodyBytes: number): void {
    const slab = space.slab
    const end = space.offset + align8(bodyBytes)
    slab.bytes.fill(0, space.offset + bodyBytes, end)
    if (slab.used === space.offset + align8(capacity)) slab.used = end
  }

  release(slab: Slab<T>): void {
    assert(slab.users > 0, 'a slab is released as often as it was taken')
    slab.users -= 1
    if (slab.users > 0) return
    slab.used = 0
    if (!slab.filling) {
      if (slab.large) this.#largeInUse -= 1
      this.#free.push(slab)
    }
    this.onFree()
  }

  #slabWith(bytes: number, large: boolean): Slab<T> | undefined {
    const open = large ? this.#large : this.#small
    if (open !== undefined && open.used + bytes + SLAB_TAIL_BYTES <= SLAB_BYTES) return open
    // `open` holds bodies, so it has users, and the last release() frees it.
    const next = this.#take(large)
    if (next === undefined) return undefined
    if (open !== undefined) open.filling = false
    next.filling = true
    if (large) this.#large = next
    else this.#small = next
    return next
  }

  #take(large: boolean): Slab<T> | undefined {
    if (large && this.#largeInUse >= SLABS_MAX - SLABS_SMALL_MIN) return undefined
    let slab = this.#free.pop()
    if (slab === undefined) {
      if (this.#made >= SLABS_MAX) return undefined
      this.#made += 1
      slab = new Slab<T>()
    }
    slab.large = large
    if (large) this.#largeInUse += 1
    return slab
  }
}

export type Line = 'small' | 'large'

interface Share {
  readonly lines: Readonly<Record<Line, Set<IngestRequest>>>
  bytes: number
}

export class Waiting {
  readonly #shares = new Map<number, Share>()
  /** Pools with requests in a line. The first pool has the next turn. */
  readonly #turns: Readonly<Record<Line, Set<number>>> = { small: new Set(), large: new Set() }
  /** The oldest first. */
  readonly #all = new Map<IngestRequest, Line>()
  bytes = 0

  get length(): number {
    return this.#all.size
  }

  /** True where so much waits that further requests may soon take the places of waiting ones. */
  get isHalfFull(): boolean {
    return this.#all.size > WAITING_REQUESTS_MAX / 2 || this.bytes > WAITING_BYTES_MAX / 2
  }

  isEmpty(line: Line): boolean {
    return this.#turns[line].size === 0
  }

  isFull(request: IngestRequest, chunkBytes: number): boolean {
    if (this.bytes + chunkBytes > WAITING_BYTES_MAX) return true
    return this.#all.size >= WAITING_REQUESTS_MAX && !this.#all.has(request)
  }

  add(request: IngestRequest): void {
    const line = lineOf(request.complete, request.bufferedBytes)
    const pool = request.admission.target.poolNumber
    this.#all.set(request, line)
    this.#shareOf(pool).lines[line].add(request)
    this.#turns[line].add(pool)
  }

  delete(request: IngestRequest): void {
    const line = this.#all.get(request)
    if (line === undefined) return
    this.#all.delete(request)
    const pool = request.admission.target.poolNumber
    const requests = must(this.#shares.get(pool), 'the share of a waiting request').lines[line]
    requests.delete(request)
    if (requests.size === 0) this.#turns[line].delete(pool)
    this.#forget(pool)
  }

  /** The request with the next turn. A pool whose oldest request may not go is skipped. */
  next(line: Line, mayGo: (request: IngestRequest) => boolean): IngestRequest | undefined {
    for (const pool of this.#turns[line]) {
      const [request] = must(this.#shares.get(pool), 'the share of a pool that waits').lines[line]
      if (request !== undefined && mayGo(request)) return request
    }
    return undefined
  }

  /** The pool of `request` got its space: the next pool has the next turn. */
  endTurn(line: Line, request: IngestRequest): void {
    const pool = request.admission.target.poolNumber
    if (this.#turns[line].delete(pool)) this.#turns[line].add(pool)
  }

  /** Copies a chunk into the buffer. The caller has asked isFull(). */
  buffer(request: IngestRequest, chunk: Uint8Array, bytesMax: number): void {
    const end = request.bufferedBytes + chunk.byteLength
    if (end > request.buffer.byteLength) {
      const more = new Uint8Array(Math.max(end, Math.min(2 * request.bufferedBytes, bytesMax)))
      more.set(request.buffer.subarray(0, request.bufferedBytes))
      request.buffer = more
    }
    request.buffer.set(chunk, request.bufferedBytes)
    request.bufferedBytes = end
    this.#count(request, chunk.byteLength)
  }

  release(request: IngestRequest): void {
    if (request.bufferedBytes === 0) return
    this.#count(request, -request.bufferedBytes)
    this.#forget(request.admission.target.poolNumber)
    request.bufferedBytes = 0
    request.buffer = NO_BYTES
  }

  *expired(nowMs: number): Generator<IngestRequest, void, void> {
    for (const request of this.#all.keys()) {
      if (request.untilMs > nowMs) return
      yield request
    }
  }

  /**
   * The request to refuse when nothing more can wait: the newest one of the pool that has most
   * waiting, if that is more than twice what the pool of `request` has. Returns undefined where
   * `request` itself is to be refused.
   */
  victimFor(request: IngestRequest): IngestRequest | undefined {
    const byBytes = this.#all.size < WAITING_REQUESTS_MAX
    const sizeOf = ({ lines, bytes }: Share) => (byBytes ? bytes : lines.small.size + lines.large.size)
    const own = this.#shares.get(request.admission.target.poolNumber)
    let most: Share | undefined
    for (const share of this.#shares.values())
      if (most === undefined || sizeOf(share) > sizeOf(most)) most = share
    if (most === undefined || sizeOf(most) <= 2 * (own === undefined ? 0 : sizeOf(own))) return undefined
    return [...most.lines.large].at(-1) ?? [...most.lines.small].at(-1)
  }

  #count(request: IngestRequest, bytes: number): void {
    this.bytes += bytes
    this.#shareOf(request.admission.target.poolNumber).bytes += bytes
  }

  #shareOf(pool: number): Share {
    return getOrMake(this.#shares, pool, () => ({ lines: { small: new Set(), large: new Set() }, bytes: 0 }))
  }

  #forget(pool: number): void {
    const share = this.#shares.get(pool)
    if (share === undefined || share.bytes > 0) return
    if (share.lines.small.size + share.lines.large.size === 0) this.#shares.delete(pool)
  }
}

/** The line of a body: small for a complete one of at most SMALL_BODY_BYTES_MAX bytes. */
export function lineOf(complete: boolean, bytes: number): Line {
  return complete && bytes <= SMALL_BODY_BYTES_MAX ? 'small' : 'large'
}
