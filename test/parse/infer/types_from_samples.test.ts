/** The type, `coerce` and nullability that samples give a column. */
import { describe, expect, test } from 'vitest'
import { propose } from './propose.ts'

/** The column for samples `{"<name>": value}`: its type, with `+` where it coerces; '' for none. */
function typeOf(name: string, ...values: readonly string[]): string {
  const { columns } = propose(...values.map(value => `{${JSON.stringify(name)}:${value}}`))
  return columns.map(({ type, coerce }) => `${type}${coerce ? '+' : ''}`).join(' ')
}

const NUMBERS: readonly [name: string, values: string, want: string][] = [
  ['n', '1', 'INT64'],
  ['n', '1 -5 0', 'INT64'],
  ['n', '9223372036854775807 -9223372036854775808', 'INT64'],
  ['n', '9223372036854775808', 'DOUBLE'],
  ['n', '1 18446744073709551616', 'DOUBLE'],
  ['n', '1.5', 'DOUBLE'],
  ['n', '1 1.5', 'DOUBLE'],
  ['n', '1.0', 'DOUBLE'], // whoever writes a fraction will write another one
  ['n', '1e2', 'DOUBLE'],
  ['n', '9007199254740993', 'INT64'],
  ['user_id', '12345678901234567890', 'JSON'],
  ['n', 'null 3', 'INT64'],
  // Epochs need a name that says so, and a moment between 1990 and 2100.
  ['created', '1700000000', 'TIMESTAMP'],
  ['createdAt', '1700000000000', 'TIMESTAMP'],
  ['event_ts', '1700000000123', 'TIMESTAMP'],
  ['timestamp_ms', '1700000000123', 'TIMESTAMP'],
  ['time', '1700000000.25', 'TIMESTAMP'],
  ['updated', '1700000000 null', 'TIMESTAMP'],
  ['created', '1700000000 12', 'INT64'],
  ['created', '0', 'INT64'],
  ['at', '1700000000', 'INT64'],
  ['amount', '1700000000', 'INT64'],
  ['time', '120', 'INT64'],
  ['count', '1700000000', 'INT64'],
]

const TEXTS: readonly [name: string, values: readonly string[], want: string][] = [
  ['s', ['x'], 'STRING'],
  ['s', ['', ''], 'STRING'],
  ['s', ['x', ''], 'STRING'],
  ['s', ['2024-01-01T00:00:00Z'], 'TIMESTAMP'],
  ['s', ['2024-01-01 00:00', '2024-01-01'], 'TIMESTAMP'],
  ['s', ['2024-01-01'], 'DATE'],
  ['s', ['2024-02-30'], 'STRING'],
  ['s', ['2024-01-01T00:00:00Z', 'soon'], 'STRING'],
  ['s', ['2024-01-01T00:00:00Z', ''], 'TIMESTAMP+'],
  ['s', ['Mon, 01 Jan 2024 10:00:00 +0000'], 'TIMESTAMP+'],
  ['s', ['Mon, 1 Jan 2024 10:00:00 GMT', '2024-01-01'], 'TIMESTAMP+'],
  ['s', ['Mon, 32 Jan 2024 10:00:00 GMT'], 'STRING'],
  ['s', ['Mon, 01 Foo 2024 10:00:00 GMT'], 'STRING'],
  ['s', ['true', 'False'], 'BOOLEAN+'],
  ['s', ['true', 'no'], 'STRING'],
  ['s', ['12', '-3'], 'INT64+'],
  ['s', ['12', '3.5'], 'DOUBLE+'],
  ['s', ['12', ''], 'INT64+'],
  ['s', ['012'], 'STRING'],
  ['s', ['+12'], 'STRING'],
  ['s', ['1e5'], 'STRING'],
  ['s', ['1234567890123456789'], 'STRING'],
  ['s', ['999999999999999999'], 'INT64+'],
  ['total_price', ['598.94'], 'DOUBLE+'],
  ['total_price', ['598'], 'DOUBLE+'],
  ['order_number', ['1234'], 'STRING'],
  ['customerId', ['1234'], 'STRING'],
  ['zip', ['10115'], 'STRING'],
  ['phone', ['4930123456'], 'STRING'],
  ['version', ['1.0'], 'STRING'],
  ['date', ['1406662672000'], 'TIMESTAMP+'],
  ['ts', ['1355517523.000005'], 'TIMESTAMP+'],
  ['size', ['1406662672000'], 'INT64+'],
]

describe('numbers', () => {
  test.each(NUMBERS)('%s: %s is %s', (name, values, want) => {
    expect(typeOf(name, ...values.split(' '))).toBe(want)
  })
})

describe('strings', () => {
  test.each(TEXTS)('%s: %j is %s', (name, values, want) => {
    expect(typeOf(name, ...values.map(value => JSON.stringify(value)))).toBe(want)
  })

  test('escapes are read before a text is looked at', () => {
    expect(typeOf('s', '"2024-01-0\\u0031"')).toBe('DATE')
    expect(typeOf('\u0073', '"\\u0031\\u0032"')).toBe('INT64+')
  })
})

describe('the other kinds', () => {
  const cases: readonly [values: readonly string[], want: string][] = [
    [['true', 'false'], 'BOOLEAN'],
    [['null', 'null'], ''],
    [['{}'], 'JSON'],
    [['[]'], 'JSON'],
    [['[1,2]'], 'JSON'],
    [['[{"a":1},{"a":2}]'], 'JSON'],
    [['1', '"x"'], 'JSON'],
    [['1', '"2"'], 'INT64+'],
    [['1', '"2.5"'], 'DOUBLE+'],
    [['true', '1'], 'JSON'],
    [['1700000000', '"2024-01-01T00:00:00Z"'], 'TIMESTAMP'],
    [['1700000000', '"2024-01-01"'], 'TIMESTAMP'],
    [['17', '"2024-01-01"'], 'JSON'],
    [['1700000000', '"2024-01-01"', '""'], 'JSON'],
    [['{"a":1}', '"id"'], 'JSON'],
    [['{"a":1}', 'null'], 'INT64'],
  ]
  test.each(cases)('%j is %s', (values, want) => {
    expect(typeOf('v', ...values)).toBe(want)
  })

  test('objects are unpacked down to three names', () => {
    const { columns } = propose('{"a":{"b":{"c":{"d":1},"e":2},"f":"x"},"g":true}')
    expect(columns.map(({ name, jsonProperty, type }) => `${name} ${jsonProperty} ${type}`)).toEqual([
      'a_b_c a.b.c JSON',
      'a_b_e a.b.e INT64',
      'a_f a.f STRING',
      'g g BOOLEAN',
    ])
  })

  test('an array of one object in every sample is read at its first element', () => {
    const one = propose('{"items":[{"sku":"x","n":1}]}', '{"items":[{"sku":"y"}]}', '{"items":[]}')
    expect(one.columns.map(({ jsonProperty, nullable }) => [jsonProperty, nullable])).toEqual([
      ['items', true],
      ['items[0].sku', true],
      ['items[0].n', true],
    ])
    const two = propose('{"items":[{"sku":"x"}]}', '{"items":[{"sku":"x"},{"sku":"y"}]}')
    expect(two.columns.map(({ jsonProperty }) => jsonProperty)).toEqual(['items'])
  })

  test('an object whose names are ids is a map', () => {
    const map = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [String(1000 + i), { n: i }]))
    expect(propose(JSON.stringify({ map })).columns.map(each => each.jsonProperty)).toEqual(['map'])
    const other = (from: number) =>
      JSON.stringify({
        map: Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`name${from + i}`, i])),
      })
    expect(propose(other(0), other(100), other(200)).columns.map(each => each.jsonProperty)).toEqual(['map'])
  })
})

describe('nullable', () => {
  const many = (count: number, body: (i: number) => string) =>
    propose(...Array.from({ length: count }, (_, i) => body(i)))

  test('few samples do not show that a field is always there', () => {
    expect(many(19, () => '{"a":1}').columns[0]?.nullable).toBe(true)
    expect(many(20, () => '{"a":1}').columns[0]?.nullable).toBe(false)
  })

  test('a field that one sample lacks, or has as null or as empty text, is nullable', () => {
    expect(many(20, i => (i === 7 ? '{}' : '{"a":1}')).columns[0]?.nullable).toBe(true)
    expect(many(20, i => (i === 7 ? '{"a":null}' : '{"a":1}')).columns[0]?.nullable).toBe(true)
    expect(many(20, i => (i === 7 ? '{"a":""}' : '{"a":"1"}')).columns[0]?.nullable).toBe(true)
    expect(many(20, i => (i === 7 ? '{"o":null}' : '{"o":{"a":1}}')).columns[0]?.nullable).toBe(true)
  })

  test('every column says why', () => {
    const { columns } = propose('{"a":1,"b":"x"}', '{"a":2}')
    expect(columns.map(({ reason }) => reason)).toEqual([
      'A whole number of at most 64 bits, in 2 of 2 samples.',
      'Text, in 1 of 2 samples.',
    ])
  })
})
