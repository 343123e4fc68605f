import { randomFrom } from '../util/random.ts'

/** Draws from a seed: the same seed gives the same cases on every machine. */
export class Random {
  /** In [0, 1). */
  readonly unit: () => number

  constructor(seed: number) {
    this.unit = randomFrom(seed)
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
