/** The statements of a merge. Names and texts in them are our own: file names, and columns of the plan. */

import { KEY_RECEIVED_AT, PAYLOAD, type Plan, RECEIVED_AT, SEQUENCE } from '../batch/plan.ts'
import { MERGE_GROUP_BYTES, ROW_GROUP_ROWS } from '../limits.ts'
import { quoteName, quoteText } from '../util/sql.ts'

/** `['a', 'b']` */
export function fileList(files: readonly string[]): string {
  return `[${files.map(quoteText).join(', ')}]`
}

/** Row numbers of a file's rows below the cutoff. */
export function expiredSql(plan: Plan, file: string, beforeUs: number): string {
  return (
    `SELECT s.file_row_number::INTEGER FROM read_parquet(${fileList([file])}, file_row_number = true) s ` +
    `WHERE ${isExpired(plan, beforeUs)}`
  )
}

/** A null timestamp has no age. DATE counts as its midnight. */
function isExpired(plan: Plan, beforeUs: number): string {
  return `coalesce(epoch_us(s.${quoteName(nameOf(plan, plan.timestamp))}) < ${BigInt(Math.trunc(beforeUs))}, false)`
}

/** What a copy reads and writes. */
export interface Copy {
  readonly plan: Plan
  /** In the order of their sequences. */
  readonly files: readonly string[]
  /** Table of rows to leave out: `f` the file's place in `files`, `r` the row's number in it. undefined: none. */
  readonly without: string | undefined
  readonly isSorted: boolean
  readonly to: string
  readonly footer: ReadonlyMap<string, string>
  /** Of a row on average, before compression. */
  readonly rowBytes: number
}

/** `COPY (…) TO …`: its result is the count of rows. */
export function copySql(copy: Copy): string {
  const { plan, files, without } = copy
  const columns = [RECEIVED_AT, PAYLOAD, ...plan.columns.map(({ name }) => name), SEQUENCE]
  const select = `SELECT ${columns.map(name => `s.${quoteName(name)}`).join(', ')}`
  const scan = `read_parquet(${fileList(files)}, file_row_number = ${without !== undefined}) s`
  const minus =
    without === undefined ? '' : ` ANTI JOIN ${without} m ON s.file_index = m.f AND s.file_row_number = m.r`
  const order = copy.isSorted
    ? ` ORDER BY ${orderOf(plan)
        .map(name => `s.${quoteName(name)}`)
        .join(', ')}`
    : ''
  const footer = [...copy.footer].map(([name, value]) => `${quoteText(name)}: ${quoteText(value)}`).join(', ')
  const options = `FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE ${groupRows(copy.rowBytes)}, KV_METADATA {${footer}}`
  return `COPY (${select} FROM ${scan}${minus}${order}) TO ${quoteText(copy.to)} (${options})`
}

/** Rows clustered as readers filter them: tenant, time, key; else by key. Without a key by time, then as they came. */
function orderOf(plan: Plan): string[] {
  const key = plan.key?.columns ?? [plan.timestamp]
  const names = (plan.tenant < 0 ? key : [plan.tenant, plan.timestamp, ...key]).map(index =>
    nameOf(plan, index),
  )
  return [...new Set(plan.key === null ? [...names, SEQUENCE] : names)]
}

/** The columns that a reader of keys reads, as SQL. */
export function keyColumnsSql(plan: Plan): string {
  const indexes = [KEY_RECEIVED_AT, plan.timestamp, ...(plan.key?.columns ?? [])]
  if (plan.tenant >= 0) indexes.push(plan.tenant)
  const names = new Set([...indexes.map(index => nameOf(plan, index)), SEQUENCE])
  return [...names].map(name => quoteName(name)).join(', ')
}

function nameOf(plan: Plan, index: number): string {
  return index === KEY_RECEIVED_AT ? RECEIVED_AT : (plan.columns[index]?.name ?? RECEIVED_AT)
}

function groupRows(rowBytes: number): number {
  return Math.max(1, Math.min(ROW_GROUP_ROWS, Math.floor(MERGE_GROUP_BYTES / Math.max(rowBytes, 1))))
}
