/**
 * The memtable: batches that are in the log and not yet flushed. Main thread; no loop over rows.
 *
 *   W-9         The bytes of all memtables, running flushes included, count against one maximum.
 *   W-12, W-13  Entries whose sequences interleave form a group (one request's rows may be in two
 *               batches). A flush takes whole groups, so it leaves only higher sequences than it
 *               takes.
 */
import { type BatchBuffer, batchRows } from '../../format/batch-layout.ts'
import type { PoolSchema } from '../../format/schema.ts'
import { assert, must } from '../../util/errors.ts'
import { KiB } from '../../util/limits.ts'

/**
 * Bytes of objects per batch in a memtable, on both sides of V8. A standalone script measured it.
 */
const MEMTABLE_ENTRY_BYTES = 1 * KiB

/** A batch in a memtable, with the requests whose rows it holds. */
export interface MemtableEntry {
  readonly kind: 'post' | 'delete'
  readonly batch: BatchBuffer
  /**
   * ENTRY_WORDS for each request, in the batch's row order: sequence, received-at of its first row
   * in µs, rows, and the step in µs from a row's received-at to the next row's (ReceivedAtStepUs).
   */
  readonly requests: Float64Array
}

export const ENTRY_WORDS = 4

/** A point in time and in the log. The age of a row is measured by both. */
export interface Moment {
  /** Monotonic. */
  readonly ms: number
  /** Bytes written to the log since the start. */
  readonly logBytes: number
}

/** Entries that are flushed together or not at all. */
export interface MemtableGroup {
  readonly schema: PoolSchema
  readonly entries: readonly MemtableEntry[]
  rows: number
  bytes: number
  first: number
  last: number
  /** When its oldest row came. */
  readonly since: Moment
}

/** Limits of one flush. It ends with the group that reaches one of them. */
export interface FlushLimits {
  readonly rows: number
  readonly bytes: number
  readonly entries: number
}

/** The size of an entry as all limits count it. */
function entryBytes(entry: MemtableEntry): number {
  return entry.batch.byteLength + entry.requests.byteLength + MEMTABLE_ENTRY_BYTES
}

export class PoolMemtable {
  #groups: MemtableGroup[] = []
  rows = 0
  bytes = 0
  entries = 0

  get isEmpty(): boolean {
    return this.#groups.length === 0
  }

  /** The lowest sequence; undefined when empty. */
  get first(): number | undefined {
    return this.#groups[0]?.first
  }

  /** When its oldest row came; undefined when empty. */
  get since(): Moment | undefined {
    return this.#groups[0]?.since
  }

  /** Appends one batch, whose requests ascend by sequence. Returns its bytes. */
  append(schema: PoolSchema, entry: MemtableEntry, now: Moment): number {
    const { requests } = entry
    assert(requests.length >= ENTRY_WORDS, 'an entry has a request')
    let group: MemtableGroup = {
      schema,
      entries: [entry],
      rows: batchRows(entry.batch),
      bytes: entryBytes(entry),
      first: requests[0]!,
      last: requests[requests.length - ENTRY_WORDS]!,
      since: now,
    }
    this.#count(group, 1)
    const bytes = group.bytes
    for (let before = this.#groups.at(-1); before !== undefined; before = this.#groups.at(-1)) {
      if (before.last < group.first) break
      group = joinGroups(before, group)
      this.#groups.pop()
    }
    this.#groups.push(group)
    return bytes
  }

  /** The largest share of a limit that is used; at 1 or more the memtable is full. */
  fullness(limits: FlushLimits): number {
    const { rows, bytes, entries } = this
    return Math.max(rows / limits.rows, bytes / limits.bytes, entries / limits.entries)
  }

  /** Takes the oldest groups, all of one schema version, up to the limits; at least one. */
  take(limits: FlushLimits): MemtableGroup[] {
    const oldest = must(this.#groups[0], 'a group of the memtable')
    let [count, rows, bytes, entries] = [0, 0, 0, 0]
    for (const group of this.#groups) {
      if (group.schema.version !== oldest.schema.version) break
      count++
      rows += group.rows
      bytes += group.bytes
      entries += group.entries.length
      if (rows >= limits.rows || bytes >= limits.bytes || entries >= limits.entries) break
    }
    const taken = this.#groups.splice(0, count)
    for (const group of taken) this.#count(group, -1)
    return taken
  }

  /** Puts groups of a failed flush back to the front. */
  giveBack(groups: readonly MemtableGroup[]): void {
    const last = groups.at(-1)
    assert(
      last !== undefined && last.last < (this.first ?? Number.POSITIVE_INFINITY),
      'groups keep their order',
    )
    for (const group of groups) this.#count(group, 1)
    this.#groups = [...groups, ...this.#groups]
  }

  #count(group: MemtableGroup, sign: 1 | -1): void {
    this.rows += sign * group.rows
    this.bytes += sign * group.bytes
    this.entries += sign * group.entries.length
    assert(
      this.rows >= 0 && this.bytes >= 0 && this.entries >= 0,
      'the counts of a memtable are never negative',
    )
  }
}

function joinGroups(before: MemtableGroup, group: MemtableGroup): MemtableGroup {
  assert(before.schema.version === group.schema.version, 'requests of two schema versions do not interleave')
  return {
    schema: before.schema,
    entries: [...before.entries, ...group.entries],
    rows: before.rows + group.rows,
    bytes: before.bytes + group.bytes,
    first: Math.min(before.first, group.first),
    last: Math.max(before.last, group.last),
    since: before.since,
  }
}

/** Counts the bytes of all memtables against their maximum (W-9). */
export class MemtableBudget {
  readonly #bytesMax: number
  #bytes = 0
  #isAwaited = false
  /** Called when there is room again after `roomFor` returned false. */
  onRoom: () => void = () => {}

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes
  }

  /** True when `bytes` more may be appended. An empty memtable takes any number. */
  roomFor(bytes: number): boolean {
    const isRoom = this.#bytes === 0 || this.#bytes + bytes <= this.#bytesMax
    if (!isRoom) this.#isAwaited = true
    return isRoom
  }

  add(bytes: number): void {
    this.#bytes += bytes
  }

  remove(bytes: number): void {
    assert(bytes <= this.#bytes, 'no more bytes leave the memtable than came')
    this.#bytes -= bytes
    if (!this.#isAwaited || this.#bytes >= this.#bytesMax) return
    this.#isAwaited = false
    this.onRoom()
  }
}
