/** The parser's queue and cache: applications in turn, bounds, failures. */
import { expect, test } from 'vitest'
import { ParseCache, ParseQueue } from '../../../src/query/duckdb/parse-texts.ts'
import { EXPRESSIONS_CACHED_CHARACTERS, EXPRESSIONS_PARSING_MAX } from '../../../src/util/limits.ts'

/** A parser that answers when it is told to. */
function slowParser() {
  const open: { readonly text: string; readonly answer: (error?: Error) => void }[] = []
  const parse = (text: string) =>
    new Promise<string>((resolve, reject) => {
      open.push({ text, answer: error => (error === undefined ? resolve(text) : reject(error)) })
    })
  return { open, parse }
}

test('one text is parsed at a time, and applications take turns', async () => {
  const { open, parse } = slowParser()
  const queue = new ParseQueue(parse)
  const answers = [...Array(5).keys()].map(i => queue.run(`a${i}`, 'a'))
  answers.push(queue.run('b0', 'b'))
  const settled = Promise.allSettled(answers)
  const order: string[] = []
  for (let turns = 0; turns < 6; turns++) {
    expect(open).toHaveLength(1)
    const { text, answer } = open.pop()!
    order.push(text)
    answer(text === 'a1' ? new Error('no memory') : undefined)
    await new Promise(resolve => setImmediate(resolve))
  }
  expect(order).toEqual(['a0', 'a1', 'b0', 'a2', 'a3', 'a4'])
  expect((await settled).map(({ status }) => status === 'fulfilled')).toEqual([
    true,
    false,
    ...Array(4).fill(true),
  ])
})

test('an application fills half of the queue, and others share the rest', async () => {
  const queue = new ParseQueue(slowParser().parse)
  const refused = async (key: string) => {
    const first = await Promise.race([
      queue.run('x', key).catch((error: Error) => error.message),
      new Promise(resolve => setImmediate(() => resolve('waits'))),
    ])
    return first !== 'waits'
  }
  for (let i = 0; i <= EXPRESSIONS_PARSING_MAX / 2; i++) void queue.run(`a${i}`, 'a')
  expect([await refused('a'), await refused('b')]).toEqual([true, false])
  for (let i = 1; i < EXPRESSIONS_PARSING_MAX / 4; i++) void queue.run(`b${i}`, 'b')
  expect([await refused('b'), await refused('c')]).toEqual([true, false])
})

test('the cache answers equal texts once, forgets failures and the oldest texts', async () => {
  const asked: string[] = []
  const cache = new ParseCache(async text => {
    asked.push(text.slice(0, 1))
    if (text === 'failing') throw new Error('no memory')
    return { kind: 'text', text }
  })
  await Promise.all([cache.get('same', 'a'), cache.get('same', 'b'), cache.get('same', 'a')])
  expect(asked).toEqual(['s'])
  await expect(cache.get('failing', 'a')).rejects.toThrow()
  await expect(cache.get('failing', 'a')).rejects.toThrow()
  expect(asked).toEqual(['s', 'f', 'f'])
  const half = EXPRESSIONS_CACHED_CHARACTERS / 2
  await cache.get('1'.repeat(half), 'a')
  await cache.get('same', 'a')
  await cache.get('2'.repeat(half), 'a')
  await cache.get('same', 'a')
  await cache.get('1'.repeat(half), 'a')
  expect(asked).toEqual(['s', 'f', 'f', '1', '2', '1'])
})
