/** NDJSON becomes rows: what a row is, which rows are refused, and borders of pieces anywhere. */
import { expect, test } from 'vitest'
import { PLAIN_NAMING } from '../../../src/parse/import/naming.ts'
import { BODY_BYTES_MAX, EVENTS_MAX, IMPORT_ROW_BYTES_MAX } from '../../../src/util/limits.ts'
import { integersFrom, newSeed } from '../../util/random.ts'
import { cut, type Given, readImport } from './reading.ts'

const bytes = (...parts: (string | number[])[]) =>
  Buffer.concat(parts.map(part => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))))
const BOM = [0xef, 0xbb, 0xbf]

/** Reads in one piece, and again with a border at every byte: the result must be the same. */
async function read(body: Uint8Array, given: Given = {}) {
  const whole = await readImport([body], given)
  for (let at = 0; at <= body.length; at += 1) {
    const parts = await readImport([body.subarray(0, at), body.subarray(at)], given)
    expect({ at, ...parts }).toEqual({ at, ...whole })
  }
  expect(await readImport(cut(body, 1), given)).toEqual(whole)
  return whole
}

test.each([
  ['nothing', bytes(''), [], []],
  ['one line', bytes('{"a":1}\n'), ['1:1:{"a":1}'], []],
  ['no line break at the end', bytes('{"a":1}\n{"a":2}'), ['1:1:{"a":1}', '2:2:{"a":2}'], []],
  ['CRLF', bytes('{"a":1}\r\n{"a":2}\r\n'), ['1:1:{"a":1}', '2:2:{"a":2}'], []],
  ['blank lines', bytes('\n\r\n{"a":1}\n \t \n\n{"a":2}\n\n'), ['1:3:{"a":1}', '2:6:{"a":2}'], []],
  ['spaces around', bytes('  {"a":1} \t\n'), ['1:1:{"a":1}'], []],
  ['a byte order mark', bytes(BOM, '{"a":1}\n'), ['1:1:{"a":1}'], []],
  ['a mark and nothing', bytes(BOM), [], []],
  ['a part of a mark', bytes(BOM.slice(0, 2)), [], ['1:1:invalid_utf8']],
  ['a part of a mark, then a line', bytes(BOM.slice(0, 1), '{}\n{}'), ['2:2:{}'], ['1:1:invalid_utf8']],
  ['a second mark', bytes(BOM, BOM, '{}\n{}'), ['2:2:{}'], ['1:1:not_json']],
  ['multi-byte characters', bytes('{"a":"é€😀"}\n'), ['1:1:{"a":"é€😀"}'], []],
  [
    'bad lines between good ones',
    bytes('{"a":1}\nx\n{"a":2}\n[1]\n3\n{"a":'),
    ['1:1:{"a":1}', '3:3:{"a":2}'],
    ['2:2:not_json', '4:4:not_object', '5:5:not_object', '6:6:not_json'],
  ],
  [
    'two bad lines that together are an object',
    bytes('{"a":[1\n2]}\n{"b":1}\n'),
    ['3:3:{"b":1}'],
    ['1:1:not_json', '2:2:not_json'],
  ],
  [
    'two objects in a line',
    bytes('{"a":1},{"b":2}\n{"a":1}{"b":2}\n{"a":1} {"b":2}\n{}'),
    ['4:4:{}'],
    ['1:1:not_json', '2:2:not_json', '3:3:not_json'],
  ],
  ['a text over two lines', bytes('{"a":"b\nc"}\n'), [], ['1:1:not_json', '2:2:not_json']],
  ['what closes the batch', bytes('{}]\n{}\n],[{}\n'), ['2:2:{}'], ['1:1:not_json', '3:3:not_json']],
  [
    'not UTF-8',
    bytes('{"a":"', [0xff], '"}\n{"a":2}\n{"a":"', [0xc3], '\n"}'),
    ['2:2:{"a":2}'],
    ['1:1:invalid_utf8', '3:3:invalid_utf8', '4:4:not_json'],
  ],
  [
    'zeros',
    bytes('{"a":1}\0\n\0\n{"a":2}\n{"a":"\0"}'),
    ['3:3:{"a":2}'],
    ['1:1:not_json', '2:2:not_json', '4:4:not_json'],
  ],
  [
    'a surrogate and a number',
    bytes('{"a":"\\ud800"}\n{"a":1e999}\n{}'),
    ['3:3:{}'],
    ['1:1:unpaired_surrogate', '2:2:number_out_of_range'],
  ],
  ['a CR inside', bytes('{"a":1}\r{"a":2}\n{"a":\r3}\r\r\n'), ['2:2:{"a":\r3}'], ['1:1:not_json']],
] as const)('%s', async (_, body, events, refused) => {
  const got = await read(body)
  expect(got.events).toEqual(events)
  expect([...got.refused].sort()).toEqual([...refused].sort())
  expect(got.done).toEqual({ rows: events.length + refused.length, bytes: body.length })
  expect(got.ends.at(-1) ?? [0, body.length]).toEqual([events.length + refused.length, body.length])
})

test('nesting is refused beyond the limit, as in a POST', async () => {
  const deep = (open: number) => `{"a":${'['.repeat(open)}${']'.repeat(open)}}`
  const got = await readImport([bytes(`${deep(1022)}\n${deep(1025)}\n`)])
  expect([got.events.length, got.refused]).toEqual([1, ['2:2:too_deep']])
})

test('a batch has at most 500 rows, and ends where a row has no room', async () => {
  const many = bytes('{}\n'.repeat(2 * EVENTS_MAX + 1))
  expect((await readImport([many])).ends).toEqual([
    [EVENTS_MAX, 3 * EVENTS_MAX],
    [2 * EVENTS_MAX, 6 * EVENTS_MAX],
    [2 * EVENTS_MAX + 1, many.length],
  ])
  // Refused rows fill a batch too, so that a file of them makes progress.
  const bad = await readImport([bytes('x\n'.repeat(2 * EVENTS_MAX + 1))])
  expect([bad.batches, bad.refused.length]).toEqual([3, 2 * EVENTS_MAX + 1])
  const half = `{"a":"${'x'.repeat(BODY_BYTES_MAX / 2)}"}\n`
  expect((await readImport([bytes(half + half + half)])).batches).toBe(3)
})

test('the longest line is a row, and a longer one is refused alone', async () => {
  const line = (length: number) => `{"a":"${'x'.repeat(length - 8)}"}`
  expect(line(20).length).toBe(20)
  const body = bytes(
    `{"b":1}\n${line(IMPORT_ROW_BYTES_MAX)}\n${line(IMPORT_ROW_BYTES_MAX + 1)}\r\n${line(IMPORT_ROW_BYTES_MAX)}\r\n` +
      `${line(5 * IMPORT_ROW_BYTES_MAX)}\n{"b":2}\n${line(IMPORT_ROW_BYTES_MAX + 2)}`,
  )
  for (const size of [body.length, 65_536, 999_983]) {
    const got = await readImport(cut(body, size))
    expect(got.events.map(event => event.slice(0, 4))).toEqual(['1:1:', '2:2:', '4:4:', '6:6:'])
    expect(got.refused).toEqual(['3:3:row_too_long', '5:5:row_too_long', '7:7:row_too_long'])
  }
})

test('rows that are left out are counted and not checked, and the others keep their numbers', async () => {
  const body = bytes('{"a":1}\n\nbad\n{"a":3}\nbad\n{"a":5}\n')
  for (const [skipRows, events, refused] of [
    [1, ['3:4:{"a":3}', '5:6:{"a":5}'], ['2:3:not_json', '4:5:not_json']],
    [2, ['3:4:{"a":3}', '5:6:{"a":5}'], ['4:5:not_json']],
    [4, ['5:6:{"a":5}'], []],
    [5, [], []],
    [9, [], []],
  ] as const) {
    const got = await read(body, { skipRows })
    expect([skipRows, got.events, got.refused]).toEqual([skipRows, events, refused])
    expect(got.done).toEqual({ rows: 5, bytes: body.length })
  }
})

test('refused rows are told up to a number, and all counted', async () => {
  const options = {
    format: 'ndjson',
    encoding: 'identity',
    skipRows: 0,
    errorsMax: 3,
    naming: PLAIN_NAMING,
  } as const
  const { batchesOf } = await import('../../../src/parse/import/import-thread.ts')
  const { RowBatches } = await import('../../../src/parse/import/row-batches.ts')
  let [told, counted] = [0, 0]
  async function* pieces() {
    yield bytes('x\n'.repeat(1500))
  }
  for await (const { refused, refusedBy } of batchesOf(
    { ...options, columns: [], spoolFile: '' },
    pieces(),
    new RowBatches(options),
  )) {
    told += refused.length
    counted += refusedBy.get('not_json') ?? 0
  }
  expect([told, counted]).toEqual([3, 1500])
})

test('the refused rows that are told are the first ones', async () => {
  // A long row is refused at once, the others when their batch is complete.
  const body = bytes(`{"a":1}\nx\n[]\n"${'y'.repeat(BODY_BYTES_MAX)}"\nz\n`)
  const all = (await readImport([body])).refused
  expect(all.map(text => text.split(':')[0])).toEqual(['2', '3', '4', '5'])
  for (const errorsMax of [0, 1, 2, 3, 4])
    expect((await readImport([body], { errorsMax })).refused).toEqual(all.slice(0, errorsMax))
})

test('a body whose first row has a payload is an export: its payloads are the rows', async () => {
  const body = bytes(
    '\n{"_service_received_at":"x","_service_payload": {"a": 1, "b":[{}]} ,"a":1}\n{"_service_payload":{"a":2}}\n' +
      '{"a":3}\n{"_service_payload":[4]}\n{"_service_payload":{"a":5}\n{"_service_payload":{},"x":1,}\n{"_service_payload":{"a":7},"_service_payload":{"a":8}}\n',
  )
  const got = await read(body)
  expect(got.events).toEqual(['1:2:{"a": 1, "b":[{}]}', '2:3:{"a":2}', '7:8:{"a":8}'])
  expect(got.refused.sort()).toEqual(['3:4:no_payload', '4:5:not_object', '5:6:not_json', '6:7:not_json'])
  const later = await read(body, { skipRows: 1 })
  expect(later.events).toEqual(['2:3:{"a":2}', '7:8:{"a":8}'])
  // Only the first row decides.
  const plain = await read(bytes('{"a":1}\n{"_service_payload":{"a":2}}\n'))
  expect(plain.events).toEqual(['1:1:{"a":1}', '2:2:{"_service_payload":{"a":2}}'])
})

const LINES = [
  '{"a":1}',
  '{"é":"€\\n😀"}',
  '',
  '  ',
  '{"a":',
  '[1,2]',
  'null',
  '{"a":[{"b":{}}]}',
  '{"x":"y"}\r',
  '}',
  '{"a":1},',
  '"',
  '\\',
  '{"n":1e5}',
  '{"u":"\\u00e9"}',
]

test('random bodies in random pieces agree with JSON.parse of each line', async () => {
  const seed = newSeed()
  const next = integersFrom(seed)
  for (let round = 0; round < 150; round += 1) {
    const lines = Array.from({ length: next(1200) }, () => LINES[next(LINES.length)]!)
    const ending = next(2) === 0 ? '\n' : '\r\n'
    const body = Buffer.from(lines.join(ending) + (next(2) === 0 ? ending : ''))
    const pieces: Uint8Array[] = []
    for (let from = 0; from < body.length; ) {
      const to = Math.min(body.length, from + 1 + next(next(3) === 0 ? 5 : 3000))
      pieces.push(body.subarray(from, to))
      from = to
    }
    const [events, refused]: [string[], string[]] = [[], []]
    let row = 0
    for (const [index, line] of lines.entries()) {
      if (line.trim() === '') continue
      row += 1
      try {
        const value: unknown = JSON.parse(line)
        if (typeof value === 'object' && value !== null && !Array.isArray(value))
          events.push(`${row}:${index + 1}:${line.trim()}`)
        else refused.push(`${row}:${index + 1}:not_object`)
      } catch {
        refused.push(`${row}:${index + 1}:not_json`)
      }
    }
    const got = await readImport(pieces)
    expect({ seed, round, events: got.events, refused: [...got.refused].sort() }).toEqual({
      seed,
      round,
      events,
      refused: refused.sort(),
    })
    expect(got.done).toEqual({ rows: row, bytes: body.length })
  }
})
