/** Rows of rejected events: their texts, their pieces, and the bytes that a group may make. */
import { expect, test } from 'vitest'
import {
  elementsOf,
  REJECTED_TEXT_BYTES_MAX,
  type Rejected,
  RejectedWriter,
} from '../../src/parse/rejected-rows.ts'
import { BODY_BYTES_MAX, DEPTH_MAX, EVENTS_MAX, KiB, MiB } from '../../src/util/limits.ts'
import { JsonMaker } from '../fuzz/json.ts'
import { Random } from '../fuzz/random.ts'
import { newSeed } from '../util/random.ts'
import { GRANT, type Row } from './rejected.ts'

const EVENT = {
  request: 0,
  index: 0,
  code: 'wrong_type',
  column: 'n',
  message: 'column "n" (property "n") takes INT64, found a string',
  contentType: 'application/json',
  context: new Uint8Array(0),
} satisfies Omit<Rejected, 'text'>

const NOTHING = Buffer.from('{}')

function rowOf(text: Uint8Array | undefined, more: Partial<Rejected> = {}): Row {
  const writer = new RejectedWriter(GRANT)
  writer.add({ ...EVENT, text, ...more })
  const { pieces, leftOut } = writer.end()
  expect([pieces.length, pieces[0]?.rows, leftOut]).toEqual([1, 1, 0])
  return JSON.parse(Buffer.from(pieces[0]!.json).toString()) as Row
}

test('a row has the properties of its source, and an id that sorts by time', () => {
  const text = '{"n":"a \\u0000 \\" é 😀 \u007f \\ud83d\\ude00"}'
  expect(rowOf(Buffer.from(text), { context: Buffer.from('{"$header.x-a":"1"}'), index: 3 })).toEqual({
    source_id: 'DSO1',
    data_pool_id: 'DPO1',
    id: '1700000000000000-7-000-003',
    code: EVENT.code,
    column_name: 'n',
    message: EVENT.message,
    content_type: 'application/json',
    element_index: 3,
    text,
    is_truncated: false,
    context: { '$header.x-a': '1' },
  })
  const request = rowOf(undefined, { index: null, column: null, contentType: null, request: 5 })
  expect(request).toMatchObject({ element_index: null, text: null, is_truncated: true, column_name: null })
  expect([request.id, 'context' in request]).toEqual(['1700000000000000-7-005-request', false])
  expect(rowOf(Buffer.from(''))).toMatchObject({ text: '', is_truncated: false })
})

test('a long text is cut between two characters, whatever their width', () => {
  for (const character of ['a', 'é', '€', '😀'])
    for (let before = 0; before < 5; before += 1) {
      const width = Buffer.byteLength(character)
      const whole = 'x'.repeat(before) + character.repeat(REJECTED_TEXT_BYTES_MAX / width + 2)
      const { text, is_truncated: isTruncated } = rowOf(Buffer.from(whole))
      const bytes = Buffer.byteLength(text!)
      expect([character, before, whole.startsWith(text!), isTruncated]).toEqual([
        character,
        before,
        true,
        true,
      ])
      expect(bytes).toBeLessThanOrEqual(REJECTED_TEXT_BYTES_MAX)
      expect(bytes).toBeGreaterThan(REJECTED_TEXT_BYTES_MAX - width)
    }
  const atLimit = 'é'.repeat(REJECTED_TEXT_BYTES_MAX / 2)
  expect(rowOf(Buffer.from(atLimit))).toMatchObject({ text: atLimit, is_truncated: false })
})

test.each([
  ['a byte that begins nothing', Buffer.from([0x61, 0xff, 0x62]), 'a\ufffdb'],
  ['half of a surrogate pair', Buffer.from([0xed, 0xa0, 0x80]), '\ufffd\ufffd\ufffd'],
  ['a character that is cut off', Buffer.from([0x61, 0xf0, 0x9f, 0x98]), 'a\ufffd'],
  ['two bytes for an ASCII one', Buffer.from([0xc0, 0xaf]), '\ufffd\ufffd'],
])('bytes that are no UTF-8 are replaced, and the row says so: %s', (_, bytes, text) => {
  expect(rowOf(bytes)).toMatchObject({ text, is_truncated: true })
})

test('a long text without any beginning of a character is cut too', () => {
  const { text, is_truncated: isTruncated } = rowOf(Buffer.alloc(REJECTED_TEXT_BYTES_MAX + 10, 0x80))
  expect([/^\ufffd+$/.test(text!), isTruncated]).toEqual([true, true])
})

test('every piece has room in a request: by bytes, and by events', () => {
  const tiny = new RejectedWriter({ ...GRANT, bytesMax: 64 * MiB })
  for (let index = 0; index < 3 * EVENTS_MAX + 1; index += 1) tiny.add({ ...EVENT, text: NOTHING, index })
  expect(tiny.end().pieces.map(({ rows }) => rows)).toEqual([EVENTS_MAX, EVENTS_MAX, EVENTS_MAX, 1])
  const large = new RejectedWriter({ ...GRANT, bytesMax: 64 * MiB })
  // Each of these bytes takes six in JSON.
  for (let index = 0; index < 50; index += 1)
    large.add({ ...EVENT, text: Buffer.alloc(REJECTED_TEXT_BYTES_MAX, 1), index })
  const { pieces } = large.end()
  expect(pieces.reduce((sum, { rows }) => sum + rows, 0)).toBe(50)
  for (const { json } of pieces) expect(json.byteLength + 2).toBeLessThanOrEqual(BODY_BYTES_MAX)
})

test('W-9: a group makes at most its bytes; what is left out is counted, and is the end', () => {
  const one = Buffer.byteLength(JSON.stringify(rowOf(NOTHING))) + 1
  for (const [bytesMax, kept] of [
    [0, 0],
    [1, 0],
    [one - 1, 0],
    [one, 1],
    [3 * one + 20, 3],
  ] as const) {
    const writer = new RejectedWriter({ ...GRANT, bytesMax })
    expect(writer.hasRoom).toBe(bytesMax > 0)
    for (let index = 0; index < 5; index += 1) writer.add({ ...EVENT, text: NOTHING, index })
    expect(writer.hasRoom).toBe(false)
    const { pieces, leftOut } = writer.end()
    const rows = pieces.flatMap(({ json }) => JSON.parse(`[${Buffer.from(json).toString()}]`) as Row[])
    expect([bytesMax, rows.map(row => row.element_index), leftOut]).toEqual([
      bytesMax,
      [0, 1, 2, 3, 4].slice(0, kept),
      5 - kept,
    ])
    expect(pieces.reduce((sum, { json }) => sum + json.byteLength, 0)).toBeLessThanOrEqual(bytesMax)
  }
})

test('W-9: a text that has no room is not read', () => {
  const writer = new RejectedWriter({ ...GRANT, bytesMax: 10 * KiB })
  const text = new Proxy(new Uint8Array(20 * KiB), {
    get: (bytes, name) => {
      if (name === 'byteLength') return bytes.byteLength
      throw new Error('the text is read')
    },
  })
  writer.add({ ...EVENT, text })
  expect(writer.end()).toEqual({ pieces: [], leftOut: 1 })
})

const texts = (document: string) =>
  [...elementsOf(Buffer.from(document))].map(bytes => Buffer.from(bytes).toString())

test('the events of a document are its elements as they were sent', () => {
  const odd = [
    '{"a":[1,{"b":"],\\"[{"}]}',
    '"x,]"',
    '-1.5e3',
    '[]',
    '{ }',
    'null',
    'true',
    '"\\\\"',
    '[[[]],{}]',
  ]
  for (const space of ['', ' ', '\n\t', '\r\n  \r\n'])
    expect(texts(`${space}[${odd.map(one => space + one + space).join()}]${space}`)).toEqual(odd)
  for (const document of ['[]', ' [ \n ] ']) expect(texts(document)).toEqual([])
  for (const document of ['{"a":[1,2],"b":{}}', '{}']) expect(texts(` ${document}\n`)).toEqual([document])
  const deep = `${'['.repeat(DEPTH_MAX - 1)}${']'.repeat(DEPTH_MAX - 1)}`
  expect(texts(`[${deep},{"n":1},${deep}]`)).toEqual([deep, '{"n":1}', deep])
})

test('random documents come apart into what they were made of', () => {
  const seed = newSeed()
  const random = new Random(seed)
  const maker = new JsonMaker(random, 0)
  for (let round = 0; round < 300; round += 1) {
    const elements = Array.from({ length: random.below(6) }, () => maker.value(2))
    expect(texts(`[${elements.join(' ,\t')}]`), `seed ${seed}`).toEqual(elements)
  }
})
