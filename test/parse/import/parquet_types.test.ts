/**
 * Each physical and logical type of Parquet becomes the JSON that docs/import.md says, or is
 * refused by its name. None becomes another value.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { DuckDBInstance } from '../../../src/util/duckdb.ts'
import { removeLeftovers, temporaryFolder } from '../../util/server.ts'
import {
  bigEndian,
  type Column,
  decimalType,
  integerType,
  parquetFile,
  plainType,
  timeType,
} from './parquet-file.ts'
import { type Given, readImport } from './reading.ts'

afterAll(removeLeftovers)
const folder = temporaryFolder()

const read = (file: Buffer, more: Given = {}) =>
  readImport([file], { format: 'parquet', spoolFile: join(folder, 'spool'), ...more })

const i32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32LE(value)
  return bytes
}
const i64 = (value: bigint) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(value)
  return bytes
}
const bytes = (logical: number | undefined, text: string | Buffer, converted?: number): Column => ({
  physical: 'BYTE_ARRAY',
  ...(logical === undefined ? {} : { logical: plainType(logical) }),
  ...(converted === undefined ? {} : { converted }),
  values: [Buffer.from(text as string)],
})
const fixed = (value: Buffer, more: Partial<Column>): Column => ({
  physical: 'FIXED_LEN_BYTE_ARRAY',
  values: [value],
  ...more,
})
const int32 = (value: number, more: Partial<Column> = {}): Column => ({
  physical: 'INT32',
  values: [i32(value)],
  ...more,
})
const int64 = (value: bigint, more: Partial<Column> = {}): Column => ({
  physical: 'INT64',
  values: [i64(value)],
  ...more,
})
const time = (unit: 1 | 2 | 3, isUtc: boolean) => ({ logical: timeType(7, isUtc, unit) })
const timestamp = (unit: 1 | 2 | 3, isUtc: boolean) => ({ logical: timeType(8, isUtc, unit) })
const POINT = Buffer.from('010100000000000000000000400000000000000840', 'hex')
const NOON_NS = 43_200_123_456_789n
const INSTANT_NS = 1_767_323_045_123_456_789n

/** A column, and the text of its value in JSON. */
const TYPES: Readonly<Record<string, readonly [Column, string]>> = {
  boolean: [{ physical: 'BOOLEAN', values: [Buffer.from([1])] }, 'true'],
  int32: [int32(-5), '-5'],
  int64: [int64(-(2n ** 63n)), '-9223372036854775808'],
  ...Object.fromEntries(
    [8, 16, 32].flatMap((bits, index) => [
      [`u${bits}`, [int32(-1, { converted: 11 + index }), String(2 ** bits - 1)]],
      [`i${bits}`, [int32(-1, { converted: 15 + index, logical: integerType(bits, true) }), '-1']],
      [`l${bits}`, [int32(-1, { logical: integerType(bits, true) }), '-1']],
    ]),
  ),
  u64: [int64(-1n, { converted: 14, logical: integerType(64, false) }), '18446744073709551615'],
  i64: [int64(-1n, { converted: 18 }), '-1'],
  float: [{ physical: 'FLOAT', values: [i32(0x3fc00000)] }, '1.5'],
  double: [{ physical: 'DOUBLE', values: [i64(0x3ff8000000000000n)] }, '1.5'],
  float16: [fixed(Buffer.from([0x00, 0x3e]), { logical: plainType(15) }), '1.5'],
  nan16: [fixed(Buffer.from([0x00, 0x7e]), { logical: plainType(15) }), '"nan"'],
  string: [bytes(1, 'é"', 0), '"é\\""'],
  enum: [bytes(4, 'RED', 4), '"RED"'],
  enumAlone: [bytes(4, 'RED'), '"RED"'],
  json: [bytes(12, '{"a":1}', 19), '"{\\"a\\":1}"'],
  jsonAlone: [bytes(12, '{"a":1}'), '"{\\"a\\":1}"'],
  plain: [bytes(undefined, 'text'), '"text"'],
  raw: [bytes(undefined, Buffer.from([0xaa])), '"qg=="'],
  fixedText: [fixed(Buffer.from('text'), {}), '"text"'],
  uuid: [fixed(Buffer.alloc(16, 0xab), { logical: plainType(14) }), '"abababab-abab-abab-abab-abababababab"'],
  date: [int32(-1, { converted: 6, logical: plainType(6) }), '"1969-12-31"'],
  timeMs: [int32(43_200_123, time(1, false)), '"12:00:00.123"'],
  timeMsOld: [int32(43_200_123, { converted: 7 }), '"12:00:00.123"'],
  timeUs: [int64(NOON_NS / 1000n, time(2, false)), '"12:00:00.123456"'],
  timeUsOld: [int64(NOON_NS / 1000n, { converted: 8 }), '"12:00:00.123456"'],
  timeNs: [int64(NOON_NS, time(3, false)), '"12:00:00.123456789"'],
  timeUtc: [int64(NOON_NS, time(3, true)), '"12:00:00.123456+00"'],
  ms: [int64(INSTANT_NS / 1_000_000n, timestamp(1, false)), '"2026-01-02 03:04:05.123"'],
  msOld: [int64(INSTANT_NS / 1_000_000n, { converted: 9 }), '"2026-01-02 03:04:05.123"'],
  us: [int64(INSTANT_NS / 1000n, timestamp(2, false)), '"2026-01-02 03:04:05.123456"'],
  usOld: [int64(INSTANT_NS / 1000n, { converted: 10 }), '"2026-01-02 03:04:05.123456"'],
  ns: [int64(INSTANT_NS, timestamp(3, false)), '"2026-01-02 03:04:05.123456789"'],
  msUtc: [int64(INSTANT_NS / 1_000_000n, timestamp(1, true)), '"2026-01-02 03:04:05.123+00"'],
  usUtc: [int64(-1n, timestamp(2, true)), '"1969-12-31 23:59:59.999999+00"'],
  nsUtc: [int64(INSTANT_NS, timestamp(3, true)), '"2026-01-02 03:04:05.123456+00"'],
  int96: [
    { physical: 'INT96', values: [Buffer.concat([i64(NOON_NS), i32(2_440_588)])] },
    '"1970-01-01 12:00:00.123456"',
  ],
  interval: [
    fixed(Buffer.concat([i32(1), i32(2), i32(3_000)]), { converted: 21 }),
    '"1 month 2 days 00:00:03"',
  ],
  geometry: [bytes(17, POINT), '"POINT (2 3)"'],
  geography: [bytes(18, POINT), '"POINT (2 3)"'],
  decimalOfInt32: [int32(-150, { ...decimalType(9, 2), physical: 'INT32' }), '-1.5'],
  decimalOfInt64: [int64(-150n, { ...decimalType(18, 2), physical: 'INT64' }), '-1.50'],
}

/** DECIMALs of bytes: all widths up to 32, with numbers of 2, 18 and 38 digits. */
const DECIMALS: Readonly<Record<string, readonly [Column, string]>> = Object.fromEntries(
  Array.from({ length: 32 }, (_, index) => index + 1).flatMap(width =>
    [2, 18, 38].flatMap(digits => {
      const fitting = Math.floor((8 * width - 1) * Math.log10(2))
      const value = 10n ** BigInt(Math.min(digits, fitting)) - 1n
      const units = bigEndian(-value, width)
      const wanted = `-${value / 10n}.${value % 10n}`
      const physicals = ['FIXED_LEN_BYTE_ARRAY', 'BYTE_ARRAY'] as const
      return physicals.map(physical => [
        `${physical} ${width} ${digits}`,
        [{ ...decimalType(digits, 1), physical, values: [units] }, wanted],
      ])
    }),
  ),
)

test('each type that is read is the JSON of its value', async () => {
  for (const given of [TYPES, DECIMALS]) {
    const columns = Object.fromEntries(Object.entries(given).map(([name, [column]]) => [name, column]))
    const got = await read(parquetFile(columns))
    expect([got.brokenMessage, got.refused]).toEqual(['', []])
    const wanted = Object.entries(given).map(([name, [, json]]) => `"${name}":${json}`)
    expect(got.events[0]).toBe(`1:1:{${wanted.join()}}`)
  }
})

test('UNKNOWN has no value, and JSON without a ConvertedType is JSON too', async () => {
  const column = { name: 'j', type: 'JSON', jsonProperty: 'j', required: false } as const
  const got = await read(parquetFile({ u: bytes(11, ''), j: bytes(12, '{"a":[1]}') }), { columns: [column] })
  expect(got.events).toEqual(['1:1:{"j":{"a":[1]}}'])
})

const REFUSED: readonly (readonly [what: string, column: Column, message: RegExp])[] = [
  ...[39, 48, 57, 58, 76].map(
    digits =>
      [
        `DECIMAL(${digits})`,
        fixed(bigEndian(15n, Math.ceil((digits * Math.log2(10) + 1) / 8)), decimalType(digits, 1)),
        new RegExp(`the column "v" .* a DECIMAL of ${digits} digits, .*at most 38 digits`),
      ] as const,
  ),
  [
    'DECIMAL(40) of a BYTE_ARRAY',
    { ...decimalType(40, 1), physical: 'BYTE_ARRAY', values: [bigEndian(15n, 17)] },
    /the column "v" .* a DECIMAL of 40 digits/,
  ],
  [
    'a DECIMAL that only a LogicalType tells',
    int32(150, { logical: decimalType(9, 2).logical! }),
    /the column "v" .* a DECIMAL with a LogicalType alone/,
  ],
  ['such a DATE', int32(150, { logical: plainType(6) }), /a DATE with a LogicalType alone/],
  ['such an integer', int64(-1n, { logical: integerType(64, false) }), /an unsigned integer with a Log/],
  ['BSON', bytes(13, 'x'), /the column "v" of the file has BSON/],
  ['BSON of old', bytes(13, 'x', 20), /a column of the file has BSON/],
]

test.each(REFUSED)('%s is refused by its name', async (_, column, message) => {
  const got = await read(parquetFile({ v: column }))
  expect([got.broken, got.brokenMessage, got.events]).toEqual([
    'unsupported_type',
    expect.stringMatching(message),
    [],
  ])
})

test('bytes and a VARIANT inside lists, objects and maps are the values they hold', async () => {
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  const file = join(folder, 'nested.parquet')
  const sql = `SELECT {'b': '\\xAA'::BLOB, 't': 'text'::BLOB, 'n': NULL::BLOB, 'q"''': ['\\xAA'::BLOB, NULL]} AS s,
    [{'m': MAP {'\\xAA'::BLOB: '\\xAA'::BLOB}}, NULL] AS l, NULL::STRUCT(b BLOB) AS no, NULL::MAP(BLOB, BLOB) AS map,
    {'a': 12345678901234567890.125::DECIMAL(38, 3), 'l': [1, NULL], 'nan': 'nan'::DOUBLE, 't': 'it''s "q"'}::VARIANT AS v,
    '12'::VARIANT AS text, 12::VARIANT AS number, NULL::VARIANT AS nothing`
  await connection.run(`COPY (${sql}) TO '${file}' (FORMAT parquet)`)
  const got = await read(readFileSync(file))
  expect([got.brokenMessage, got.events]).toEqual([
    '',
    [
      `1:1:{"s":{"b":"qg==","t":"text","n":null,"q\\"'":["qg==",null]},"l":[{"m":{"qg==":"qg=="}},null],` +
        `"v":{"a":12345678901234567890.125,"l":[1,null],"nan":"nan","t":"it's \\"q\\""},"text":"12","number":12}`,
    ],
  ])
})
