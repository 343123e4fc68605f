import { expect, test } from 'vitest'
import { mapClickHouseType } from '../../src/format/clickhouse-type.ts'

test('ClickHouse types map onto the types of Weir', () => {
  const wanted: readonly (readonly [text: string, type: string, isNullable: boolean])[] = [
    ['String', 'STRING', false],
    ['Nullable(String)', 'STRING', true],
    ['LowCardinality(String)', 'STRING', false],
    ['LowCardinality(Nullable(String))', 'STRING', true],
    ['FixedString(16)', 'STRING', false],
    ['Nullable( FixedString( 16 ) )', 'STRING', true],
    ['UUID', 'STRING', false],
    ["Enum8('a' = 1, 'b\\'s' = -2)", 'STRING', false],
    ["Enum('x','y')", 'STRING', false],
    ['Int8', 'INT8', false],
    ['Int64', 'INT64', false],
    ['UInt8', 'INT16', false],
    ['UInt16', 'INT32', false],
    ['UInt32', 'INT64', false],
    ['UInt64', 'INT64', false],
    ['Nullable(Float32)', 'FLOAT', true],
    ['Float64', 'DOUBLE', false],
    ['Bool', 'BOOLEAN', false],
    ['Date', 'DATE', false],
    ['Date32', 'DATE', false],
    ['DateTime', 'TIMESTAMP', false],
    ["DateTime('Europe/Berlin')", 'TIMESTAMP', false],
    ['DateTime64(3)', 'TIMESTAMP', false],
    ["Nullable(DateTime64(9, 'America/Argentina/Buenos_Aires'))", 'TIMESTAMP', true],
    ['JSON', 'JSON', false],
    ["Object('json')", 'JSON', false],
    [' Int32 ', 'INT32', false],
  ]
  for (const [text, type, isNullable] of wanted)
    expect([text, mapClickHouseType(text)]).toEqual([text, { type, isNullable }])
})

test('types without a counterpart are unknown, and so is everything that is no type', () => {
  const refused = [
    '',
    'string',
    'Int128',
    'UInt256',
    'Decimal(10, 2)',
    'Decimal64(4)',
    'Array(String)',
    'Map(String, String)',
    'Tuple(a Int8)',
    'AggregateFunction(sum, Int64)',
    'IPv4',
    'Nullable',
    'Nullable()',
    'Nullable(Nullable(String))',
    'Nullable(LowCardinality(String))',
    'LowCardinality(LowCardinality(String))',
    'LowCardinality(JSON)',
    'Nullable(Array(String))',
    'String(5)',
    'FixedString',
    'FixedString(x)',
    'DateTime64(12)',
    'DateTime(3)',
    "Enum8('a' = 1) DEFAULT 1",
    'Int8)',
    'Nullable(Int8',
    'Int8; DROP TABLE t',
    'constructor',
    'toString',
    '__proto__',
  ]
  for (const text of refused) expect([text, mapClickHouseType(text)]).toEqual([text, undefined])
})

test('a long text is answered at once', () => {
  const texts = [`${'Nullable('.repeat(100)}String${')'.repeat(100)}`, `Enum8(${"'a',".repeat(250)}`]
  for (const text of texts) expect(mapClickHouseType(text)).toBeUndefined()
})
