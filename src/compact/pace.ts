/**
 * The pace of a merge: after each step it rests, so that beside ingest it takes its share of a core and of the disk
 * and no more. Steps are what they are (DuckDB's take up to some 500 ms): the rest after each is in proportion.
 */
import { Unavailable } from '../errors.ts'
import { MERGE_BYTES_PER_S, MERGE_CPU_SHARE, MERGE_REST_MS_MIN, MERGE_SAVED_MS_MAX } from '../limits.ts'
import type { Pace } from './protocol.ts'

/** Time as the pacer needs it. */
interface PaceClock {
  /** Processor time of this thread; undefined: nobody knows, and all time between two rests counts as work. */
  readonly cpuMs: (() => number) | undefined
  readonly nowMs: () => number
  /** Calls once after `ms`; the result cancels it. */
  readonly after: (ms: number, call: () => void) => () => void
}

export class Pacer {
  readonly #clock: PaceClock
  #pace: Pace
  #isStopped = false
  /** At the last count. */
  #cpuMs: number
  #nowMs: number
  /** When messages were taken last. */
  #turnMs: number
  /** Below 0: time that is saved up. */
  #owedMs = 0
  #wake: (() => void) | undefined

  constructor(clock: PaceClock, pace: Pace) {
    this.#clock = clock
    this.#pace = pace
    this.#cpuMs = clock.cpuMs?.() ?? 0
    this.#nowMs = clock.nowMs()
    this.#turnMs = this.#nowMs
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Counts from now on, in a running rest too. */
  set(pace: Pace): void {
    this.#pace = pace
    if (pace === 'alone') this.#wake?.()
  }

  /** Every rest, the running one too, rejects with Unavailable (`stopping`). */
  stop(): void {
    this.#isStopped = true
    this.#wake?.()
  }

  /**
   * A merge begins. What the thread did and waited since the last one counts too: the swap of a small merge takes as long as
   * its rests.
   */
  begin(): void {
    this.#count(0, false)
  }

  /**
   * After a step of work: rests as long as it takes until the step's processor time, and the `bytes` that it read or
   * wrote, are within the pace. Messages of the thread are taken meanwhile, at any pace, but not after each of many tiny
   * steps: a turn of the thread's loop costs more than such a step.
   */
  async rest(bytes = 0): Promise<void> {
    this.#count(bytes)
    if (this.#owedMs >= MERGE_REST_MS_MIN) {
      await this.#sleep(this.#owedMs)
      this.#count(0, false)
      this.#turnMs = this.#nowMs
    } else if (this.#nowMs - this.#turnMs >= MERGE_REST_MS_MIN) {
      await new Promise(resolve => setImmediate(resolve))
      this.#turnMs = this.#nowMs
    }
    if (this.#isStopped) throw new Unavailable('stopping', 'Weir is stopping')
  }

  /** What went by since the last count: work is owed for, and time pays, waits for the disk too. */
  #count(bytes: number, mayBeWork = true): void {
    const nowMs = this.#clock.nowMs()
    const cpuMs = this.#clock.cpuMs?.() ?? this.#cpuMs + (mayBeWork ? nowMs - this.#nowMs : 0)
    const dueMs = Math.max((cpuMs - this.#cpuMs) / MERGE_CPU_SHARE, (1000 * bytes) / MERGE_BYTES_PER_S)
    const owedMs = this.#owedMs + dueMs - (nowMs - this.#nowMs)
    this.#owedMs = this.#pace === 'alone' ? 0 : Math.max(owedMs, -MERGE_SAVED_MS_MAX)
    this.#cpuMs = cpuMs
    this.#nowMs = nowMs
  }

  async #sleep(ms: number): Promise<void> {
    await new Promise<void>(resolve => {
      const cancel = this.#clock.after(ms, resolve)
      this.#wake = () => {
        cancel()
        resolve()
      }
      if (this.#isStopped) this.#wake()
    })
    this.#wake = undefined
  }
}
