/**
 * The native kernel reads bodies that stand between others in shared memory, and writes what the js
 * kernel writes.
 */
import { describe, expect, test } from 'vitest'
import { columnView } from '../../src/format/batch-layout.ts'
import { DOCUMENT } from '../../src/parse/event-error.ts'
import { FLAG, OUTCOME_WORDS, REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { makeJsKernel } from '../../src/parse/kernel-js.ts'
import { bodyOf, makeNativeKernel, nativeModule, SCHEMA, shared } from './native_calls.ts'

describe.skipIf(nativeModule === undefined)('native kernel', () => {
  test('parses many requests of a shared slab as the js kernel does', () => {
    const bodies = Array.from({ length: 9 }, (_, salt) => bodyOf(salt * 60, salt))
    const { slab, table } = shared(bodies)
    table[3 * REQUEST_WORDS + REQUEST.flags] = FLAG.all_or_nothing
    const native = makeNativeKernel(SCHEMA, 'post')
    const js = makeJsKernel(SCHEMA, 'post')
    for (const [from, to] of [
      [0, 9],
      [2, 5],
      [3, 4],
      [8, 9],
    ] as const) {
      const want = js.parse(slab, table, from, to)
      const have = native.parse(slab, table, from, to)
      expect(have.outcomes).toEqual(want.outcomes)
      expect(have.errors).toEqual(want.errors)
      expect(Buffer.from(have.batch).equals(Buffer.from(want.batch))).toBe(true)
    }
  })

  test('a undecided request leaves nothing behind', () => {
    const broken = `${bodyOf(20, 1).slice(0, -1)},{"id":"x","time":1,"amount":[1e400]}]`
    const { slab, table } = shared([bodyOf(3, 1), broken, '[]', bodyOf(4, 2)])
    const parsed = makeNativeKernel(SCHEMA, 'post').parse(slab, table, 0, 4)
    const documents = Array.from({ length: 4 }, (_, i) => parsed.outcomes[i * OUTCOME_WORDS + 2])
    expect(documents).toEqual([DOCUMENT.ok, DOCUMENT.undecided, DOCUMENT.ok, DOCUMENT.ok])
    const faulty = parsed.errors.filter((_, i) => i % 4 === 0)
    expect([...faulty]).toEqual([0, 3])
    expect(new Int32Array(parsed.batch, 0, 3)[2]).toBe(2 + 3)
  })

  test('1,024 open containers are parsed, one more is undecided', () => {
    const nested = (depth: number, inside: string) =>
      `[{"id":"a","time":0,"extra":${'['.repeat(depth - 2)}${inside}${']'.repeat(depth - 2)}}]`
    const { slab, table } = shared([
      nested(1024, ''),
      nested(1024, '1'),
      nested(1023, '{}'),
      nested(1024, '{}'),
      nested(1025, '1'),
    ])
    const { outcomes } = makeNativeKernel(SCHEMA, 'post').parse(slab, table, 0, 5)
    const { ok, undecided } = DOCUMENT
    expect([2, 6, 10, 14, 18].map(word => outcomes[word])).toEqual([ok, ok, ok, undecided, undecided])
  })

  test('the payload is the bytes as sent, white space around events off', () => {
    const events = ['{"id" : "a",\n"time":0 }', '{"time":1,"id":"b\\u0041"}']
    const { slab, table } = shared([` [ ${events[0]} ,\t${events[1]} ]\r\n`])
    const { batch } = makeNativeKernel(SCHEMA, 'post').parse(slab, table, 0, 1)
    const view = columnView(batch, 0)
    expect(Buffer.from(batch, view.dataOffset, view.dataBytes).toString()).toBe(events.join(''))
  })

  test.each([
    '',
    ' ',
    '1',
    '"a"',
    'null',
    '[',
    '{}x',
    '\ufeff{}',
    '["\\udc00"]',
    '["\\ud800"]',
    '[1e400]',
    '[18446744073709551616]',
    `${'['.repeat(1025)}${']'.repeat(1025)}`,
    `[${'{},'.repeat(500)}{}]`,
  ])('%.20s is undecided or refused, never accepted', body => {
    const { slab, table } = shared([body])
    const parsed = makeNativeKernel({ ...SCHEMA, columns: [], key: null }, 'post').parse(slab, table, 0, 1)
    expect(parsed.outcomes[2] !== DOCUMENT.ok || parsed.outcomes[1] === 0).toBe(true)
    expect(new Int32Array(parsed.batch, 0, 3)[2]).toBe(0)
  })
})
