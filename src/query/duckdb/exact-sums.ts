/**
 * Sums and averages of real numbers, which the native module computes exactly: they are the same
 * whatever the order of rows and threads, and whatever was kept before (native/exact_sum.h).
 *
 * Without the module DuckDB's own take their place. They carry what each addition loses, so that
 * the order of rows hardly matters.
 */
import { internal } from '../expression/select.ts'

export const EXACT_SUM = internal('sum')
export const EXACT_AVERAGE = internal('average')

/** An average of integers: their sum by their count, in whatever parts both were summed. */
export function quotient(sum: string, count: string, filter: string): string {
  return `(${sum}${filter}::DOUBLE / NULLIF(${count}${filter}, 0))`
}

/** The statement for an instance without the module. No user can name these functions. */
export function withoutModule(sql: string): string {
  return sql.replaceAll(`${EXACT_SUM}(`, 'FSUM(').replaceAll(`${EXACT_AVERAGE}(`, 'FAVG(')
}
