/**
 * The answer of a question as one table, for notebooks and spreadsheets: named columns of a type,
 * and rows of texts as the API prints them.
 *
 *   counter, topValues   one column, `value`
 *   percentile           `fraction` and `value`
 *   timeSeries           the columns of groupBy, then `time` and `value`; one row for each interval
 *   all others           the columns of the answer
 */
import type { ColumnType } from '../../format/schema.ts'
import { ANSWER_CHARACTERS_MAX } from '../../util/limits.ts'
import type { QueryColumn } from '../expression/operand.ts'
import { typeOfKind, type ValueKind } from '../expression/typed.ts'
import type { BadQuery } from '../expression/values.ts'
import type { PrintedRows } from './query-task.ts'
import type { Series } from './time-series.ts'

export interface Table {
  readonly columns: readonly QueryColumn[]
  readonly rows: PrintedRows
}

/** A column of a plan's rows, in their order. */
export interface PlannedOutput {
  readonly name: string
  readonly kind: ValueKind
}

const TOO_LARGE: BadQuery = {
  badRequest: `groupBy: the table has more than ${ANSWER_CHARACTERS_MAX} characters, because each interval repeats the values of its group. Choose a coarser granularity, or a shorter timeRange.`,
}

/** The fields of all answers, of which each kind has some. */
interface AnyAnswer {
  readonly value?: string | null
  readonly labels?: readonly string[]
  /** Rows in an answer of recordsByUniqueId, cells in any other. */
  readonly values?: PrintedRows | Series['values']
  readonly groups?: readonly (Series & { readonly group: readonly (string | null)[] })[]
  readonly groupBy?: readonly string[]
  readonly headers?: readonly string[]
  readonly columns?: readonly (string | { readonly columnName: string })[]
  readonly rows?: PrintedRows
  readonly fractions?: readonly number[]
}

/**
 * The table of an answer; BadQuery if it would be too large.
 * @param answer what a question answered, whose rows had the columns `outputs`
 */
export function tableOf(answer: unknown, outputs: readonly PlannedOutput[]): Table | BadQuery {
  const {
    value = null,
    labels,
    groups = [],
    groupBy = [],
    headers,
    columns,
    rows,
    values,
    fractions,
  } = answer as AnyAnswer
  if (labels !== undefined) return seriesTable({ labels, values: cellsOf(values) }, groupBy, groups, outputs)
  if (fractions !== undefined) return fractionsTable(fractions, cellsOf(values))
  const names = headers ?? columns?.map(column => (typeof column === 'string' ? column : column.columnName))
  if (names !== undefined) return typed(names, outputs, rows ?? ((values ?? []) as PrintedRows))
  const cells = values === undefined ? [value] : cellsOf(values)
  return typed(
    ['value'],
    outputs,
    cells.map(cell => [cell]),
  )
}

function cellsOf(values: AnyAnswer['values']): Series['values'] {
  return (values ?? []) as Series['values']
}

function fractionsTable(fractions: readonly number[], values: Series['values']): Table {
  const columns = ['fraction', 'value'].map(name => ({ name, type: 'DOUBLE' as const }))
  return { columns, rows: fractions.map((fraction, index) => [String(fraction), values[index] ?? null]) }
}

function seriesTable(
  all: Series,
  groupBy: readonly string[],
  groups: NonNullable<AnyAnswer['groups']>,
  outputs: readonly PlannedOutput[],
): Table | BadQuery {
  // Each interval repeats the texts of its group, which the answer has once.
  const characters = groups.reduce((sum, { group, labels }) => sum + group.join('').length * labels.length, 0)
  if (characters > ANSWER_CHARACTERS_MAX) return TOO_LARGE
  // The rows of a series have the interval, the columns of groupBy, and at last the value.
  const shown: readonly PlannedOutput[] = [
    ...groupBy.map((name, index) => ({ name, kind: outputs[1 + index]?.kind ?? ('text' as const) })),
    { name: 'time', kind: 'instant' },
    { name: 'value', kind: outputs.at(-1)?.kind ?? 'text' },
  ]
  const lines = groupBy.length === 0 ? [{ ...all, group: [] }] : groups
  const rows = lines.flatMap(({ group, labels, values }) =>
    labels.map((label, index) => [...group, label, values[index] ?? null]),
  )
  return typed(
    shown.map(({ name }) => name),
    shown,
    rows,
  )
}

function typed(names: readonly string[], outputs: readonly PlannedOutput[], rows: PrintedRows): Table {
  const columns = names.map((name, index) => ({
    name,
    type: typeOf(outputs[index]?.kind ?? 'text', rows, index),
  }))
  return { columns, rows }
}

/** A sum of integers may need more than 64 bits: such a column has texts. */
function typeOf(kind: ValueKind, rows: PrintedRows, index: number): ColumnType {
  const type = typeOfKind(kind)
  if (type !== 'INT64') return type
  return rows.every(row => isLong(row[index] ?? '0')) ? type : 'STRING'
}

function isLong(text: string): boolean {
  if (text.length < 19) return true
  return BigInt.asIntN(64, BigInt(text)) === BigInt(text)
}

/** The table as CSV of RFC 4180, its names first. Null is an empty field, "" is `""`. */
export function csvOf({ columns, rows }: Table): string {
  const lines = [columns.map(({ name }) => name), ...rows]
  return lines.map(csvLine).join('')
}

/** One line of CSV, its line break too. */
export function csvLine(fields: readonly (string | null)[]): string {
  return `${fields.map(csvField).join(',')}\r\n`
}

function csvField(text: string | null): string {
  if (text === null) return ''
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
