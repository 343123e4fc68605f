/** W-9: room that applications share, by shares.ts. */
import { expect, test } from 'vitest'
import { HeldBytes } from '../../src/api/graphql/context.ts'
import { Shares } from '../../src/util/shares.ts'

function takeAll(shares: Shares, key: string, amount = 1): number {
  let taken = 0
  while (shares.tryTake(key, amount)) taken += amount
  return taken
}

test('each one may have what the others leave free, so that a further one finds room', () => {
  const shares = new Shares(240)
  expect(takeAll(shares, 'a')).toBe(120)
  expect(takeAll(shares, 'b')).toBe(60)
  expect(takeAll(shares, 'c')).toBe(30)
  for (let count = 0; count < 80; count += 1) shares.give('a')
  expect(takeAll(shares, 'a')).toBe(35) // it has 75, and as many are free
  expect(shares.all).toBe(75 + 60 + 30)
})

test('even the last place is taken, and none beside it', () => {
  const shares = new Shares(3)
  expect([takeAll(shares, 'a'), takeAll(shares, 'b'), takeAll(shares, 'c')]).toEqual([2, 1, 0])
  for (const key of ['a', 'a', 'b']) shares.give(key)
  expect([shares.all, takeAll(shares, 'c')]).toEqual([0, 2])
})

test('amounts differ: a large one waits where a small one goes', () => {
  const shares = new Shares(100)
  expect([shares.tryTake('a', 60), shares.tryTake('a', 20), shares.tryTake('b', 40)]).toEqual([
    true,
    false,
    true,
  ])
  shares.give('a', 60)
  expect([shares.tryTake('b', 20), shares.tryTake('c', 41), shares.tryTake('c', 40)]).toEqual([
    true,
    false,
    true,
  ])
})

test('a request that has released its memory takes none later', () => {
  const room = new Shares(1_000)
  const held = new HeldBytes(room, 'A')
  expect(held.tryAdd(100)).toBe(true)
  // The answer is written at the first error, and another question of the document ends later.
  held.release()
  expect(() => held.rows([['a row']])).toThrow('hold too many rows')
  expect(room.all).toBe(0)
})
