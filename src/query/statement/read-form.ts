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

/** ` (line 2, column 5)` of a character of the text, as DuckDB counts them; '' where it is none. */
export function placeAt(text: string, position: number): string {
  if (!Number.isSafeInteger(position) || position < 0) return ''
  const before = [...text].slice(0, position).join('').split('\n')
  return ` (line ${before.length}, column ${[...(before.at(-1) ?? '')].length + 1})`
}

const NAMED = ['column ', 'function ', 'Table ', 'table ']

/** The message about a name, with the place where the text has the name first. */
export function placed(message: string, text: string): string {
  const [before = '', name = ''] = message.split('"', 2)
  const isName = NAMED.some(noun => before.endsWith(noun)) && name !== ''
  const at = isName ? text.toLowerCase().indexOf(name.toLowerCase()) : -1
  return at < 0 ? message : `${message}${placeAt(text, [...text.slice(0, at)].length)}`
}

/** What a statement asks for, and the SELECT, or the table, that it is about. */
export interface ReadForm {
  readonly form: 'rows' | 'explain' | 'describe' | 'tables'
  readonly text: string
}

/** Blanks and comments before the first word. */
const BEFORE = /^(?:\s|--[^\n]*|\/\*(?:[^*]|\*(?!\/))*\*\/)*/
const TABLES = ['show tables', 'show all tables']
const TABLES_CHARACTERS_MAX = 100
const WORD = /^\s*(explain|describe|desc|show)\s+/i
const QUERY = /^[\s(]*(?:select|with|values|from)\b/i

/** SHOW TABLES, DESCRIBE and EXPLAIN stand before a statement, and are no part of it. */
export function readForm(text: string): ReadForm {
  const before = BEFORE.exec(text)?.[0] ?? ''
  const own = text.slice(before.length)
  if (isTables(own)) return { form: 'tables', text: '' }
  const [all, word] = WORD.exec(own) ?? []
  if (all === undefined || word === undefined) return { form: 'rows', text }
  // Blanks in place of the word: messages count the caller's own columns.
  const rest = `${(before + all).replaceAll(/\S/gu, ' ')}${own.slice(all.length)}`
  if (word.toLowerCase() === 'explain') return { form: 'explain', text: rest }
  return { form: 'describe', text: QUERY.test(rest) ? rest : `SELECT * FROM ${rest}` }
}

function isTables(text: string): boolean {
  if (text.length > TABLES_CHARACTERS_MAX) return false
  const words = text.toLowerCase().replaceAll(';', ' ').trim().split(/\s+/)
  return TABLES.includes(words.join(' '))
}
