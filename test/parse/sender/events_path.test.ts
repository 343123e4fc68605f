/** eventsPath: the array or object inside a body, by the rules of a jsonProperty's path. */
import { expect, test } from 'vitest'
import { JsonMaker, NAMES } from '../../fuzz/json.ts'
import { Random } from '../../fuzz/random.ts'
import { newSeed, TEST_RUNS } from '../../util/random.ts'
import { parseAll, readOutcomes, schemaOf } from '../reading.ts'
import { documentOf, errorOf } from './reading.ts'

test.each([
  ['records', '{"requestId":"1","records":[{"a":1},{"a":2}],"timestamp":7}', '[{"a":1},{"a":2}]'],
  ['records', ' {"records" : [ {"a" : 1} ] } \n', '[ {"a" : 1} ]'],
  ['records', '{"records":{"a":1}}', '{"a":1}'],
  ['records', '{"records":[]}', '[]'],
  ['data.items', '{"data":{"items":[{}],"more":false}}', '[{}]'],
  ['records', '{"records":[{"records":[1]}]}', '[{"records":[1]}]'],
  // The last duplicate wins at each level.
  ['records', '{"records":[1],"records":[2]}', '[2]'],
  ['records', '{"records":[1],"records":null}', 'no_events_at_path'],
  ['data.items', '{"data":{"items":[1]},"data":{"items":[2]}}', '[2]'],
  ['data.items', '{"data":{"items":[1]},"data":{}}', 'no_events_at_path'],
  ['data.items', '{"data":{"items":[1]},"data":5}', 'no_events_at_path'],
  ['data.items', '{"data":5,"data":{"items":[1],"items":[2]}}', '[2]'],
  // Keys are compared unescaped.
  ['records', String.raw`{"\u0072ecords":[1]}`, '[1]'],
  ['records', String.raw`{"records":[1],"rec\u006frds":[2]}`, '[2]'],
  ['größe', String.raw`{"gr\u00f6\u00dfe":[1]}`, '[1]'],
  ['o\u0308', '{"\u00f6":[1]}', 'no_events_at_path'],
  ['Records', '{"records":[1]}', 'no_events_at_path'],
  // Own keys of objects only.
  ['__proto__', '{}', 'no_events_at_path'],
  ['__proto__', '{"__proto__":[1]}', '[1]'],
  ['constructor.prototype', '{}', 'no_events_at_path'],
  ['a.__proto__.b', '{"a":{"__proto__":{"b":[1]}}}', '[1]'],
  ['a.length', '{"a":[1]}', 'no_events_at_path'],
  ['a.0', '{"a":[[1]]}', 'no_events_at_path'],
  ['a.b', '{"a":[{"b":[1]}]}', 'no_events_at_path'],
  ['a.b', '{"a":"{\\"b\\":[1]}"}', 'no_events_at_path'],
  ['data.items', '{"data.items":[1]}', 'no_events_at_path'],
  ['data.items', '{"data.items":[1],"data":{"items":[2]}}', '[2]'],
  ['records', '{}', 'no_events_at_path'],
  ['records', '{"records":"[{}]"}', 'no_events_at_path'],
  ['records', '{"records":true}', 'no_events_at_path'],
  ['records', '[{"records":[1]}]', 'no_events_at_path'],
  ['records', '"records"', 'no_events_at_path'],
  ['records', '7', 'no_events_at_path'],
  // The whole body is JSON by the rules of a body, not the part alone.
  ['records', '{"records":[1]', 'not_json'],
  ['records', '{"records":[1]}}', 'not_json'],
  ['records', '{"records":[1]} {}', 'not_json'],
  ['records', '{"records":[1],"x":tru}', 'not_json'],
  ['records', '{"x":01,"records":[1]}', 'not_json'],
  ['records', '{"records":[1],"x":"\\ud800"}', 'unpaired_surrogate'],
  ['records', '{"records":[1],"x":1e400}', 'number_out_of_range'],
  ['records', '\ufeff{"records":[1]}', 'byte_order_mark'],
  ['records', '', 'not_json'],
  ['records', '[1', 'not_json'],
])('%s of %s', (path, body, want) => {
  expect(documentOf('JSON', body, path)).toBe(want)
})

test('bytes that are not UTF-8 anywhere refuse the body', () => {
  const body = Buffer.from('{"records":[1],"x":"?"}')
  body[body.indexOf('?')] = 0xff
  expect(documentOf('JSON', body, 'records')).toBe('invalid_utf8')
})

test('a wrapper that nests at the limit is taken, and one beyond it refused', () => {
  const deep = (depth: number, leaf: string) => `${'{"a":'.repeat(depth)}${leaf}${'}'.repeat(depth)}`
  const path = (depth: number) => Array.from({ length: depth }, () => 'a').join('.')
  expect(documentOf('JSON', deep(1023, '[]'), path(1023))).toBe('[]')
  expect(documentOf('JSON', deep(1024, '[]'), path(1024))).toBe('too_deep')
  expect(documentOf('JSON', deep(5, '[]'), path(1_000))).toBe('no_events_at_path')
  expect(documentOf('JSON', `{"b":${deep(1024, '1')},"a":[]}`, 'a')).toBe('too_deep')
})

test('500 events count behind the path', () => {
  const body = (count: number) =>
    documentOf('JSON', `{"n":[${'{},'.repeat(600)}{}],"records":[${'{},'.repeat(count - 1)}{}]}`, 'records')
  const outcome = (document: string) =>
    readOutcomes(parseAll(schemaOf([{ jsonProperty: 'a' }]), [{ body: document }]))[0]!.document
  expect(outcome(body(500))).toBe('ok')
  expect(outcome(body(501))).toBe('too_many_events')
})

test('messages name the path, and say what stands there', () => {
  expect(errorOf('JSON', '{}', 'data.items')).toBe(
    '400 no_events_at_path: the body has nothing at "data.items", the eventsPath of this source',
  )
  expect(errorOf('JSON', '{"records":7}', 'records')).toBe(
    '400 no_events_at_path: the body has neither an array nor an object at "records", the eventsPath of this source',
  )
  expect(errorOf('JSON', '{"records":[],}', 'records')).toBe(
    '400 not_json: the body is not JSON: expected a key in double quotes at byte 14, found "}"',
  )
})

test('a path holds for the document of every format', () => {
  expect(documentOf('TEXT', '{"records":[1]}', 'records')).toBe('[1]')
  expect(documentOf('FORM', 'payload=%7B%22records%22:[1]%7D', 'records')).toBe('[1]')
  expect(documentOf('FORM', 'a=1&b=2', 'a')).toBe('no_events_at_path')
  expect(documentOf('FORM', 'a=1&a=2', 'a')).toBe('["1","2"]')
  expect(documentOf('NDJSON', '{"records":[1]}', 'records')).toBe('no_events_at_path')
  expect(documentOf('NDJSON', '{"records":[1]', 'records')).toBe('not_ndjson')
})

test('more paths than are remembered', () => {
  for (let round = 0; round < 2; round += 1)
    for (let one = 0; one < 1_100; one += 1)
      expect(documentOf('JSON', `{"p${one}":[${one}],"p":{"q${one}":[0]}}`, `p${one}`)).toBe(`[${one}]`)
})

/** The value at a path, through own properties of objects. */
function valueAt(path: string, document: unknown): unknown {
  let value = document
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    value = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
  }
  return value
}

test('random documents and paths agree with JSON.parse and own properties', () => {
  const seed = newSeed()
  const cases = 1_000 * TEST_RUNS
  let found = 0
  for (let one = 0; one < cases; one += 1) {
    const random = new Random(seed + one)
    const inner = new JsonMaker(random, 0).object(0)
    const body = random.once(2) ? inner : `{"a":${inner},"b":1,"\\u0061":${inner}}`
    const path = `${random.once(2) ? '' : 'a.'}${random.pick(NAMES)}`
    const value = valueAt(path, JSON.parse(body))
    const document = documentOf('JSON', body, path)
    const isFound = typeof value === 'object' && value !== null
    if (isFound) found += 1
    const got = document === 'no_events_at_path' ? document : JSON.parse(document)
    expect(got, `seed ${seed + one}: ${path} of ${body}`).toEqual(isFound ? value : 'no_events_at_path')
  }
  expect(found).toBeGreaterThan(cases / 50)
  expect(found).toBeLessThan(cases / 2)
})
