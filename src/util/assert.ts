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

/** The states of a life, each with those that may follow it. */
export type Moves<State extends string> = Readonly<Record<State, readonly State[]>>

/** The next state of a life. Throws AssertionFailed where it may not follow. */
export function moved<State extends string>(moves: Moves<State>, now: NoInfer<State>, next: NoInfer<State>) {
  assert(moves[now].includes(next), `${next} may follow ${now}`)
  return next
}
