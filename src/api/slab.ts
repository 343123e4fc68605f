/**
 * Slabs: shared memory that holds bodies between admission and ack.
 *
 *   … │ 64 bytes for the record header │ body │ zeros to a multiple of 8 │ 64 bytes for … │ body │ …
 *
 *   W-9  There are at most SLABS_MAX of them. SLABS_SMALL_MIN take only small bodies that came in one piece:
 *        those stay for milliseconds, so slow uploads never stop them.
 *
 * A slab counts its users: every body from place() to release(). It is used again once nobody is left.
 */

import { align8 } from '../batch/layout.ts'
import { RECORD_HEADER_BYTES } from '../commit/record.ts'
import { SLAB_BYTES, SLAB_TAIL_BYTES, SLABS_MAX, SLABS_SMALL_MIN } from '../limits.ts'
import { assert } from '../util/assert.ts'

/** Where a body stands. */
interface Place<T> {
  readonly slab: Slab<T>
  /** Byte offset of the body; the record header's room is directly in front of it. */
  readonly offset: number
}

/** One slab. `T` is what waits in it to be cut. */
export class Slab<T> {
  readonly memory = new SharedArrayBuffer(SLAB_BYTES)
  readonly bytes = Buffer.from(this.memory)
  /** Complete bodies, oldest first; the dispatcher's. */
  ready: T[] = []
  /** What they may become: their bodies decoded, and their batches. */
  readyBytes = 0
  readyCutBytes = 0
  used = 0
  users = 0
  /** Takes further bodies. */
  filling = false
  /** Counts against the large bodies' share. */
  large = false
}

/**
 * Copies bytes into a slab.
 *
 * NOTE: `set()` into shared memory copies byte by byte where the two are not aligned alike, as chunks from a
 * socket are: 88 µs for 221 kB. `Buffer.fill` with bytes is a memcpy: 12 µs.
 */
export function copyIn(slab: Slab<unknown>, offset: number, bytes: Uint8Array): void {
  if (bytes.byteLength > 0) slab.bytes.fill(bytes, offset, offset + bytes.byteLength)
}

export class SlabPool<T> {
  readonly #free: Slab<T>[] = []
  #made = 0
  #largeInUse = 0
  #small: Slab<T> | undefined
  #large: Slab<T> | undefined
  /** Called when a slab may be had again. */
  onFree: () => void = () => {}

  /** Slabs that hold a body. */
  get inUse(): number {
    const idle = (this.#small?.users === 0 ? 1 : 0) + (this.#large?.users === 0 ? 1 : 0)
    return this.#made - this.#free.length - idle
  }

  /** Room for a body of so many bytes, or undefined: every slab is in use. */
  place(bodyBytes: number, large: boolean): Place<T> | undefined {
    const slab = this.#slabWith(RECORD_HEADER_BYTES + align8(bodyBytes), large)
    if (slab === undefined) return undefined
    const offset = slab.used + RECORD_HEADER_BYTES
    slab.used = offset + align8(bodyBytes)
    slab.users += 1
    slab.bytes.fill(0, offset + bodyBytes, slab.used)
    return { slab, offset }
  }

  /** A body turned out shorter than its place: zeros end it, and what is left over is given back if possible. */
  shrink(place: Place<T>, capacity: number, bodyBytes: number): void {
    const slab = place.slab
    const end = place.offset + align8(bodyBytes)
    slab.bytes.fill(0, place.offset + bodyBytes, end)
    if (slab.used === place.offset + align8(capacity)) slab.used = end
  }

  /** A body is not needed any more. */
  release(slab: Slab<T>): void {
    assert(slab.users > 0, 'a slab is released as often as it was taken')
    slab.users -= 1
    if (slab.users > 0) return
    slab.used = 0
    if (!slab.filling) this.#giveBack(slab)
    this.onFree()
  }

  #slabWith(bytes: number, large: boolean): Slab<T> | undefined {
    const open = large ? this.#large : this.#small
    if (open !== undefined && open.used + bytes + SLAB_TAIL_BYTES <= SLAB_BYTES) return open
    // `open` is not empty, so it has users and comes back through release().
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
    const slab = this.#free.pop() ?? this.#make()
    if (slab === undefined) return undefined
    slab.large = large
    if (large) this.#largeInUse += 1
    return slab
  }

  #make(): Slab<T> | undefined {
    if (this.#made >= SLABS_MAX) return undefined
    this.#made += 1
    return new Slab<T>()
  }

  #giveBack(slab: Slab<T>): void {
    if (slab.large) this.#largeInUse -= 1
    this.#free.push(slab)
  }
}
