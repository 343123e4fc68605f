/**
 * One merge, from the pinned inputs to the files that go.
 *
 *   W-4  The replaced files are given up only after the swap's flush.
 *   W-6  What a merge wrote and no transaction names is removed at once: a rebuild would take it for the pool's newest
 *        truth over its range. Until it is durably gone no other merge of the pool begins. (After a crash the sweep removes
 *        it, and merges begin only after the sweep.)
 *   W-7  Retention is asked again before the swap: rows that are to be kept after all do not go.
 */
import type { SealCommitted, SwapCommit } from '../keys/protocol.ts'
import { assert } from '../util/assert.ts'
import { crashPoint } from '../util/crash.ts'
import { choose, isPartlyExpired, olderThan } from './choose.ts'
import type { MergeDone, MergeJob, Pace, PoolSegment } from './protocol.ts'
import { cutoffUs } from './retention.ts'
import { type CompactPool, figuresOf, type PinnedPool, type SchedulerCalls } from './scheduler-calls.ts'
import type { SwapCosts } from './swap-costs.ts'

/** What the scheduler says of the pool. */
interface MergeAsk {
  readonly pool: number
  /** Sealer.heldSegments: asked when the inputs are chosen, since the sealer may have taken some after the look. */
  readonly held: () => ReadonlySet<number>
  readonly quarantined: ReadonlySet<number>
  /** A retention pass is due: expired rows are a reason for a merge, not only left out of one. */
  readonly isRetentionDue: boolean
  /** What else goes on: how long the swap may take depends on it. */
  readonly pace: Pace
}

type MergeCalls = Pick<
  SchedulerCalls,
  | 'merger'
  | 'clock'
  | 'pool'
  | 'emptied'
  | 'takeSegmentNumber'
  | 'pin'
  | 'swap'
  | 'apply'
  | 'unlink'
  | 'onMerged'
>

/** Merges, and remembers files that could not be removed. */
export class Merges {
  readonly #calls: MergeCalls
  readonly #costs: SwapCosts
  /** Of merges that came to nothing; by pool. */
  readonly #orphans = new Map<number, number[]>()

  constructor(calls: MergeCalls, costs: SwapCosts) {
    this.#calls = calls
    this.#costs = costs
  }

  /**
   * Makes the next merge of a pool; false: there is none, or the pool is gone. A pool that is deleted meanwhile, or keeps its rows for
   * longer now, is no error: the result goes. Rejects with SegmentDamaged, SegmentsDisagree or Unavailable; then nothing has changed.
   */
  async one(ask: MergeAsk): Promise<boolean> {
    await this.#clear(ask.pool)
    const pinned = await this.#calls.pin(ask.pool)
    try {
      const job = this.#jobOf(ask, pinned)
      return job !== undefined && (await this.#make(ask.pool, job))
    } finally {
      pinned.release()
    }
  }

  /** A deleted pool's files go with its folder. */
  drop(pool: number): void {
    this.#orphans.delete(pool)
  }

  #jobOf(ask: MergeAsk, pinned: PinnedPool): MergeJob | undefined {
    const of = this.#calls.pool(ask.pool)
    if (of === undefined) return undefined
    const segments = pinned.segments.map(segmentOf)
    const givenUp = this.#calls.emptied(ask.pool)
    const held = ask.held()
    const expireBeforeUs = this.#cutoffUs(of)
    const choice = choose({
      segments,
      givenUp,
      isBarred: segment => held.has(segment) || ask.quarantined.has(segment),
      rowsMax: this.#costs.rowsMax(ask.pool, ask.pace),
      expireBeforeUs: ask.isRetentionDue ? expireBeforeUs : undefined,
    })
    const first = choice?.inputs[0]
    if (choice === undefined || first === undefined) return undefined
    const marksOf = new Map(pinned.segments.map(({ meta, marks }) => [meta.segment, marks]))
    return {
      poolId: of.poolId,
      plan: of.plan(first.planVersion),
      folder: of.folder,
      segment: this.#calls.takeSegmentNumber(ask.pool),
      inputs: choice.inputs.map(({ marked: _, ...meta }) => ({
        meta,
        marks: marksOf.get(meta.segment) ?? [],
      })),
      expireBeforeUs,
      older: olderThan(first.sequenceFrom, segments, givenUp),
    }
  }

  #cutoffUs(of: CompactPool): number | undefined {
    return cutoffUs(of.retentionDays, this.#calls.clock.wallMs())
  }

  /** Has it left out rows that the pool keeps by now? Its days were raised, or the wall clock went back. */
  #isTooStrict(of: CompactPool, { inputs, expireBeforeUs }: MergeJob): boolean {
    if (expireBeforeUs === undefined) return false
    const keepsFromUs = this.#cutoffUs(of) ?? Number.NEGATIVE_INFINITY
    return keepsFromUs < expireBeforeUs && inputs.some(({ meta }) => isPartlyExpired(meta, expireBeforeUs))
  }

  async #make(pool: number, job: MergeJob): Promise<boolean> {
    const { merger, clock, onMerged } = this.#calls
    const beginMs = clock.nowMs()
    let isSwapped = false
    try {
      const done = await merger.merge(job)
      crashPoint('compact.merged')
      if (job.expireBeforeUs !== undefined) crashPoint('retention.merged')
      const of = this.#calls.pool(pool)
      if (of === undefined || this.#isTooStrict(of, job)) return false
      check(job, done)
      const remove = job.inputs.map(({ meta }) => meta.segment)
      const swap: SwapCommit = { pool, add: done.meta, remove, keys: done.keys }
      // In one turn with the answer: the manifest takes commits in their order.
      await this.#calls.swap(swap).then(committed => {
        isSwapped = true
        if (job.expireBeforeUs !== undefined) crashPoint('retention.swapped')
        this.#apply(swap, committed)
      })
      onMerged(figuresOf(done, clock.nowMs() - beginMs))
      return true
    } finally {
      if (!isSwapped) await this.#discard(pool, job)
    }
  }

  #apply(swap: SwapCommit, committed: SealCommitted): void {
    crashPoint('compact.swapped')
    const usPerKey = swap.keys === undefined ? 0 : committed.usPerKey
    if (usPerKey !== undefined) this.#costs.learn(swap.pool, usPerKey)
    this.#calls.apply(swap, committed)
  }

  async #discard(pool: number, { folder, segment }: MergeJob): Promise<void> {
    try {
      await this.#calls.unlink(folder, [segment])
    } catch {
      // The disk refuses. #clear tries again before the pool's next merge; the sweep of the next start, if none comes.
      this.#orphans.set(pool, [...(this.#orphans.get(pool) ?? []), segment])
    }
  }

  async #clear(pool: number): Promise<void> {
    const orphans = this.#orphans.get(pool)
    const of = this.#calls.pool(pool)
    if (orphans === undefined || of === undefined) return
    await this.#calls.unlink(of.folder, orphans)
    this.#orphans.delete(pool)
  }
}

function segmentOf({ meta, marks }: PinnedPool['segments'][number]): PoolSegment {
  return { ...meta, marked: marks.reduce((sum, { rows }) => sum + rows.length, 0) }
}

/** The new segment stands for its inputs, and what made the merge worth it is gone: else it would be made for ever. */
function check({ inputs, segment, expireBeforeUs }: MergeJob, { meta }: MergeDone): void {
  if (meta === undefined) return
  assert(meta.segment === segment, 'a merge writes the segment it was told to')
  assert(
    meta.sequenceFrom <= (inputs[0]?.meta.sequenceFrom ?? 0) &&
      meta.sequenceTo >= (inputs.at(-1)?.meta.sequenceTo ?? Number.POSITIVE_INFINITY),
    'a merged segment covers its inputs',
  )
  const from = meta.timestampFromUs
  assert(
    expireBeforeUs === undefined || from === null || from >= expireBeforeUs,
    'expired rows do not outlive a merge',
  )
}
