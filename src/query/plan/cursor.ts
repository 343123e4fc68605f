/**
 * Cursors: a place in an ordered list, as an opaque text. A cursor holds the values by which its
 * row is ordered, so it stays where it is while rows come and go.
 *
 * A checksum covers the cursor and the list's name. A cursor that is damaged, or of another list,
 * is refused. It is no signature: a caller who makes a valid one only names another place, and each
 * value is bound.
 */

import { createHash } from 'node:crypto'
import { jsonIn } from '../../util/json.ts'

/** A row's place in a list. */
export interface Position {
  /** The values that order the row, as answers print them. */
  readonly values: readonly (string | null)[]
  /** The row's number among the rows with equal values, from 1. */
  readonly ordinal: number
  /** Those rows are numbered from the list's begin, or from its end. */
  readonly countedFrom: 'begin' | 'end'
}

const CHECK_CHARACTERS = 16

/** What cursors of a list are checked against: the same for the same name. */
export function listId(name: string): string {
  return digest(name)
}

export function writeCursor(list: string, { values, ordinal, countedFrom }: Position): string {
  const text = JSON.stringify([countedFrom === 'end' ? -ordinal : ordinal, ...values])
  return Buffer.from(check(list, text) + text).toString('base64url')
}

/** The position of a cursor; undefined if it is none of the list. */
export function readCursor(list: string, cursor: string): Position | undefined {
  const whole = Buffer.from(cursor, 'base64url').toString()
  const text = whole.slice(CHECK_CHARACTERS)
  if (whole.slice(0, CHECK_CHARACTERS) !== check(list, text)) return undefined
  return parsePosition(text)
}

function parsePosition(text: string): Position | undefined {
  const json = jsonIn(text)
  if (!Array.isArray(json)) return undefined
  const [number, ...values] = json as readonly unknown[]
  const isPosition =
    typeof number === 'number' &&
    Number.isSafeInteger(number) &&
    number !== 0 &&
    values.every(value => value === null || typeof value === 'string')
  if (!isPosition) return undefined
  return {
    values: values as readonly (string | null)[],
    ordinal: Math.abs(number),
    countedFrom: number < 0 ? 'end' : 'begin',
  }
}

function check(list: string, text: string): string {
  return digest(list + text).slice(0, CHECK_CHARACTERS)
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
