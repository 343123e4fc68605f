/** Debt: what waits to be compacted, summed over segments and pools. */
import type { Debt } from './protocol.ts'

const NO_DEBT: Debt = { smallSegments: 0, markedRows: 0, bytesToMerge: 0, quarantined: 0 }

/** Is there anything at all? */
export function isDebt(debt: Debt): boolean {
  return debt.smallSegments + debt.markedRows + debt.bytesToMerge + debt.quarantined > 0
}

/** The debts of all pools and their sum: a pool's is set anew after each look, so nothing is ever walked. */
export class Debts {
  readonly #byPool = new Map<number, Debt>()
  #sum = NO_DEBT

  /** Of all pools. */
  get sum(): Debt {
    return this.#sum
  }

  of(pool: number): Debt {
    return this.#byPool.get(pool) ?? NO_DEBT
  }

  set(pool: number, debt: Debt): void {
    const before = this.of(pool)
    this.#sum = {
      smallSegments: this.#sum.smallSegments + debt.smallSegments - before.smallSegments,
      markedRows: this.#sum.markedRows + debt.markedRows - before.markedRows,
      bytesToMerge: this.#sum.bytesToMerge + debt.bytesToMerge - before.bytesToMerge,
      quarantined: this.#sum.quarantined + debt.quarantined - before.quarantined,
    }
    if (isDebt(debt)) this.#byPool.set(pool, debt)
    else this.#byPool.delete(pool)
  }

  /** The pools that somebody should look at first, at most `count`: those with quarantined segments, then those with most to merge. */
  worst(count: number): readonly (readonly [pool: number, debt: Debt])[] {
    const order = ([, a]: readonly [number, Debt], [, b]: readonly [number, Debt]) =>
      b.quarantined - a.quarantined || b.bytesToMerge - a.bytesToMerge
    return [...this.#byPool].sort(order).slice(0, count)
  }

  /** A deleted pool owes nothing. */
  drop(pool: number): void {
    this.set(pool, NO_DEBT)
  }
}
