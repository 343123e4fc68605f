/**
 * Writes src/api/graphql/schema-types.ts: the types of the GraphQL schema as TypeScript, from the
 * .graphql files beside it. Set-up runs it before tsc, and git ignores the file.
 *
 * The file has the enums, the inputs as resolvers get them, and for each field of each object its
 * arguments and its result. `Parents` (src/api/graphql/parents.ts) says which objects are catalog
 * documents; those need a resolver for each field that the document does not have. The types of
 * plain pages are made here and stand in the file as text.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import {
  buildSchema,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isObjectType,
  isScalarType,
  isUnionType,
} from 'graphql'

const FOLDER = new URL('../api/graphql/', import.meta.url)
const TARGET = new URL('schema-types.ts', FOLDER)

const SCALARS = {
  ID: 'string',
  String: 'string',
  DateTime: 'string',
  Int: 'number',
  Float: 'number',
  Boolean: 'boolean',
}

const HEAD = `/** The types of the GraphQL schema. Set-up makes this file from the .graphql files. */
import type { Context } from './context.ts'
import type { Parents } from './parents.ts'

type Maybe<T> = T | null | undefined
type NoArguments = Readonly<Record<string, never>>

/** A field: its arguments and its result. */
interface F<Args, Result> {
  readonly args: Args
  readonly result: Result
}
type ResultOf<Field> = Field extends F<infer _, infer Result> ? Result : never
type Resolver<Parent, Field> =
  Field extends F<infer Args, infer Result>
    ? (parent: Parent, args: Args, context: Context) => Result | Promise<Result> | Items<Result>
    : never
/** A list whose items come, or fail, one by one. */
type Items<Result> = Result extends readonly (infer Item)[] ? readonly Promise<Item>[] : never

/** The fields that the parent itself has, with a value of the right type. They need no resolver. */
type OwnKeys<Parent, T> = {
  [K in keyof T]: K extends keyof Parent ? (Parent[K] extends ResultOf<T[K]> ? K : never) : never
}[keyof T]
type ResolversOf<Parent, T> = { readonly [K in Exclude<keyof T, OwnKeys<Parent, T>>]: Resolver<Parent, T[K]> } & {
  readonly [K in OwnKeys<Parent, T>]?: Resolver<Parent, T[K]>
}
type ParentOf<K> = K extends keyof Parents ? Parents[K] : unknown

/** Every resolver that the schema needs. */
export type Resolvers = { readonly [K in keyof Fields]: ResolversOf<ParentOf<K>, Fields[K]> }
`

/**
 * The text of schema-types.ts.
 * @param {string} text the schema
 * @param {string} parents the text of parents.ts
 */
function typesOf(text, parents) {
  const schema = buildSchema(text)
  const types = Object.values(schema.getTypeMap()).filter(({ name }) => !name.startsWith('__'))
  const isParent = name => new RegExp(`readonly ${name}: \\w`).test(parents)
  const isNever = name => new RegExp(`readonly ${name}: never`).test(parents)
  const enums = types.filter(isEnumType).map(type => {
    const values = type.getValues().map(value => `'${value.name}'`)
    return `  ${type.name}: ${values.join(' | ')}`
  })
  const inputs = types
    .filter(isInputObjectType)
    .map(type => `  ${type.name}: {\n${valuesOf(type, inputName)}\n  }`)
  const unions = types.filter(isUnionType).map(type => {
    const members = type
      .getTypes()
      .map(({ name }) => `(Objects['${name}'] & { readonly __typename: '${name}' })`)
    return `  ${type.name}: ${members.join(' | ')}`
  })
  const objects = types.filter(isObjectType).filter(({ name }) => !isRoot(name))
  const shown = objects.map(type =>
    isParent(type.name)
      ? `  ${type.name}: Parents['${type.name}']`
      : `  ${type.name}: {\n${valuesOf(type, outputName)}\n  }`,
  )
  const resolved = types
    .filter(isObjectType)
    .filter(({ name }) => isRoot(name) || (isParent(name) && !isNever(name)))
    .map(type => `  ${type.name}: {\n${fieldsOf(type)}\n  }`)
  return [
    HEAD,
    block('export interface Enums', enums),
    '/** Inputs as resolvers get them. */',
    block('export interface Inputs', inputs),
    '/** Objects as resolvers give them. */',
    block('interface Objects', shown),
    block('interface Unions', unions),
    block('interface Fields', resolved),
  ].join('\n')
}

function isRoot(name) {
  return name === 'Query' || name === 'Mutation'
}

function block(head, lines) {
  return `${head} {\n${lines.join('\n')}\n}\n`
}

/** The fields of an input, or of an object that is given as it is shown. */
function valuesOf(type, nameOf) {
  return Object.values(type.getFields())
    .map(field => `    ${value(field, nameOf)}`)
    .join('\n')
}

/** A field or an argument as a property. Absent and null mean the same. */
function value({ name, type }, nameOf) {
  return `readonly ${name}${isNonNullType(type) ? '' : '?'}: ${typeText(type, nameOf)}`
}

function fieldsOf(type) {
  return Object.values(type.getFields())
    .map(({ name, args, type: result }) => {
      const given = args.map(each => value(each, inputName)).join('; ')
      return `    ${name}: F<${given === '' ? 'NoArguments' : `{ ${given} }`}, ${typeText(result, outputName)}>`
    })
    .join('\n')
}

function typeText(type, nameOf) {
  const bare = getNullableType(type)
  const text = isListType(bare) ? `readonly (${typeText(bare.ofType, nameOf)})[]` : nameOf(bare)
  return isNonNullType(type) ? text : `Maybe<${text}>`
}

function inputName(type) {
  if (isScalarType(type)) return SCALARS[type.name]
  return isEnumType(type) ? `Enums['${type.name}']` : `Inputs['${type.name}']`
}

function outputName(type) {
  if (isScalarType(type)) return SCALARS[type.name]
  if (isEnumType(type)) return `Enums['${type.name}']`
  return isUnionType(type) ? `Unions['${type.name}']` : `Objects['${type.name}']`
}

/** The text of all .graphql files. */
function schemaText() {
  return readdirSync(FOLDER)
    .filter(name => name.endsWith('.graphql'))
    .sort()
    .map(name => readFileSync(new URL(name, FOLDER), 'utf8'))
    .join('\n')
}

/**
 * The types of pages as text: each Connection and each Edge that the schema names and no file
 * defines, because it has no field of its own.
 * @param {string} text the schema
 */
function pagesIn(text) {
  const isDefined = type => new RegExp(`^type ${type} `, 'm').test(text)
  const named = [...text.matchAll(/\b(\w+)(?:Connection|Edge)\b/g)].map(([, name]) => name)
  const names = [...new Set(named)]
  const connections = names.filter(name => !isDefined(`${name}Connection`)).map(connectionOf)
  const edges = names.filter(name => !isDefined(`${name}Edge`)).map(edgeOf)
  return [...connections, ...edges].join('\n')
}

function connectionOf(name) {
  return `"A page of items of type ${name}."
type ${name}Connection {
  "The items with their cursors."
  edges: [${name}Edge!]!
  "The items."
  nodes: [${name}!]!
  "Where the page lies."
  pageInfo: PageInfo!
}
`
}

function edgeOf(name) {
  return `"An item of a ${name}Connection."
type ${name}Edge {
  "The place of the item in the list; clients must not read it."
  cursor: String!
  "The item."
  node: ${name}!
}
`
}

const text = schemaText()
const pages = pagesIn(text)
const parents = readFileSync(new URL('parents.ts', FOLDER), 'utf8')
writeFileSync(
  TARGET,
  `${typesOf(`${text}\n${pages}`, parents)}
/** The types of pages that no .graphql file defines. */
export const PAGES = ${JSON.stringify(pages)}
`,
)
