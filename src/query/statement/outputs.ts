/**
 * The outputs of one SELECT: their names, and what DuckDB makes of their aliases.
 *
 *   names     An output without an alias has the name of its column or function, as in PostgreSQL,
 *             else `?column?`. DuckDB would write the whole expression.
 *   aliases   DuckDB puts an output into the place of its alias in the others. A chain of aliases
 *             that each names the one before it twice would double with each.
 */
import { isNode, type Node } from '../expression/tree-node.ts'
import { Refused } from '../expression/values.ts'

/** Parts of the outputs of a SELECT, with aliases replaced. */
const PARTS_MAX = 20_000
const ALL_PARTS_MAX = 100_000

export function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}

export class Outputs {
  /** How often the SELECT names each column so far. */
  readonly #names: Map<string, number>
  /** Parts of each alias, in lower case. */
  readonly #sizes = new Map<string, number>()
  readonly #written: Node[] = []
  /** How often each output names the column that it would be called. */
  readonly #own: number[] = []
  #nodes = 0

  constructor(names: Map<string, number>) {
    this.#names = names
  }

  /**
   * Walks an output, and counts it. Throws Refused.
   * @param walk returns the walked output, and the number of all nodes so far
   */
  add(written: Node, walk: () => readonly [Node, number]): Node {
    const before = new Map(this.#names)
    const name = nameOf(written)
    const [walked, nodes] = walk()
    const named = (alias: string) => (this.#names.get(alias) ?? 0) - (before.get(alias) ?? 0)
    let size = this.#written.length === 0 ? 1 : nodes - this.#nodes
    for (const [alias, parts] of this.#sizes) size += named(alias) * parts
    if (size > PARTS_MAX) throw new Refused('the outputs of a SELECT name one another too often')
    const alias = String(written['alias']).toLowerCase()
    if (alias !== '') this.#sizes.set(alias, Math.max(size, this.#sizes.get(alias) ?? 0))
    this.#nodes = nodes
    this.#written.push(written)
    this.#own.push(named(name.toLowerCase()))
    return walked
  }

  /**
   * The walked outputs with their names, after the whole SELECT. Throws Refused. One gets none
   * where another part of its SELECT reads a column of that name, which DuckDB would take for the
   * output. A column that is cast keeps its name: WHERE and GROUP BY mean the column by it.
   * @param ordered the names of ORDER BY, which mean outputs
   * @param filtered the names of HAVING and QUALIFY, in which DuckDB looks for outputs first
   */
  named(walked: readonly Node[], ordered: Names, filtered: Names): readonly Node[] {
    let parts = 0
    for (const [alias, size] of this.#sizes)
      for (const names of [this.#names, ordered, filtered]) parts += (names.get(alias) ?? 0) * size
    if (parts > ALL_PARTS_MAX) throw new Refused('the parts of a SELECT name its outputs too often')
    return walked.map((output, at) => {
      const written = this.#written[at] ?? output
      const isPlain = written['class'] === 'STAR' || written['class'] === 'COLUMN_REF'
      if (output['alias'] !== '' || isPlain || hasColumns(written)) return output
      const alias = nameOf(written)
      const key = alias.toLowerCase()
      const isElsewhere = (this.#names.get(key) ?? 0) > (this.#own[at] ?? 0)
      const isRead = filtered.has(key) || (isElsewhere && !isCastColumn(written))
      return isRead ? output : { ...output, alias }
    })
  }
}

type Names = ReadonlyMap<string, number>

function isCastColumn(node: unknown): boolean {
  if (!isNode(node)) return false
  return node['class'] === 'CAST' ? isCastColumn(node['child']) : node['class'] === 'COLUMN_REF'
}

/** COLUMNS(…) makes outputs with a name each. */
function hasColumns(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasColumns)
  if (!isNode(value) || value['class'] === 'SUBQUERY') return false
  return (value['class'] === 'STAR' && value['columns'] === true) || Object.values(value).some(hasColumns)
}

function nameOf(node: unknown): string {
  if (!isNode(node)) return '?column?'
  switch (node['class']) {
    case 'COLUMN_REF':
      return String((node['column_names'] as readonly string[]).at(-1))
    case 'FUNCTION':
    case 'WINDOW': {
      const name = String(node['function_name'])
      return name === 'count_star' ? 'count' : name
    }
    case 'CAST':
      return nameOf(node['child'])
    case 'CASE':
      return 'case'
    case 'OPERATOR':
      return OPERATORS[String(node['type'])] ?? '?column?'
    case 'SUBQUERY':
      return node['subquery_type'] === 'EXISTS' ? 'exists' : '?column?'
    default:
      return '?column?'
  }
}

const OPERATORS: Readonly<Record<string, string>> = {
  OPERATOR_COALESCE: 'coalesce',
  GROUPING_FUNCTION: 'grouping',
  ARRAY_CONSTRUCTOR: 'array',
}
