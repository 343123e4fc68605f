/**
 * What one client knows of the rows that it alone writes: the oracle.
 *
 * Requests of a space go out one after the other, so at most one has an unknown outcome: the one under way when
 * the server died. Every row sent carries a mark that is used once; a space is right when the sum of its marks is
 * that of the acknowledged state, or of that state with the whole unknown request on top (W-12). A lost, undone,
 * doubled or half-done request gives another sum.
 */
import { assert } from '../../src/util/assert.ts'

/** A row is put under its key with a mark, or (null) deleted. */
export interface Mutation {
  readonly key: string
  readonly mark: number | null
}

export class Space {
  /** Value of the column `client` of all rows. */
  readonly name: string
  readonly #marks = new Map<string, number>()
  #sum = 0n
  #pending: readonly Mutation[] | undefined

  constructor(name: string) {
    this.name = name
  }

  get rows(): number {
    return this.#marks.size
  }

  get sum(): bigint {
    return this.#sum
  }

  /** The unknown request is not settled yet. */
  get isPending(): boolean {
    return this.#pending !== undefined
  }

  /** Sums of marks that a server may have now: as acknowledged, and with all of the unknown request. */
  candidates(): bigint[] {
    const last = new Map<string, number | null>()
    for (const { key, mark } of this.#pending ?? []) last.set(key, mark)
    let sum = this.#sum
    for (const [key, mark] of last) sum += BigInt(mark ?? 0) - BigInt(this.#marks.get(key) ?? 0)
    return [this.#sum, sum]
  }

  /** A request goes out. Until it is settled its outcome is unknown. */
  begin(mutations: readonly Mutation[]): void {
    assert(this.#pending === undefined, 'requests of a space go out one after the other')
    this.#pending = mutations
  }

  /** The request's outcome is known: it was done, or nothing of it was. */
  settle(done: boolean): void {
    for (const { key, mark } of done ? (this.#pending ?? []) : []) {
      this.#sum += BigInt(mark ?? 0) - BigInt(this.#marks.get(key) ?? 0)
      if (mark === null) this.#marks.delete(key)
      else this.#marks.set(key, mark)
    }
    this.#pending = undefined
  }

  /**
   * Compares with what the server has, and settles the unknown request by it.
   * @returns what is wrong, undefined for nothing
   */
  judge(found: bigint): string | undefined {
    if (found === this.#sum) {
      this.settle(false)
      return undefined
    }
    if (this.#pending === undefined) return `marks of ${this.name} sum to ${found}, not ${this.#sum}`
    const [before, unknown] = [this.#sum, this.#pending]
    this.settle(true)
    if (found === this.#sum) return undefined
    return `marks of ${this.name} sum to ${found}: neither ${before}, nor ${this.#sum} with all of the ${unknown.length} unknown changes`
  }

  /** Key and mark of every row, for a report. */
  entries(): [string, number][] {
    return [...this.#marks]
  }
}
