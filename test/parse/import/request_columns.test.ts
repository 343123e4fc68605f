/** Files into a pool with columns that read the request, or through arrays: values come back. */
import { expect, test } from 'vitest'
import { propertyFacts } from '../../../src/format/json-property.ts'
import type { SchemaColumn } from '../../../src/format/schema.ts'
import { checkPayloads, shapeOf } from '../../../src/parse/import/row-shape.ts'
import { parseAll, readRows, schemaOf } from '../reading.ts'

function column(name: string, jsonProperty: string): SchemaColumn {
  return {
    name,
    jsonProperty,
    type: 'STRING',
    required: false,
    ...propertyFacts(jsonProperty),
  } as SchemaColumn
}

const COLUMNS = [column('event', '$header.x-event'), column('sku', 'items[0].sku'), column('city', 'a.city')]

test('a row of a file stands where the columns of the pool read it', () => {
  const { nodes } = shapeOf(['event', 'sku', 'city'], COLUMNS)
  const keys = nodes.map(({ key, children }) => [key.toString(), children.map(child => child.key.toString())])
  expect(keys).toEqual([
    ['"$header.x-event":', []],
    ['"items[0].sku":', []],
    ['"a":', ['"city":']],
  ])
  const body = '{"$header.x-event":"push","items[0].sku":"s","a":{"city":"c"}}'
  expect(readRows(parseAll(schemaOf(COLUMNS), [{ body, context: 'null' }]).batch)).toEqual([
    ['push', 's', 'c'],
  ])
})

test('an export with payloads is refused where payloads do not hold all, and taken elsewhere', () => {
  const refusal = expect.objectContaining({ code: 'payload_without_request' }) as Error
  expect(() => shapeOf(['_service_payload', 'event'], COLUMNS)).toThrow(refusal)
  expect(() => checkPayloads(COLUMNS)).toThrow(refusal)
  expect(shapeOf(['_service_payload'], COLUMNS.slice(1)).payload).toBe(0)
})
