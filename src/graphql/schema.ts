/** The executable schema: the SDL by topic, and a resolver for each field that is more than a property. */
import type { GraphQLFieldResolver, GraphQLSchema } from 'graphql'
import type { Common } from '../catalog/model.ts'
import { assert } from '../util/assert.ts'
import { meterLists } from './budget.ts'
import type { Context } from './context.ts'
import { parseDateTime, parseDateTimeLiteral, serializeDateTime } from './date-time.ts'
import { buildSchema, isObjectType, isScalarType } from './library.ts'
import { counterQueries } from './resolve-counter.ts'
import { poolFields, poolMutations, poolQueries } from './resolve-pool.ts'
import { sourceFields, sourceMutations, sourceQueries } from './resolve-source.ts'
import { COMMON_SDL } from './schema-common.ts'
import { POOL_SDL } from './schema-pool.ts'
import { QUERY_SDL } from './schema-query.ts'
import { SOURCE_SDL } from './schema-source.ts'
import { TABLE_SDL } from './schema-table.ts'

const commonFields = {
  account: (_: Common, __: unknown, { services }: Context) => ({ id: services.catalog.meta().accountId }),
  environment: (_: Common, __: unknown, { services }: Context) => ({
    id: services.catalog.meta().environmentId,
  }),
}

const resolvers = {
  Query: { ...sourceQueries, ...poolQueries, ...counterQueries },
  Mutation: { ...sourceMutations, ...poolMutations },
  DataSource: { ...commonFields, ...sourceFields },
  DataPool: { ...commonFields, ...poolFields },
}

/** The whole schema as text. A test checks it, so that no start has to. */
export const SDL = [COMMON_SDL, SOURCE_SDL, TABLE_SDL, POOL_SDL, QUERY_SDL].join('\n')

/** Builds the schema once. */
export function makeSchema(): GraphQLSchema {
  const schema = buildSchema(SDL, { assumeValidSDL: true, noLocation: true })
  for (const [typeName, fields] of Object.entries(resolvers)) {
    const type = schema.getType(typeName)
    assert(isObjectType(type), `${typeName} is an object type`)
    for (const [fieldName, resolve] of Object.entries(fields)) {
      const field = type.getFields()[fieldName]
      assert(field !== undefined, `${typeName}.${fieldName} is in the schema`)
      // Each resolver states its own parent and arguments; the SDL is what makes them true.
      field.resolve = resolve as unknown as GraphQLFieldResolver<unknown, Context>
    }
  }
  const dateTime = schema.getType('DateTime')
  assert(isScalarType(dateTime), 'DateTime is a scalar')
  dateTime.serialize = serializeDateTime
  dateTime.parseValue = parseDateTime
  dateTime.parseLiteral = parseDateTimeLiteral
  meterLists(schema)
  return schema
}
