/**
 * Values over HTTP: filters find, and sums add, a value in every spelling that its column accepts.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startServer, type TestPool, type TestServer } from '../util/server.ts'
import { column, expectProblem, post, where } from './client.ts'

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

/** A pool with one nullable column `v`, and its posted rows: each text is the JSON of `v`. */
async function poolOf(type: string, texts: readonly string[]): Promise<TestPool> {
  const pool = await server.createPool({ columns: [column('v', type, true)] })
  const answer = await post(server, pool, `[${texts.map(text => `{"v":${text}}`).join()}]`)
  expect([answer.status, answer.headers['x-events-accepted']]).toEqual([200, String(texts.length)])
  return pool
}

const matches = (pool: TestPool, operator: string, value?: string) =>
  server.count(pool.poolId, where('v', operator, value))

/** `found` is the number of rows that equal each value. With every type, one more row is null. */
const COLUMNS: readonly { type: string; texts: string[]; found: [string, number][] }[] = [
  {
    type: 'BOOLEAN',
    texts: ['true', 'false', 'true'],
    found: [
      ['true', 2],
      ['false', 1],
    ],
  },
  {
    type: 'INT8',
    texts: ['-128', '127', '1', '1.0', '1e0', '-0'],
    found: [
      ['-128', 1],
      ['127', 1],
      ['1', 3],
      ['0', 1],
    ],
  },
  {
    type: 'INT16',
    texts: ['-32768', '32767', '1e2'],
    found: [
      ['-32768', 1],
      ['32767', 1],
      ['100', 1],
    ],
  },
  {
    type: 'INT32',
    texts: ['-2147483648', '2147483647'],
    found: [
      ['-2147483648', 1],
      ['2147483647', 1],
    ],
  },
  {
    type: 'INT64',
    texts: [
      '-9223372036854775808',
      '9223372036854775807',
      '9007199254740991',
      '9007199254740992',
      '9007199254740993',
      '1e2',
      '100.0',
    ],
    found: [
      ['-9223372036854775808', 1],
      ['9223372036854775807', 1],
      ['9223372036854775806', 0],
      ['9007199254740991', 1],
      ['9007199254740992', 1],
      ['9007199254740993', 1],
      ['9007199254740994', 0],
      ['100', 2],
    ],
  },
  {
    type: 'FLOAT',
    texts: ['0.1', '-0', '0', '3.4028234e38'],
    found: [
      ['0.1', 1],
      ['0', 2],
      ['-0.0', 2],
      ['3.4028235e38', 1],
    ],
  },
  {
    type: 'DOUBLE',
    texts: ['0.1', '-0.0', '1.7976931348623157e308', '5e-324', '18446744073709551616'],
    found: [
      ['0.1', 1],
      ['0', 1],
      ['1.7976931348623157e308', 1],
      ['5e-324', 1],
      ['18446744073709551616', 1],
    ],
  },
  {
    type: 'STRING',
    texts: [
      '""',
      '" a "',
      '"é"',
      '"e\\u0301"',
      '"\\u0000"',
      '"a\\u0000b"',
      '"\\ud83d\\ude00"',
      '"😀"',
      '"it\'s"',
      '"\\\\"',
    ],
    found: [
      ['', 1],
      [' a ', 1],
      ['a', 0],
      ['é', 1],
      ['e\u0301', 1],
      ['\u0000', 1],
      ['a\u0000b', 1],
      ['😀', 2],
      ["it's", 1],
      ['\\', 1],
    ],
  },
  {
    type: 'DATE',
    texts: ['"1970-01-01"', '"0001-01-01"', '"9999-12-31"', '"2024-02-29"'],
    found: [
      ['1970-01-01', 1],
      ['0001-01-01', 1],
      ['9999-12-31', 1],
      ['2024-02-29', 1],
    ],
  },
  {
    type: 'JSON',
    texts: ['{"a": 1}', '"text"', '[1,2]', '12345678901234567890123'],
    found: [
      ['{"a": 1}', 1],
      ['{"a":1}', 0],
      ['"text"', 1],
      ['[1,2]', 1],
      ['12345678901234567890123', 1],
    ],
  },
]

test.each(COLUMNS)(
  '$type: equal values are found, null and missing are null',
  async ({ type, texts, found }) => {
    const pool = await poolOf(type, [...texts, 'null'])
    expect((await post(server, pool, '{}')).status).toBe(200)
    for (const [value, rows] of found)
      expect([value, await matches(pool, 'EQUALS', value)]).toEqual([value, String(rows)])
    expect(await matches(pool, 'IS_NULL')).toBe('2')
    expect(await matches(pool, 'IS_NOT_NULL')).toBe(String(texts.length))
  },
)

const REFUSED: readonly [string, string[]][] = [
  ['BOOLEAN', ['0', '"true"', '[]']],
  ['INT8', ['128', '-129', '1.5', '"1"', 'true', '{}']],
  ['INT64', ['9223372036854775808', '-9223372036854775809', '1e19', '0.5', '9007199254740993.0', '1e-400']],
  ['FLOAT', ['3.5e38', '"1"']],
  ['DOUBLE', ['"1"', 'false']],
  ['STRING', ['1', 'true', '{}']],
  ['DATE', ['"2023-02-29"', '"2024-1-1"', '0', '"2024-01-01T00:00:00Z"']],
  ['TIMESTAMP', ['"2024-01-01T24:00:00Z"', '"0"', '"yesterday"', 'true', '"2024-13-01"']],
]

test.each(REFUSED)('%s: a value of another type is refused, never a null', async (type, texts) => {
  const pool = await poolOf(type, ['null'])
  for (const text of texts) expectProblem(await post(server, pool, `{"v":${text}}`), 400, 'no_valid_event')
  expect(await server.count(pool.poolId)).toBe('1')
})

test('ranges, LIKE', async () => {
  const numbers = await poolOf('INT64', [
    '-9223372036854775808',
    '-1',
    '0',
    '1',
    '9223372036854775807',
    'null',
  ])
  expect(await matches(numbers, 'GREATER_THAN', '-1')).toBe('3')
  expect(await matches(numbers, 'GREATER_THAN_OR_EQUAL_TO', '-1')).toBe('4')
  expect(await matches(numbers, 'LESS_THAN', '9223372036854775807')).toBe('4')
  expect(await matches(numbers, 'LESS_THAN_OR_EQUAL_TO', '-9223372036854775808')).toBe('1')
  expect(await matches(numbers, 'NOT_EQUALS', '0')).toBe('4')
  const texts = await poolOf('STRING', ['"abc"', '"aXc"', '"a%c"', '"é😀"', 'null'])
  expect(await matches(texts, 'LIKE', 'a_c')).toBe('3')
  expect(await matches(texts, 'LIKE', 'a\\%c')).toBe('1')
  expect(await matches(texts, 'LIKE', '__')).toBe('1')
  expect(await matches(texts, 'NOT_LIKE', 'a%')).toBe('1')
})

test('sums are exact, beyond 64 bits too', async () => {
  const pool = await poolOf('INT64', [...new Array<string>(3).fill('9223372036854775807'), '-1', 'null'])
  expect(await server.sum(pool.poolId, 'v')).toBe(String(3n * 9223372036854775807n - 1n))
  const odd = await poolOf('INT64', ['9007199254740993', '9007199254740993'])
  expect(await server.sum(odd.poolId, 'v')).toBe('18014398509481986')
})

const INSTANT = '2024-02-29T12:34:56.123456Z'
const SPELLINGS = [
  `"${INSTANT}"`,
  '"2024-02-29 12:34:56.123456"',
  '"2024-02-29t12:34:56,123456z"',
  '"2024-02-29T12:34:56.123456999Z"',
  '"2024-02-29T14:34:56.123456+02:00"',
  '"2024-02-29T07:04:56.123456-0530"',
  '"2024-02-29T13:34:56.123456+01"',
  '1709210096.123456',
  '1709210096123456',
  '1709210096123456000',
]

test('spellings of one instant: one value in a column, one record as a key', async () => {
  const pool = await poolOf('TIMESTAMP', SPELLINGS)
  for (const text of SPELLINGS) {
    const value = text.startsWith('"') ? (JSON.parse(text) as string) : text
    expect([text, await matches(pool, 'EQUALS', value)]).toEqual([text, String(SPELLINGS.length)])
  }
  const keyed = await server.createPool({
    columns: [column('v', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')],
    timestamp: 'v',
    uniqueId: 'id',
  })
  for (const [n, text] of SPELLINGS.entries())
    expect((await post(server, keyed, `{"v":${text},"id":"a","n":${n}}`)).status).toBe(200)
  expect(await server.count(keyed.poolId)).toBe('1')
  expect(await server.sum(keyed.poolId, 'n')).toBe(String(SPELLINGS.length - 1))
})

test('epoch numbers: seconds, milliseconds, microseconds, nanoseconds, negative ones', async () => {
  const pool = await poolOf('TIMESTAMP', [
    '1',
    '99999999999',
    '100000000000',
    '100000000000000',
    '100000000000000000',
    '-1',
    '-0.5',
  ])
  for (const value of [
    '1970-01-01T00:00:01Z',
    '5138-11-16T09:46:39Z',
    '1969-12-31T23:59:59Z',
    '1969-12-31T23:59:59.5Z',
  ])
    expect([value, await matches(pool, 'EQUALS', value)]).toEqual([value, '1'])
  // 1e11 ms, 1e14 µs and 1e17 ns are one instant.
  expect(await matches(pool, 'EQUALS', '1973-03-03T09:46:40Z')).toBe('3')
})

test('unusual property names and paths, duplicate keys', async () => {
  const names = [
    'constructor',
    '__proto__',
    'length',
    'toString',
    'a.b',
    'é',
    'with space',
    "quo'te",
    'dou"ble',
  ]
  const columns = names.map((name, i) => column(`c${i}`, 'INT64', true, name))
  const pool = await server.createPool({
    columns: [...columns, column('exact name "x"', 'INT64', true, 'q')],
  })
  const body = `{${names.map((name, i) => `${JSON.stringify(name)}:${i + 1}`).join()},"q":77}`
  expect((await post(server, pool, body)).status).toBe(200)
  for (const i of names.keys()) expect(await server.sum(pool.poolId, `c${i}`)).toBe(String(i + 1))
  expect(await server.sum(pool.poolId, 'exact name "x"')).toBe('77')

  const other = await server.createPool({ columns })
  expect((await post(server, other, '{}')).status).toBe(200)
  for (const i of names.keys()) expect(await server.count(other.poolId, where(`c${i}`, 'IS_NULL'))).toBe('1')

  const nested = await server.createPool({ columns })
  const bodies = [
    '{"a":{"b":1},"a":{"b":20}}',
    '{"a":{"b":300},"a.b":4000}',
    '{"a.b":null,"a":{"b":5}}',
    '{"a":[{"b":6}]}',
    '{"\\u0061":{"\\u0062":70000}}',
  ]
  for (const text of bodies) expect((await post(server, nested, text)).status).toBe(200)
  expect(await server.sum(nested.poolId, 'c4')).toBe('74020')
  expect(await server.count(nested.poolId, where('c4', 'IS_NULL'))).toBe('2')
})

test('the payload is kept byte for byte', async () => {
  const pool = await server.createPool({})
  const text = '{ "a" : 1.0,"a":1e2, "\\u0061\\/" : "\\u0000é" ,"big":123456789012345678901234567890 }'
  expect((await post(server, pool, `[ ${text} ]`)).status).toBe(200)
  expect(await server.count(pool.poolId, where('_service_payload', 'EQUALS', text))).toBe('1')
})
