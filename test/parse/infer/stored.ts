/**
 * For tests of proposals and presets: reads a column's value from an example by the meaning of
 * jsonProperty, `coerce` and `$header.`, and asks the kernel whether the column's type takes it.
 */
import type { ColumnType } from '../../../src/format/schema.ts'
import { parseAll, readErrors, readRows, type Stored, schemaOf } from '../reading.ts'

export interface Column {
  readonly name: string
  readonly type: ColumnType
  readonly jsonProperty: string
  readonly nullable: boolean
  readonly coerce: boolean
}

/** A request as an example has it: one event, and lower-case names of headers. */
export interface Request {
  readonly event: unknown
  readonly headers?: Readonly<Record<string, string>> | undefined
}

const HEADER = '$header.'

/** The value under a property, undefined where there is none. */
export function valueAt(jsonProperty: string, { event, headers }: Request): unknown {
  if (jsonProperty.startsWith(HEADER)) return headers?.[jsonProperty.slice(HEADER.length)]
  if (isObject(event) && Object.hasOwn(event, jsonProperty)) return event[jsonProperty]
  let value: unknown = event
  for (const step of jsonProperty.split('.')) {
    const [, name = '', indexes = ''] = /^(.*?)((?:\[\d+\])*)$/.exec(step) ?? []
    value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
    for (const [, index] of indexes.matchAll(/\[(\d+)\]/g))
      value = Array.isArray(value) ? value[Number(index)] : undefined
  }
  return value
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What the columns store of a request; or the errors of the kernel. */
export function storeRow(
  columns: readonly Column[],
  request: Request,
): readonly Stored[] | readonly string[] {
  const schema = schemaOf(columns.map(({ type, nullable }) => ({ type, required: !nullable })))
  const values = columns.map(column => sourceOf(column, valueAt(column.jsonProperty, request)))
  const parsed = parseAll(schema, [{ body: `{${values.map((value, i) => `"c${i}":${value}`).join(',')}}` }])
  const errors = readErrors(parsed)
  return errors.length > 0
    ? errors.map(error => `${columns[Number(error.split('@')[1])]?.name}: ${error}`)
    : readRows(parsed.batch)[0]!
}

export function isStored(row: readonly Stored[] | readonly string[], columns: readonly Column[]): boolean {
  return row.length === columns.length
}

/** The JSON text of a value. With `coerce` a text that holds a value of the type is that value. */
function sourceOf({ type, coerce }: Column, value: unknown): string {
  if (value === undefined) return 'null'
  if (!coerce || typeof value !== 'string' || type === 'STRING' || type === 'JSON')
    return JSON.stringify(value)
  if (value === '') return 'null'
  if (/^-?(0|[1-9]\d*)(\.\d+)?$/.test(value)) return value
  if (type === 'BOOLEAN' && /^(true|false)$/i.test(value)) return value.toLowerCase()
  if (type === 'TIMESTAMP' && /^[A-Z][a-z]{2}, \d/.test(value))
    return JSON.stringify(new Date(value).toISOString())
  return JSON.stringify(value)
}
