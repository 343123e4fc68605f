/**
 * The memory of batches is used again and again (docs/decisions/0003). A batch lives from its parse
 * task to its flush. V8 does not count shared memory, so a dropped buffer stays for minutes: one is
 * made only when none fits.
 *
 *   main thread    forTask() gives each parse task the buffers that it probably needs
 *   parse worker   takeFitting() uses a given buffer that fits, or makes one
 *   main thread    takeBack() gets back the unused ones with the result
 *   main thread    give() gets back a used one when no memtable entry holds its batch
 *
 *   W-9  The stock holds at most FREED_BYTES_MAX. trim() drops the buffers that nobody took between
 *        two calls.
 */
import { type BatchBuffer, batchBytes, batchColumns, batchFixedBytes } from '../format/batch-layout.ts'
import { MEMTABLE_BYTES_MAX } from '../util/limits.ts'
import { FLAG, REQUEST, REQUEST_WORDS } from './kernel.ts'
import type { ParsedBatch, ParseResult, ParseTask, ParseTaskGroup } from './parse-task.ts'

/** Sizes of last batches that are remembered, by pool, kind and magnitude of the body. */
const BATCH_SIZES_MAX = 32_768
/** Bytes of unused batch memory that waits for parse tasks: a flush of all memtables frees it. */
export const FREED_BYTES_MAX = MEMTABLE_BYTES_MAX

/** An event of a few hundred bytes takes about 800: thousands of pools post one at a time. */
const SMALLEST_BYTES = 512
/** A request may get a buffer that is up to this many sizes larger, which is twice as large. */
const SIZES_ABOVE = 4
/** A worker leaves a given buffer unused where it is this many times larger than its batch. */
const TOO_LARGE = 4
/** Estimates and new buffers are a little larger than the last batch was. */
const MARGIN = 1.0625

/** The size of the buffer for a batch: there are four sizes between powers of two. */
export function bufferBytes(bytes: number): number {
  if (bytes <= SMALLEST_BYTES) return SMALLEST_BYTES
  const step = 2 ** (Math.floor(Math.log2(bytes - 1)) - 2)
  return Math.ceil(bytes / step) * step
}

/** Unused buffers of one size: last in, first out. */
interface Stack {
  readonly buffers: SharedArrayBuffer[]
  /** The lowest number of buffers since the last trim: so many of them nobody needed meanwhile. */
  unused: number
}

/** The one stock of unused buffers, on the main thread. */
export class BatchBuffers {
  readonly #estimates = new SizeEstimates()
  /** By size. */
  readonly #stacks = new Map<number, Stack>()
  #bytes = 0

  /** Bytes of the unused buffers. */
  get bytes(): number {
    return this.#bytes
  }

  /** Takes back a buffer that nobody uses. A full stock leaves it to the garbage collector. */
  give(buffer: BatchBuffer): void {
    const bytes = buffer.byteLength
    if (!(buffer instanceof SharedArrayBuffer) || this.#bytes + bytes > FREED_BYTES_MAX) return
    const stack = this.#stacks.get(bytes) ?? { buffers: [], unused: 0 }
    stack.buffers.push(buffer)
    this.#stacks.set(bytes, stack)
    this.#bytes += bytes
  }

  /** The smallest unused buffer that fits; undefined where all are more than twice as large. */
  take(bytes: number): SharedArrayBuffer | undefined {
    let size = bufferBytes(bytes)
    for (let above = 0; above <= SIZES_ABOVE; above += 1, size = bufferBytes(size + 1)) {
      const stack = this.#stacks.get(size)
      const buffer = stack?.buffers.pop()
      if (stack === undefined || buffer === undefined) continue
      stack.unused = Math.min(stack.unused, stack.buffers.length)
      this.#bytes -= buffer.byteLength
      return buffer
    }
    return undefined
  }

  /** Buffers for the batches that a task will probably make. */
  forTask(task: ParseTask): SharedArrayBuffer[] {
    const buffers: SharedArrayBuffer[] = []
    for (const bytes of this.#estimates.ofTask(task)) {
      const buffer = this.take(bytes)
      if (buffer !== undefined) buffers.push(buffer)
    }
    return buffers
  }

  /** Takes back unused buffers, and learns how large the next batches will be. */
  takeBack(task: ParseTask, { unusedBuffers, batches }: ParseResult): void {
    for (const buffer of unusedBuffers ?? []) this.give(buffer)
    this.#estimates.learn(task, batches)
  }

  /** Leaves to the garbage collector the buffers that nobody has taken since the last call. */
  trim(): void {
    for (const stack of this.#stacks.values()) {
      for (const buffer of stack.buffers.splice(0, stack.unused)) this.#bytes -= buffer.byteLength
      stack.unused = stack.buffers.length
    }
  }
}

/** Bytes that every batch of its columns has, and bytes for each byte of its bodies. */
interface Estimate {
  readonly fixedBytes: number
  readonly perByte: number
}

/**
 * Remembers from the last batch of each pool, kind and order of magnitude how large the next ones
 * will be. A single event and 500 differ in how many bytes of a batch come from a byte of the body.
 */
class SizeEstimates {
  /** Bounded: the oldest goes. */
  readonly #estimates = new Map<number, Estimate>()

  /** The sizes of the batches that a task will probably make, in the worker's order. */
  ofTask({ table, groups }: ParseTask): number[] {
    const sizes: number[] = []
    for (const group of groups) {
      let plainBytes = 0
      for (let request = group.from; request < group.to; request += 1)
        if (!isReceived(table, request)) plainBytes += bodyBytes(table, request)
      if (plainBytes > 0) this.#push(sizes, group, false, plainBytes)
      // The worker makes a batch of each received body, after the others of its group.
      for (let request = group.from; request < group.to; request += 1)
        if (isReceived(table, request)) this.#push(sizes, group, true, bodyBytes(table, request))
    }
    return sizes
  }

  #push(sizes: number[], group: ParseTaskGroup, received: boolean, bytes: number): void {
    const known = this.#estimates.get(keyOf(group, received, bytes))
    if (known !== undefined) sizes.push(Math.ceil(MARGIN * (known.fixedBytes + known.perByte * bytes)))
  }

  /** Learns from a task's batches. They are in the order of the task's groups. */
  learn({ table, groups }: ParseTask, batches: readonly ParsedBatch[]): void {
    let index = 0
    for (const { batch, requests } of batches) {
      const first = requests[0]!
      while (first >= groups[index]!.to) index += 1
      let bytes = 0
      for (const request of requests) bytes += bodyBytes(table, request)
      const total = batchBytes(batch)
      const fixedBytes = Math.min(batchFixedBytes(batchColumns(batch)), total)
      const key = keyOf(groups[index]!, isReceived(table, first), bytes)
      if (this.#estimates.size >= BATCH_SIZES_MAX && !this.#estimates.has(key))
        this.#estimates.delete(this.#estimates.keys().next().value as number)
      this.#estimates.set(key, { fixedBytes, perByte: (total - fixedBytes) / bytes })
    }
  }
}

function keyOf({ pool, kind }: ParseTaskGroup, received: boolean, bytes: number): number {
  const magnitude = 31 - Math.clz32(bytes)
  return 128 * pool + 4 * magnitude + (kind === 'delete' ? 2 : 0) + (received ? 1 : 0)
}

function isReceived(table: Float64Array, request: number): boolean {
  return (table[request * REQUEST_WORDS + REQUEST.flags]! & FLAG.received) !== 0
}

function bodyBytes(table: Float64Array, request: number): number {
  return table[request * REQUEST_WORDS + REQUEST.bytes]!
}

/**
 * A worker's buffer for a batch of `bytes` bytes: the first of `given` that fits, which leaves the
 * list, or a new one. They stand in the order in which they are needed.
 */
export function takeFitting(given: SharedArrayBuffer[], bytes: number): SharedArrayBuffer {
  const size = bufferBytes(Math.ceil(MARGIN * bytes))
  for (let index = 0; index < given.length; index += 1) {
    const buffer = given[index]!
    if (buffer.byteLength < bytes || buffer.byteLength > TOO_LARGE * size) continue
    given.splice(index, 1)
    return buffer
  }
  return new SharedArrayBuffer(size)
}
