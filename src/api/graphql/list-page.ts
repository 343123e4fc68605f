/**
 * Pagination by `first`, `after`, `last` and `before`. Without arguments a page is the whole list.
 * A cursor holds the position of its item in the list's order, so it stays valid when the item is
 * deleted.
 */
import type { Context } from './context.ts'
import { badRequest } from './graphql-errors.ts'

export interface PageArgs {
  readonly first?: number | null | undefined
  readonly after?: string | null | undefined
  readonly last?: number | null | undefined
  readonly before?: string | null | undefined
}

const CURSOR_PREFIX = 'at:'

/** The part of `items` that the arguments select. Positions must rise strictly in string order. */
function pageOf<T>(items: readonly T[], args: PageArgs, positionOf: (item: T, index: number) => string) {
  const after = positionIn(args.after)
  const before = positionIn(args.before)
  const indexOf = (isBefore: (position: string) => boolean) =>
    firstIndex(items.length, index => !isBefore(positionOf(items[index]!, index)))
  let from = after === undefined ? 0 : indexOf(position => position <= after)
  let to = before === undefined ? items.length : indexOf(position => position < before)
  to = Math.max(from, to)
  const first = countIn('first', args.first)
  const last = countIn('last', args.last)
  if (first !== undefined) to = Math.min(to, from + first)
  if (last !== undefined) from = Math.max(from, to - last)
  const nodes = items.slice(from, to)
  const cursorAt = (i: number) => (i in nodes ? cursorOf(positionOf(nodes[i]!, from + i)) : null)
  return {
    nodes,
    // A getter, because the cursors of 500 columns take longer than their names.
    get edges() {
      return nodes.map((node, i) => ({ cursor: cursorOf(positionOf(node, from + i)), node }))
    },
    pageInfo: {
      startCursor: cursorAt(0),
      endCursor: cursorAt(nodes.length - 1),
      hasNextPage: to < items.length,
      hasPreviousPage: from > 0,
    },
  }
}

export function pageOfDocuments<T>(
  { positionOf }: { readonly positionOf: (document: T) => string },
  documents: readonly T[],
  args: PageArgs,
  { budget }: Context,
) {
  budget.items(documents.length)
  return pageOf(documents, args, positionOf)
}

export function emptyPage(args: PageArgs) {
  return pageOf<never>([], args, () => '')
}

/** The first index for which `isAt` is true; `length` if there is none. It stays true after it. */
function firstIndex(length: number, isAt: (index: number) => boolean): number {
  let from = 0
  let to = length
  while (from < to) {
    const middle = (from + to) >>> 1
    if (isAt(middle)) to = middle
    else from = middle + 1
  }
  return from
}

export function pageByIndex<T>(items: readonly T[], args: PageArgs) {
  return pageOf(items, args, (_, index) => String(index).padStart(16, '0'))
}

function cursorOf(position: string): string {
  return Buffer.from(CURSOR_PREFIX + position).toString('base64url')
}

function positionIn(cursor: string | null | undefined): string | undefined {
  if (cursor === null || cursor === undefined || cursor === '') return undefined
  const text = Buffer.from(cursor, 'base64url').toString()
  if (!text.startsWith(CURSOR_PREFIX)) throw badRequest('The cursor is not one that this server gave.')
  return text.slice(CURSOR_PREFIX.length)
}

function countIn(name: string, count: number | null | undefined): number | undefined {
  if (count === null || count === undefined) return undefined
  if (count < 0) throw badRequest(`"${name}" must not be negative.`)
  return count
}
