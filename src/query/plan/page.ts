/**
 * A page of an ordered list of rows: which rows it has, and its cursors.
 *
 *   forward    `first` rows after the cursor `after`
 *   backward   `last` rows before the cursor `before`, or from the end
 *
 * Rows that no key tells apart are equal in everything that the page shows. A cursor counts them
 * (cursor.ts), from the begin if it came from a page forward, else from the end.
 *
 *   away from the counted end     the rows at the place and beyond it, without the first `ordinal`
 *   towards the counted end       `ordinal - 1` rows at the place, then those beyond it
 */
import { must } from '../../util/errors.ts'
import { GRAPHQL_VALUES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX } from '../../util/limits.ts'
import { allOf, internal, type Output, outputOf, type Select } from '../expression/select.ts'
import type { Typed } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import { listId, type Position, readCursor, writeCursor } from './cursor.ts'
import { at, beyond, type KeyValues, type OrderKey, orderBy, readKeyValues, type Way } from './keyset.ts'
import type { PrintedRows } from './query-task.ts'

/** The arguments of a page, as the API gives them. Absent, null and '' mean the same. */
export interface PageInput {
  readonly first?: number | null
  readonly after?: string | null
  readonly last?: number | null
  readonly before?: string | null
}

export interface Page {
  readonly way: Way
  readonly count: number
  /** Null where the page starts at the list's begin or, backward, at its end. */
  readonly cursor: string | null
}

export interface List {
  /** Equal for equal lists: what is listed, in which order. */
  readonly name: string
  readonly rows: Pick<Select, 'from' | 'where'>
  /** The columns that are shown. */
  readonly outputs: readonly Output[]
  readonly keys: readonly OrderKey[]
  /** No two rows have equal keys. */
  readonly isTotal: boolean
}

/** A connection, all but `headers`. */
interface PageAnswer {
  readonly rows: PrintedRows
  readonly edges: readonly { readonly node: PageNode; readonly cursor: string }[]
  readonly nodes: readonly PageNode[]
  readonly pageInfo: {
    readonly startCursor: string | null
    readonly endCursor: string | null
    readonly hasNextPage: boolean
    readonly hasPreviousPage: boolean
  }
}

interface PageNode {
  readonly headers: readonly string[]
  readonly row: PrintedRows[number]
}

export interface PlannedPage {
  readonly select: Select
  answer(headers: readonly string[], rows: PrintedRows): PageAnswer
}

/** The page of the arguments. `before` wins: clients send `first` and `last` together. */
export function readPage({ first, after, last, before }: PageInput): Page {
  for (const [name, count] of [
    ['first', first],
    ['last', last],
  ] as const)
    if (typeof count === 'number' && (count < 1 || count > PAGE_ROWS_MAX))
      throw new Refused(`${name}: it is 1 to ${PAGE_ROWS_MAX}`)
  const isFromEnd = !after && (first ?? null) === null && (last ?? null) !== null
  if (before || isFromEnd)
    return { way: 'backward', count: last ?? PAGE_ROWS_DEFAULT, cursor: before || null }
  return { way: 'forward', count: first ?? PAGE_ROWS_DEFAULT, cursor: after || null }
}

/** The plan of a page. One row more than it has tells whether others follow. Throws Refused. */
export function planPage(list: List, page: Page): PlannedPage {
  const { way, count, cursor } = page
  if (count * list.outputs.length > GRAPHQL_VALUES_MAX)
    throw new Refused(
      `a page of ${count} rows with ${list.outputs.length} columns may have more than ${GRAPHQL_VALUES_MAX} values: ask for fewer rows or columns`,
    )
  const id = listId(list.name)
  const position = cursor === null ? null : readCursor(id, cursor)
  const values =
    position === null || position === undefined ? null : readKeyValues(list.keys, position.values)
  if (position === undefined || values === undefined)
    throw new Refused(`${way === 'forward' ? 'after' : 'before'}: this is no cursor of this list`)
  const columns = withKeys(list)
  return {
    select:
      position === null || values === null
        ? { ...list.rows, outputs: columns.outputs, orderBy: orderBy(list.keys, way), limit: count + 1 }
        : selectBeyond(list, columns, page, position, values),
    answer: (headers, rows) => answerPage(list, id, page, position, columns, headers, rows),
  }
}

/** The outputs of a list, with those keys that are not shown, and the place of each key in them. */
interface Columns {
  readonly outputs: readonly Output[]
  readonly keyAt: readonly number[]
}

function withKeys({ outputs: shown, keys }: List): Columns {
  const outputs = [...shown]
  const keyAt = keys.map(({ value }, index) => {
    const found = shown.findIndex(output => output.value === value)
    return found >= 0 ? found : outputs.push({ name: internal(`k${index + 1}`), value }) - 1
  })
  return { outputs, keyAt }
}

function selectBeyond(
  list: List,
  { outputs, keyAt }: Columns,
  { way, count }: Page,
  { ordinal, countedFrom }: Position,
  values: KeyValues,
): Select {
  const { rows, keys, isTotal } = list
  const limit = count + 1
  const part = (condition: Typed | undefined): Select => ({
    ...rows,
    where: allOf([rows.where, condition]),
    outputs,
  })
  const further = { ...part(beyond(keys, values, way, false)), orderBy: orderBy(keys, way), limit }
  if (isTotal) return further
  if ((way === 'forward') === (countedFrom === 'begin')) {
    const from = part(beyond(keys, values, way, true))
    return { ...from, orderBy: orderBy(keys, way), limit, offset: ordinal }
  }
  if (ordinal === 1) return further
  // Rows of both parts, in order: the keys are columns of them.
  const equal = { ...part(at(keys, values)), limit: Math.min(ordinal - 1, limit) }
  const columns = outputs.map(output => ({ name: output.name, value: outputOf(output) }))
  const outerKeys = keys.map((key, index) => ({
    ...key,
    value: must(columns[keyAt[index] as number], 'a key').value,
  }))
  return { from: [equal, further], outputs: columns, orderBy: orderBy(outerKeys, way), limit }
}

function answerPage(
  list: List,
  id: string,
  { way, count }: Page,
  position: Position | null,
  { keyAt }: Columns,
  headers: readonly string[],
  found: PrintedRows,
): PageAnswer {
  const shown = list.outputs.length
  const kept = found.slice(0, count)
  let last = position
  const positions = kept.map(row => {
    last = positionAfter(
      list,
      last,
      keyAt.map(index => row[index] ?? null),
      way,
    )
    return last
  })
  if (way === 'backward') {
    kept.reverse()
    positions.reverse()
  }
  const rows = kept.map(row => row.slice(0, shown))
  const nodes = rows.map(row => ({ headers, row }))
  const cursorAt = (index: number) => writeCursor(id, must(positions[index], 'a row of the page'))
  const [hasMore, hasOther] = [found.length > count, position !== null]
  return {
    rows,
    nodes,
    // A getter, because the cursors of a page take longer than its rows.
    edges: nodes.map((node, index) => ({
      node,
      get cursor() {
        return cursorAt(index)
      },
    })),
    pageInfo: {
      startCursor: rows.length > 0 ? cursorAt(0) : null,
      endCursor: rows.length > 0 ? cursorAt(rows.length - 1) : null,
      hasNextPage: way === 'forward' ? hasMore : hasOther,
      hasPreviousPage: way === 'forward' ? hasOther : hasMore,
    },
  }
}

/** The position of the row that follows `last` on the way. */
function positionAfter(
  { isTotal }: List,
  last: Position | null,
  values: Position['values'],
  way: Way,
): Position {
  const countedFrom = way === 'forward' ? 'begin' : 'end'
  if (isTotal) return { values, ordinal: 1, countedFrom: 'begin' }
  if (last === null || last.values.some((value, index) => value !== values[index]))
    return { values, ordinal: 1, countedFrom }
  const step = last.countedFrom === countedFrom ? 1 : -1
  return { values, ordinal: Math.max(1, last.ordinal + step), countedFrom: last.countedFrom }
}
