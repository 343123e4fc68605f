/**
 * Failures of merges: segments in quarantine, and pools or a disk to try again later.
 */
import { basename } from 'node:path'
import { SegmentDamaged, SegmentsDisagree, Unavailable } from '../../util/errors.ts'
import { DISK_RETRY_MS } from '../../util/limits.ts'
import { numberOfFile } from '../../util/paths.ts'
import type { SchedulerDeps } from './compaction-types.ts'

/** Longest pause after failed merges. It begins with DISK_RETRY_MS and doubles. */
const COMPACT_RETRY_MS_MAX = 60_000

/** When a failed merge is tried again; the delay doubles with each failure. */
interface Retry {
  readonly atMs: number
  readonly delayMs: number
}

/** What becomes of a damaged segment, for the log. */
export const LEFT_OUT = 'compaction leaves this segment out, and queries that need it answer SEGMENT_DAMAGED'

const NO_SEGMENTS: ReadonlySet<number> = new Set()

export class MergeFailures {
  readonly #deps: SchedulerDeps
  /** Segments that merges leave out, by pool. A restart tries them again. */
  readonly #quarantined = new Map<number, Set<number>>()
  readonly #retries = new Map<number, Retry>()
  /** The disk or the index refused: all pools wait. */
  #pause: Retry | undefined

  constructor(deps: SchedulerDeps) {
    this.#deps = deps
  }

  quarantined(pool: number): ReadonlySet<number> {
    return this.#quarantined.get(pool) ?? NO_SEGMENTS
  }

  isPaused(nowMs: number): boolean {
    return (this.#pause?.atMs ?? 0) > nowMs
  }

  isWaiting(pool: number, nowMs: number): boolean {
    return (this.#retries.get(pool)?.atMs ?? 0) > nowMs
  }

  succeeded(pool: number): void {
    this.#pause = undefined
    this.#retries.delete(pool)
  }

  failed(pool: number, poolId: string, error: Error): void {
    const { onFailed, onDamaged, fail, warn, clock } = this.#deps
    onFailed()
    if (error instanceof SegmentDamaged && this.leaveOut(pool, [numberOfFile(basename(error.file))])) {
      fail(`${error.message}; ${LEFT_OUT}`)
      onDamaged(error)
      return
    }
    if (error instanceof SegmentsDisagree && this.leaveOut(pool, error.segments)) {
      fail(
        `a merge of pool ${poolId} was cancelled: ${error.message}; compaction leaves these segments out: stop Weir and run "weir verify"`,
      )
      return
    }
    const isOfAllPools = error instanceof Unavailable && error.code !== 'merge_memory'
    const before = isOfAllPools ? this.#pause : this.#retries.get(pool)
    const delayMs = Math.min(before === undefined ? DISK_RETRY_MS : 2 * before.delayMs, COMPACT_RETRY_MS_MAX)
    const retry = { atMs: clock.nowMs() + delayMs, delayMs }
    if (isOfAllPools) this.#pause = retry
    else this.#retries.set(pool, retry)
    warn(`a merge of pool ${poolId} failed and is tried again in ${delayMs / 1000} s: ${error.message}`)
  }

  dropPool(pool: number): void {
    this.#quarantined.delete(pool)
    this.#retries.delete(pool)
  }

  /**
   * Damaged segments go into quarantine. Returns false where merges left every one of them out
   * already, or the pool has no such segment.
   */
  leaveOut(pool: number, segments: readonly (number | undefined)[]): boolean {
    const ours = new Set(this.#deps.segments(pool).map(({ segment }) => segment))
    const before = this.quarantined(pool)
    const more = segments.filter(one => one !== undefined && ours.has(one) && !before.has(one)) as number[]
    if (more.length === 0) return false
    this.#quarantined.set(pool, new Set([...before, ...more]))
    return true
  }
}
