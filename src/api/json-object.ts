/**
 * JSON objects of requests, with limits that hold before they are parsed.
 *
 *   W-11  The cost of parsing depends on objects, lists and commas, not on length: half a megabyte
 *         of column names takes 2 ms, of `{}` 50 ms.
 */

import { COMMA, OPEN_ARRAY, OPEN_OBJECT } from '../parse/characters.ts'
import { isObject } from '../util/json.ts'

/**
 * Objects, lists, commas and comments of a body, counted before it is parsed, which takes 10 ms.
 * COLUMNS_MAX columns or FILTERS_MAX filters have 2,500.
 */
const GRAPHQL_BODY_PARTS_MAX = 10_000

/** The object in these bytes, or what is wrong with `what`, such as 'The body'. */
export function readJsonObject(what: string, bytes: Uint8Array): Readonly<Record<string, unknown>> | string {
  if (hasMoreParts(bytes, GRAPHQL_BODY_PARTS_MAX))
    return `${what} has more than ${GRAPHQL_BODY_PARTS_MAX} objects, lists and commas.`
  const json = jsonOf(bytes)
  if (json === undefined) return `${what} is not JSON in UTF-8.`
  return isObject(json) ? json : `${what} must be one JSON object.`
}

export function jsonOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return undefined
  }
}

/** The begin of a comment in a GraphQL document. The lexer makes a token of each. */
const COMMENT = 0x23

/** Counts inside strings too, because a GraphQL document has its own braces and commas. */
function hasMoreParts(bytes: Uint8Array, max: number): boolean {
  let parts = 0
  for (const byte of bytes)
    if (byte === COMMA || byte === OPEN_OBJECT || byte === OPEN_ARRAY || byte === COMMENT) parts += 1
  return parts > max
}

/** True if `value` nests deeper than `max`. Walks level by level, without recursion. */
export function isDeeperThan(value: unknown, max: number): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > max) return true
    const next: unknown[] = []
    for (const item of level)
      if (typeof item === 'object' && item !== null) for (const inner of Object.values(item)) next.push(inner)
    level = next
  }
  return false
}
