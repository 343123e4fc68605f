/**
 * SQL texts that the parser must not see. The main thread checks this too, so it is cheap.
 *
 * DuckDB's parser is given no limit of memory, and three forms make it build more than the text
 * says: `CASE x WHEN …` copies x for each WHEN, CUBE and GROUPING SETS make every set of their
 * columns, and WINDOW copies a window for each OVER that names it. The first two are exponential
 * where they nest: 20 levels in 700 characters took all memory of the process. 12,000 characters
 * with the third took 1 GB. Expressions and typed statements have none of the three. A statement in
 * DuckDB's own SQL has them as far as their products go (copies.ts).
 */
import { EXPRESSION_COMMENTS_MAX, SQL_TEXT_BYTES_MAX, STATEMENT_WORDS_MAX } from '../../util/limits.ts'
import { copiesProblem } from './copies.ts'
import { endOfPart } from './lexical.ts'
import { POLICY_VALUE } from './placeholders.ts'

const SURROGATE = /\p{Surrogate}/u
/** A word. DuckDB's lexer takes every character beyond ASCII for a letter, here it must be one. */
const WORD = /^[A-Za-z_\p{L}][\w\p{L}\p{M}\p{N}]*/u
/** An expression, a whole SELECT that is typed, or one in DuckDB's own SQL. */
export type SqlForm = 'expression' | 'statement' | 'native'

const NEVER = 'pivot pivot_wider pivot_longer unpivot summarize'.split(' ')
/** Words that have no place in a text of a form. As names of columns they are quoted. */
const REFUSED_WORDS: Readonly<Record<SqlForm, ReadonlySet<string>>> = {
  expression: new Set([...NEVER, 'cube', 'rollup', 'select', 'group']),
  statement: new Set([...NEVER, 'cube', 'rollup', 'window', 'recursive']),
  native: new Set([...NEVER, 'symmetric']),
}
/** `$1` or `$name`. Behind a name or before another `$` it would be something else. */
const PARAMETER = /^\$\w{1,64}(?![\w$])/
/** Words that begin a part of a statement for which the parser makes a node. */
const PART_WORDS = new Set('select from with join table union except intersect'.split(' '))

/** A sentence if the text is not worth parsing. */
export function sqlTextProblem(text: string, form: SqlForm): string | undefined {
  if (text.trim() === '') return 'the text is empty'
  if (text.length > SQL_TEXT_BYTES_MAX || Buffer.byteLength(text) > SQL_TEXT_BYTES_MAX)
    return `the text has more than ${SQL_TEXT_BYTES_MAX} bytes`
  if (text.includes('\0') || SURROGATE.test(text)) return 'the text has a character that is not allowed'
  // An open comment makes DuckDB's lexer start again at each further one.
  if (text.split('/*', EXPRESSION_COMMENTS_MAX + 2).length > EXPRESSION_COMMENTS_MAX + 1)
    return `the text has more than ${EXPRESSION_COMMENTS_MAX} comments`
  const tokens = tokensOf(text, form)
  return typeof tokens === 'string' ? tokens : tokensProblem(tokens, form)
}

/** Words in lower case, numbers as `0`, texts as a quote, other characters; or a sentence. */
function tokensOf(text: string, form: SqlForm): readonly string[] | string {
  const tokens: string[] = []
  for (let at = 0; at < text.length; ) {
    NUMBER.lastIndex = at
    if (!/[\w$]/.test(text.charAt(at - 1)) && NUMBER.test(text)) {
      tokens.push('0')
      at = NUMBER.lastIndex
      continue
    }
    const word = WORD.exec(text.slice(at, at + WORD_CHARACTERS_MAX))?.[0]
    const parameter =
      form === 'native' && !/\w/.test(text.charAt(at - 1)) ? PARAMETER.exec(text.slice(at, at + 66)) : null
    const end =
      word === undefined ? (parameter ? at + parameter[0].length : endOfPart(text, at)) : at + word.length
    const char = text.charAt(at)
    if (word !== undefined) {
      if (/^[eE]$/.test(word.slice(-1)) && text[end] === "'")
        return "texts are written as '…', with a space before them"
      if (/^[bx]$/i.test(word) && text[end] === "'")
        return `${word}'…' has no form here: texts are written as '…'`
      tokens.push(word.toLowerCase())
    } else if (end === at + 1 && char > '\x7f')
      // DuckDB makes spaces of some of them before it reads the text.
      return `${JSON.stringify(char)} stands in no name and in no text`
    else if (char === '`')
      // Those of the dialect CLICKHOUSE are double quotes by now, but one without its end.
      return 'backticks quote names in the dialect CLICKHOUSE alone, and in pairs: write "…"'
    else if (parameter !== null) tokens.push('$')
    else if (char === '$' || (char === '?' && form !== 'native'))
      return form === 'native'
        ? "a parameter is $1 or $name, and texts are written as '…'"
        : "parameters such as $1 have no form here: write the value itself, a text as '…'"
    else if (end === at + 1 || char === "'" || char === '"') if (char.trim() !== '') tokens.push(char)
    at = end
  }
  return tokens
}

/** The lexer ends a number before a word: `1e5WINDOW` is two. */
const NUMBER = /0[xX][\da-fA-F_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?/y

/** A longer word is read in pieces. */
const WORD_CHARACTERS_MAX = 256

function tokensProblem(tokens: readonly string[], form: SqlForm): string | undefined {
  if (tokens.filter(token => PART_WORDS.has(token)).length > STATEMENT_WORDS_MAX)
    return `the text has more than ${STATEMENT_WORDS_MAX} words such as SELECT, FROM and JOIN`
  const refused = tokens.find(token => REFUSED_WORDS[form].has(token))
  if (form === 'native')
    return refused === undefined
      ? copiesProblem(tokens)
      : `${refused.toUpperCase()} is not allowed; as a name it is quoted`
  if (form === 'expression' && closesTooOften(tokens)) return 'a ")" closes nothing that the text opens'
  for (const [index, token] of tokens.entries()) {
    if (REFUSED_WORDS[form].has(token))
      return form === 'expression'
        ? `${token.toUpperCase()}: an expression has no query inside`
        : `${token.toUpperCase()} is not allowed; as a name it is quoted`
    if (token === 'grouping' && tokens[index + 1] === 'sets') return 'GROUPING SETS are not allowed'
    if (token === 'case' && !isPlainCase(tokens.slice(index + 1, index + 6)))
      return 'CASE is followed by WHEN, or by one column and WHEN'
  }
  return undefined
}

/** True where a parenthesis ends the query around the text, of which more could follow. */
function closesTooOften(tokens: readonly string[]): boolean {
  let open = 0
  return tokens.some(token => {
    if (token === '(') open += 1
    if (token === ')') open -= 1
    return open < 0
  })
}

/** `WHEN`, or one name or placeholder and `WHEN`: the operand is copied for each WHEN. */
function isPlainCase([first = '', ...rest]: readonly string[]): boolean {
  if (first === 'when') return true
  if (first === POLICY_VALUE && rest[0] === '(') return rest.indexOf('when') === rest.indexOf(')') + 1
  return (first === '"' || WORD.test(first)) && rest[0] === 'when'
}
