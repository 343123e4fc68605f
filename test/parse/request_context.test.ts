/** Columns that read arrays, and columns that read the request: headers, query, path. */
import { expect, test } from 'vitest'
import { KEY_COLUMN } from '../../src/format/batch-layout.ts'
import { propertyFacts, requestPart } from '../../src/format/json-property.ts'
import { parseAll, readColumn, readErrors, readRows, schemaOf } from './reading.ts'

function column(jsonProperty: string, more = {}) {
  const facts = propertyFacts(jsonProperty)
  if ('badRequest' in facts) throw new Error(facts.badRequest)
  return { jsonProperty, ...facts, ...more }
}

function at(path: string, event: string): unknown {
  return readRows(parseAll(schemaOf([column(path)]), [{ body: event }]).batch)[0]![0]
}

test.each([
  ['a[0]', '{"a":[1,2]}', '1'],
  ['a[1]', '{"a":[1,2]}', '2'],
  ['a[2]', '{"a":[1,2]}', null],
  ['a[0]', '{"a":[]}', null],
  ['a[0]', '{"a":{"0":1}}', null],
  ['a[0]', '{"a[0]":5,"a":[1]}', '5'],
  ['a[0]', '{"a[0]":null,"a":[1]}', null],
  ['items[0].sku', '{"items":[{"sku":"x"},{"sku":"y"}]}', '"x"'],
  ['items[1].sku', '{"items":[{"sku":"x"},{"sku":"y"}]}', '"y"'],
  ['items[1].sku', '{"items":[{"sku":"x"},7]}', null],
  ['a[0][1]', '{"a":[[1,2],3]}', '2'],
  ['a[0].b[2].c', '{"a":[{"b":[0,0,{"c":{}}]}]}', '{}'],
  ['a[0]', '{"a":[1],"a":[2]}', '2'],
  ['a[0]', '{"a":[1],"a":7}', null],
  ['a[0].b', '{"a":[{"b":1}],"a":[{}]}', null],
  ['a[10000]', '{"a[10000]":1,"a":[]}', '1'], // too large an index is a name
  ['a[b]', '{"a[b]":1}', '1'],
  ['[0]', '{"[0]":1}', '1'],
])('%s of %s', (path, event, want) => {
  expect(at(path, event)).toBe(want)
})

test('an element, its array and a name beside it share one walk', () => {
  const schema = schemaOf([column('a'), column('a[1]'), column('a[1].b'), column('a.b')])
  const body = '[{"a":[0,{"b":3}]},{"a":{"b":4}}]'
  expect(readRows(parseAll(schema, [{ body }]).batch)).toEqual([
    ['[0,{"b":3}]', '{"b":3}', '3', null],
    ['{"b":4}', null, null, '4'],
  ])
})

test('an array that is walked is checked like any other value', () => {
  const schema = schemaOf([column('a[0]')])
  for (const body of ['{"a":[1 2]}', '{"a":[1,]}', '{"a":[,]}', '{"a":[1}', '{"a":['])
    expect(parseAll(schema, [{ body }]).outcomes[1], body).toBe(0)
})

test.each([
  ['$header.', 'names no header'],
  ['$header.x y', 'names no header'],
  ['$header.x:y', 'names no header'],
  ['$query.', 'names no header'],
  ['$header.Authorization', 'credentials'],
  ['$header.cookie', 'credentials'],
])('%s is refused at creation', (property, why) => {
  expect(propertyFacts(property)).toEqual({ badRequest: expect.stringContaining(why) as string })
})

test.each([['$set'], ['$type.a'], ['$path.a'], ['$headers.a'], ['a.$header.b'], ['$'], ['$Path']])(
  '%s is a name like any other',
  property => {
    expect(propertyFacts(property)).toEqual({})
  },
)

test('a header is found whatever its case in the property', () => {
  expect(requestPart('$header.X-GitHub-Event')).toEqual({ in: 'header', name: 'x-github-event' })
  expect(requestPart('$query.Shop')).toEqual({ in: 'query', name: 'Shop' })
})

const REQUEST = schemaOf([
  column('$header.x-event', { type: 'STRING' }),
  column('$query.n', { type: 'INT32', coerce: true }),
  column('id', { type: 'STRING' }),
])

test('every event of a request gets its context, and only that of its request', () => {
  const parsed = parseAll(REQUEST, [
    { body: '[{"id":"a"},{"id":"b"}]', context: '{"$header.x-event":"push","$query.n":"7"}' },
    { body: '{"id":"c"}', context: '{}' },
    { body: '{"id":"d"}', context: '{"$header.x-event":"\\u00e9\\"","$query.n":""}' },
  ])
  expect(readRows(parsed.batch)).toEqual([
    ['push', 7, 'a'],
    ['push', 7, 'b'],
    [null, null, 'c'],
    ['é"', null, 'd'],
  ])
})

test('a property of the body cannot stand for a header', () => {
  const body = '{"id":"a","$header.x-event":"forged","$header":{"x-event":"forged"},"$query.n":1}'
  expect(readRows(parseAll(REQUEST, [{ body, context: '{}' }]).batch)).toEqual([[null, null, 'a']])
})

test('the rows of an import, whose context is null, have them as properties, and so have deletes', () => {
  const body = '{"id":"a","$header.x-event":"push","$query.n":1}'
  expect(readRows(parseAll(REQUEST, [{ body, context: 'null' }]).batch)).toEqual([['push', 1, 'a']])
  const key = { columns: [0], version: -1 }
  const keyed = schemaOf([column('$header.x-event', { type: 'STRING', required: true })], key)
  const [posted, deleted] = (['post', 'delete'] as const).map(
    kind => parseAll(keyed, [{ body, context: kind === 'post' ? 'null' : '' }], kind).batch,
  )
  expect(readColumn(deleted!, KEY_COLUMN)).toEqual(readColumn(posted!, KEY_COLUMN))
})

test('a post whose head was read before its pool had such columns has none of them', () => {
  const body = '{"id":"a","$header.x-event":"forged","$query.n":1}'
  const before = { body: '{"id":"b"}', context: '{"$header.x-event":"push"}' }
  expect(readRows(parseAll(REQUEST, [before, { body }]).batch)).toEqual([
    ['push', null, 'b'],
    [null, null, 'a'],
  ])
})

test('a column that an earlier version made reads the property of that name', () => {
  const schema = schemaOf([{ jsonProperty: '$header.x' }, { jsonProperty: 'a[0]' }])
  expect(readRows(parseAll(schema, [{ body: '{"$header.x":1,"a[0]":2,"a":[3]}' }]).batch)).toEqual([
    ['1', '2'],
  ])
  expect(readRows(parseAll(schema, [{ body: '{"$header":{"x":1},"a":[3]}' }]).batch)).toEqual([['1', null]])
})

test('a required header that is missing refuses each event', () => {
  const schema = schemaOf([column('$header.x', { type: 'STRING', required: true })])
  expect(readErrors(parseAll(schema, [{ body: '[{},{}]', context: '{}' }]))).toEqual([
    '0/0 missing:nothing@0',
    '0/1 missing:nothing@0',
  ])
})
