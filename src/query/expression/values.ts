/** Values of callers: bound ones, and the answer where one is wrong. */
import type { ColumnType } from '../../format/schema.ts'

/**
 * A bound value. Integers, TIMESTAMP (microseconds since 1970) and DATE (days) are decimal text, so
 * that 64 bits are exact.
 */
export interface Bound {
  readonly type: ColumnType
  readonly value: string | number | boolean
}

/** The caller's question is wrong: the answer is BAD_REQUEST with this sentence. */
export interface BadQuery {
  readonly badRequest: string
}

/** True for a BadQuery where a value was expected. */
export function isBadQuery(value: unknown): value is BadQuery {
  return typeof value === 'object' && value !== null && 'badRequest' in value
}
