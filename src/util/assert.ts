/** Our own faults. A failed assertion is a bug in Weir: it throws, and nothing catches it but the process. */

/** An assertion that did not hold. Never caught to be handled. */
export class AssertionFailed extends Error {
  override readonly name = 'AssertionFailed'
}

/** Throws AssertionFailed unless `condition` holds. `what` says what should have been true. */
export function assert(condition: unknown, what: string): asserts condition {
  if (!condition) throw new AssertionFailed(what)
}

/** The value, which is known to be there. */
export function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new AssertionFailed(`${what} is missing`)
  return value
}

/** For the default branch of a switch that names every case. */
export function unreachable(value: never): never {
  throw new AssertionFailed(`unreachable: ${String(value)}`)
}
