/** `coerce`: what a lenient column takes, and what it still refuses (docs/contract.md). */
import { describe, expect, test } from 'vitest'
import type { ColumnType } from '../../src/format/schema.ts'
import { parseAll, readErrors, readRows, type Stored, schemaOf } from './reading.ts'

function parseValue(type: ColumnType, source: string, required = false): Stored | string {
  const parsed = parseAll(schemaOf([{ type, coerce: true, required }]), [{ body: `{"c0":${source}}` }])
  const errors = readErrors(parsed)
  return errors.length > 0 ? errors[0]!.slice('0/0 '.length) : readRows(parsed.batch)[0]![0]!
}

function check(type: ColumnType, cases: readonly (readonly [source: string, want: Stored])[]): void {
  describe(type, () => {
    test.each(cases)('%s', (source, want) => {
      expect(parseValue(type, source)).toStrictEqual(want)
    })
  })
}

const WRONG = 'wrong_type:string@0'
const us = (iso: string) => BigInt(Date.parse(iso)) * 1000n

check('DOUBLE', [
  ['"19.99"', 19.99],
  ['19.99', 19.99],
  ['" 12 "', 12],
  ['"+5"', 5],
  ['"-0"', 0],
  ['"1e3"', 1000],
  ['"\\u0031\\u0032"', 12],
  ['""', null],
  ['"  "', null],
  ['"1e999"', WRONG],
  ['"1,000.00"', WRONG],
  ['"0x10"', WRONG],
  ['"NaN"', WRONG],
  ['"Infinity"', WRONG],
  ['"1."', WRONG],
  ['".5"', WRONG],
  ['"--1"', WRONG],
  ['"007"', WRONG],
  [`"${'1'.repeat(401)}"`, WRONG],
  ['true', 'wrong_type:boolean@0'],
  ['{}', 'wrong_type:object@0'],
])

check('INT64', [
  ['"9223372036854775807"', 9223372036854775807n],
  ['"-9223372036854775808"', -9223372036854775808n],
  ['"9223372036854775808"', 'out_of_range:number@0'],
  ['"1.0"', 1n],
  ['"1.5"', 'not_integral:number@0'],
  ['"9007199254740993"', 9007199254740993n],
])

check('INT8', [
  ['"127"', 127],
  ['"128"', 'out_of_range:number@0'],
])

check('FLOAT', [['"1e300"', 'out_of_range:number@0']])

check('BOOLEAN', [
  ['"true"', true],
  ['"TRUE"', true],
  ['"1"', true],
  ['"false"', false],
  ['"0"', false],
  ['""', null],
  ['"yes"', WRONG],
  ['1', 'wrong_type:number@0'],
])

check('STRING', [
  ['12.50', '12.50'],
  ['true', 'true'],
  ['123456789012345678901234567890', '123456789012345678901234567890'],
  ['" x "', ' x '],
  ['""', ''],
  ['{}', 'wrong_type:object@0'],
  ['null', null],
])

check('JSON', [['"1"', '"1"']])

check('TIMESTAMP', [
  ['"2024-05-06T07:08:09.123456Z"', us('2024-05-06T07:08:09.123Z') + 456n],
  ['"1355517523.000005"', us('2012-12-14T20:38:43Z') + 5n],
  ['"1700000000000"', us('2023-11-14T22:13:20Z')],
  ['1700000000', us('2023-11-14T22:13:20Z')],
  ['"Tue, 01 Nov 2016 01:13:01 +0000"', us('2016-11-01T01:13:01Z')],
  ['"1 Nov 2016 01:13 -0130"', us('2016-11-01T02:43:00Z')],
  ['"Tue, 01 Nov 2016 01:13:01 GMT"', us('2016-11-01T01:13:01Z')],
  ['"Tue, 01 Nov 2016 01:13:01 PST"', us('2016-11-01T09:13:01Z')],
  ['"Tue, 31 Feb 2016 01:13:01 GMT"', 'bad_timestamp:string@0'],
  ['"Tue, 01 Foo 2016 01:13:01 GMT"', 'bad_timestamp:string@0'],
  ['"01 Nov 2016 01:13:01 XYZ"', 'bad_timestamp:string@0'],
  ['"01 Nov 2016 25:13:01 GMT"', 'bad_timestamp:string@0'],
  ['"tomorrow"', 'bad_timestamp:string@0'],
  ['"2024-05-06T07:08:09Z\\u0000"', 'bad_timestamp:string@0'],
  ['""', null],
])

const day = (iso: string) => Date.parse(iso) / 86_400_000

check('DATE', [
  ['"2024-05-06"', day('2024-05-06')],
  ['"2024-05-06T23:30:00-02:00"', day('2024-05-07')],
  ['"Tue, 01 Nov 2016 01:13:01 +0200"', day('2016-10-31')],
  ['"1700000000"', day('2023-11-14')],
  ['"0001-01-01"', day('0001-01-01')],
  ['"9999-12-31T23:59:59Z"', day('9999-12-31')],
  ['"2024-13-01"', 'bad_date:string@0'],
])

test('an empty text is no value of a required column', () => {
  expect(parseValue('DOUBLE', '""', true)).toBe('missing:null@0')
  expect(parseValue('STRING', '""', true)).toBe('')
})

test('what a value became does not reach the next row', () => {
  const schema = schemaOf([{ type: 'DOUBLE', coerce: true }, { type: 'STRING' }])
  const body = '[{"c0":"1.5","c1":"a"},{"c0":2,"c1":"b"},{"c1":"c"},{"c0":"","c1":"d"},{"c0":"3","c1":"e"}]'
  expect(readRows(parseAll(schema, [{ body }]).batch)).toEqual([
    [1.5, 'a'],
    [2, 'b'],
    [null, 'c'],
    [null, 'd'],
    [3, 'e'],
  ])
})
