/**
 * Collects the bound values of one statement: the only way for a caller's text into a statement.
 */
import type { Bound } from './query-types.ts'

export class Binder {
  readonly #bounds: Bound[] = []
  /** Regular expressions among the values so far; planLike counts them. */
  patterns = 0

  /** The placeholder of a value. */
  bind(bound: Bound): string {
    this.#bounds.push(bound)
    return `$${this.#bounds.length}`
  }

  /** All values so far, in the order of their placeholders. */
  bounds(): readonly Bound[] {
    return [...this.#bounds]
  }
}
