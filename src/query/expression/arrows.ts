/** JSON's arrows: DuckDB's bind less than AND, where every reader expects the opposite. */
import { endOfPart } from './lexical.ts'

const WORD = /[\p{L}_][\w\p{L}\p{M}\p{N}]*/uy
const ARROW = /->>?\s*(?=['\d])/y
/** What the next name belongs to. */
const JOINT = /\.|::/y
const INDEX = /\d+/y
/** Before a parenthesis that holds a value. Behind any other word are the arguments of a call. */
const BEFORE_VALUES = new Set('and or not when then else case select where on by in'.split(' '))

/** The text with `a->'b'->>'c'` as `((a->'b')->>'c')`: `a` is a name or stands in parentheses. */
export function boundArrows(sql: string): string {
  if (!sql.includes('->')) return sql
  const added: { at: number; sign: '(' | ')' }[] = []
  const open: (number | undefined)[] = []
  /** The begin of the value that ends here, and the token before. */
  let value: number | undefined
  let last = ''
  for (let at = 0; at < sql.length; ) {
    const end = matched(WORD, sql, at) ?? matched(JOINT, sql, at) ?? endOfPart(sql, at)
    const token = sql.slice(at, end)
    const key = value === undefined ? undefined : matched(ARROW, sql, at)
    if (key !== undefined && value !== undefined) {
      const behind = matched(INDEX, sql, key) ?? endOfPart(sql, key)
      added.push({ at: value, sign: '(' }, { at: behind, sign: ')' })
      at = behind
      continue
    }
    at = end
    if (/^(?:\s|--|\/\*)/.test(token)) continue
    const isName = /^[\p{L}_"]/u.test(token)
    if (token === '(') {
      const isCall = /^[\p{L}_"]/u.test(last) && !BEFORE_VALUES.has(last.toLowerCase())
      open.push(isCall ? undefined : end - 1)
    }
    if (token === ')') value = open.pop()
    else if (!isName || token.toLowerCase() === 'end') value = isJoint(token) ? value : undefined
    else if (!isJoint(last)) value = end - token.length
    last = token
  }
  const signs = added
    .map((each, index) => ({ ...each, index }))
    .sort((a, b) => a.at - b.at || a.index - b.index)
  let [written, from] = ['', 0]
  for (const { at, sign } of signs) {
    written += sql.slice(from, at) + sign
    from = at
  }
  return written + sql.slice(from)
}

function isJoint(token: string): boolean {
  return token === '.' || token === '::'
}

/** The end of what begins there; undefined where nothing does. */
function matched(form: RegExp, sql: string, at: number): number | undefined {
  form.lastIndex = at
  return form.test(sql) ? form.lastIndex : undefined
}
