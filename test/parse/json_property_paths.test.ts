/** jsonProperty: by hand, and against JSON.parse with own properties on random events. */
import { expect, test } from 'vitest'
import { JsonMaker, NAMES } from '../fuzz/json.ts'
import { Random } from '../fuzz/random.ts'
import { parseAll, readErrors, readOutcomes, readRows, schemaOf } from './reading.ts'

/** The source of the value that a path finds; null where it finds nothing or null. */
function at(path: string, event: string): unknown {
  return readRows(parseAll(schemaOf([{ jsonProperty: path }]), [{ body: event }]).batch)[0]![0]
}

test.each([
  ['a', '{"a":1}', '1'],
  ['a', '{}', null],
  ['a', '{"b":{"a":1}}', null],
  ['a', '{"a":1,"a":2}', '2'],
  ['a', '{"a":1,"a":null}', null],
  ['a', '{"\\u0061":1}', '1'],
  ['a', '{"a":1,"\\u0061":2}', '2'],
  ['a.b', '{"a":{"b":1}}', '1'],
  ['a.b', '{"a":{"b":1},"a":2}', null],
  ['a.b', '{"a":{"b":1},"a":{"c":2}}', null],
  ['a.b', '{"a":2,"a":{"b":1}}', '1'],
  ['a.b', '{"a":{"b":1,"b":{"x":[]}}}', '{"x":[]}'],
  ['a.b', '{"a":[{"b":1}]}', null],
  ['a.0', '{"a":[1]}', null],
  ['a.length', '{"a":"xyz"}', null],
  ['a.length', '{"a":[1]}', null],
  ['a.b', '{"a.b":1,"a":{"b":2}}', '1'],
  ['a.b', '{"a":{"b":2},"a.b":1}', '1'],
  ['a.b', '{"a.b":null,"a":{"b":2}}', null],
  ['a.b.c', '{"a":{"b.c":1}}', null],
  ['a.b.c', '{"a.b":{"c":1}}', null],
  ['a.b.c', '{"a":{"b":{"c":1}}}', '1'],
  ['a..b', '{"a":{"":{"b":1}}}', '1'],
  ['.', '{"":{"":1}}', '1'],
  ['.', '{".":2,"":{"":1}}', '2'],
  ['a.', '{"a":{"":1}}', '1'],
  ['constructor', '{}', null],
  ['constructor', '{"constructor":1}', '1'],
  ['__proto__', '{"__proto__":1}', '1'],
  ['__proto__.x', '{"__proto__":{"x":1}}', '1'],
  ['__proto__.toString', '{"__proto__":{}}', null],
  ['toString.length', '{}', null],
  ['größe', '{"gr\\u00f6\\u00dfe":1}', '1'],
  ['𝄞', '{"\\uD834\\udd1e":1}', '1'],
  ['o\u0308', '{"\u00f6":1}', null],
  ['A', '{"a":1}', null],
])('%s of %s', (path, event, want) => {
  expect(at(path, event)).toBe(want)
})

test('many columns share one walk: a path, its parent, the whole text and a repeated path', () => {
  const paths = ['a', 'a.b', 'a.b.c', 'a.b', 'b.c', 'x.y']
  const schema = schemaOf(paths.map(jsonProperty => ({ jsonProperty })))
  const body = '{"a":{"b":{"c":1}},"b.c":"w","x.y":{"y":0},"a":{"b":{"c":[2]}}}'
  expect(readRows(parseAll(schema, [{ body }]).batch)[0]).toEqual([
    '{"b":{"c":[2]}}',
    '{"c":[2]}',
    '[2]',
    '{"c":[2]}',
    '"w"',
    '{"y":0}',
  ])
})

test('a required value behind something that is no object is missing', () => {
  const schema = schemaOf([{ jsonProperty: 'a.b', required: true }])
  const parsed = parseAll(schema, [
    { body: '[{"a":7},{"a":{"b":null}},{"a.b":null,"a":{"b":1}},{"a":null}]' },
  ])
  expect(readErrors(parsed)).toEqual([
    '0/0 missing:nothing@0',
    '0/1 missing:null@0',
    '0/2 missing:null@0',
    '0/3 missing:nothing@0',
  ])
})

/** The rule of docs/contract.md over the objects of JSON.parse. */
function oracle(event: object, path: string): unknown {
  if (Object.hasOwn(event, path)) return (event as Record<string, unknown>)[path]
  let value: unknown = event
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, name))
      return null
    value = (value as Record<string, unknown>)[name]
  }
  return value
}

test('random events and paths agree with JSON.parse', () => {
  const seed = Date.now() % 1_000_000
  let found = 0
  for (let i = 0; i < 3000; i++) {
    const random = new Random(seed + i)
    const maker = new JsonMaker(random, 0)
    const paths = Array.from({ length: 8 }, () =>
      Array.from({ length: 1 + random.below(3) }, () => random.pick(NAMES)).join('.'),
    )
    const body = maker.object(0)
    const parsed = parseAll(schemaOf(paths.map(jsonProperty => ({ jsonProperty }))), [{ body }])
    if (readOutcomes(parsed)[0]!.document !== 'ok') throw new Error(`seed ${seed + i}: refused: ${body}`)
    readRows(parsed.batch)[0]!.forEach((text, column) => {
      const want = oracle(JSON.parse(body) as object, paths[column]!)
      const have: unknown = text === null ? null : JSON.parse(String(text))
      // As text: matchers stumble over an own property named "constructor".
      expect(JSON.stringify(have), `seed ${seed + i}: ${paths[column]} of ${body}`).toBe(JSON.stringify(want))
      if (have !== null) found++
    })
  }
  expect(found, `seed ${seed}`).toBeGreaterThan(1000)
})
