/** CSV becomes rows: RFC 4180, conversion by the columns of the pool, and borders anywhere. */
import { expect, test } from 'vitest'
import type { ColumnType, SchemaColumn } from '../../../src/format/schema.ts'
import { COLUMN_TYPES } from '../../../src/format/schema.ts'
import { IMPORT_COLUMNS_MAX } from '../../../src/parse/import/row-shape.ts'
import { IMPORT_ROW_BYTES_MAX } from '../../../src/util/limits.ts'
import { integersFrom, newSeed } from '../../util/random.ts'
import { cut, type Given, readImport } from './reading.ts'

const column = (name: string, type: ColumnType, jsonProperty = name): SchemaColumn => ({
  name,
  type,
  jsonProperty,
  required: false,
})

/** Reads whole, with a border at every byte, and byte by byte. */
async function read(text: string | Uint8Array, columns: readonly SchemaColumn[] = [], more: Given = {}) {
  const given: Given = { format: 'csv', columns, ...more }
  const body = Buffer.from(text as string)
  const whole = await readImport([body], given)
  for (let at = 0; at <= body.length; at += 1)
    expect({ at, ...(await readImport([body.subarray(0, at), body.subarray(at)], given)) }).toEqual({
      at,
      ...whole,
    })
  expect(await readImport(cut(body, 1), given)).toEqual(whole)
  return whole
}

const events = (got: { readonly events: readonly string[] }) =>
  got.events.map(event => event.replace(/^\d+:\d+:/, ''))

test.each([
  ['a,b\n1,2\n', ['2:{"a":"1","b":"2"}'], []],
  ['a,b\r\n1,2\r\n', ['2:{"a":"1","b":"2"}'], []],
  ['a,b\n1,2', ['2:{"a":"1","b":"2"}'], []],
  ['a,b\n1,', ['2:{"a":"1"}'], []],
  ['a,b\n,\n"",\n', ['2:{}', '3:{"a":""}'], []],
  ['\uFEFFa,b\n1,2\n', ['2:{"a":"1","b":"2"}'], []],
  ['\uFEFF"a","b"\n1,2\n', ['2:{"a":"1","b":"2"}'], []],
  [
    'a\n"x,y"\n"x\ny"\n"x\r\ny"\n"say ""hi"""\n""""\n',
    ['2:{"a":"x,y"}', '3:{"a":"x\\ny"}', '5:{"a":"x\\r\\ny"}', '7:{"a":"say \\"hi\\""}', '8:{"a":"\\""}'],
    [],
  ],
  [
    'a,b\n1,"2"\r\n"1","2"\r\n"1","2"',
    ['2:{"a":"1","b":"2"}', '3:{"a":"1","b":"2"}', '4:{"a":"1","b":"2"}'],
    [],
  ],
  ['a,b\n\n\r\n1,2\n\n', ['4:{"a":"1","b":"2"}'], []],
  ['a,b\n1\n1,2,3\n1,2\n', ['4:{"a":"1","b":"2"}'], ['1:2:too_few_fields', '2:3:too_many_fields']],
  ['a,b\n"1"x,2\n"1" ,2\n1,2\n', ['4:{"a":"1","b":"2"}'], ['1:2:bad_quotes', '2:3:bad_quotes']],
  ['a\nx"y\n "z"\n', ['2:{"a":"x\\"y"}', '3:{"a":" \\"z\\""}'], []],
  ['a\nback\\slash\n\u0001\ttab\n', ['2:{"a":"back\\\\slash"}', '3:{"a":"\\u0001\\ttab"}'], []],
  ['a\né€😀\n', ['2:{"a":"é€😀"}'], []],
  ['a b,"c,""d"\n1,2\n', ['2:{"a b":"1","c,\\"d":"2"}'], []],
  ['a\n\nx\n\n', ['2:{}', '3:{"a":"x"}', '4:{}'], []],
  ['\n\r\na\r\nx\r\n\r\ny\r\n', ['4:{"a":"x"}', '5:{}', '6:{"a":"y"}'], []],
  ['a\n\n""\nx', ['2:{}', '3:{"a":""}', '4:{"a":"x"}'], []],
  ['_service_payload\n\n{}\n\n', ['3:{}'], []],
  ['', [], []],
  ['a,b', [], []],
  ['a,b\n', [], []],
] as const)('%j', async (text, rows, refused) => {
  const got = await read(text)
  expect(got.events.map(event => event.replace(/^\d+:/, ''))).toEqual(rows)
  expect(got.refused).toEqual(refused)
  expect(got.done).toEqual({ rows: rows.length + refused.length, bytes: Buffer.byteLength(text) })
})

test.each([
  [
    'INT64',
    '1,-1,+1,007,1e2,9007199254740991, 5 ,5.,.5,x,1_000,0x10,""',
    [1, -1, 1, 7, 100, 9007199254740991, 5, 5, 0.5, 'x', '1_000', '0x10', undefined],
  ],
  [
    'DOUBLE',
    '1.5,-.5,1e-3,NaN,inf,-0,1.50,+.5e1,., -,e5',
    [1.5, -0.5, 0.001, 'NaN', 'inf', -0, 1.5, 5, '.', ' -', 'e5'],
  ],
  ['BOOLEAN', 'true,FALSE,t,F,1,0,yes, True ,2', [true, false, true, false, true, false, 'yes', true, '2']],
  [
    'TIMESTAMP',
    '2026-01-02 03:04:05,1700000000,1700000000.5,-1700000000000,20260102,2026,1e12,x',
    ['2026-01-02 03:04:05', 1700000000, 1700000000.5, -1700000000000, '20260102', '2026', '1e12', 'x'],
  ],
  ['DATE', '2026-01-02,20260102,x', ['2026-01-02', '20260102', 'x']],
  ['STRING', '1,true,"",null,{},"a""b"', ['1', 'true', '', 'null', '{}', 'a"b']],
  ['JSON', '1,"{""a"":[1,2]}","""text""",null,true,""', [1, { a: [1, 2] }, 'text', null, true, undefined]],
] as const)('%s: %s', async (type, text, values) => {
  const names = values.map((_, index) => `c${index}`)
  const got = await read(
    `${names.join()}\n${text}\n`,
    names.map(name => column(name, type)),
  )
  expect(got.refused).toEqual([])
  const [event] = got.events.map(one => JSON.parse(one.slice(4)))
  expect(names.map(name => event[name])).toEqual(values)
})

test('a field of a JSON column that is no JSON refuses its row, and names the column of the file', async () => {
  const got = await read('j,n\n{,1\n"{""a"":1}",2\n1 2,3\n"\\u00",4\n', [
    column('j', 'JSON'),
    column('n', 'INT64'),
  ])
  expect([events(got), got.refused, got.messages[0]]).toEqual([
    ['{"j":{"a":1},"n":2}'],
    ['1:2:not_json', '3:4:not_json', '4:5:not_json'],
    'the field is not JSON',
  ])
})

test('a header names a property, or else a column; paths become objects', async () => {
  const columns = [
    column('city', 'STRING', 'address.city'),
    column('zip', 'INT64', 'address.zip'),
    column('deep', 'STRING', 'a.b.c'),
  ]
  const got = await read('address.city,n,zip,a.b.c,x.y\nAms,1,12,c,xy\n,,,,\n,,5,,\n', columns)
  expect(events(got)).toEqual([
    '{"address":{"city":"Ams","zip":12},"n":"1","a":{"b":{"c":"c"}},"x.y":"xy"}',
    '{}',
    '{"address":{"zip":5}}',
  ])
})

test('a path through the value of another column keeps its whole text as its key', async () => {
  const columns = [column('a', 'JSON'), column('b', 'STRING', 'a.b'), column('c', 'STRING', 'a.b.c')]
  expect(events(await read('a,a.b,a.b.c\n"{""b"":0}",B,C\n', columns))).toEqual([
    '{"a":{"b":0},"a.b":"B","a.b.c":"C"}',
  ])
})

test('an export of a pool is imported by its payloads', async () => {
  const text =
    '_service_received_at,_service_payload,n\n2026-01-01T00:00:00.000Z,"{""n"": 1, ""x"":""y""}",1\nx,not json,1\nx,,1\n'
  const got = await read(text, [column('n', 'INT64')])
  expect([events(got), got.refused]).toEqual([['{"n": 1, "x":"y"}'], ['2:3:not_json', '3:4:no_payload']])
})

test.each([
  ['a,b,a\n', 'bad_header'],
  ['n,number\n', 'bad_header'],
  ['"a\n', 'unclosed_quote'],
  ['a,b\r1,2\r', 'bad_header'],
  ['a,b\r1,2\n3,4\n', 'bad_header'],
  ['a\r1', 'bad_header'],
  ['"a","b"\r1,2\r', 'bad_header'],
  ['"a"b\n1,2\n', 'bad_header'],
])('the header %j is refused', async (text, code) => {
  expect((await read(text, [column('n', 'INT64', 'number')])).broken).toBe(code)
})

test.each([
  ['n,number\n', 'two columns of the file fill the property "number": "n" and "number"'],
  ['a,b,a\n', 'two columns of the file are named "a"'],
  ['a,b,,\n', 'two columns of the file have no name: name them'],
])('the header %j is refused with a reason', async (text, reason) => {
  expect((await read(text, [column('n', 'INT64', 'number')])).brokenMessage).toContain(reason)
})

test.each([
  [[column('a', 'STRING', 'b'), column('b', 'STRING', 'a')], ''],
  [
    [column('a', 'STRING', 'x'), column('b', 'STRING', 'a')],
    'rename it to "b" for column "b", or rename it to "x" for column "a", or ',
  ],
])(
  'a header that is the property of one column and the name of another is refused',
  async (columns, ways) => {
    const got = await read('a\n1\n', columns)
    expect([got.broken, got.events]).toEqual(['bad_header', []])
    expect(got.brokenMessage).toBe(
      `the header "a" is the property of column "b" and the name of another column, with the property "${columns[0]!.jsonProperty}": ${ways}give by=column or by=property, or send NDJSON or a file with _service_payload`,
    )
  },
)

test('the headers that such a message proposes are taken', async () => {
  const columns = [column('a', 'INT64', 'x'), column('b', 'BOOLEAN', 'a')]
  expect(events(await read('x,b\n1,t\n', columns))).toEqual(['{"x":1,"a":true}'])
  // Two columns may read one property: its name means the same for both.
  const shared = [column('a', 'INT64'), column('b', 'INT64', 'a')]
  expect(events(await read('a\n1\n', shared))).toEqual(['{"a":1}'])
})

test('where the file has payloads, the other headers may be any', async () => {
  const columns = [column('a', 'INT64', 'x'), column('b', 'INT64', 'x'), column('x', 'INT64', 'y')]
  const got = await read('a,b,x,n,n,_service_payload\n1,2,3,4,5,"{""x"":1}"\n', columns)
  expect([got.broken, events(got)]).toEqual([undefined, ['{"x":1}']])
  expect((await read('_service_payload,_service_payload\n{},{}\n')).brokenMessage).toBe(
    'two columns of the file are named "_service_payload"',
  )
})

test.each([
  ['a,b\n1,"2', 2, []],
  ['a,b\n1,"2\n3,4\n5,6\n', 2, []],
  ['a,b\n1,2\n"3\n",4\n5,"6""\n7,8\n', 5, ['1:2:{"a":"1","b":"2"}', '2:3:{"a":"3\\n","b":"4"}']],
] as const)(
  '%j ends inside quotes: the rows before them are given, and no other',
  async (text, line, rows) => {
    const got = await read(text)
    expect([got.broken, got.events, got.refused, got.done]).toEqual(['unclosed_quote', rows, [], undefined])
    expect(got.brokenMessage).toContain(`in line ${line}`)
  },
)

test('an unclosed quote is found behind more bytes than a row takes', async () => {
  const body = Buffer.from(`a,b\n1,2\n3,"${'4\n'.repeat(IMPORT_ROW_BYTES_MAX)}`)
  const got = await readImport(cut(body, 65_536), { format: 'csv' })
  expect([got.broken, got.events, got.refused]).toEqual(['unclosed_quote', ['1:2:{"a":"1","b":"2"}'], []])
  expect(got.brokenMessage).toContain('in line 3')
})

test('a CR inside a quoted name of the header is a character of it', async () => {
  expect(events(await read('"a\rb",c\r\n1,2\r\n'))).toEqual(['{"a\\rb":"1","c":"2"}'])
})

test('10,000 columns are a row, and too many are refused', async () => {
  const names = Array.from({ length: 10_000 }, (_, n) => `c${n}`)
  const text = Buffer.from(
    `${names.join()}\n${names.map((_, n) => n).join()}\n${names.map(() => '').join()}\n`,
  )
  for (const size of [text.length, 4096, 7]) {
    const got = await readImport(cut(text, size), { format: 'csv', columns: [column('c5', 'INT64')] })
    const rows = events(got).map(event => JSON.parse(event))
    expect([rows.length, rows[0].c5, rows[0].c9999, Object.keys(rows[0]).length, rows[1]]).toEqual([
      2,
      5,
      '9999',
      10_000,
      {},
    ])
  }
  const many = Buffer.from(`${'a,'.repeat(IMPORT_COLUMNS_MAX)}b\n`)
  expect((await readImport([many], { format: 'csv' })).broken).toBe('bad_header')
})

test('a record that is too long is refused alone, whether its text or its event is', async () => {
  const long = (length: number) => 'x'.repeat(length)
  const text = Buffer.from(
    `a,b\n1,${long(IMPORT_ROW_BYTES_MAX + 10)}\n2,2\n3,"${long(3 * IMPORT_ROW_BYTES_MAX)}\n\n${long(10)}"\n4,4\n5,${'\u0001'.repeat(IMPORT_ROW_BYTES_MAX / 3)}\n6,6\n7,${long(IMPORT_ROW_BYTES_MAX)}`,
  )
  for (const size of [text.length, 65_536, 99_991]) {
    const got = await readImport(cut(text, size), { format: 'csv' })
    expect(got.events).toEqual(['2:3:{"a":"2","b":"2"}', '4:7:{"a":"4","b":"4"}', '6:9:{"a":"6","b":"6"}'])
    expect(got.refused).toEqual([
      '1:2:row_too_long',
      '3:4:row_too_long',
      '5:8:row_too_long',
      '7:10:row_too_long',
    ])
  }
})

test('a blank line that is a row is left out as one', async () => {
  const got = await read('a\n\nx\n\ny\n', [], { skipRows: 2 })
  expect([got.events, got.done?.rows]).toEqual([['3:4:{}', '4:5:{"a":"y"}'], 4])
})

test('a header that is not UTF-8 is refused, and such a row alone', async () => {
  for (const header of ['n,caf\xe9\n', '"n","caf\xe9"\n', 'caf\xe9', '\xff\xfea\0\n']) {
    const got = await read(Buffer.from(`${header}`, 'latin1'))
    expect([got.broken, got.brokenMessage]).toEqual([
      'bad_header',
      'the header of the file is not UTF-8: convert the file to UTF-8',
    ])
  }
  const got = await read(Buffer.from('n,caf\xc3\xa9\n1,\xe9\n2,\xc3\xa9\n', 'latin1'))
  expect([events(got), got.refused]).toEqual([['{"n":"2","café":"é"}'], ['1:2:invalid_utf8']])
})

test('rows that are left out are counted, and the byte offset is that of a record', async () => {
  const body = 'a,b\n1,1\n"2\n",2\n3,3\n'
  const got = await read(body, [], { skipRows: 2 })
  expect([got.events, got.done]).toEqual([['3:5:{"a":"3","b":"3"}'], { rows: 3, bytes: body.length }])
  const many = Buffer.from(`a\n${'x\n'.repeat(1001)}`)
  expect((await readImport([many], { format: 'csv' })).ends).toEqual([
    [500, 1002],
    [1000, 2002],
    [1001, 2004],
  ])
})

const TEXTS = [
  '',
  'x',
  ' ',
  'a,b',
  'say "hi"',
  'line\nbreak',
  'cr\r\nlf',
  'é€😀',
  '\\',
  '0',
  '-1',
  'true',
  '{"a":1}',
  '"',
  ',',
]

test('random tables agree with a plain reader of them', async () => {
  const seed = newSeed()
  const next = integersFrom(seed)
  for (let round = 0; round < 60; round += 1) {
    const width = 1 + next(8)
    const columns = Array.from({ length: width }, (_, at) =>
      column(`c${at}`, COLUMN_TYPES[next(COLUMN_TYPES.length)]!),
    )
    const wanted: Record<string, unknown>[] = []
    const lines: string[] = []
    for (let row = 0; row < 1 + next(700); row += 1) {
      const event: Record<string, unknown> = {}
      const fields = columns.map(({ name, type }) => {
        const text = TEXTS[next(TEXTS.length)]!
        const isQuoted = /[",\r\n]/.test(text) || next(3) === 0
        const value = valueIn(type, text, isQuoted)
        if (value !== undefined) event[name] = value
        return isQuoted ? `"${text.replaceAll('"', '""')}"` : text
      })
      const isBad = columns.some(({ name, type }) => type === 'JSON' && event[name] === BAD)
      if (!isBad) wanted.push(event)
      lines.push(fields.join())
    }
    const body = Buffer.from(
      [columns.map(({ name }) => name).join(), ...lines, ''].join(next(2) === 0 ? '\n' : '\r\n'),
    )
    const got = await readImport(cut(body, 1 + next(5000)), { format: 'csv', columns })
    expect({ seed, round, rows: events(got).map(event => JSON.parse(event)) }).toEqual({
      seed,
      round,
      rows: wanted,
    })
    expect(got.done).toEqual({ rows: lines.length, bytes: body.length })
  }
})

const BAD = Symbol('not JSON')

/** The value of a field by JSON.parse and Number. */
function valueIn(type: ColumnType, text: string, isQuoted: boolean): unknown {
  if (text === '') return isQuoted && type === 'STRING' ? '' : undefined
  if (type === 'STRING' || type === 'DATE' || type === 'TIMESTAMP') return text
  if (type === 'BOOLEAN') return text === 'true' ? true : text === '0' ? false : text
  if (type !== 'JSON') return text === '0' || text === '-1' ? Number(text) : text
  try {
    return JSON.parse(text) as unknown
  } catch {
    return BAD
  }
}
