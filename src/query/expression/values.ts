/** Values of callers: bound ones, and the answer where one is wrong. */
import type { ColumnType } from '../../format/schema.ts'

/**
 * A bound value. Integers, TIMESTAMP (microseconds since 1970) and DATE (days) are decimal text, so
 * that 64 bits are exact.
 */
export interface Bound {
  readonly type: ColumnType
  /** Null is a parameter of a statement alone. */
  readonly value: string | number | boolean | null
}

/** The caller's question is wrong: the answer is BAD_REQUEST with this sentence. */
export interface BadQuery {
  readonly badRequest: string
}

/** The answer is beyond a limit, which the code names. */
export interface BadAnswer extends BadQuery {
  readonly code: string
}

/** The caller's question is refused, for this reason. Its answer is a BadQuery. */
export class Refused extends Error {
  override readonly name = 'Refused'
}

/** The BadQuery of a Refused. Any other error is thrown again. */
export function badQueryOf(error: unknown): BadQuery {
  if (error instanceof Refused) return { badRequest: error.message }
  throw error
}

/** The value that is made, or BadQuery. */
export function refusable<T>(make: () => T): T | BadQuery {
  try {
    return make()
  } catch (error) {
    return badQueryOf(error)
  }
}

/** The value that is made. A Refused gets another sentence. */
export function reworded<T>(make: () => T, sentenceOf: (sentence: string) => string): T {
  try {
    return make()
  } catch (error) {
    throw new Refused(sentenceOf(badQueryOf(error).badRequest))
  }
}

/** The value of a part of the input. The sentence of a Refused begins with the part's name. */
export function partOf<T>(name: string, make: () => T): T {
  return reworded(make, sentence => `${name}: ${sentence}`)
}

/** True for a BadQuery where a value was expected. */
export function isBadQuery(value: unknown): value is BadQuery {
  return typeof value === 'object' && value !== null && 'badRequest' in value
}
