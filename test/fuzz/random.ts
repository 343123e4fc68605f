/** A small seeded generator (mulberry32): the same seed gives the same cases on every machine. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** In [0, 1). */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }

  /** A whole number in [0, below). */
  below(below: number): number {
    return Math.floor(this.unit() * below)
  }

  /** True once in `times`. */
  once(times: number): boolean {
    return this.below(times) === 0
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!
  }
}
