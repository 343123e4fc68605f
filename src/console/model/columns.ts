/** Column types, and the operators of filters that people choose from. */

export const COLUMN_TYPES = [
  'STRING',
  'DOUBLE',
  'INT64',
  'BOOLEAN',
  'TIMESTAMP',
  'DATE',
  'JSON',
  'FLOAT',
  'INT32',
  'INT16',
  'INT8',
] as const
export type ColumnType = (typeof COLUMN_TYPES)[number]

export const OPERATORS = {
  EQUALS: '=',
  NOT_EQUALS: '≠',
  GREATER_THAN: '>',
  GREATER_THAN_OR_EQUAL_TO: '≥',
  LESS_THAN: '<',
  LESS_THAN_OR_EQUAL_TO: '≤',
  LIKE: 'like',
  IS_NULL: 'is null',
  IS_NOT_NULL: 'is not null',
} as const
export type Operator = keyof typeof OPERATORS

export interface Filter {
  readonly column: string
  readonly operator: Operator
  readonly value?: string
}

export function takesValue(operator: Operator): boolean {
  return operator !== 'IS_NULL' && operator !== 'IS_NOT_NULL'
}

/** The columns that each pool has, besides those of its source. */
export const RECEIVED_AT = '_service_received_at'
export const PAYLOAD = '_service_payload'

const ALIGNED_RIGHT: ReadonlySet<string> = new Set(['DOUBLE', 'FLOAT', 'INT8', 'INT16', 'INT32', 'INT64'])

export function isNumeric(type: string): boolean {
  return ALIGNED_RIGHT.has(type)
}

/** The width of a grid's column, in pixels. */
export function widthOf(type: string): number {
  if (type === 'TIMESTAMP') return 200
  return type === 'JSON' ? 320 : isNumeric(type) || type === 'BOOLEAN' ? 110 : 150
}

/** Names as addresses and routes take them: between commas, or as JSON where a name has one. */
export function listOf(names: readonly string[]): string {
  const isPlain = names.every(name => !name.includes(',') && !name.startsWith('['))
  return isPlain ? names.join(',') : JSON.stringify(names)
}

export function namesOf(list: string): readonly string[] {
  if (!list.startsWith('[')) return list.split(',')
  try {
    const read: unknown = JSON.parse(list)
    return Array.isArray(read) ? read.filter(name => typeof name === 'string') : []
  } catch {
    return [] // a link that somebody cut
  }
}

/** Filters as an address has them: JSON, left out where there are none. */
export function filtersOf(text: string | undefined): Filter[] {
  if (text === undefined || text === '') return []
  try {
    const read: unknown = JSON.parse(text)
    return Array.isArray(read) ? read.filter(isFilter) : []
  } catch {
    return [] // a link that somebody cut
  }
}

function isFilter(one: unknown): one is Filter {
  const { column, operator } = (one ?? {}) as Partial<Filter>
  return typeof column === 'string' && typeof operator === 'string' && Object.hasOwn(OPERATORS, operator)
}
