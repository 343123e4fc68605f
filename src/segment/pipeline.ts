/**
 * Seals under way: synced log → segment thread → index, in each pool's order.
 *
 * W-13: the log is synced before a seal's rows are written. W-5: the index hears of a seal only when its files are
 * durable. W-4: a seal counts, and its entries leave the tail, only after the index's flush.
 *
 * While the index commits, the segment thread writes the next seal; all that is written when the index becomes free
 * goes into its next transaction. When a seal fails, it and all later ones of its pool go back to the tail: the
 * index's sealed sequence never jumps over rows that are not sealed.
 *
 * Entries always come back from the segment thread: a commit that fails must be able to give them back.
 */
import { Unavailable } from '../errors.ts'
import type { SealCommit, SealCommitted } from '../keys/protocol.ts'
import { AssertionFailed, assert } from '../util/assert.ts'
import { SealFailed, type SegmentWriter } from './protocol.ts'
import type { PoolState, Seal } from './seal.ts'

/** A seal that counts: what main.ts brings into the manifest. */
export interface SealedSegment {
  /** As it was given to the index; its keys are moved and empty. */
  readonly commit: SealCommit
  readonly committed: SealCommitted
  /** Monotonic ms: when the seal began, and when its oldest row came into the tail. */
  readonly beginMs: number
  readonly oldestMs: number
  /** Rows that the seal took from the tail. */
  readonly rows: number
}

/** What the pipeline is given. */
interface PipelineCalls {
  readonly writer: SegmentWriter
  /** KeyIndex.commit. */
  readonly commit: (seals: readonly SealCommit[]) => Promise<readonly SealCommitted[]>
  /** Syncs the log up to everything appended before the call. */
  readonly syncLog: () => Promise<void>
  /** A seal is flushed; called in each pool's order. */
  readonly onCommitted: (seals: readonly { readonly seal: Seal; readonly sealed: SealedSegment }[]) => void
  /** The pool's failed seals are all back, or (a dropped pool) one more is gone. */
  readonly onBack: (state: PoolState, seals: readonly Seal[]) => void
  /** A seal failed; called once for each failure, before its entries are back. */
  readonly onFailed: (state: PoolState, error: Error) => void
  /** The entries of a seal are lost: the process must end. */
  readonly onFatal: (error: Error) => void
}

export class Pipeline {
  readonly #calls: PipelineCalls
  readonly #written = new Set<PoolState>()
  #isIndexing = false
  #count = 0
  #weight = 0
  #bytes = 0

  constructor(calls: PipelineCalls) {
    this.#calls = calls
  }

  /** Seals under way, of all pools. */
  get count(): number {
    return this.#count
  }

  /** Their weights together. */
  get weight(): number {
    return this.#weight
  }

  /** What they took from the tails. */
  get bytes(): number {
    return this.#bytes
  }

  /** Starts a seal. */
  start(seal: Seal): void {
    this.#add([seal], 1)
    seal.state.underWay.push(seal)
    this.#write(seal).catch(this.#calls.onFatal)
  }

  /** Gives up a pool's seals: those not yet with the index come back. */
  giveUp(state: PoolState): void {
    for (const seal of state.underWay) if (seal.phase !== 'indexing') seal.hasFailed = true
    this.#settleFailed(state)
  }

  #add(seals: readonly Seal[], sign: 1 | -1): void {
    this.#count += sign * seals.length
    for (const seal of seals) {
      this.#weight += sign * seal.weight
      this.#bytes += sign * seal.bytes
    }
  }

  async #write(seal: Seal): Promise<void> {
    const { state } = seal
    try {
      await this.#calls.syncLog()
      // Before and after: what a seal that failed had written is another's to remove.
      if (!seal.hasFailed) await this.#unlinkOrphans(state)
      if (seal.hasFailed) {
        this.#settleFailed(state)
        return
      }
      seal.phase = 'writing'
      seal.isPosted = true
      seal.done = await this.#calls.writer.seal(seal.job())
    } catch (error) {
      this.#writeFailed(seal, error as Error)
      return
    }
    seal.phase = 'written'
    seal.takeBack(seal.done.entries)
    if (seal.hasFailed) {
      this.#settleFailed(state)
      return
    }
    this.#written.add(state)
    this.#index().catch(this.#calls.onFatal)
  }

  #writeFailed(seal: Seal, error: Error): void {
    if (error instanceof AssertionFailed) {
      this.#calls.onFatal(error)
      return
    }
    if (seal.phase === 'writing') {
      if (!(error instanceof SealFailed)) {
        this.#calls.onFatal(error)
        return
      }
      seal.takeBack(error.entries)
      seal.phase = 'waiting'
    }
    this.#fail(seal, error)
  }

  /**
   * Files of failed seals are gone for good before new ones are written: a rebuild must not find both. The newest goes first:
   * a rebuild takes the last segment for the end of all that is sealed. Seals of a pool wait for the same removal, and so go on in
   * their order.
   */
  #unlinkOrphans(state: PoolState): Promise<void> {
    if (state.orphans.length > 0) state.unlinking = this.#unlink(state, state.orphans.splice(0))
    return state.unlinking
  }

  async #unlink(state: PoolState, orphans: readonly number[]): Promise<void> {
    try {
      for (const segment of orphans.toSorted((a, b) => b - a))
        await this.#calls.writer.unlink(state.of.folder, [segment])
    } catch (error) {
      state.orphans.push(...orphans)
      throw error
    }
  }

  /** One transaction for all that is written, again and again until nothing is. */
  async #index(): Promise<void> {
    if (this.#isIndexing) return
    this.#isIndexing = true
    for (let seals = this.#takeWritten(); seals.length > 0; seals = this.#takeWritten()) {
      try {
        const answers = await this.#calls.commit(seals.map(seal => seal.commit()))
        this.#committed(seals, answers)
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error
        for (const seal of seals) seal.phase = 'written'
        for (const seal of seals) if (!seal.hasFailed) this.#fail(seal, error)
      }
    }
    this.#isIndexing = false
  }

  /** Of each pool the written seals that have no unwritten one before them. */
  #takeWritten(): Seal[] {
    const seals: Seal[] = []
    for (const state of this.#written)
      for (const seal of state.underWay) {
        if (seal.phase !== 'written' || seal.hasFailed) break
        seal.phase = 'indexing'
        seals.push(seal)
      }
    this.#written.clear()
    return seals
  }

  #committed(seals: readonly Seal[], answers: readonly SealCommitted[]): void {
    for (const seal of seals) {
      assert(seal.state.underWay.shift() === seal, 'seals are committed in order')
    }
    this.#add(seals, -1)
    const sealed = seals.map((seal, i) => ({
      seal,
      sealed: {
        commit: seal.commit(),
        committed: answers[i]!,
        beginMs: seal.beginMs,
        oldestMs: seal.oldestMs,
        rows: seal.rows,
      },
    }))
    this.#calls.onCommitted(sealed)
  }

  #fail(seal: Seal, error: Error): void {
    const { underWay } = seal.state
    if (!underWay.includes(seal)) return // one before it failed, and it went back with that one
    for (const later of underWay.slice(underWay.indexOf(seal))) later.hasFailed = true
    this.#calls.onFailed(seal.state, error)
    this.#settleFailed(seal.state)
  }

  /** Once no failed seal of the pool is in the segment thread or before its sync, all of them go back. */
  #settleFailed(state: PoolState): void {
    const from = state.underWay.findIndex(seal => seal.hasFailed)
    if (from < 0) return
    const failed = state.underWay.slice(from)
    if (failed.some(seal => seal.phase === 'writing')) return
    state.underWay = state.underWay.slice(0, from)
    this.#add(failed, -1)
    for (const seal of failed) if (seal.isPosted) state.orphans.push(seal.segment)
    this.#calls.onBack(state, failed)
  }
}
