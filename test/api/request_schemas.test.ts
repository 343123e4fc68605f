/** Requests are read by the schemas that the OpenAPI document shows. */
import { expect, test } from 'vitest'
import {
  anyOf,
  constant,
  count,
  flag,
  list,
  named,
  object,
  oneOf,
  orNull,
  readRequest,
  text,
  texts,
} from '../../src/api/openapi/schema.ts'

const Column = named('Column', object({ name: text, width: count }, { hidden: flag }))
const ADD = object(
  { action: constant('add') },
  {
    names: texts,
    columns: list(Column),
    size: orNull(oneOf(['S', 'L'], 'size')),
    form: oneOf(['A', 'B']),
    many: list(oneOf(['A', 'B'], 'letter')),
    days: orNull(count),
  },
)
const DROP = object({ action: constant('drop'), id: text })
const read = (given: unknown) => readRequest(anyOf(ADD, DROP), given)

test.each([
  { action: 'drop', id: '' },
  { action: 'add' },
  { action: 'add', names: [], columns: [], days: 0, size: 'L', form: 'A', many: ['B', 'A'] },
  { action: 'add', size: null, days: null, names: undefined },
  { action: 'add', columns: [{ name: 'a', width: 3, hidden: false, more: {} }] },
])('%j is taken as it is', given => {
  expect(read(given)).toBe(given)
})

test.each([
  [null, '"action" must be add or drop.'],
  [[], '"action" must be add or drop.'],
  [{ action: 'list' }, '"action" must be add or drop.'],
  [{ action: 'drop' }, '"id" must be a text.'],
  [{ action: 'drop', id: null }, '"id" must be a text.'],
  [{ action: 'drop', id: 'a', days: 1 }, 'There is no "days"; there are action, id.'],
  [{ action: 'add', names: 'a' }, '"names" must be a list of texts.'],
  [{ action: 'add', names: ['a', 1] }, '"names" must be a list of texts.'],
  [{ action: 'add', columns: [null] }, '"columns" must be a list of objects with name, width.'],
  [{ action: 'add', columns: [{ name: 'a' }] }, '"columns" must be a list of objects with name, width.'],
  [{ action: 'add', columns: [{ name: 'a', width: 1, hidden: 1 }] }, /^"columns" must be a list/],
  [{ action: 'add', size: 'M' }, 'There is no size "M"; there are S, L.'],
  [{ action: 'add', form: 'C' }, '"form" must be A, B.'],
  [{ action: 'add', many: ['A', 'C'] }, 'There is no letter "C"; there are A, B.'],
  [{ action: 'add', many: 'A' }, '"many" must be a list of A, B.'],
  [{ action: 'add', days: -1 }, '"days" must be a whole number.'],
  [{ action: 'add', days: 1.5 }, '"days" must be a whole number.'],
  [{ action: 'add', days: '1' }, '"days" must be a whole number.'],
])('%j is refused', (given, problem) => {
  const { badRequest } = read(given) as { badRequest: string }
  if (typeof problem === 'string') expect(badRequest).toBe(problem)
  else expect(badRequest).toMatch(problem)
})

test('a list in lists without end is refused, and not repeated', () => {
  const deep = JSON.parse(`${'['.repeat(8000)}${']'.repeat(8000)}`) as unknown
  expect(read({ action: 'add', many: deep })).toEqual({ badRequest: '"many" must be a list of A, B.' })
})

test('null is one of the names where a member may be null', () => {
  expect(orNull(oneOf(['S', 'L'], 'size'))['enum']).toEqual(['S', 'L', null])
})

test('what is wrong beside the schema is said last', () => {
  const problem = (given: unknown) => readRequest(DROP, given, ({ id }) => (id === '' ? 'no id' : undefined))
  expect(problem({ action: 'drop', id: '' })).toEqual({ badRequest: 'no id' })
  expect(problem({ action: 'drop', id: 'a' })).toEqual({ action: 'drop', id: 'a' })
  expect(problem({ action: 'drop', id: 1 })).toEqual({ badRequest: '"id" must be a text.' })
})
