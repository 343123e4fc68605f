/**
 * How large a seal is, by how fast seals are made. Main thread.
 *
 * A row whose key is new costs the index a fraction of a microsecond; one that updates a random key among millions costs
 * a page of the disk. Seals of one size would then take 0.3 s or 6 s, and a reader waits for those before it and for its
 * own (W-8). So a seal is made smaller while full ones take longer than SEAL_DRAIN_MS_MAX, down to 1 / SEAL_SHRINK_MAX,
 * and larger again when they take less than SEAL_DRAIN_MS_MIN.
 */
import { SEAL_DRAIN_MS_MAX, SEAL_DRAIN_MS_MIN, SEAL_SHRINK_MAX, SEALS_SMALL } from '../limits.ts'
import type { TakeLimits } from './tail.ts'

/** A seal that was committed, as far as its size and time go. */
export interface PacedSeal {
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
    if (beginMs < this.#changedMs || seals.every(seal => seal.weight < SEALS_SMALL)) return
    const full = seals.reduce((sum, seal) => sum + seal.weight, 0) / SEALS_SMALL
    if (drainMs > full * SEAL_DRAIN_MS_MAX) this.#shrinkTo(2 * this.#shrink, nowMs)
    else if (drainMs < full * SEAL_DRAIN_MS_MIN) this.#shrinkTo(this.#shrink / 2, nowMs)
  }

  #shrinkTo(shrink: number, nowMs: number): void {
    if (shrink < 1 || shrink > SEAL_SHRINK_MAX) return
    this.#shrink = shrink
    this.#changedMs = nowMs
    const part = (whole: number) => Math.ceil(whole / shrink)
    const { rows, bytes, entries } = this.#full
    this.#limits = { rows: part(rows), bytes: part(bytes), entries: part(entries) }
  }
}
