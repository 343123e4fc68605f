/** Keys: equal values give equal bytes whoever encodes them, and bytes compare as values do. */
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import type { ColumnType } from '../../src/format/schema.ts'
import { encodeKeyParts, type KeyPart } from '../util/key-parts.ts'
import { parseAll, readColumn, readErrors, schemaOf } from './reading.ts'

const hex = (parts: readonly KeyPart[]) => Buffer.from(encodeKeyParts(parts)).toString('hex')

/** The key that the kernel writes for an event whose one key column holds `source`. */
function keyOf(type: ColumnType, source: string): string {
  const schema = schemaOf([{ type, required: true }], { columns: [0], version: -1 })
  const parsed = parseAll(schema, [{ body: `{"c0":${source}}` }])
  expect(readErrors(parsed)).toEqual([])
  return Buffer.from(readColumn(parsed.batch, 1)[0] as string, 'latin1').toString('hex')
}

test.each<[ColumnType, string, KeyPart['value'], string]>([
  ['TIMESTAMP', '0', 0n, '8000000000000000'],
  ['TIMESTAMP', '"1969-12-31T23:59:59.999999Z"', -1n, '7fffffffffffffff'],
  ['TIMESTAMP', '"9999-12-31T23:59:59.999999Z"', 253402300799999999n, '8384440ccc735fff'],
  ['DATE', '"1970-01-02"', 1, '80000001'],
  ['DATE', '"1969-12-31"', -1, '7fffffff'],
  ['INT8', '-1', -1, '7fffffffffffffff'],
  ['INT8', '1.0', 1, '8000000000000001'],
  ['INT16', '-32768', -32768, '7fffffffffff8000'],
  ['INT32', '2147483647', 2147483647, '800000007fffffff'],
  ['INT64', '-9223372036854775808', -(2n ** 63n), '0000000000000000'],
  ['INT64', '9223372036854775807', 2n ** 63n - 1n, 'ffffffffffffffff'],
  ['BOOLEAN', 'true', true, '01'],
  ['BOOLEAN', 'false', false, '00'],
  ['DOUBLE', '0', 0, '8000000000000000'],
  ['DOUBLE', '-0.0', -0, '8000000000000000'],
  ['DOUBLE', '1', 1, 'bff0000000000000'],
  ['DOUBLE', '-1', -1, '400fffffffffffff'],
  ['FLOAT', '0.1', Math.fround(0.1), 'bfb99999a0000000'],
  ['STRING', '""', '', '00'],
  ['STRING', '"\\u00e9"', 'é', '02c3a9'],
  ['STRING', '"\\u0000"', '\0', '0100'],
])('%s %s', (type, source, value, want) => {
  expect(keyOf(type, source)).toBe(want)
  expect(hex([{ type, value }])).toBe(want)
})

test('the last second of 9999 as bytes is what arithmetic says', () => {
  const flipped = (253402300799999999n + 2n ** 63n).toString(16)
  expect(keyOf('TIMESTAMP', '253402300799999.999e3')).not.toBe(flipped) // a double cannot say it
  expect(keyOf('TIMESTAMP', '"9999-12-31T23:59:59.999999Z"')).toBe(flipped)
})

test('200 bytes of text stand in the key, 201 are hashed; text and bytes are the same key', () => {
  const short = 'é'.repeat(100)
  expect(keyOf('STRING', JSON.stringify(short))).toBe(`c8${Buffer.from(short).toString('hex')}`)
  const long = `${short}x`
  const want = `ff${createHash('sha256').update(long).digest('hex')}`
  expect(keyOf('STRING', JSON.stringify(long))).toBe(want)
  expect(hex([{ type: 'STRING', value: long }])).toBe(want)
  expect(hex([{ type: 'STRING', value: Buffer.from(long) }])).toBe(want)
})

test('parts follow each other in key order', () => {
  const schema = schemaOf(
    [
      { type: 'STRING', required: true },
      { type: 'DATE', required: true },
    ],
    { columns: [1, 0], version: -1 },
  )
  const parsed = parseAll(schema, [{ body: '{"c0":"id","c1":"1970-01-01"}' }])
  expect(readColumn(parsed.batch, 1)).toEqual(['\x80\0\0\0\x02id'])
  expect(
    hex([
      { type: 'DATE', value: 0 },
      { type: 'STRING', value: 'id' },
    ]),
  ).toBe('80000000026964')
})

test.each<[ColumnType, readonly KeyPart['value'][]]>([
  ['DOUBLE', [-Number.MAX_VALUE, -1.5, -1, -5e-324, 0, 5e-324, 1, 1.5, Number.MAX_VALUE]],
  ['INT64', [-(2n ** 63n), -(2n ** 32n), -1n, 0n, 1n, 2n ** 32n, 2n ** 63n - 1n]],
  ['DATE', [-719162, -1, 0, 1, 2932896]],
  ['BOOLEAN', [false, true]],
])('%s keys sort as their values', (type, values) => {
  const keys = values.map(value => hex([{ type, value }]))
  expect([...keys].sort()).toEqual(keys)
  expect(new Set(keys).size).toBe(keys.length)
})

test('a value of another type fails an assertion', () => {
  expect(() => encodeKeyParts([{ type: 'INT64', value: 1.5 }])).toThrow('integer')
  expect(() => encodeKeyParts([{ type: 'STRING', value: 1 }])).toThrow('text')
  expect(() => encodeKeyParts([{ type: 'JSON', value: '{}' }])).toThrow('JSON')
})

test('a schema whose key column may be null fails an assertion', () => {
  expect(() => parseAll(schemaOf([{ type: 'STRING' }], { columns: [0], version: -1 }), [])).toThrow(
    'required',
  )
})
