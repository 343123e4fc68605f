/** What stands around a statement in the text of a caller. */
import { endOfPart } from '../expression/lexical.ts'

/** The text without the values that it has: a trace may be read by others. */
export function withoutValues(text: string): string {
  let out = ''
  for (let at = 0; at < text.length; ) {
    const word = /^(?:\d[\w.]*|\w+)/.exec(text.slice(at, at + 256))?.[0]
    const end = word === undefined ? endOfPart(text, at) : at + word.length
    const isValue = word === undefined ? text[at] === "'" : /^\d/.test(word)
    out += isValue ? '?' : text.slice(at, end)
    at = end
  }
  return out
}

/** What a statement asks for, and the SELECT, or the table, that it is about. */
export interface ReadForm {
  readonly form: 'rows' | 'explain' | 'describe' | 'tables'
  readonly text: string
}

const TABLES = /^\s*show\s+(?:all\s+)?tables\s*;?\s*$/i
const WORD = /^\s*(explain|describe|desc|show)\s+/i
const QUERY = /^[\s(]*(?:select|with|values|from)\b/i

/** SHOW TABLES, DESCRIBE and EXPLAIN stand before a statement, and are no part of it. */
export function readForm(text: string): ReadForm {
  if (TABLES.test(text)) return { form: 'tables', text: '' }
  const [all, word] = WORD.exec(text) ?? []
  if (all === undefined || word === undefined) return { form: 'rows', text }
  const rest = text.slice(all.length)
  if (word.toLowerCase() === 'explain') return { form: 'explain', text: rest }
  return { form: 'describe', text: QUERY.test(rest) ? rest : `SELECT * FROM ${rest}` }
}
