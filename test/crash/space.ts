/**
 * What one client knows of the rows that it alone writes: the oracle.
 *
 * Requests of a space go out one after the other, so at most one has an unknown outcome: the one under way when
 * the server died. Every row sent carries a mark that is used once; a space is right when the sum of its marks is
 * that of the acknowledged state, or of that state with the whole unknown request on top (W-12). A lost, undone,
 * doubled or half-done request gives another sum.
 *
 * Rows that retention may remove at any time (`isOld`) stand apart: of those it is known only which may be there.
 */
import { assert } from '../../src/util/assert.ts'

/** A row is put under its key with a mark, or (null) deleted. */
export interface Mutation {
  readonly key: string
  readonly mark: number | null
  /** Older than its pool keeps. */
  readonly isOld?: boolean
}

export class Space {
  /** Value of the column `client` of all rows. */
  readonly name: string
  /** Rows of the same client that are too old. */
  readonly old = new OldRows()
  readonly #deletionVectors = new Map<string, number>()
  #sum = 0n
  #pending: readonly Mutation[] | undefined

  constructor(name: string) {
    this.name = name
  }

  get rows(): number {
    return this.#deletionVectors.size
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
    return this.states().map(marks => marks.reduce((sum, mark) => sum + BigInt(mark), 0n))
  }

  /** Marks of the rows that a server may have now, sorted: as acknowledged, and with all of the unknown request. */
  states(): [before: number[], after: number[]] {
    const after = new Map(this.#deletionVectors)
    for (const { key, mark } of this.#pending ?? []) {
      if (mark === null) after.delete(key)
      else after.set(key, mark)
    }
    const sorted = (marks: Map<string, number>) => [...marks.values()].sort((a, b) => a - b)
    return [sorted(this.#deletionVectors), sorted(after)]
  }

  /** A request goes out. Until it is settled its outcome is unknown. */
  begin(mutations: readonly Mutation[]): void {
    assert(this.#pending === undefined, 'requests of a space go out one after the other')
    this.#pending = mutations.filter(({ isOld }) => isOld !== true)
    this.old.begin(mutations.filter(({ isOld }) => isOld === true))
  }

  /** The request's outcome is known: it was done, or nothing of it was. */
  settle(done: boolean): void {
    this.old.settle(done)
    this.#settle(done)
  }

  #settle(done: boolean): void {
    for (const { key, mark } of done ? (this.#pending ?? []) : []) {
      this.#sum += BigInt(mark ?? 0) - BigInt(this.#deletionVectors.get(key) ?? 0)
      if (mark === null) this.#deletionVectors.delete(key)
      else this.#deletionVectors.set(key, mark)
    }
    this.#pending = undefined
  }

  /**
   * Compares with what the server has, and settles the unknown request by it.
   * @returns what is wrong, undefined for nothing
   */
  judge(found: bigint): string | undefined {
    this.old.settle(undefined)
    if (found === this.#sum) {
      this.#settle(false)
      return undefined
    }
    if (this.#pending === undefined) return `marks of ${this.name} sum to ${found}, not ${this.#sum}`
    const [before, unknown] = [this.#sum, this.#pending]
    this.#settle(true)
    if (found === this.#sum) return undefined
    return `marks of ${this.name} sum to ${found}: neither ${before}, nor ${this.#sum} with all of the ${unknown.length} unknown changes`
  }

  /** Key and mark of every row, for a report. */
  entries(): [string, number][] {
    return [...this.#deletionVectors]
  }
}

/**
 * Rows that are there or gone, at the server's choice; but a row that is there has its last value, and no deleted one is.
 *
 * Where the index was lost there is one exception until retention went over the pool again: an earlier row of a key may be
 * there, because what replaced or deleted it expired and left no trace (docs/decisions/0010).
 */
class OldRows {
  /** Marks that the row of a key may have. More than one: the outcome of a request is not known. */
  readonly #may = new Map<string, readonly number[]>()
  /** The key of every mark that was, or may have been, stored. */
  readonly #ever = new Map<number, string>()
  #pending = new Map<string, number | null>()
  #isRebuilt = false

  begin(mutations: readonly Mutation[]): void {
    this.#pending = new Map(mutations.map(({ key, mark }) => [key, mark]))
  }

  /** @param done undefined: it will never be known */
  settle(done: boolean | undefined): void {
    for (const [key, mark] of done === false ? [] : this.#pending) {
      const before = done === true ? [] : (this.#may.get(key) ?? [])
      this.#may.set(key, mark === null ? before : [...before, mark])
      if (mark !== null) this.#ever.set(mark, key)
    }
    this.#pending.clear()
  }

  /** The index is lost. */
  indexLost(): void {
    this.#isRebuilt = true
  }

  /** A query saw none of them: none comes back by itself. */
  noneLeft(): void {
    this.#isRebuilt = false
    this.#may.clear()
  }

  /** The most rows that may be there. */
  get rowsMax(): number {
    const known = [...this.#may].filter(([, marks]) => marks.length > 0).map(([key]) => key)
    const earlier = this.#isRebuilt ? this.#ever.values() : []
    return new Set([...known, ...earlier, ...this.#pending.keys()]).size
  }

  /** What is wrong with these marks of visible rows; undefined: nothing. */
  judge(marks: readonly number[]): string | undefined {
    const keyOf = new Map<number, string>(this.#isRebuilt ? this.#ever : [])
    for (const [key, may] of this.#may) for (const mark of may) keyOf.set(mark, key)
    for (const [key, mark] of this.#pending) if (mark !== null) keyOf.set(mark, key)
    const seen = new Set<string>()
    for (const mark of marks) {
      const key = keyOf.get(mark)
      if (key === undefined) return `mark ${mark} was replaced, deleted or never sent`
      if (seen.has(key)) return `two rows of key ${key}`
      seen.add(key)
    }
    return undefined
  }
}
