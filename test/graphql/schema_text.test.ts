/** The schema's text is valid SDL: the server takes it as such without looking. */
import type * as Graphql from 'graphql'
import { expect, it } from 'vitest'
import { makeSchema, SDL } from '../../src/graphql/schema.ts'
import { loadPackage } from '../../src/util/load-package.ts'

const { buildSchema, validateSchema } = loadPackage('graphql') as typeof Graphql

it('the text is valid, and so is the schema made of it', () => {
  expect(() => buildSchema(SDL)).not.toThrow()
  expect(validateSchema(makeSchema())).toEqual([])
})
