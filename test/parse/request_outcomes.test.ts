/** Requests beside each other in one call: rows, event errors, flags, bitmaps and deletes. W-12. */
import { expect, test } from 'vitest'
import { batchColumns } from '../../src/format/batch-layout.ts'
import { COLUMN_TYPES, KEY_RECEIVED_AT, RECEIVED_AT } from '../../src/format/schema.ts'
import { FLAG } from '../../src/parse/kernel.ts'
import { makeJsKernel } from '../../src/parse/kernel-js.ts'
import {
  parseAll,
  RECEIVED_AT_US,
  readColumn,
  readErrors,
  readOutcomes,
  readRows,
  schemaOf,
} from './reading.ts'

const schema = schemaOf([
  { jsonProperty: 'id', type: 'STRING', required: true },
  { jsonProperty: 'n', type: 'INT32' },
])

test('rows stand in order; a broken request between two others leaves nothing behind', () => {
  const parsed = parseAll(schema, [
    { body: '[ {"id":"a","n":1} , {"id":"b"}]' },
    { body: '[{"id":"lost"},{"id":7},{"id":"lost too"' },
    { body: '{"n":3,"id":"c"}' },
  ])
  expect(readOutcomes(parsed)).toEqual([
    { events: 2, accepted: 2, document: 'ok', event: -1 },
    { events: 0, accepted: 0, document: 'not_json', event: 2 },
    { events: 1, accepted: 1, document: 'ok', event: -1 },
  ])
  // Where the broken document ends.
  expect([...parsed.errors]).toEqual([1, 2, expect.any(Number), 40])
  expect(readRows(parsed.batch)).toEqual([
    ['a', 1],
    ['b', null],
    ['c', 3],
  ])
  expect(readColumn(parsed.batch, 0)).toEqual(['{"id":"a","n":1}', '{"id":"b"}', '{"n":3,"id":"c"}'])
})

test('invalid events are reported one by one, by their first failing column, and leave no row', () => {
  const body =
    '[{"id":"a"},7,{"n":1},{"id":null},{"id":2,"n":"x"},{"id":"b","n":"x"},{"id":"c","n":1.5},[],{"id":"d"}]'
  const parsed = parseAll(schema, [{ body: '{"id":"first"}' }, { body }])
  expect(readOutcomes(parsed)[1]).toEqual({ events: 9, accepted: 2, document: 'ok', event: -1 })
  expect(readErrors(parsed)).toEqual([
    '1/1 not_object:number@-1',
    '1/2 missing:nothing@0',
    '1/3 missing:null@0',
    '1/4 wrong_type:number@0',
    '1/5 wrong_type:string@1',
    '1/6 not_integral:number@1',
    '1/7 not_object:array@-1',
  ])
  expect(readColumn(parsed.batch, 2)).toEqual(['first', 'a', 'd'])
})

test('all or nothing: one invalid event takes the rows of its request back, all errors are reported', () => {
  const flags = FLAG.all_or_nothing
  const parsed = parseAll(schema, [
    { body: '[{"id":"a"},{"id":1},{"id":"b"},{}]', flags },
    { body: '[{"id":"c"},{"id":"d"}]', flags },
    { body: '[{"id":"e"},{"id":1}]' },
  ])
  expect(readOutcomes(parsed).map(one => [one.events, one.accepted])).toEqual([
    [4, 0],
    [2, 2],
    [2, 1],
  ])
  expect(readErrors(parsed)).toHaveLength(3)
  expect(readColumn(parsed.batch, 2)).toEqual(['c', 'd', 'e'])
})

test('a bitmap selects the events that are parsed, and the others give no error', () => {
  const events = Array.from({ length: 20 }, (_, i) => (i % 3 === 0 ? `{"id":"${i}"}` : '{"id":false}'))
  const bits = new Uint8Array(3)
  for (const i of [0, 9, 18, 1]) bits[i >> 3]! |= 1 << (i & 7)
  const parsed = parseAll(schema, [{ body: `[${events.join()}]`, bits }])
  expect(readColumn(parsed.batch, 2)).toEqual(['0', '9', '18'])
  expect(readErrors(parsed)).toEqual(['0/1 wrong_type:boolean@0'])
  expect(readOutcomes(parsed)[0]).toEqual({ events: 20, accepted: 3, document: 'ok', event: -1 })
  const none = parseAll(schema, [{ body: '[{"id":1},3]', bits: new Uint8Array(1) }])
  expect(readOutcomes(none)[0]).toEqual({ events: 2, accepted: 0, document: 'ok', event: -1 })
  expect(none.errors).toHaveLength(0)
  const broken = parseAll(schema, [{ body: '[{"id":1},{"x":01}]', bits: new Uint8Array(1) }])
  expect(readOutcomes(broken)[0]!.document).toBe('not_json')
})

test('a kernel keeps nothing from one call to the next', () => {
  const kernel = makeJsKernel(schema, 'post')
  const parse = (bodies: readonly string[]) =>
    parseAll(
      schema,
      bodies.map(body => ({ body })),
      'post',
      () => kernel,
    )
  const long = `[${Array.from({ length: 500 }, (_, i) => `{"id":"${'x'.repeat(i)}","n":${i}}`).join()}]`
  expect(readRows(parse([long, long, long]).batch)).toHaveLength(1500)
  const small = parse(['{"id":"q"}', '[{"id":"r","n":2},{}]'])
  expect(readRows(small.batch)).toEqual([
    ['q', null],
    ['r', 2],
  ])
  const fresh = parseAll(schema, [{ body: '{"id":"q"}' }, { body: '[{"id":"r","n":2},{}]' }])
  expect(Buffer.from(small.batch).equals(Buffer.from(fresh.batch))).toBe(true)
  expect(small.errors).toEqual(fresh.errors)
})

test('a null after a value that was taken back, or parsed by an earlier call, is zero in every type', () => {
  const types = COLUMN_TYPES.map(type => ({ type, jsonProperty: type }))
  const mixed = schemaOf([...types, { type: 'BOOLEAN', jsonProperty: 'last' }])
  const number = { FLOAT: 1.5, DOUBLE: 1.5, INT8: 1, INT16: 1, INT32: 1, INT64: 2 ** 40, TIMESTAMP: 1e9 }
  const full = { ...number, BOOLEAN: true, STRING: 'x', DATE: '2024-01-01', JSON: [1] }
  const nulls = { body: `{"BOOLEAN":null}` }
  const kernel = makeJsKernel(mixed, 'post')
  const make = () => kernel
  const refused = { body: JSON.stringify({ ...full, last: 1 }) }
  const fresh = Buffer.from(parseAll(mixed, [nulls]).batch)
  expect(Buffer.from(parseAll(mixed, [refused, nulls], 'post', make).batch).equals(fresh)).toBe(true)
  expect(readRows(parseAll(mixed, [{ body: JSON.stringify(full) }], 'post', make).batch)).toHaveLength(1)
  expect(Buffer.from(parseAll(mixed, [nulls], 'post', make).batch).equals(fresh)).toBe(true)
})

test('every buffer begins on a multiple of 8, gaps and null rows are zero', () => {
  const parsed = parseAll(schemaOf([{ type: 'INT8' }, { type: 'BOOLEAN' }, { type: 'STRING' }]), [
    { body: '[{"c0":-1,"c1":true,"c2":"xyz"},{"c0":1e9,"c2":"lost"},{},{"c0":-1}]' },
  ])
  const words = new Int32Array(parsed.batch, 0, 6 + 6 * 5)
  expect([...words.subarray(0, 6)]).toEqual([0x54414257, 1, 3, 5, parsed.batch.byteLength, 0])
  expect(parsed.batch.byteLength % 8).toBe(0)
  const columns = [0, 1, 2, 3, 4].map(c => [...words.subarray(6 + 6 * c, 12 + 6 * c)])
  const at = 144 // the header: 36 words
  expect(columns).toEqual([
    [1, 0, 0, at, at + 16, 41],
    [1, 0, 0, at + 64, at + 80, 0],
    [3, 1, at + 80, 0, at + 88, 3],
    [2, 2, at + 96, 0, at + 104, 1],
    [1, 2, at + 112, at + 120, at + 136, 3],
  ])
  const bytes = Buffer.from(parsed.batch, at + 64)
    .toString('hex')
    .replace(/.{16}/g, '$& ')
    .trim()
  expect(bytes.split(' ')).toEqual([
    '0000000000000000', // key offsets: no key
    '0000000000000000',
    '0500000000000000', // c0 valid: rows 0 and 2
    'ff00ff0000000000',
    '0100000000000000', // c1 valid: row 0
    '0100000000000000',
    '0100000000000000', // c2
    '0000000003000000',
    '0300000003000000',
    '78797a0000000000',
  ])
})

test('no rows: a batch with empty columns', () => {
  const parsed = parseAll(schema, [])
  expect(parsed.outcomes).toHaveLength(0)
  expect(readRows(parsed.batch)).toEqual([])
  expect(batchColumns(parsed.batch)).toBe(4)
})

test('a delete reads the key alone, and gives the key that the post had', () => {
  const keyed = schemaOf(
    [
      { jsonProperty: 'n', type: 'INT32', required: true },
      { jsonProperty: 'at', type: 'TIMESTAMP', required: true },
      { jsonProperty: 'who.id', type: 'STRING', required: true },
    ],
    { columns: [1, 2], version: -1 },
  )
  const posted = parseAll(keyed, [{ body: '{"n":1,"at":"2024-01-01T01:00:00+01:00","who":{"id":"k"}}' }])
  const parsed = parseAll(
    keyed,
    [{ body: '[{"at":1704067200,"who":{"id":"\\u006b"},"n":"ignored"},{"who":{"id":"k"}},{"at":0}]' }],
    'delete',
  )
  expect(batchColumns(parsed.batch)).toBe(2)
  expect(readColumn(parsed.batch, 0)).toEqual([''])
  expect(readColumn(parsed.batch, 1)).toEqual(readColumn(posted.batch, 1))
  expect(readErrors(parsed)).toEqual(['0/1 missing:nothing@0', '0/2 missing:nothing@1'])
})

test('without a timestamp column the received-at stands in the key, and a delete names it', () => {
  const keyed = schemaOf([{ jsonProperty: 'id', type: 'INT64', required: true }], {
    columns: [KEY_RECEIVED_AT, 0],
    version: -1,
  })
  const posted = parseAll(keyed, [{ body: '{"id":5}' }])
  const iso = new Date(RECEIVED_AT_US / 1000).toISOString().replace('Z', '456Z')
  const parsed = parseAll(keyed, [{ body: `{"${RECEIVED_AT}":"${iso}","id":5.0}` }], 'delete')
  expect(readColumn(parsed.batch, 1)).toEqual(readColumn(posted.batch, 1))
  expect(readColumn(posted.batch, 1)[0]).toHaveLength(16)
})
