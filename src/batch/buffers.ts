/**
 * Memory of batches, used again and again.
 *
 * A batch lives from its cut to its seal, 200 MB of them a second under load. As ordinary ArrayBuffers they made every
 * thread that they passed collect garbage all the time (a fifth of the processor, docs/decisions/0003). In shared memory
 * of a few sizes they pass between threads by reference, and the sealer gives them back when their rows are sealed.
 *
 *   parse worker   takes one, or makes one        (BufferShelf)
 *   main thread    tail, seal, kept rows          whoever drops the last entry calls give()
 *   main thread    sends freed ones with jobs     (FreedBuffers)
 */
import { BATCH_SHELF_BYTES_MAX, FREED_BYTES_MAX, FREED_PER_JOB_MAX } from '../limits.ts'

/** An event of a few hundred bytes takes about 800: thousands of pools post one at a time. */
const SMALLEST_BYTES = 512

/** The size that a batch of `bytes` bytes is kept in: the next of four steps between powers of two. */
export function bufferBytes(bytes: number): number {
  if (bytes <= SMALLEST_BYTES) return SMALLEST_BYTES
  const step = 2 ** (Math.floor(Math.log2(bytes - 1)) - 2)
  return Math.ceil(bytes / step) * step
}

/**
 * One parse worker's stock. Beyond BATCH_SHELF_BYTES_MAX the sizes that were asked for longest ago are left to the
 * garbage collector, so that the shelf follows what is posted.
 */
export class BufferShelf {
  /** In the order in which the sizes were last asked for. */
  readonly #bySize = new Map<number, SharedArrayBuffer[]>()
  #bytes = 0

  put(buffer: SharedArrayBuffer): void {
    const same = this.#bySize.get(buffer.byteLength)
    if (same === undefined) this.#bySize.set(buffer.byteLength, [buffer])
    else same.push(buffer)
    this.#bytes += buffer.byteLength
    for (const [size, buffers] of this.#bySize) {
      while (this.#bytes > BATCH_SHELF_BYTES_MAX && buffers.pop() !== undefined) this.#bytes -= size
      if (this.#bytes <= BATCH_SHELF_BYTES_MAX) return
      this.#bySize.delete(size)
    }
  }

  /** At least `bytes` bytes, with whatever stood in them before. */
  take(bytes: number): SharedArrayBuffer {
    const size = bufferBytes(bytes)
    const same = this.#bySize.get(size) ?? []
    this.#bySize.delete(size)
    this.#bySize.set(size, same)
    const kept = same.pop()
    if (kept === undefined) return new SharedArrayBuffer(size)
    this.#bytes -= size
    return kept
  }
}

/** The main thread's side: what was freed waits here for the next job. */
export class FreedBuffers {
  #buffers: SharedArrayBuffer[] = []
  #bytes = 0

  /** The batch's rows are sealed and no entry holds it any more. */
  give(batch: ArrayBuffer | SharedArrayBuffer): void {
    if (!(batch instanceof SharedArrayBuffer) || this.#bytes + batch.byteLength > FREED_BYTES_MAX) return
    this.#buffers.push(batch)
    this.#bytes += batch.byteLength
  }

  /** Up to `count` of them, a few at a time, for one job. */
  take(count: number): readonly SharedArrayBuffer[] {
    const few = Math.min(count, FREED_PER_JOB_MAX)
    const taken = few > 0 ? this.#buffers.splice(-few) : []
    for (const buffer of taken) this.#bytes -= buffer.byteLength
    return taken
  }
}
