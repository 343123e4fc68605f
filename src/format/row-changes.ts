/**
 * The file of row changes, which the query process writes and the merge thread applies: a Parquet
 * file of one segment's rows, in any order. It lives in data/tmp for as long as its job works on
 * the segment.
 *
 *   _service_row   INT64, the number of the row in the segment; each at most once
 *   changed_0, …   the new value of the first column that is set, and so on
 *
 * A file without changed_0 deletes its rows.
 */

/** The number of a row in its segment, a name that no column of a pool has. */
export const ROW_NUMBER = '_service_row'

/** The column with the new values of the column at `index` of those that are set. */
export function changedName(index: number): string {
  return `changed_${index}`
}
