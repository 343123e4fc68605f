/** The .graphql files are valid: the server builds its schema from them without validation. */
import type * as Graphql from 'graphql'
import { expect, test } from 'vitest'
import { makeSchema, schemaText } from '../../../src/api/graphql/graphql-schema.ts'
import { loadPackage } from '../../../src/util/load-package.ts'

const { buildSchema, validateSchema } = loadPackage('graphql') as typeof Graphql

test('the schema’s text and the schema built from it are valid', () => {
  expect(() => buildSchema(schemaText())).not.toThrow()
  expect(validateSchema(makeSchema())).toEqual([])
})
