/** Makes a valid document for any root field of the schema, from its types alone. */
import type * as Graphql from 'graphql'
import type { makeSchema } from '../../../src/api/graphql/graphql-schema.ts'
import { must } from '../../../src/util/errors.ts'
import { loadPackage } from '../../../src/util/load-package.ts'

const {
  getNamedType,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isLeafType,
  isListType,
  isNonNullType,
} = loadPackage('graphql') as typeof Graphql

const SCALARS: Readonly<Record<string, unknown>> = {
  ID: 'x',
  String: 'x',
  Int: 1,
  Float: 1,
  Boolean: true,
  DateTime: '2024-01-01',
}

/** The names of the root fields of one kind. */
export function rootFields(schema: ReturnType<typeof makeSchema>, kind: 'Query' | 'Mutation'): string[] {
  return Object.keys(
    must(kind === 'Query' ? schema.getQueryType() : schema.getMutationType(), kind).getFields(),
  )
}

/**
 * A document that asks one root field with every required argument and `values` in its arguments or
 * in the fields of its input.
 */
export function anyDocument(
  schema: ReturnType<typeof makeSchema>,
  kind: 'Query' | 'Mutation',
  name: string,
  values: Readonly<Record<string, unknown>> = {},
): readonly [document: string, variables: object] {
  const type = must(kind === 'Query' ? schema.getQueryType() : schema.getMutationType(), kind)
  const { args, type: result } = must(type.getFields()[name], name)
  const asked = args.filter(arg => isNonNullType(arg.type) || arg.name === 'input')
  const declared = asked.map(arg => `$${arg.name}: ${arg.type}`).join(', ')
  const given = asked.map(arg => `${arg.name}: $${arg.name}`).join(', ')
  const selection = isLeafType(getNamedType(result)) ? '' : ' { __typename }'
  const operation = `${kind.toLowerCase()} Any${declared === '' ? '' : `(${declared})`}`
  const document = `${operation} { ${name}${given === '' ? '' : `(${given})`}${selection} }`
  return [document, Object.fromEntries(asked.map(arg => [arg.name, valueFor(arg.name, arg.type, values)]))]
}

function valueFor(
  name: string,
  type: Graphql.GraphQLInputType,
  values: Readonly<Record<string, unknown>>,
): unknown {
  const isFitting = isLeafType(getNamedType(type)) || typeof values[name] === 'object'
  if (name in values && isFitting) return values[name]
  const bare = getNullableType(type)
  if (isListType(bare)) return []
  if (isEnumType(bare)) return must(bare.getValues()[0], bare.name).name
  if (!isInputObjectType(bare)) return must(SCALARS[bare.name], bare.name)
  const fields = Object.values(bare.getFields()).filter(
    field => isNonNullType(field.type) || field.name in values,
  )
  return Object.fromEntries(fields.map(field => [field.name, valueFor(field.name, field.type, values)]))
}
