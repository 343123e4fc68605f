/**
 * Parses users' SQL with DuckDB's own grammar, in the query process. json_serialize_sql only
 * parses: it binds no name and runs nothing. The text is a value of the call, so it is never a
 * statement.
 *
 *   W-11  A hostile text may take some ms, which the main thread must not spend.
 */

import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { isBroken, isOutOfMemory } from '../../util/duckdb-errors.ts'
import { Unavailable } from '../../util/errors.ts'
import { jsonIn } from '../../util/json.ts'
import { boundArrows } from '../expression/arrows.ts'
import type { Expression, SqlStatement } from '../expression/ast.ts'
import { StatementReader } from '../expression/read-statement.ts'
import { ExpressionReader } from '../expression/read-tree.ts'
import { type SqlForm, sqlTextProblem } from '../expression/text-problem.ts'
import { isNode } from '../expression/tree-node.ts'
import { type BadQuery, badQueryOf, Refused, refusable } from '../expression/values.ts'
import { guardStatement, type NativeStatement, type SqlDialect } from '../statement/guard-statement.ts'
import { otherSyntax } from '../statement/other-syntax.ts'
import { placeAt } from '../statement/read-form.ts'

const PARSE =
  'SELECT json_serialize_sql($1::VARCHAR, skip_null := true, skip_empty := true, skip_default := true)'
const KEYWORDS = `SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'`
/** Keywords that stand before errors of any kind. */
const COMMON =
  'all and any as asc between by case desc distinct else exists from having in is like limit not on or select then union when where with'.split(
    ' ',
  )
/** A keyword is shorter. */
const KEYWORD_CHARACTERS_MAX = 40
/** The break ends a comment in the last line. */
const BEFORE = 'SELECT ('
const AFTER = '\n)'

/** Parses texts on a connection of its own. The main thread sends one or two at a time. */
export class SqlParser {
  readonly #connection: DuckDBConnection
  /** In lower case: those that are no name without double quotes. */
  readonly #keywords: ReadonlySet<string>

  private constructor(connection: DuckDBConnection, keywords: readonly string[]) {
    this.#connection = connection
    this.#keywords = new Set(keywords.filter(word => !COMMON.includes(word)))
  }

  static async open(instance: DuckDBInstance): Promise<SqlParser> {
    const connection = await instance.connect()
    const keywords = (await (await connection.run(KEYWORDS)).getRows()).map(([word]) => String(word))
    return new SqlParser(connection, keywords)
  }

  /** The tree of one expression, or BadQuery. Rejects with Unavailable if there is no memory. */
  parse(text: string): Promise<Expression | BadQuery> {
    return this.#parse(text, 'expression', ExpressionReader)
  }

  /** The tree of one SELECT, or BadQuery. Rejects with Unavailable if there is no memory. */
  parseStatement(text: string): Promise<SqlStatement | BadQuery> {
    return this.#parse(text, 'statement', StatementReader)
  }

  /** The guarded statement, or BadQuery. Rejects with Unavailable if there is no memory. */
  async guard(text: string, dialect: SqlDialect): Promise<NativeStatement | BadQuery> {
    const problem = sqlTextProblem(text, 'native')
    if (problem !== undefined) return { badRequest: problem }
    const ask = (sql: string, values: readonly string[]) => this.#one(sql, [...values])
    return await guardStatement(text, dialect, ask, answer => {
      const json = readAnswer(answer)
      const place = isNode(json) ? placeAt(text, Number(json['position'])) : ''
      return {
        badRequest: `${syntaxError(json, 'native')}${place}${otherSyntax(text) || this.#hint(json, text)}`,
      }
    })
  }

  close(): void {
    this.#connection.closeSync()
  }

  async #parse<Tree>(
    text: string,
    form: SqlForm,
    Reader: new (sql: string) => { statement(json: unknown): Tree },
  ): Promise<Tree | BadQuery> {
    const problem = sqlTextProblem(text, form)
    if (problem !== undefined) return { badRequest: problem }
    const bound = boundArrows(text)
    const sql = form === 'expression' ? `${BEFORE}${bound}${AFTER}` : bound
    const answer = await this.#serialize(sql)
    if (typeof answer !== 'string') return answer
    const json = readAnswer(answer)
    if (isNode(json) && json['error'] !== true) return refusable(() => new Reader(sql).statement(json))
    if (form === 'expression' && isAtOwnEnd(json, sql)) return { badRequest: 'syntax error at end of input' }
    return { badRequest: `${syntaxError(json, form)}${this.#hint(json, sql)}` }
  }

  /** What to do where the last word before a syntax error, or the next one, is a keyword. */
  #hint(json: unknown, sql: string): string {
    const at = isNode(json) ? Number(json['position']) : Number.NaN
    if (!Number.isSafeInteger(at)) return ''
    // The parser counts characters, of which some are two of JavaScript.
    const characters = [...sql]
    const before = characters.slice(Math.max(0, at - KEYWORD_CHARACTERS_MAX), at).join('')
    const behind = characters.slice(at, at + KEYWORD_CHARACTERS_MAX).join('')
    const words = [before.trimEnd().split(/\W/).at(-1), behind.split(/\W/)[0]]
    const keyword = words.find(word => this.#keywords.has(word?.toLowerCase() ?? ''))
    return keyword === undefined ? '' : `; if "${keyword}" is a name, write it in double quotes`
  }

  async #serialize(sql: string): Promise<string | BadQuery> {
    return await this.#one(PARSE, [sql]).catch(badQueryOf)
  }

  /** The only value of a statement. Rejects with Refused, or Unavailable if there is no memory. */
  async #one(sql: string, values: string[]): Promise<string> {
    try {
      const rows = await (await this.#connection.run(sql, values)).getRows()
      const [answer] = rows[0] ?? []
      if (typeof answer === 'string') return answer
    } catch (error) {
      if (isOutOfMemory(error)) throw new Unavailable('query_memory', 'the parser has no memory')
      if (isBroken(error)) throw error
      // The parser throws for a few kinds of hopeless texts instead of answering.
    }
    throw new Refused('the text is not SQL')
  }
}

/** True for a syntax error at the last `)`, which the caller did not write. */
function isAtOwnEnd(json: unknown, sql: string): boolean {
  // The parser counts characters, of which some are two of JavaScript.
  return isNode(json) && Number(json['position']) === [...sql].length - 1
}

/** DuckDB writes a number beyond a double's range as Infinity, which is no JSON. */
function readAnswer(answer: string): unknown {
  return jsonIn(answer.replaceAll(/"value":-?Infinity\b/g, '"value":null'))
}

/** The parser's message about the caller's own text. Other kinds of errors tell nothing useful. */
function syntaxError(json: unknown, form: SqlForm): string {
  const message = isNode(json) ? json['error_message'] : ''
  if (!isNode(json) || json['error_type'] !== 'parser') {
    if (form === 'expression') return 'the text is not SQL of the supported syntax'
    if (String(message).startsWith('Mixing')) return 'parameters are either all $1 or all $name'
    const isForm = form === 'native' && /^(?:Expression|Unimplemented) /.test(String(message))
    return isForm ? 'the statement has a form that is not served here' : 'a text of SQL is exactly one SELECT'
  }
  return typeof message === 'string' ? firstLine(message) : 'the text is not SQL'
}

function firstLine(message: string): string {
  const [line = ''] = message.split('\n', 1)
  // What DuckDB advises is not for callers.
  return (line.split(' Use "SET', 1)[0] ?? '').slice(0, 200)
}
