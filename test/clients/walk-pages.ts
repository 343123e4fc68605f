/** Walks a connection of rows by pages: forward, backward, and from cursors in between. */
import { expect } from 'vitest'
import { below, type Random } from '../util/random.ts'
import { pick } from './rows-model.ts'

type Row = readonly (string | null)[]

export interface Page {
  readonly headers: readonly string[]
  readonly rows: readonly Row[]
  readonly edges: readonly { readonly cursor: string; readonly node: { readonly row: Row } }[]
  readonly pageInfo: {
    readonly startCursor: string | null
    readonly endCursor: string | null
    readonly hasNextPage: boolean
    readonly hasPreviousPage: boolean
  }
}

export const PAGE =
  'headers rows edges { cursor node { headers row } } pageInfo { startCursor endCursor hasNextPage hasPreviousPage }'

/** The arguments of a page, as the React kit sends them: with both numbers. */
type Ask = (page: object) => Promise<Page>

const JUMPS = 8

/**
 * Walks the whole list both ways in pages of random sizes.
 * @param want the rows in order, as JSON; rows within a group are in any order, which is always the
 *   same one
 * @returns the number of pages
 */
export async function walkPages(
  random: Random,
  ask: Ask,
  want: readonly (readonly string[])[],
  where: string,
): Promise<number> {
  const size = () => 1 + below(random, 3 + Math.floor(want.flat().length / 2))
  const cursors: string[][] = []
  let pages = 0
  const get = async (page: object): Promise<Page> => {
    pages += 1
    const answer = await ask(page)
    expect(
      answer.edges.map(({ node }) => node.row),
      where,
    ).toEqual(answer.rows)
    expect([answer.pageInfo.startCursor, answer.pageInfo.endCursor], where).toEqual([
      answer.edges[0]?.cursor ?? null,
      answer.edges.at(-1)?.cursor ?? null,
    ])
    return answer
  }

  const forward: Row[] = []
  for (let after: string | null = null; ; ) {
    const first = size()
    const { rows, edges, pageInfo } = await get({ first, last: 1, after })
    expect(pageInfo.hasPreviousPage, where).toBe(after !== null)
    if (pageInfo.hasNextPage) expect(rows.length, where).toBe(first)
    forward.push(...rows)
    cursors.push(...edges.map(({ cursor }) => [cursor]))
    expect(forward.length, where).toBeLessThanOrEqual(want.flat().length)
    if (!pageInfo.hasNextPage) break
    after = pageInfo.endCursor
  }
  const got = forward.map(row => JSON.stringify(row))
  let at = 0
  for (const group of want) {
    expect(got.slice(at, at + group.length).sort(), where).toEqual([...group].sort())
    at += group.length
  }
  expect(got.length, where).toBe(at)

  let end = forward.length
  for (let before: string | null = null; ; ) {
    const last = size()
    const page: Page = await get(before === null ? { last } : { first: 1, last, before })
    expect(page.pageInfo.hasNextPage, where).toBe(before !== null)
    const from = Math.max(0, end - last)
    expect(page.rows, where).toEqual(forward.slice(from, end))
    expect(page.pageInfo.hasPreviousPage, where).toBe(from > 0)
    for (const [index, { cursor }] of page.edges.entries()) cursors[from + index]?.push(cursor)
    end = from
    if (!page.pageInfo.hasPreviousPage) break
    before = page.pageInfo.startCursor
  }
  expect(end, where).toBe(0)

  let place = 0
  let cursor = ''
  for (let jump = 0; jump < JUMPS && forward.length > 0; jump += 1) {
    // Most jumps begin at a cursor of the page before, which may have come from the other way.
    if (jump === 0 || random() < 0.2) {
      place = below(random, forward.length)
      cursor = cursors[place]?.[below(random, 2)] ?? ''
    }
    const count = size()
    const isForward = random() < 0.5
    const from = isForward ? place + 1 : Math.max(0, place - count)
    const { rows, edges } = await get(
      isForward ? { after: cursor, first: count } : { before: cursor, last: count },
    )
    expect(rows, `${where}, ${isForward ? 'after' : 'before'} row ${place}`).toEqual(
      forward.slice(from, isForward ? from + count : place),
    )
    if (edges.length === 0) continue
    const next = pick(random, [0, edges.length - 1, below(random, edges.length)])
    place = from + next
    cursor = edges[next]?.cursor ?? ''
  }
  return pages
}
