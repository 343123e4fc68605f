/**
 * `rows`: what a statement reads. The manifest's segments minus their marks, with the plan's columns and types.
 *
 * Segments without marks are one plain scan. Those with marks are one scan too, anti-joined on (file_index,
 * file_row_number) with the marks: one scan per file lost the push-down of filters (190 against 93 ms for 8M rows).
 */

import type { Plan } from '../batch/plan.ts'
import { quoteName, quoteText } from '../util/sql.ts'
import { DUCKDB_TYPE, queryColumns } from './column.ts'

/** A segment to read. `marks` is the table of its marked rows, undefined where none is marked. */
export interface Source {
  readonly file: string
  readonly schema: ReadonlySet<string>
  readonly marks: string | undefined
}

/** The statement with `rows` defined. Not materialized, so that filters and columns are pushed into the scans. */
export function withRows(plan: Plan, sources: readonly Source[], sql: string): string {
  const marked = sources.filter(source => source.marks !== undefined)
  const marks = marked.length > 0 ? `marks AS MATERIALIZED (${marksSql(marked)}), ` : ''
  return `WITH ${marks}rows AS NOT MATERIALIZED (${rowsSql(plan, sources)}) ${sql}`
}

/** NOTE: materialized. A join built straight from the tables takes some 5 MB for each, full or not: 60 segments were all of DuckDB's memory. */
function marksSql(marked: readonly Source[]): string {
  return marked
    .map(({ marks }, index) => `SELECT ${index}::UBIGINT AS f, r::BIGINT AS r FROM ${marks}`)
    .join(' UNION ALL ')
}

function rowsSql(plan: Plan, sources: readonly Source[]): string {
  const plain = sources.filter(source => source.marks === undefined)
  const marked = sources.filter(source => source.marks !== undefined)
  const parts: string[] = []
  if (plain.length > 0) parts.push(`${selectList(plan, plain)} FROM ${scan(plain, false)} s`)
  if (marked.length > 0) parts.push(minusMarks(plan, marked))
  if (parts.length === 0) parts.push(`${selectList(plan, [])} WHERE false`)
  return parts.join(' UNION ALL ')
}

function minusMarks(plan: Plan, marked: readonly Source[]): string {
  return (
    `${selectList(plan, marked)} FROM ${scan(marked, true)} s ` +
    'ANTI JOIN marks m ON s.file_index = m.f AND s.file_row_number = m.r'
  )
}

/** Columns that no file has, because they were added later, are null. `_service_sequence` is not shown. */
function selectList(plan: Plan, sources: readonly Source[]): string {
  const columns = queryColumns(plan).map(({ name, type }) => {
    const stored = sources.some(source => source.schema.has(name))
    return stored ? `s.${quoteName(name)}` : `NULL::${DUCKDB_TYPE[type]} AS ${quoteName(name)}`
  })
  return `SELECT ${columns.join(', ')}`
}

/** Files of one schema are read by the first one's footer; others by name, with nulls where a column is absent. */
function scan(sources: readonly Source[], numbered: boolean): string {
  const schema = sources[0]?.schema
  const sameSchema = sources.every(source => source.schema === schema)
  const options = [
    ...(numbered ? ['file_row_number = true'] : []),
    ...(sameSchema ? [] : ['union_by_name = true']),
  ]
  const files = sources.map(({ file }) => quoteText(file)).join(', ')
  return `read_parquet(${[`[${files}]`, ...options].join(', ')})`
}
