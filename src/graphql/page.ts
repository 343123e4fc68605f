/**
 * Pagination: `first`, `after`, `last`, `before`; without arguments everything. A cursor holds the position of
 * its item in the list's order, so it stays good when the item is deleted.
 */
import { badRequest } from './errors.ts'

/** A connection's arguments. */
export interface PageArgs {
  readonly first?: number | null
  readonly after?: string | null
  readonly last?: number | null
  readonly before?: string | null
}

interface Connection<T> {
  readonly edges: readonly { readonly cursor: string; readonly node: T }[]
  readonly nodes: readonly T[]
  readonly pageInfo: {
    readonly startCursor: string | null
    readonly endCursor: string | null
    readonly hasNextPage: boolean
    readonly hasPreviousPage: boolean
  }
}

const CURSOR_PREFIX = 'at:'

/** The asked part of `items`, whose positions rise strictly in string order. */
export function pageOf<T>(
  items: readonly T[],
  args: PageArgs,
  positionOf: (item: T, index: number) => string,
): Connection<T> {
  const positions = items.map(positionOf)
  const after = positionIn(args.after)
  const before = positionIn(args.before)
  let from = after === undefined ? 0 : positions.filter(position => position <= after).length
  let to = before === undefined ? items.length : positions.filter(position => position < before).length
  to = Math.max(from, to)
  const first = countIn('first', args.first)
  const last = countIn('last', args.last)
  if (first !== undefined) to = Math.min(to, from + first)
  if (last !== undefined) from = Math.max(from, to - last)
  const edges = items.slice(from, to).map((node, i) => ({ cursor: cursorOf(positions[from + i]!), node }))
  return {
    edges,
    nodes: edges.map(edge => edge.node),
    pageInfo: {
      startCursor: edges[0]?.cursor ?? null,
      endCursor: edges.at(-1)?.cursor ?? null,
      hasNextPage: to < items.length,
      hasPreviousPage: from > 0,
    },
  }
}

/** A number as a position that sorts as a string. */
export function numberPosition(number: number): string {
  return String(number).padStart(16, '0')
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
