/** The work that waits for compaction, of all pools together. */
import type { Debt } from './compaction-types.ts'

/** What waits in all pools together. */
export function sumDebts(debts: readonly Debt[]): Debt {
  const total = (part: keyof Debt) => debts.reduce((sum, debt) => sum + debt[part], 0)
  return {
    smallSegments: total('smallSegments'),
    rowsDeleted: total('rowsDeleted'),
    bytesToMerge: total('bytesToMerge'),
    quarantined: total('quarantined'),
  }
}

/** The debts of all pools. Each inspection replaces the debt of its pool. */
export class DebtTotals {
  readonly #byPool = new Map<number, Debt>()

  get sum(): Debt {
    return sumDebts([...this.#byPool.values()])
  }

  set(pool: number, debt: Debt): void {
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

  drop(pool: number): void {
    this.#byPool.delete(pool)
  }
}
