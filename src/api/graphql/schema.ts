/**
 * The GraphQL schema: its text from the .graphql files, which stand beside this file in src/ and
 * are not compiled, and its resolvers. The resolvers are thin: catalog and query stage decide.
 */
import { readFileSync } from 'node:fs'
import type { GraphQLFieldResolver, GraphQLSchema } from 'graphql'
import type { Common } from '../../catalog/model.ts'
import { assert } from '../../util/assert.ts'
import { type Context, meterLists } from './context.ts'
import { buildSchema, GraphQLError, isObjectType, isScalarType, Kind } from './library.ts'
import { poolFields, poolMutations, poolQueries } from './resolve-pool.ts'
import { questionQueries } from './resolve-question.ts'
import { sourceFields, sourceMutations, sourceQueries } from './resolve-source.ts'

const FOLDER = new URL('../../../../src/api/graphql/', import.meta.url)
const FILES = ['common', 'source', 'table', 'pool', 'query']

const commonFields = {
  account: (_: Common, __: unknown, { deps }: Context) => ({ id: deps.catalog.meta().accountId }),
  environment: (_: Common, __: unknown, { deps }: Context) => ({ id: deps.catalog.meta().environmentId }),
}

const resolvers = {
  Query: { ...sourceQueries, ...poolQueries, ...questionQueries },
  Mutation: { ...sourceMutations, ...poolMutations },
  DataSource: { ...commonFields, ...sourceFields },
  DataPool: { ...commonFields, ...poolFields },
}

/** The whole schema as text. A test validates it, so a start does not. */
export function schemaText(): string {
  return FILES.map(name => readFileSync(new URL(`${name}.graphql`, FOLDER), 'utf8')).join('\n')
}

/** Builds the schema, once at the start. */
export function makeSchema(): GraphQLSchema {
  const schema = buildSchema(schemaText(), { assumeValidSDL: true, noLocation: true })
  for (const [typeName, fields] of Object.entries(resolvers)) {
    const type = schema.getType(typeName)
    assert(isObjectType(type), `${typeName} is an object type`)
    for (const [fieldName, resolve] of Object.entries(fields)) {
      const field = type.getFields()[fieldName]
      assert(field !== undefined, `${typeName}.${fieldName} is in the schema`)
      // Each resolver states the types of its parent and arguments. The schema's text makes them
      // true.
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

/** The accepted forms of a DateTime: ISO 8601 dates, with or without time. */
const DATE_TIME =
  /^\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,18})?)?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$/

/** ISO 8601 in UTC with milliseconds, from the catalog's ISO text. */
function serializeDateTime(value: unknown): string {
  return new Date(value as string).toISOString()
}

/** Checks the form of a variable and passes its text on; the query planner reads the value. */
function parseDateTime(value: unknown): string {
  if (typeof value === 'string' && DATE_TIME.test(value)) return value
  throw new GraphQLError('DateTime must be an ISO 8601 date, or a date with time.')
}

/** The same for a literal in a document. */
function parseDateTimeLiteral(node: { readonly kind: string; readonly value?: unknown }): string {
  return parseDateTime(node.kind === Kind.STRING ? node.value : undefined)
}
