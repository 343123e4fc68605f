/**
 * What DuckDB says of a user's own statement, as the user may read it: what is wrong with it, or
 * which value of the rows it cannot work on. The printed statement is never shown, because it has
 * the policy in it. Values are of visible rows: nothing is computed on a hidden one (live-rows.ts).
 */
import { firstLine } from '../../util/duckdb-errors.ts'
import { STATEMENT_FAILED, Unavailable } from '../../util/errors.ts'

const KINDS =
  /^(?:Binder|Catalog|Conversion|Constraint|Dependency|Invalid Input|Invalid type|Mismatch Type|Not implemented|Out of Range|Parameter Not Allowed|Parser|Sequence|Syntax|TransactionContext|Division by Zero|Object Size) Error: /i
/** Of what a file may be the cause: the segments are looked at then. */
const OF_FILES = /parquet|\bfile|\bread\b|decompress|magic|thrift|\bpage\b|encoding|\bzstd\b|snappy/i
/** Names that the guard made, and the beginning of those of its macros. */
const OWN_NAMES = /_s[0-9a-f]{16}_(?:rows|with)\d+|_service_(?=[a-z_0-9]+\()/g
const MESSAGE_CHARACTERS_MAX = 500

/** Undefined where the statement is not to blame, or perhaps not. */
export function statementError(error: unknown): Unavailable | undefined {
  const line = firstLine(error)
  const kind = KINDS.exec(line)
  if (kind === null) return undefined
  if (/^Invalid Input/i.test(line) && OF_FILES.test(line)) return undefined
  const message = line
    .slice(kind[0].length)
    .replaceAll(OWN_NAMES, '')
    .split(' Use "SET', 1)
    .join('')
    .slice(0, MESSAGE_CHARACTERS_MAX)
  const [column, ...rest] = message.split(' not found', 2)
  const isColumn = column?.startsWith(NO_COLUMN) === true && rest.length > 0
  if (!isColumn) return failed(message)
  return failed(noColumn(column.slice(NO_COLUMN.length).replace(/ was$/, '').replaceAll('"', '')))
}

const NO_COLUMN = 'Referenced column '

/** The words of portable expressions. */
function noColumn(name: string): string {
  return `there is no column "${name}"; a text is in single quotes: '${name}'`
}

/** A column's name as a caller may see it: DuckDB writes the expression where it has no other. */
export function shownName(name: string): string {
  return name.replaceAll(OWN_NAMES, '')
}

/** A plan as a caller may see it. The names stand in boxes, whose width stays. */
export function shownPlan(text: string): string {
  return text.replaceAll(OWN_NAMES, name => ' '.repeat(name.length))
}

function failed(message: string): Unavailable {
  return new Unavailable(STATEMENT_FAILED, message)
}
