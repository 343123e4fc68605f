/**
 * Writes client/schema.ts: the types of the GraphQL schema as its callers see them. `npm run check`
 * runs it before the console is type-checked, and git ignores the file.
 */
import { writeFileSync } from 'node:fs'
import {
  getNullableType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isScalarType,
  isUnionType,
} from 'graphql'
import { makeSchema } from '../../dist/src/api/graphql/graphql-schema.js'

const SCALARS = { Int: 'number', Float: 'number', Boolean: 'boolean' }

function textOf(type) {
  const bare = getNullableType(type)
  const text = isListType(bare)
    ? `readonly (${textOf(bare.ofType)})[]`
    : isScalarType(bare)
      ? (SCALARS[bare.name] ?? 'string')
      : `Schema['${bare.name}']`
  // Weir answers a page wherever the schema may have none.
  return isNonNullType(type) || bare.name?.endsWith('Connection') ? text : `${text} | null`
}

function definitionOf(type) {
  if (isEnumType(type))
    return type
      .getValues()
      .map(({ name }) => `'${name}'`)
      .join(' | ')
  if (isUnionType(type))
    return type
      .getTypes()
      .map(({ name }) => `Schema['${name}']`)
      .join(' | ')
  const isInput = isInputObjectType(type)
  const fields = Object.values(type.getFields()).map(({ name, type: of }) => {
    const isOptional = isInput && !isNonNullType(of)
    return `    readonly ${name}${isOptional ? '?' : ''}: ${textOf(of)}${isOptional ? ' | undefined' : ''}\n`
  })
  const typename = isInput ? '' : `    readonly __typename: '${type.name}'\n`
  return `{\n${typename}${fields.join('')}  }`
}

const types = Object.values(makeSchema().getTypeMap()).filter(
  type => !isScalarType(type) && !type.name.startsWith('__'),
)
const lines = types.map(type => `  ${type.name}: ${definitionOf(type)}`)
writeFileSync(
  new URL('client/schema.ts', import.meta.url),
  `/** The types of the GraphQL schema. \`npm run check\` makes this file. */\nexport interface Schema {\n${lines.join('\n')}\n}\n`,
)
