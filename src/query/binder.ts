/** Collects the bound values of one statement. Nothing that a caller sent becomes SQL text except through here. */
import type { Bound } from './protocol.ts'

export class Binder {
  readonly #bounds: Bound[] = []
  /** Regular expressions among the values so far; like.ts counts them. */
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
