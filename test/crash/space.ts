/**
 * A space: the rows that one client alone writes to a pool, and its knowledge of them. It is the
 * oracle of the crash tests.
 *
 * Requests of a space are sent one after the other, so at most one has an unknown outcome: the one
 * that ran when the server died. Every row has a stamp, a number that is used once. A space is
 * right when the sum of its stamps is that of the acknowledged state, or of that state with the
 * whole unknown request applied (W-12). A lost, undone, doubled or half-done request gives another
 * sum.
 *
 * Retention may remove some rows at any time (`isOld`). Of those rows the client knows only which
 * ones may exist.
 *
 * A tail shows rows to another client. What it showed is stored, so it tells the outcome of a
 * request whose answer was lost.
 */
import { assert } from '../../src/util/errors.ts'
import { Violation } from './client.ts'

/** A row is put under its key with a stamp, or (null) deleted. */
export interface Mutation {
  readonly key: string
  readonly stamp: number | null
  /** True where retention may remove the row. */
  readonly isOld?: boolean
}

export class Space {
  /** The value of the column `client` of all its rows. */
  readonly name: string
  /** Rows of the same client that retention may remove. */
  readonly old = new OldRows()
  readonly #stamps = new Map<string, number>()
  #sum = 0n
  #pending: readonly Mutation[] | undefined
  /** The stamps that were, or may have been, stored. */
  readonly #sent = new Set<number>()
  /** A stamp of the pending request that a tail has shown. */
  #shown: number | undefined

  constructor(name: string) {
    this.name = name
  }

  get rows(): number {
    return this.#stamps.size
  }

  get sum(): bigint {
    return this.#sum
  }

  /** True while the outcome of a request is unknown. */
  get isPending(): boolean {
    return this.#pending !== undefined
  }

  /**
   * The sums of stamps that are right now: as acknowledged, and with the unknown request applied.
   */
  candidates(): bigint[] {
    return this.states().map(stamps => stamps.reduce((sum, stamp) => sum + BigInt(stamp), 0n))
  }

  /**
   * The sorted stamps that are right now: as acknowledged, and with the unknown request applied.
   */
  states(): [before: number[], after: number[]] {
    const after = new Map(this.#stamps)
    for (const { key, stamp } of this.#pending ?? []) {
      if (stamp === null) after.delete(key)
      else after.set(key, stamp)
    }
    const sorted = (stamps: Map<string, number>) => [...stamps.values()].sort((a, b) => a - b)
    return [sorted(this.#stamps), sorted(after)]
  }

  /** A request is sent. Its outcome is unknown until it is settled. */
  begin(mutations: readonly Mutation[]): void {
    assert(this.#pending === undefined, 'requests of a space are sent one after the other')
    this.#pending = mutations.filter(({ isOld }) => isOld !== true)
    for (const { stamp } of mutations) if (stamp !== null) this.#sent.add(stamp)
    this.old.begin(mutations.filter(({ isOld }) => isOld === true))
  }

  /** A tail has shown a row. Throws Violation where no request can have stored it. */
  show(stamp: number): void {
    if (!this.#sent.has(stamp))
      throw new Violation(`a tail showed ${stamp} of ${this.name}, which nobody stored`)
    if (this.#pending?.some(one => one.stamp === stamp) === true) this.#shown = stamp
  }

  /**
   * The outcome of the request is known: all of it was done, or nothing. Throws Violation where a
   * tail has shown what is not stored.
   */
  settle(done: boolean): void {
    this.old.settle(done)
    this.#settle(done)
  }

  #settle(done: boolean): void {
    const shown = this.#shown
    this.#shown = undefined
    if (!done) for (const { stamp } of this.#pending ?? []) this.#sent.delete(stamp ?? 0)
    if (!done && shown !== undefined)
      throw new Violation(`a tail showed ${shown} of ${this.name}, which is not stored`)
    for (const { key, stamp } of done ? (this.#pending ?? []) : []) {
      this.#sum += BigInt(stamp ?? 0) - BigInt(this.#stamps.get(key) ?? 0)
      if (stamp === null) this.#stamps.delete(key)
      else this.#stamps.set(key, stamp)
    }
    this.#pending = undefined
  }

  /**
   * Compares the sum that the server has, and settles the unknown request by it.
   * @returns the problem; undefined where there is none
   */
  check(found: bigint): string | undefined {
    this.old.settle(undefined)
    if (found === this.#sum) {
      this.#settle(false)
      return undefined
    }
    if (this.#pending === undefined) return `stamps of ${this.name} sum to ${found}, not ${this.#sum}`
    const [before, unknown] = [this.#sum, this.#pending]
    this.#settle(true)
    if (found === this.#sum) return undefined
    return `stamps of ${this.name} sum to ${found}: neither ${before}, nor ${this.#sum} with all of the ${unknown.length} unknown changes`
  }

  /** The key and stamp of every row, for a report. */
  entries(): [string, number][] {
    return [...this.#stamps]
  }
}

/**
 * Rows that retention may have removed. A row that still exists has its last value, and a deleted
 * row does not exist.
 *
 * After the index was removed there is one exception until the next pass of retention: an earlier
 * row of a key may exist, because the rows or deletes that superseded it expired and left no trace
 * (docs/decisions/0010).
 */
class OldRows {
  /**
   * The stamps that the row of a key may have; several where the outcome of a request is unknown.
   */
  readonly #may = new Map<string, readonly number[]>()
  /** The key of every stamp that was, or may have been, stored. */
  readonly #ever = new Map<number, string>()
  #pending = new Map<string, number | null>()
  #isRebuilt = false

  begin(mutations: readonly Mutation[]): void {
    this.#pending = new Map(mutations.map(({ key, stamp }) => [key, stamp]))
  }

  /** @param done undefined where the outcome stays unknown */
  settle(done: boolean | undefined): void {
    for (const [key, stamp] of done === false ? [] : this.#pending) {
      const before = done === true ? [] : (this.#may.get(key) ?? [])
      this.#may.set(key, stamp === null ? before : [...before, stamp])
      if (stamp !== null) this.#ever.set(stamp, key)
    }
    this.#pending.clear()
  }

  /** The index was removed. */
  indexRemoved(): void {
    this.#isRebuilt = true
  }

  /** A query found none of them, so none may exist from now on. */
  allRemoved(): void {
    this.#isRebuilt = false
    this.#may.clear()
  }

  /** The largest number of rows that may exist. */
  get rowsMax(): number {
    const known = [...this.#may].filter(([, stamps]) => stamps.length > 0).map(([key]) => key)
    const earlier = this.#isRebuilt ? this.#ever.values() : []
    return new Set([...known, ...earlier, ...this.#pending.keys()]).size
  }

  /** The problem with these stamps of visible rows; undefined where there is none. */
  check(stamps: readonly number[]): string | undefined {
    const keyOf = new Map<number, string>(this.#isRebuilt ? this.#ever : [])
    for (const [key, may] of this.#may) for (const stamp of may) keyOf.set(stamp, key)
    for (const [key, stamp] of this.#pending) if (stamp !== null) keyOf.set(stamp, key)
    const seen = new Set<string>()
    for (const stamp of stamps) {
      const key = keyOf.get(stamp)
      if (key === undefined) return `stamp ${stamp} was replaced, deleted or never sent`
      if (seen.has(key)) return `two rows of key ${key}`
      seen.add(key)
    }
    return undefined
  }
}
