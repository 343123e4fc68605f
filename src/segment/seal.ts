/** One seal under way, and the pool it belongs to. */
import type { SealCommit } from '../keys/protocol.ts'
import { assert } from '../util/assert.ts'
import type { KeptSegment } from './kept.ts'
import type { SealDone, SealJob, TailEntry } from './protocol.ts'
import { PoolTail, type TailGroup } from './tail.ts'

/** What the sealer is told of a pool. */
export interface SealPool {
  /** Its number in the log and the index. */
  readonly pool: number
  readonly poolId: string
  /** Absolute folder of its segments. */
  readonly folder: string
  /** Above every number that a file of the pool has. */
  readonly nextSegment: number
}

interface SealWaiter {
  /** Resolved when everything up to this sequence is sealed. */
  readonly sequence: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** Why a pool stands in line for a seal; see ready.ts. */
export type Lane = 'urgent' | 'aged'

/** A pool as the sealer keeps it. */
export class PoolState {
  readonly of: SealPool
  readonly tail = new PoolTail()
  /** In order. */
  underWay: Seal[] = []
  waiters: SealWaiter[] = []
  nextSegment: number
  /** The last sequence appended. */
  lastSequence = 0
  /** After a failure nothing is tried until then; monotonic ms, 0: no failure. */
  retryAtMs = 0
  /** Durable files of failed seals: unlinked before the next one is written. */
  orphans: number[] = []
  /** The last such removal. */
  unlinking = Promise.resolve()
  /** Where it stands in line for a seal; undefined: nowhere. */
  lane: Lane | undefined
  /** Its tail is one of the largest while all together are too large. */
  isTooLarge = false
  isDropped = false
  /** Of a dropped pool: files being unlinked. */
  discards: Promise<void>[] = []

  constructor(of: SealPool) {
    this.of = of
    this.nextSegment = of.nextSegment
  }

  /** Nothing is unsealed. */
  get isClean(): boolean {
    return this.tail.isEmpty && this.underWay.length === 0
  }

  /** Rows and deletes that are not sealed. */
  get unsealedRows(): number {
    return this.underWay.reduce((sum, seal) => sum + seal.rows, this.tail.rows)
  }

  /** The lowest unsealed sequence, undefined where there is none. */
  get firstUnsealed(): number | undefined {
    return this.underWay[0]?.first ?? this.tail.first
  }
}

/**
 *   waiting   its entries are here
 *   writing   its entries are in the segment thread
 *   written   its files are durable, its entries are here
 *   indexing  the index commits it
 */
type SealPhase = 'waiting' | 'writing' | 'written' | 'indexing'

/** One seal: groups of the tail, and kept segments that are written again with them. */
export class Seal {
  readonly state: PoolState
  readonly segment: number
  readonly groups: readonly TailGroup[]
  readonly taken: readonly KeptSegment[]
  readonly first: number
  readonly last: number
  /** Of the groups alone: what the tail counts. */
  readonly bytes: number
  readonly rows: number
  /** Of SEALS_SMALL for a full one: how much of what may be under way it takes up. */
  readonly weight: number
  /** Monotonic: when it began. */
  readonly beginMs: number
  /** Monotonic: when the oldest row of its groups came into the tail, right after its sync. */
  readonly oldestMs: number
  phase: SealPhase = 'waiting'
  /** It, or one before it in its pool, failed: it is given back once its entries are here. */
  hasFailed = false
  /** It may have left files. */
  isPosted = false
  done: SealDone | undefined

  constructor(
    state: PoolState,
    groups: readonly TailGroup[],
    taken: readonly KeptSegment[],
    beginMs: number,
    weight: number,
  ) {
    this.state = state
    this.segment = state.nextSegment++
    this.groups = groups
    this.taken = taken
    this.first = groups[0]!.first
    this.last = groups.at(-1)!.last
    this.bytes = groups.reduce((sum, group) => sum + group.bytes, 0)
    this.rows = groups.reduce((sum, group) => sum + group.rows, 0)
    this.weight = weight
    this.beginMs = beginMs
    this.oldestMs = groups.reduce((oldest, group) => Math.min(oldest, group.since.ms), beginMs)
  }

  /** Of the new segment: it covers the segments that it replaces. */
  get sequenceFrom(): number {
    return this.taken.reduce((least, kept) => Math.min(least, kept.first), this.first)
  }

  /** Kept entries come first: they are older. */
  job(): SealJob {
    return {
      poolId: this.state.of.poolId,
      plan: this.groups[0]!.plan,
      segment: this.segment,
      folder: this.state.of.folder,
      entries: [...this.taken, ...this.groups].flatMap(part => part.entries),
      replaces: this.taken.map(kept => kept.segment),
      sequenceFrom: this.sequenceFrom,
      sequenceTo: this.last,
      giveBack: true,
    }
  }

  /** Puts entries that came back where they were. */
  takeBack(entries: readonly TailEntry[]): void {
    let from = 0
    for (const part of [...this.taken, ...this.groups]) {
      const to = from + part.entries.length
      part.entries = entries.slice(from, to)
      from = to
    }
    assert(from === entries.length, 'all entries came back')
  }

  commit(): SealCommit {
    return {
      pool: this.state.of.pool,
      add: this.done?.meta,
      remove: this.taken.map(kept => kept.segment),
      keys: this.done?.keys,
      sealedSequence: this.last,
    }
  }

  /** The new segment as the next seal may take it. */
  kept(): KeptSegment {
    const parts = [...this.taken, ...this.groups]
    return {
      segment: this.segment,
      planVersion: this.groups[0]!.plan.version,
      rows: parts.reduce((sum, part) => sum + part.rows, 0),
      bytes: parts.reduce((sum, part) => sum + part.bytes, 0),
      first: this.sequenceFrom,
      last: this.last,
      entries: parts.flatMap(part => part.entries),
    }
  }
}
