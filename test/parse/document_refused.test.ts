/** Whole documents: which are refused, with which code, and which of several errors is reported. */
import { expect, test } from 'vitest'
import { parseAll, readOutcomes, schemaOf } from './reading.ts'

const schema = schemaOf([{ jsonProperty: 'a' }])

/** The outcome of one body as `document@event`, or `ok/events/accepted`. */
function outcome(body: string | Uint8Array): string {
  const parsed = parseAll(schema, [{ body }])
  const [one] = readOutcomes(parsed)
  if (one!.document !== 'ok') {
    expect([one!.events, one!.accepted]).toEqual([0, 0])
    return `${one!.document}@${one!.event}`
  }
  return `ok/${one!.events}/${one!.accepted}`
}

const bytes = (...parts: (string | number[])[]) =>
  Buffer.concat(parts.map(part => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))))
const BOM = [0xef, 0xbb, 0xbf]
const open = (depth: number) => '['.repeat(depth)
const close = (depth: number) => ']'.repeat(depth)

test.each([
  ['{}', 'ok/1/1'],
  [' \t\r\n[ ] \n', 'ok/0/0'],
  ['[{},{"a":1}]', 'ok/2/2'],
  ['', 'not_json@-1'],
  [' \n', 'not_json@-1'],
  ['\0', 'not_json@-1'],
  ['{}\0', 'not_json@-1'],
  ['{"a":1}x', 'not_json@-1'],
  ['{} {}', 'not_json@-1'],
  ['{}\u000b', 'not_json@-1'],
  ['[{},{"b":tru}]', 'not_json@1'],
  ['[{"a":1},{"b":01}]', 'not_json@1'],
  ['[{},]', 'not_json@1'],
  ['[{}{}]', 'not_json@-1'],
  ['{"a":1,}', 'not_json@0'],
  ['{"a"}', 'not_json@0'],
  ['{a:1}', 'not_json@0'],
  ['{"a":"\t"}', 'not_json@0'],
  ['{"z":"\\x"}', 'not_json@0'],
  ['{"z":[1}', 'not_json@0'],
  ['{"z":{"y":1]}', 'not_json@0'],
  ['{"z":[1,]}', 'not_json@0'],
  ['{"z":{"y":1,}}', 'not_json@0'],
  ['[', 'not_json@0'],
  ['{', 'not_json@0'],
  ['1', 'not_object_or_array@-1'],
  ['"x" ', 'not_object_or_array@-1'],
  ['null', 'not_object_or_array@-1'],
  ['1 2', 'not_json@-1'],
  ['nul', 'not_json@-1'],
  ['"\\ud800"', 'unpaired_surrogate@-1'],
  ['{"z":"\\ud800"}', 'unpaired_surrogate@0'],
  ['{"\\udc00":1}', 'unpaired_surrogate@0'],
  ['[{},{"a":{"z":["\\ud834\\ud834"]}}]', 'unpaired_surrogate@1'],
  ['[1,"\\udd1e\\ud834"]', 'unpaired_surrogate@1'],
  ['{"z":"\\ud834\\udd1e"}', 'ok/1/1'],
  ['{"z":"\\ud834\\ue000"}', 'unpaired_surrogate@0'],
  ['{"z":"\\ud834\\udbff"}', 'unpaired_surrogate@0'],
  ['{"z":"\\udbff\\udfff\\ud800\\udc00\\ud7ff\\ue000"}', 'ok/1/1'],
  ['{"z":1e400}', 'number_out_of_range@0'],
  ['{"z":-1e309}', 'number_out_of_range@0'],
  ['[{},[[1e400]]]', 'number_out_of_range@1'],
  [`{"z":1${'0'.repeat(308)}}`, 'ok/1/1'],
  [`{"z":1${'0'.repeat(309)}}`, 'number_out_of_range@0'],
  [`{"z":1${'0'.repeat(309)}.5}`, 'number_out_of_range@0'],
  [`{"z":1${'0'.repeat(400)}e-200}`, 'ok/1/1'],
  ['{"z":1.7976931348623158e308}', 'ok/1/1'],
  ['{"z":1.7976931348623159e308}', 'number_out_of_range@0'],
  ['{"z":1e-400}', 'ok/1/1'],
  ['{"z":0e999999999}', 'ok/1/1'],
  ['{"z":1e400,"y":"\\ud800"}', 'number_out_of_range@0'],
  ['{"y":"\\ud800","z":1e400}', 'unpaired_surrogate@0'],
  ['{"y":"\\ud800"', 'unpaired_surrogate@0'],
  ['{"y":x,"z":"\\ud800"}', 'not_json@0'],
])('%s', (body, want) => {
  expect(outcome(body)).toBe(want)
})

test('a byte order mark wins over all, invalid UTF-8 over all but it', () => {
  expect(outcome(bytes(BOM, '{}'))).toBe('bom@-1')
  expect(outcome(bytes(BOM))).toBe('bom@-1')
  expect(outcome(bytes(BOM, '{', [0xff]))).toBe('bom@-1')
  expect(outcome(bytes([0xef, 0xbb], '{}'))).toBe('invalid_utf8@-1')
  expect(outcome(bytes('x{"y":"\\ud800"}', [0xff]))).toBe('invalid_utf8@-1')
  expect(outcome(bytes('{"a":"', BOM, '"}'))).toBe('ok/1/1')
  expect(outcome(bytes('{}', BOM))).toBe('not_json@-1')
})

test.each([
  [[0xff]],
  [[0xc0, 0x80]],
  [[0xc3]],
  [[0xed, 0xa0, 0x80]],
  [[0xe0, 0x80, 0x80]],
  [[0xf4, 0x90, 0x80, 0x80]],
  [[0xf0, 0x80, 0x80, 0x80]],
  [[0x80]],
])('bytes %j are not UTF-8', part => {
  expect(outcome(bytes('[{"a":1},{"z":"', part, '"}]'))).toBe('invalid_utf8@-1')
})

test('1,024 open containers are taken, 1,025 refused, whatever they are and whoever asks for them', () => {
  expect(outcome(open(1024) + close(1024))).toBe('ok/1/0') // the element is an array: not an event
  expect(outcome(open(1025) + close(1025))).toBe('too_deep@0')
  expect(outcome(`[{},${open(1023)}${close(1023)}]`)).toBe('ok/2/1')
  expect(outcome(`[{},${open(1024)}${close(1024)}]`)).toBe('too_deep@1')
  for (const name of ['a', 'z']) {
    expect(outcome(`{"${name}":${open(1023)}${close(1023)}}`)).toBe('ok/1/1')
    expect(outcome(`{"${name}":${open(1024)}${close(1024)}}`)).toBe('too_deep@0')
    expect(outcome(`{"${name}":${'{"a":'.repeat(1023)}1${'}'.repeat(1024)}`)).toBe('ok/1/1')
    expect(outcome(`{"${name}":${'{"a":'.repeat(1024)}1${'}'.repeat(1025)}`)).toBe('too_deep@0')
  }
})

test('siblings do not add to depth', () => {
  expect(outcome(`[${Array.from({ length: 400 }, () => '{"a":[[{}]],"z":{"y":{}}}').join(',')}]`)).toBe(
    'ok/400/400',
  )
})

test('a path as deep as the document is walked to its end', () => {
  const deep = schemaOf([{ jsonProperty: Array.from({ length: 1100 }, () => 'a').join('.') }])
  const body = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
  expect(readOutcomes(parseAll(deep, [{ body: body(1024) }]))[0]!.document).toBe('ok')
  expect(readOutcomes(parseAll(deep, [{ body: body(1025) }]))[0]!.document).toBe('too_deep')
})

test('500 elements are taken; more are refused only if the rest is a valid document', () => {
  const many = (count: number, last: string) => `[${'{},'.repeat(count - 1)}${last}]`
  expect(outcome(many(500, '{}'))).toBe('ok/500/500')
  expect(outcome(many(501, '{}'))).toBe('too_many_events@-1')
  expect(outcome(many(501, '7'))).toBe('too_many_events@-1')
  expect(outcome(many(501, 'x'))).toBe('not_json@500')
  expect(outcome(many(700, '"\\ud800"'))).toBe('unpaired_surrogate@699')
  expect(outcome(`${many(501, '{}')}x`)).toBe('not_json@-1')
})

test('a body cut short anywhere, or with any one byte changed, is refused or accepted as JSON.parse does', () => {
  const whole = Buffer.from('[{"a":{"b":[1,-2.5e3,"\\u00e9\\n"],"c":true}, "z":null},{"a":false}]')
  expect(outcome(whole)).toBe('ok/2/2')
  for (let length = 0; length < whole.length; length++)
    expect(outcome(whole.subarray(0, length)), `cut to ${length}`).toBe(
      `not_json@${readOutcomes(parseAll(schema, [{ body: whole.subarray(0, length) }]))[0]!.event}`,
    )
  for (let at = 0; at < whole.length; at++)
    for (const byte of Buffer.from('"\\{}[]:,0 x\0-')) {
      const changed = Buffer.from(whole)
      changed[at] = byte
      expect(outcome(changed).startsWith('ok'), changed.toString()).toBe(accepts(changed))
    }
})

function accepts(body: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(body.toString())
    return typeof value === 'object' && value !== null
  } catch {
    return false
  }
}
