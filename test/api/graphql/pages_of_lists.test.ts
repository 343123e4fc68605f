import { describe, expect, test } from 'vitest'
import type { Context } from '../../../src/api/graphql/context.ts'
import { type PageArgs, pageOfDocuments } from '../../../src/api/graphql/list-page.ts'

const ITEMS = [10, 20, 30, 40, 50]

function page(args: PageArgs, items = ITEMS) {
  const places = { positionOf: (item: number) => String(item).padStart(16, '0') }
  return pageOfDocuments(places, items, args, { budget: { items() {} } } as unknown as Context)
}

function cursorOf(item: number): string {
  return page({}).edges.find(({ node }) => node === item)!.cursor
}

function check(args: PageArgs, nodes: readonly number[], previous: boolean, next: boolean): void {
  const { edges, pageInfo, nodes: got } = page(args)
  expect(got).toEqual(nodes)
  expect(edges.map(edge => edge.node)).toEqual(nodes)
  expect(pageInfo).toEqual({
    startCursor: edges[0]?.cursor ?? null,
    endCursor: edges.at(-1)?.cursor ?? null,
    hasPreviousPage: previous,
    hasNextPage: next,
  })
}

describe('a page', () => {
  test('without arguments, with nulls or an empty cursor, is the whole list', () => {
    check({}, ITEMS, false, false)
    check({ first: null, after: '', last: null, before: null }, ITEMS, false, false)
  })

  test('goes forward and backward', () => {
    check({ first: 2 }, [10, 20], false, true)
    check({ first: 2, after: cursorOf(20) }, [30, 40], true, true)
    check({ first: 2, after: cursorOf(40) }, [50], true, false)
    check({ last: 2 }, [40, 50], true, false)
    check({ last: 2, before: cursorOf(40) }, [20, 30], true, true)
    check({ first: 3, last: 1 }, [30], true, true)
    check({ after: cursorOf(20), before: cursorOf(50) }, [30, 40], true, true)
    check({ first: 0 }, [], false, true)
    check({ after: cursorOf(50) }, [], true, false)
    check({ after: cursorOf(40), before: cursorOf(20) }, [], true, true)
  })

  test('continues after a deleted item', () => {
    expect(page({ first: 1, after: cursorOf(30) }, [10, 20, 40, 50]).nodes).toEqual([40])
  })

  test('is refused for a cursor that the server never gave', () => {
    expect(() => page({ first: -1 })).toThrow(/negative/)
    expect(() => page({ last: -1 })).toThrow(/negative/)
    expect(() => page({ after: 'garbage' })).toThrow(/cursor/)
  })
})
