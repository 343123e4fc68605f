/**
 * How large a seal is, by what the index takes for one. Main thread.
 *
 * A row whose key is new costs the index a fraction of a microsecond; one that updates a random key among millions costs
 * a page of the disk. Seals of one size would then take 0.1 s or 6 s, and a reader waits for those before it and for its
 * own (W-8). So when a full one takes longer than SEAL_INDEX_MS_MAX, seals are made smaller, down to 1 / SEAL_SHRINK_MAX, until
 * one takes SEAL_SMALLER_MS_MAX; and larger again when they are fast, or when none told its time for SEAL_CALM_MS. Where half
 * the rows take about as long, the disk is slow whatever is sealed: then the size is put back and stays for a while. While they are
 * small they are doubled now and then, to see whether it is still the rows.
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
} from '../limits.ts'
import type { TakeLimits } from './tail.ts'

/** A full seal that was committed, of the size that `beginMs` had. */
export interface PacedSeal {
  readonly pool: number
  /** Monotonic ms. */
  readonly beginMs: number
  /** What the index took for its keys. */
  readonly keysMs: number
}

/** The size was changed to see what that does to the time of a pool's seals. */
interface Trial {
  readonly size: 'half' | 'double'
  readonly pool: number
  readonly msBefore: number
  /** Seals of the new size that said that it is not the rows. */
  readonly doubts: number
}

export class SealPace {
  readonly #full: TakeLimits
  #limits: TakeLimits
  #shrink = 1
  #changedMs = 0
  /** When a full seal told its time last, and when one took too long. */
  #toldMs = 0
  #slowMs = Number.NEGATIVE_INFINITY
  #trial: Trial | undefined
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

  /** Takes note of a full seal. */
  committed({ pool, beginMs, keysMs }: PacedSeal, nowMs: number): void {
    this.#toldMs = nowMs
    if (beginMs < this.#changedMs) return // one of another size says nothing of this one
    const trial = this.#trial
    if (trial?.pool === pool) {
      this.#trial = undefined
      if (trial.size === 'double') {
        this.#endDouble(trial, keysMs, nowMs)
        return
      }
      if (keysMs > trial.msBefore * SEAL_SHRINK_GAIN) {
        this.#doubtHalf(trial, nowMs)
        return
      }
    }
    this.#judge(pool, keysMs, nowMs)
  }

  /** Now and then: what was slow once is not slow for ever. */
  tick(nowMs: number): void {
    if (this.isSlow && nowMs - this.#toldMs >= SEAL_CALM_MS) this.#shrinkTo(1, nowMs)
  }

  #judge(pool: number, ms: number, nowMs: number): void {
    const isTooSlow = ms > (this.isSlow ? SEAL_SMALLER_MS_MAX : SEAL_INDEX_MS_MAX)
    if (isTooSlow) this.#slowMs = nowMs
    if (isTooSlow && nowMs >= this.#restUntilMs && this.#shrink < SEAL_SHRINK_MAX) {
      this.#shrinkTo(2 * this.#shrink, nowMs)
      this.#trial = { size: 'half', pool, msBefore: ms, doubts: 0 }
    } else if (ms < Math.max(SEAL_SMALLER_MS_MIN, SEAL_INDEX_MS_MIN / this.#shrink)) {
      // Not while seals of another pool are slow: the size is one for all.
      if (nowMs - this.#slowMs >= SEAL_GROW_MS) this.#shrinkTo(this.#shrink / 2, nowMs)
    } else if (this.isSlow && nowMs - this.#changedMs >= SEAL_SHRINK_REST_MS) this.#double(pool, ms, nowMs)
  }

  /** Half the rows took about as long: once may be chance, twice is not, and the size is put back. */
  #doubtHalf(trial: Trial, nowMs: number): void {
    if (trial.doubts === 0) this.#trial = { ...trial, doubts: 1 }
    else {
      this.#restUntilMs = nowMs + SEAL_SHRINK_REST_MS
      this.#shrinkTo(this.#shrink / 2, nowMs)
    }
  }

  /** Twice the rows: as long as they take hardly longer they are doubled again, else the size is put back. */
  #endDouble({ msBefore, pool }: Trial, ms: number, nowMs: number): void {
    if (ms * SEAL_SHRINK_GAIN > msBefore) this.#shrinkTo(2 * this.#shrink, nowMs)
    else {
      this.#restUntilMs = nowMs + SEAL_SHRINK_REST_MS
      if (this.isSlow) this.#double(pool, ms, nowMs)
    }
  }

  #double(pool: number, msBefore: number, nowMs: number): void {
    this.#shrinkTo(this.#shrink / 2, nowMs)
    this.#trial = { size: 'double', pool, msBefore, doubts: 0 }
  }

  #shrinkTo(shrink: number, nowMs: number): void {
    if (shrink < 1) return
    this.#trial = undefined
    this.#shrink = shrink
    this.#changedMs = nowMs
    const part = (whole: number) => Math.ceil(whole / shrink)
    const { rows, bytes, entries } = this.#full
    this.#limits = { rows: part(rows), bytes: part(bytes), entries: part(entries) }
  }
}
