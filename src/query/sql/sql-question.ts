/** sqlV1 and describeSqlV1: one SELECT over the pools that a reader may query. */
import type { ColumnType } from '../../format/schema.ts'
import { must } from '../../util/errors.ts'
import { SQL_TEXT_BYTES_MAX, STATEMENT_ROWS_MAX } from '../../util/limits.ts'
import type { SqlStatement } from '../expression/ast.ts'
import { endOfPart } from '../expression/lexical.ts'
import { pruningOf } from '../plan/prune-segments.ts'
import type { PrintedRows } from '../plan/query-task.ts'
import type { Askable } from '../plan/question.ts'
import { type SqlDialect, StatementChecker } from './check-statement.ts'
import { typeOf } from './scope.ts'

export interface SqlQuestion {
  readonly statement: SqlStatement
  /** The pool of each of the statement's names: 0 is the question's own, others come after it. */
  readonly poolOf: readonly number[]
  readonly dialect: SqlDialect
}

interface SqlColumn {
  readonly columnName: string
  readonly type: ColumnType
  readonly isNullable: boolean
}

export interface SqlAnswer {
  readonly columns: readonly SqlColumn[]
  readonly rows: PrintedRows
}

export const sql: Askable<SqlQuestion, SqlAnswer> = {
  type: 'SQL',
  subtype: null,
  rowsMax: STATEMENT_ROWS_MAX,
  texts: () => [],
  plan(view, { statement, poolOf, dialect }, { nowMs }, others = []) {
    const views = [view, ...others]
    const checked = new StatementChecker(statement, { views, poolOf, nowMs, dialect }).check()
    const { select, commons, conditions } = checked
    const [own, ...more] = views.map((each, index) => pruningOf(each, conditions[index]))
    const columns = checked.columns.map(({ name, value, isNullable }) => ({
      columnName: name,
      type: typeOf(value),
      isNullable,
    }))
    return { select, commons, ...must(own, 'a pool'), others: more, answer: rows => ({ columns, rows }) }
  },
}

/** ClickHouse's text with `name` written as "name". A backquote without its end stays as it is. */
export function readClickHouseNames(text: string): string {
  // The parser refuses it.
  if (text.length > SQL_TEXT_BYTES_MAX) return text
  let out = ''
  for (let at = 0; at < text.length; ) {
    const close = text.charAt(at) === '`' ? text.indexOf('`', at + 1) : -1
    const end = close < 0 ? endOfPart(text, at) : close + 1
    const part = text.slice(at, end)
    out += close < 0 ? part : `"${part.slice(1, -1).replaceAll('"', '""')}"`
    at = end
  }
  return out
}
