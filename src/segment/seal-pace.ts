/**
 * How large a seal is, by what the index takes for one. Main thread.
 *
 * A row whose key is new costs the index a fraction of a microsecond; one that updates a random key among millions costs
 * a page of the disk. Seals of one size would then take 0.1 s or 6 s, and a reader waits for those before it and for its
 * own (W-8). So when a full one takes longer than SEAL_INDEX_MS_MAX, seals are made smaller, down to 1 / SEAL_SHRINK_MAX, until
 * one takes SEAL_SMALLER_MS_MAX; and larger again when they are fast, or when none told its time for SEAL_CALM_MS. Where half
 * the rows take about as long, the disk is slow whatever is sealed: then the size is put back and stays for a while.
 */
import {
  SEAL_CALM_MS,
  SEAL_GROW_MS,
  SEAL_INDEX_MS_MAX,
  SEAL_INDEX_MS_MIN,
  SEAL_SHRINK_GAIN,
  SEAL_SHRINK_MAX,
  SEAL_SHRINK_REST_MS,
  SEAL_SMALLER_MS_MAX,
  SEAL_SMALLER_MS_MIN,
  SEALS_SMALL,
} from '../limits.ts'
import type { TakeLimits } from './tail.ts'

/** A seal that was committed, as far as its size and time go. */
export interface PacedSeal {
  /** SEALS_SMALL: it was full. */
  readonly weight: number
  /** Rows and deletes of its segment. */
  readonly keys: number
  /** Monotonic ms. */
  readonly beginMs: number
  /** What the index says of it; undefined: too few keys to tell. */
  readonly usPerKey: number | undefined
}

export class SealPace {
  readonly #full: TakeLimits
  #limits: TakeLimits
  #shrink = 1
  #changedMs = 0
  /** When a full seal told its time last, and when one took too long. */
  #toldMs = 0
  #slowMs = Number.NEGATIVE_INFINITY
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

  /** Takes note of a seal. Those that are not full cost what a transaction costs, which tells nothing of their rows. */
  committed({ weight, keys, beginMs, usPerKey }: PacedSeal, nowMs: number): void {
    if (weight < SEALS_SMALL || usPerKey === undefined) return
    this.#toldMs = nowMs
    // One of another size says nothing of this one.
    if (beginMs >= this.#changedMs) this.#judge((usPerKey * keys) / 1000, nowMs)
  }

  /** Now and then: what was slow once is not slow for ever. */
  tick(nowMs: number): void {
    if (this.isSlow && nowMs - this.#toldMs >= SEAL_CALM_MS) this.#shrinkTo(1, nowMs)
  }

  /** @param ms what the index took for a full seal of the present size */
  #judge(ms: number, nowMs: number): void {
    const before = this.#msBefore
    this.#msBefore = undefined
    if (before !== undefined && ms > before * SEAL_SHRINK_GAIN) {
      this.#restUntilMs = nowMs + SEAL_SHRINK_REST_MS
      this.#shrinkTo(this.#shrink / 2, nowMs)
    } else if (ms > (this.isSlow ? SEAL_SMALLER_MS_MAX : SEAL_INDEX_MS_MAX)) {
      this.#slowMs = nowMs
      if (nowMs < this.#restUntilMs || this.#shrink >= SEAL_SHRINK_MAX) return
      this.#shrinkTo(2 * this.#shrink, nowMs)
      this.#msBefore = ms
    } else if (ms < Math.max(SEAL_SMALLER_MS_MIN, SEAL_INDEX_MS_MIN / this.#shrink)) {
      // Not while seals of another pool are slow: the size is one for all.
      if (nowMs - this.#slowMs >= SEAL_GROW_MS) this.#shrinkTo(this.#shrink / 2, nowMs)
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
