/**
 * The tail: batches that are in the log and not yet sealed. Main thread; no loop over rows.
 *
 * W-9: the bytes of all pools' tails, those of running seals included, are counted against one maximum.
 * W-12, W-13: entries whose sequences interleave (one request's rows may stand in two batches) form a group, and a
 * seal takes whole groups: what it leaves has higher sequences than all it takes.
 */
import { batchRows } from '../batch/layout.ts'
import type { Plan } from '../batch/plan.ts'
import { TAIL_ENTRY_BYTES } from '../limits.ts'
import { assert, must } from '../util/assert.ts'
import type { Moment } from './due.ts'
import { ENTRY_WORDS, type TailEntry } from './protocol.ts'

/** Entries that are sealed together or not at all. */
export interface TailGroup {
  readonly plan: Plan
  entries: TailEntry[]
  rows: number
  bytes: number
  first: number
  last: number
  /** When its oldest row came. */
  readonly since: Moment
}

/** What one seal may take; it stops behind the group that reaches a limit. */
export interface TakeLimits {
  readonly rows: number
  readonly bytes: number
  readonly entries: number
}

/** Bytes of an entry as all limits count them. */
function entryBytes(entry: TailEntry): number {
  return entry.batch.byteLength + entry.requests.byteLength + TAIL_ENTRY_BYTES
}

/** One pool's tail. */
export class PoolTail {
  #groups: TailGroup[] = []
  rows = 0
  bytes = 0
  entries = 0

  get isEmpty(): boolean {
    return this.#groups.length === 0
  }

  /** The lowest sequence in it; undefined when empty. */
  get first(): number | undefined {
    return this.#groups[0]?.first
  }

  /** When its oldest row came; undefined when empty. */
  get since(): Moment | undefined {
    return this.#groups[0]?.since
  }

  /** Appends one batch; its requests are in ascending order of their sequences. Returns its bytes. */
  append(plan: Plan, entry: TailEntry, now: Moment): number {
    const { requests } = entry
    assert(requests.length >= ENTRY_WORDS, 'an entry has a request')
    let group: TailGroup = {
      plan,
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
      group = merged(before, group)
      this.#groups.pop()
    }
    this.#groups.push(group)
    return bytes
  }

  /** How far it is to the first of the limits; 1 and more: it is there. */
  fullness(limits: TakeLimits): number {
    const { rows, bytes, entries } = this
    return Math.max(rows / limits.rows, bytes / limits.bytes, entries / limits.entries)
  }

  /** The oldest groups, all of one plan version, up to the limits; at least one. */
  take(limits: TakeLimits): TailGroup[] {
    const head = must(this.#groups[0], 'a group of the tail')
    let [count, rows, bytes, entries] = [0, 0, 0, 0]
    for (const group of this.#groups) {
      if (group.plan.version !== head.plan.version) break
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

  /** Puts groups of a failed seal back to the front. */
  giveBack(groups: readonly TailGroup[]): void {
    const last = groups.at(-1)
    assert(
      last !== undefined && last.last < (this.first ?? Number.POSITIVE_INFINITY),
      'groups keep their order',
    )
    for (const group of groups) this.#count(group, 1)
    this.#groups = [...groups, ...this.#groups]
  }

  #count(group: TailGroup, sign: 1 | -1): void {
    this.rows += sign * group.rows
    this.bytes += sign * group.bytes
    this.entries += sign * group.entries.length
    assert(this.rows >= 0 && this.bytes >= 0 && this.entries >= 0, 'a tail holds what it counts')
  }
}

function merged(before: TailGroup, group: TailGroup): TailGroup {
  assert(before.plan.version === group.plan.version, 'requests of two plans do not interleave')
  return {
    plan: before.plan,
    entries: [...before.entries, ...group.entries],
    rows: before.rows + group.rows,
    bytes: before.bytes + group.bytes,
    first: Math.min(before.first, group.first),
    last: Math.max(before.last, group.last),
    since: before.since,
  }
}

/** The bytes of all tails against their maximum (W-9). */
export class TailBudget {
  readonly #bytesMax: number
  #bytes = 0
  #isAwaited = false
  /** Called when there is room again after `roomFor` said no. */
  onRoom: () => void = () => {}

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes
  }

  /** May `bytes` more come? An empty tail takes anything. */
  roomFor(bytes: number): boolean {
    const isRoom = this.#bytes === 0 || this.#bytes + bytes <= this.#bytesMax
    if (!isRoom) this.#isAwaited = true
    return isRoom
  }

  add(bytes: number): void {
    this.#bytes += bytes
  }

  remove(bytes: number): void {
    assert(bytes <= this.#bytes, 'no more leaves the tail than came')
    this.#bytes -= bytes
    if (!this.#isAwaited || this.#bytes >= this.#bytesMax) return
    this.#isAwaited = false
    this.onRoom()
  }
}
