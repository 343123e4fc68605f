/** What failed and what follows: segments in quarantine, pools and a disk that are tried again later. */
import { basename } from 'node:path'
import { SegmentDamaged, SegmentsDisagree, Unavailable } from '../errors.ts'
import { COMPACT_RETRY_MS_MAX, DISK_RETRY_MS } from '../limits.ts'
import { numberOfFile } from '../paths.ts'
import type { SchedulerCalls } from './scheduler-calls.ts'

/** When a failed merge is tried again; the delay doubles with each failure. */
interface Retry {
  readonly atMs: number
  readonly delayMs: number
}

const NONE: ReadonlySet<number> = new Set()

export class Failures {
  readonly #calls: Pick<SchedulerCalls, 'clock' | 'segments' | 'onFailed' | 'warn'>
  /** Segments that merges go around, by pool. They are tried again after a restart. */
  readonly #quarantined = new Map<number, Set<number>>()
  readonly #retries = new Map<number, Retry>()
  /** After the disk refused: of all pools. */
  #pause: Retry | undefined

  constructor(calls: Pick<SchedulerCalls, 'clock' | 'segments' | 'onFailed' | 'warn'>) {
    this.#calls = calls
  }

  /** Segments of a pool in quarantine. */
  quarantined(pool: number): ReadonlySet<number> {
    return this.#quarantined.get(pool) ?? NONE
  }

  /** Does everything wait for the disk? */
  isPaused(nowMs: number): boolean {
    return (this.#pause?.atMs ?? 0) > nowMs
  }

  /** Does this pool wait? */
  isWaiting(pool: number, nowMs: number): boolean {
    return (this.#retries.get(pool)?.atMs ?? 0) > nowMs
  }

  /** A merge of the pool went well. */
  succeeded(pool: number): void {
    this.#pause = undefined
    this.#retries.delete(pool)
  }

  /** A merge of the pool failed. */
  failed(pool: number, poolId: string, error: Error): void {
    const { onFailed, warn, clock } = this.#calls
    onFailed()
    if (error instanceof SegmentDamaged && this.#quarantine(pool, [numberOfFile(basename(error.file))])) {
      warn(`${error.message}; compaction leaves it alone, queries that need it answer SEGMENT_DAMAGED`)
      return
    }
    if (error instanceof SegmentsDisagree && this.#quarantine(pool, error.segments)) {
      warn(
        `a merge of pool ${poolId} was given up: ${error.message}; compaction leaves them alone, run "weir verify" on the stopped folder`,
      )
      return
    }
    const isEverywhere = error instanceof Unavailable
    const before = isEverywhere ? this.#pause : this.#retries.get(pool)
    const delayMs = Math.min(before === undefined ? DISK_RETRY_MS : 2 * before.delayMs, COMPACT_RETRY_MS_MAX)
    const retry = { atMs: clock.nowMs() + delayMs, delayMs }
    if (isEverywhere) this.#pause = retry
    else this.#retries.set(pool, retry)
    warn(`a merge of pool ${poolId} failed and is tried again in ${delayMs / 1000} s: ${error.message}`)
  }

  /** Forgets a deleted pool. */
  dropPool(pool: number): void {
    this.#quarantined.delete(pool)
    this.#retries.delete(pool)
  }

  /** False: none of them is a segment of the pool that was not in quarantine already. */
  #quarantine(pool: number, segments: readonly (number | undefined)[]): boolean {
    const ours = new Set(this.#calls.segments(pool).map(({ segment }) => segment))
    const before = this.quarantined(pool)
    const more = segments.filter(one => one !== undefined && ours.has(one) && !before.has(one)) as number[]
    if (more.length === 0) return false
    this.#quarantined.set(pool, new Set([...before, ...more]))
    return true
  }
}
