/**
 * Statements whose answers differ over equal rows: by the clock, or by lot. The functions are those
 * of functions.ts that DuckDB does not call consistent, and those that read the clock in macros. A
 * test compares the lists with DuckDB's.
 */
import { isNode } from '../expression/tree-node.ts'
import { macroName } from './functions.ts'

/** `clock`: equal at one moment. `lot`: never. */
export type Variation = 'clock' | 'lot'

/** `age` of one time alone does, and DuckDB calls it consistent. */
export const CLOCK_FUNCTIONS: ReadonlySet<string> = new Set([
  'age',
  'ago',
  'current_date',
  'current_time',
  'current_timestamp',
  'get_current_timestamp',
  'localtime',
  'localtimestamp',
  'now',
  'today',
  'transaction_timestamp',
  macroName('yesterday'),
])
export const LOT_FUNCTIONS: ReadonlySet<string> = new Set([
  'gen_random_uuid',
  'random',
  'uuid',
  'uuidv4',
  'uuidv7',
])

/** @param tree a walked statement. DuckDB reads `current_date` without () as a column first */
export function variationOf(tree: unknown): Variation | undefined {
  if (Array.isArray(tree)) return strongest(tree)
  if (!isNode(tree)) return undefined
  const column = tree['class'] === 'COLUMN_REF' ? tree['column_names'] : undefined
  const called = Array.isArray(column) ? (column.at(-1) as unknown) : tree['function_name']
  const name = typeof called === 'string' ? called.toLowerCase() : ''
  if (LOT_FUNCTIONS.has(name) && column === undefined) return 'lot'
  const inner = strongest(Object.values(tree))
  return CLOCK_FUNCTIONS.has(name) ? (inner ?? 'clock') : inner
}

function strongest(parts: readonly unknown[]): Variation | undefined {
  const found = parts.map(variationOf)
  return found.find(each => each === 'lot') ?? found.find(each => each === 'clock')
}
