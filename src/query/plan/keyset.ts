/**
 * The rows beyond a place in an order, as a condition. A page that begins at such a place costs the
 * same wherever it lies, and no row that comes or goes elsewhere moves it.
 *
 * Nulls are last in the list, whatever the direction of a key.
 */
import type { ColumnType } from '../../format/schema.ts'
import { parsePrinted, tryValue } from '../expression/operand.ts'
import { allOf, type Order } from '../expression/select.ts'
import { boundValue, operation, type Typed, wholeValue } from '../expression/typed.ts'

/** A value that orders the rows of a list. */
export interface OrderKey {
  readonly value: Typed
  /** INTEGER is a whole number of any size, such as a sum. */
  readonly type: ColumnType | 'INTEGER'
  readonly direction: 'ASC' | 'DESC'
  readonly isNullable: boolean
}

/** The values of a place, null for null. */
export type KeyValues = readonly (Typed | null)[]

/** To the list's end, or to its begin. */
export type Way = 'forward' | 'backward'

/** The order of a list, or of the list from its end. */
export function orderBy(keys: readonly OrderKey[], way: Way): readonly Order[] {
  return keys.map(({ value, direction }) => {
    if (way === 'forward') return { value, direction }
    return { value, direction: direction === 'ASC' ? 'DESC' : 'ASC', nulls: 'FIRST' } as const
  })
}

/** Printed values of the keys as values of a plan; undefined if they are none. */
export function readKeyValues(
  keys: readonly OrderKey[],
  texts: readonly (string | null)[],
): KeyValues | undefined {
  if (texts.length !== keys.length) return undefined
  const values = keys.map(({ type }, index) => {
    const text = texts[index] ?? null
    return text === null ? null : readKey(type, text)
  })
  return values.every(value => value !== undefined) ? values : undefined
}

function readKey(type: OrderKey['type'], text: string): Typed | undefined {
  if (type === 'INTEGER')
    return /^-?\d+$/.test(text) && text.length <= DIGITS_MAX ? wholeValue(BigInt(text)) : undefined
  if (type === 'TIMESTAMP' || type === 'DATE') return readTime(type, text)
  // The text of a JSON value is compared, and it was read as JSON before.
  const bound = tryValue(type === 'JSON' ? 'STRING' : type, text)
  return bound && boundValue(bound)
}

function readTime(type: 'DATE' | 'TIMESTAMP', text: string): Typed | undefined {
  const value = parsePrinted(type, text)
  return value === undefined ? undefined : boundValue({ type, value: String(value) })
}

const DIGITS_MAX = 39

/**
 * The rows beyond a place: those after it on the way to the list's end, or before it on the way to
 * its begin.
 * @param isInclusive the rows at the place are among them
 */
export function beyond(
  keys: readonly OrderKey[],
  values: KeyValues,
  way: Way,
  isInclusive: boolean,
): Typed | undefined {
  let condition: Typed = boundValue({ type: 'BOOLEAN', value: isInclusive })
  for (let index = keys.length - 1; index >= 0; index -= 1) {
    const key = keys[index] as OrderKey
    const value = values[index] ?? null
    const rest = operation('and', 'boolean', [sameKey(key, value), condition])
    condition = operation('or', 'boolean', [beyondKey(key, value, way, false), rest])
  }
  const [key] = keys
  // The first key alone says less, and engines skip row groups by it.
  return key === undefined ? condition : allOf([beyondKey(key, values[0] ?? null, way, true), condition])
}

export function at(keys: readonly OrderKey[], values: KeyValues): Typed | undefined {
  return allOf(keys.map((key, index) => sameKey(key, values[index] ?? null)))
}

function sameKey({ value: key }: OrderKey, value: Typed | null): Typed {
  return value === null ? operation('is_null', 'boolean', [key]) : operation('=', 'boolean', [key, value])
}

function beyondKey(
  { value: key, direction, isNullable }: OrderKey,
  value: Typed | null,
  way: Way,
  isInclusive: boolean,
): Typed {
  if (value === null) {
    if (way === 'forward') return isInclusive ? operation('is_null', 'boolean', [key]) : FALSE
    return isInclusive ? TRUE : operation('is_not_null', 'boolean', [key])
  }
  const operator = (direction === 'ASC') === (way === 'forward') ? '>' : '<'
  const compared = operation(isInclusive ? `${operator}=` : operator, 'boolean', [key, value])
  if (way === 'backward' || !isNullable) return compared
  return operation('or', 'boolean', [compared, operation('is_null', 'boolean', [key])])
}

const TRUE = boundValue({ type: 'BOOLEAN', value: true })
const FALSE = boundValue({ type: 'BOOLEAN', value: false })
