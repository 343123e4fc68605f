/**
 * W-9: the cache of deleted rows has one state of each file, the newest, and a limit of bytes.
 */
import { expect, test } from 'vitest'
import { bytesOf, DeletedRowsCache } from '../../src/query/duckdb/deleted-rows-cache.ts'

/** A cache of names, with room for this many states of one deleted row. */
function cacheOf(states: number) {
  const dropped: string[] = []
  const cache = new DeletedRowsCache<string>(states * bytesOf(1), form => dropped.push(form))
  const use = (file: string, deleted = 1) => {
    const form = cache.find(file, deleted) ?? `${file}${deleted}`
    if (cache.find(file, deleted) === undefined) cache.add(file, deleted, form)
    cache.dropBeyondLimit()
    return form
  }
  return { cache, dropped, use }
}

test('a newer state replaces the one of its file, an older one serves its own query alone', () => {
  const { cache, dropped, use } = cacheOf(100)
  expect(cache.find('a', 1)).toBeUndefined()
  expect(cache.add('a', 1, 'one')).toBe(true)
  expect(cache.find('a', 1)).toBe('one')
  expect(cache.find('a', 2)).toBeUndefined()
  expect(cache.add('a', 2, 'two')).toBe(true)
  expect(dropped).toEqual(['one'])
  expect(cache.add('a', 1, 'older')).toBe(false)
  expect(cache.find('a', 1)).toBeUndefined()
  expect(use('a', 2)).toBe('two')
  expect(dropped).toEqual(['one'])
  expect(cache.bytes).toBe(bytesOf(2))
})

test('the least recently used states are dropped beyond the limit', () => {
  const { cache, dropped, use } = cacheOf(3)
  for (const file of ['a', 'b', 'c', 'a', 'd']) use(file)
  expect(dropped).toEqual(['b1'])
  expect(cache.bytes).toBe(3 * bytesOf(1))
  use('large', 1_000)
  expect(dropped).toEqual(['b1', 'c1', 'a1', 'd1', 'large1000'])
  expect(cache.bytes).toBe(0)
})

test('the states of a query stay together until it has all of them', () => {
  const { cache, dropped } = cacheOf(1)
  for (const file of ['a', 'b', 'c']) cache.add(file, 1, file)
  expect(['a', 'b', 'c'].map(file => cache.find(file, 1))).toEqual(['a', 'b', 'c'])
  expect(dropped).toEqual([])
  cache.dropBeyondLimit()
  expect(dropped).toEqual(['a', 'b'])
})

test('the state of a removed file is dropped once', () => {
  const { cache, dropped, use } = cacheOf(100)
  for (const file of ['a', 'b']) use(file)
  cache.forget(['a', 'never seen'])
  cache.forget(['a'])
  expect(dropped).toEqual(['a1'])
  expect(cache.bytes).toBe(bytesOf(1))
})
