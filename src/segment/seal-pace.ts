/**
 * How large a seal is, by how fast seals are made. Main thread.
 *
 * A row whose key is new costs the index a fraction of a microsecond; one that updates a random key among millions costs
 * a page of the disk. Seals of one size would then take 0.3 s or 6 s, and a reader waits for those before it and for its
 * own (W-8). So a seal is made smaller while full ones take longer than SEAL_DRAIN_MS_MAX, down to 1 / SEAL_SHRINK_MAX,
 * and larger again when they take less than SEAL_DRAIN_MS_MIN, or when no full one came for SEAL_CALM_MS. Where half the
 * rows take about as long, the disk is slow whatever is sealed: then the size is put back and stays for a while.
 */
import {
  SEAL_CALM_MS,
  SEAL_DRAIN_MS_MAX,
  SEAL_DRAIN_MS_MIN,
  SEAL_SHRINK_GAIN,
  SEAL_SHRINK_MAX,
  SEAL_SHRINK_REST_MS,
  SEALS_SMALL,
} from '../limits.ts'
import type { TakeLimits } from './tail.ts'

/** A seal that was committed, as far as its size and time go. */
interface PacedSeal {
  /** SEALS_SMALL: it was full. */
  readonly weight: number
  /** Monotonic ms. */
  readonly beginMs: number
}

export class SealPace {
  readonly #full: TakeLimits
  #limits: TakeLimits
  #shrink = 1
  #changedMs = 0
  #committedMs = 0
  /** When a full seal was committed last. */
  #fullMs = 0
  /** What a seal took before the last shrinking, until it is known whether that helped. */
  #msBefore: number | undefined
  /** Until then nothing is made smaller. */
  #restUntilMs = 0

  /** @param full limits of a seal as long as seals are fast. */
  constructor(full: TakeLimits) {
    this.#full = full
    this.#limits = full
  }

  /** What a seal may take now. */
  get limits(): TakeLimits {
    return this.#limits
  }

  /** Are seals so slow that they are made smaller? */
  get isSlow(): boolean {
    return this.#shrink > 1
  }

  /** Takes note of the seals of one transaction. */
  committed(seals: readonly PacedSeal[], nowMs: number): void {
    const beginMs = Math.min(...seals.map(seal => seal.beginMs))
    const drainMs = nowMs - Math.max(this.#committedMs, beginMs)
    this.#committedMs = nowMs
    // Small seals cost what a transaction costs, which tells nothing of their rows; those of another size neither.
    if (seals.every(seal => seal.weight < SEALS_SMALL)) return
    this.#fullMs = nowMs
    if (beginMs < this.#changedMs) return
    this.#judge((drainMs * SEALS_SMALL) / seals.reduce((sum, seal) => sum + seal.weight, 0), nowMs)
  }

  /** Now and then: what was slow once is not slow for ever. */
  tick(nowMs: number): void {
    if (this.isSlow && nowMs - this.#fullMs >= SEAL_CALM_MS) this.#shrinkTo(1, nowMs)
  }

  /** @param ms what a full seal of the present size took */
  #judge(ms: number, nowMs: number): void {
    const before = this.#msBefore
    this.#msBefore = undefined
    if (before !== undefined && ms > before * SEAL_SHRINK_GAIN) {
      this.#restUntilMs = nowMs + SEAL_SHRINK_REST_MS
      this.#shrinkTo(this.#shrink / 2, nowMs)
    } else if (ms < SEAL_DRAIN_MS_MIN) this.#shrinkTo(this.#shrink / 2, nowMs)
    else if (ms > SEAL_DRAIN_MS_MAX && nowMs >= this.#restUntilMs && this.#shrink < SEAL_SHRINK_MAX) {
      this.#shrinkTo(2 * this.#shrink, nowMs)
      this.#msBefore = ms
    }
  }

  #shrinkTo(shrink: number, nowMs: number): void {
    if (shrink < 1) return
    this.#msBefore = undefined
    this.#shrink = shrink
    this.#changedMs = nowMs
    const part = (whole: number) => Math.ceil(whole / shrink)
    const { rows, bytes, entries } = this.#full
    this.#limits = { rows: part(rows), bytes: part(bytes), entries: part(entries) }
  }
}
