/**
 * The rows that a reader must see after a power cut: the requests up to one sequence, and the jobs
 * of the catalog.
 */
import type { Job } from '../../src/catalog/documents/model.ts'
import { ADDED, type Form, isExpired, keyOfRow, type Request } from './pools.ts'

/** A request that was sent. Lists of them are in the order of their sequences. */
export interface Sent {
  readonly sequence: number
  readonly request: Request
}

/** A change of rows as a job's input says it. */
const FILTER = /^stamp % (\d+) = (\d+)$/
const EXPRESSION = /^coalesce\(tag, 0\) \+ (\d+)$/

/** The condition of a job on a row. */
export const filterOf = (divisor: number, rest: number) => `stamp % ${divisor} = ${rest}`
/** The new value of the column `tag`. An addition tells how often it was made. */
export const expressionOf = (added: number) => `coalesce(tag, 0) + ${added}`

interface Row {
  readonly stamp: number
  readonly tag: number | null
  readonly sequence: number
}

/** Key → stamp, tag and added columns, as text. */
export type Rows = ReadonlyMap<string, string>

/** The rows of one pool after these requests, and after the jobs that the catalog has of it. */
export function rowsAfter(pool: number, sent: Iterable<Sent>, jobs: readonly Job[]): Rows {
  const rows = new Map<string, Row>()
  const rewrites = jobs
    .flatMap(job => (job.kind === 'UPDATE_RECORDS' || job.kind === 'DELETE_RECORDS' ? [job] : []))
    .sort((a, b) => a.beforeSequence - b.beforeSequence)
  const applyBelow = (sequence: number) => {
    while (rewrites[0] !== undefined && rewrites[0].beforeSequence <= sequence)
      applyJob(rows, rewrites.shift() as (typeof rewrites)[number])
  }
  for (const { sequence, request } of sent) {
    if (request.pool !== pool) continue
    applyBelow(sequence)
    for (const { key, stamp } of request.mutations) {
      if (stamp === null) rows.delete(key)
      else rows.set(key, { stamp, tag: null, sequence })
    }
  }
  applyBelow(Number.POSITIVE_INFINITY)
  const added = jobs
    .flatMap(job => (job.kind === 'ADD_COLUMN' && job.cutOverSequence !== null ? [job] : []))
    .sort((a, b) => (a.input.columnName < b.input.columnName ? -1 : 1))
  return new Map(
    [...rows].map(([key, { stamp, tag, sequence }]) => {
      const values = added.map(job => (sequence >= (job.cutOverSequence ?? 0) ? stamp : null))
      return [key, textOf([stamp, tag, ...values])]
    }),
  )
}

function applyJob(rows: Map<string, Row>, { kind, input }: Job & { readonly kind: string }): void {
  const { filterSql, set } = input as {
    readonly filterSql: string
    readonly set: readonly { readonly expression: string }[]
  }
  const [, divisor, rest] = FILTER.exec(filterSql) ?? []
  for (const [key, row] of rows) {
    if (row.stamp % Number(divisor) !== Number(rest)) continue
    if (kind === 'DELETE_RECORDS') rows.delete(key)
    else {
      const [, added] = EXPRESSION.exec(set[0]?.expression ?? '') ?? []
      rows.set(key, { ...row, tag: (row.tag ?? 0) + Number(added) })
    }
  }
}

/** The name and the text of a row of a file. Segments from before a cut-over lack its column. */
export function namesOf(form: Form, columns: readonly { readonly name: string }[]) {
  const added = columns.map(({ name }) => name).filter(name => ADDED.test(name))
  added.sort()
  return {
    keyOf: (row: Readonly<Record<string, unknown>>) => keyOfRow(form, row),
    contentOf: (row: Readonly<Record<string, unknown>>) =>
      textOf([row['stamp'], row['tag'], ...added.map(name => row[name])]),
  }
}

function textOf(values: readonly unknown[]): string {
  return values.map(value => value ?? '-').join(' ')
}

/**
 * The first difference; undefined where both are equal.
 * @param expiredUs a merge may have dropped rows with an earlier timestamp
 * @param isRebuilt an earlier row of an expired key may be there until the next pass of retention,
 *   because the rows or deletes that superseded it were dropped
 */
export function difference(
  form: Form,
  found: Rows,
  expected: Rows,
  expiredUs: number,
  isRebuilt: boolean,
): string | undefined {
  for (const [key, text] of expected) {
    const is = found.get(key)
    if (is !== text && ((is !== undefined && !isRebuilt) || !isExpired(form, key, expiredUs)))
      return `key ${key}: ${is}, not ${text}`
  }
  for (const [key, text] of found)
    if (!expected.has(key) && !(isRebuilt && isExpired(form, key, expiredUs)))
      return `key ${key}: ${text}, and should not be there`
  return undefined
}
