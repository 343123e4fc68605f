/** Assertions. A failed assertion is a bug in Weir: it throws, and only the process catches it. */

/** An assertion that did not hold. No code handles it. */
export class AssertionFailed extends Error {
  override readonly name = 'AssertionFailed'
}

/** Throws AssertionFailed unless `condition` holds. `what` says what must be true. */
export function assert(condition: unknown, what: string): asserts condition {
  if (!condition) throw new AssertionFailed(what)
}

/** The value, which the caller knows to exist. */
export function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new AssertionFailed(`${what} is missing`)
  return value
}
