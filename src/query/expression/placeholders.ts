/**
 * The placeholders of an access policy's SQL: `${{ name }}`, alone or as a whole quoted text,
 * stands for a value of the caller's token.
 *
 *   tenant = ${{ tenant }}      ┐
 *   tenant = '${{ tenant }}'    ┴─►   tenant =  policy_value(0)   names: ['tenant']
 *
 * The parser reads the marker as a node of its own, and the value is bound when a query is planned.
 * No value ever stands in SQL text, so none can change its meaning. A placeholder inside a longer
 * text or a comment has no value that could be bound, and is refused.
 */
import type { Expression } from './ast.ts'
import { endOfPart } from './lexical.ts'
import { Refused } from './values.ts'

/** Placeholders in the SQL of an access policy. */
export const PLACEHOLDERS_MAX = 64
/** The function that stands for a placeholder in the text that is parsed. */
export const POLICY_VALUE = 'policy_value'

export interface Replaced {
  readonly sql: string
  /** The names by the index of their marker. */
  readonly names: readonly string[]
}

const OPEN = '$' + '{{'
const PLACEHOLDER = /^\$\{\{[ \t]*([A-Za-z_][\w.-]{0,127})[ \t]*\}\}/
const FORM = `a placeholder is ${OPEN} name }}, alone or as a whole quoted text`

/** The name of the placeholder that is the whole of `text`; undefined if it is none. */
export function placeholderName(text: string): string | undefined {
  const trimmed = text.trim()
  const [whole, name] = PLACEHOLDER.exec(trimmed) ?? []
  return whole === trimmed ? name : undefined
}

export function hasPlaceholder(text: string): boolean {
  return text.includes(OPEN)
}

/**
 * True if the tree has every marker of `count` placeholders, and no other. A text that hides one
 * from the parser, or brings one of its own, has another tree.
 */
export function hasMarkers(expression: Expression, count: number): boolean {
  const found = new Set<number>()
  const open: unknown[] = [expression]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value !== 'object' || value === null) continue
    const node = value as Readonly<Record<string, unknown>>
    if (node['kind'] === 'policyValue') found.add(Number(node['index']))
    open.push(...Object.values(node))
  }
  return found.size === count && [...found].every(index => index >= 0 && index < count)
}

/** The SQL with a marker for each placeholder. Throws Refused. */
export function replacePlaceholders(sql: string): Replaced {
  const names: string[] = []
  let out = ''
  for (let at = 0; at < sql.length; ) {
    const text = sql.slice(at, endOfPiece(sql, at))
    const name = placeholderName(/^['"]/.test(text) ? text.slice(1, -1) : text)
    if (name !== undefined) {
      out += ` ${POLICY_VALUE}(${names.length}) `
      names.push(name)
    } else if (hasPlaceholder(text)) throw new Refused(FORM)
    else out += text
    at += text.length
  }
  if (names.length > PLACEHOLDERS_MAX)
    throw new Refused(`a policy has at most ${PLACEHOLDERS_MAX} placeholders`)
  return { sql: out, names }
}

/** The end of a placeholder, or of another part of the text. */
function endOfPiece(sql: string, at: number): number {
  if (!sql.startsWith(OPEN, at)) return endOfPart(sql, at)
  const end = sql.indexOf('}}', at)
  return end < 0 ? sql.length : end + 2
}
