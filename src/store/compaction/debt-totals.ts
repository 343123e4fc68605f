/** The work that waits for compaction, of all pools together. */
import type { Debt } from './compaction-types.ts'

const NO_DEBT: Debt = { smallSegments: 0, rowsDeleted: 0, bytesToMerge: 0, quarantined: 0 }

/**
 * The debts of all pools and their sum. Each inspection replaces the debt of its pool, so no walk
 * over pools is needed.
 */
export class DebtTotals {
  readonly #byPool = new Map<number, Debt>()
  #sum = NO_DEBT

  /** The debt of all pools. */
  get sum(): Debt {
    return this.#sum
  }

  set(pool: number, debt: Debt): void {
    const before = this.#byPool.get(pool) ?? NO_DEBT
    this.#sum = {
      smallSegments: this.#sum.smallSegments + debt.smallSegments - before.smallSegments,
      rowsDeleted: this.#sum.rowsDeleted + debt.rowsDeleted - before.rowsDeleted,
      bytesToMerge: this.#sum.bytesToMerge + debt.bytesToMerge - before.bytesToMerge,
      quarantined: this.#sum.quarantined + debt.quarantined - before.quarantined,
    }
    if (Object.values(debt).some(count => count > 0)) this.#byPool.set(pool, debt)
    else this.#byPool.delete(pool)
  }

  /**
   * The pools that an operator should see first, `count` at most: those with quarantined segments,
   * then those with most to merge.
   */
  worst(count: number): readonly (readonly [pool: number, debt: Debt])[] {
    const order = ([, a]: readonly [number, Debt], [, b]: readonly [number, Debt]) =>
      b.quarantined - a.quarantined || b.bytesToMerge - a.bytesToMerge
    return [...this.#byPool].sort(order).slice(0, count)
  }

  /** Forgets a deleted pool. */
  drop(pool: number): void {
    this.set(pool, NO_DEBT)
  }
}
