/**
 * JSON Schema, said once: the OpenAPI document shows a schema, TypeScript has its type, and
 * requests are read by it.
 */
import { isObject } from '../../util/json.ts'

export type Json = Readonly<Record<string, unknown>>

declare const VALUE: unique symbol
/** A schema whose values have the type T. */
export interface Schema<T> extends Json {
  readonly [VALUE]?: T
}
export type ValueOf<S> = S extends Schema<infer T> ? T : never
type Schemas = Readonly<Record<string, Schema<unknown>>>
type ObjectOf<Required extends Schemas, Optional extends Schemas> = {
  readonly [K in keyof Required]: ValueOf<Required[K]>
} & { readonly [K in keyof Optional]?: ValueOf<Optional[K]> }

/** What a `$ref` names. JSON leaves members with a symbol out. */
const TARGET = Symbol('target')
/** What people call one of the values of an enumeration. */
const NOUN = Symbol('noun')

export const text: Schema<string> = { type: 'string' }
export const texts: Schema<readonly string[]> = { type: 'array', items: text }
export const flag: Schema<boolean> = { type: 'boolean' }
export const count: Schema<number> = { type: 'integer', minimum: 0 }
export const time: Schema<string> = { type: 'string', format: 'date-time' }
export const binary: Json = { type: 'string', contentEncoding: 'binary' }
export const anyObject: Json = { type: 'object', additionalProperties: true }

export function ref(kind: string, name: string): Json {
  return { $ref: `#/components/${kind}/${name}` }
}

export function schema(name: string): Json {
  return ref('schemas', name)
}

/** A component that is read, or has a type. */
export function named<T>(name: string, target: Schema<T>): Schema<T> {
  return { ...schema(name), [TARGET]: target }
}

/** The member `headers` of an answer; nothing without names. */
export function headersOf(names: readonly string[]): Json {
  if (names.length === 0) return {}
  return { headers: Object.fromEntries(names.map(name => [name, ref('headers', name)])) }
}

/** @param noun for messages of the reader: "There is no <noun> …" */
export function oneOf<const T extends string>(values: readonly T[], noun?: string): Schema<T> {
  return { type: 'string', enum: values, [NOUN]: noun }
}

export function constant<T extends string>(value: T): Schema<T> {
  return { const: value }
}

export function list<T>(items: Schema<T>, more: Json = {}): Schema<readonly T[]> {
  return { type: 'array', items, ...more }
}

export function orNull<T>(one: Schema<T>): Schema<T | null> {
  const known = one['enum'] as readonly unknown[] | undefined
  return { ...one, type: [one['type'], 'null'], ...(known === undefined ? {} : { enum: [...known, null] }) }
}

/** Requests that the member `action` tells from each other. */
export function anyOf<Each extends readonly Schema<unknown>[]>(
  ...schemas: Each
): Schema<ValueOf<Each[number]>> {
  return { anyOf: schemas }
}

/** An object. Every property is required but the `optional` ones. */
export function object<Required extends Schemas, Optional extends Schemas = Record<never, never>>(
  required: Required,
  optional?: Optional,
): Schema<ObjectOf<Required, Optional>> {
  const names = Object.keys(required)
  return {
    type: 'object',
    properties: { ...required, ...optional },
    ...(names.length === 0 ? {} : { required: names }),
  }
}

interface Refused {
  readonly badRequest: string
}

/**
 * A request as its schema has it: from a body, or from the flags of a command. Undefined members
 * count as absent.
 * @param problemOf what is wrong beside the schema
 */
export function readRequest<T extends object>(
  request: Schema<T>,
  given: unknown,
  problemOf: (request: T) => string | undefined = () => undefined,
): T | Refused {
  const values = isObject(given) ? given : {}
  const schemas = (request['anyOf'] ?? [request]) as readonly Json[]
  const actions = schemas.map(one => propertiesOf(one)['action']?.['const'])
  const chosen = schemas[schemas.length === 1 ? 0 : actions.indexOf(values['action'])]
  const badRequest =
    chosen === undefined
      ? `"action" must be ${actions.join(' or ')}.`
      : (problemIn(chosen, values) ?? problemOf(values as T))
  return badRequest === undefined ? (values as T) : { badRequest }
}

function problemIn(schema: Json, values: Json): string | undefined {
  const properties = propertiesOf(schema)
  const stray = Object.keys(values).find(name => !Object.hasOwn(properties, name))
  if (stray !== undefined)
    return `There is no ${JSON.stringify(stray)}; there are ${Object.keys(properties).join(', ')}.`
  for (const [name, property] of Object.entries(properties)) {
    const value = values[name]
    if (fits(property, value) || (value === undefined && !requiredOf(schema).includes(name))) continue
    const { enum: known = [], [NOUN]: noun } = (property['items'] ?? property) as Enumeration
    const unknown = [value].flat().find(one => !known.includes(one as string))
    const isNamed =
      typeof unknown === 'string' &&
      noun !== undefined &&
      Array.isArray(value) === (property['type'] === 'array')
    return isNamed
      ? `There is no ${noun} ${JSON.stringify(unknown)}; there are ${namesIn(known)}.`
      : `"${name}" must be ${wordsOf(property)}.`
  }
  return undefined
}

interface Enumeration {
  readonly enum?: readonly string[]
  readonly [NOUN]?: string
}

/** @param isEach the words follow "a list of" */
function wordsOf(schema: Json, isEach = false): string {
  const { type, enum: known, const: only, items, [TARGET]: target } = schema as Json & { [TARGET]?: Json }
  if (target !== undefined) return wordsOf(target, isEach)
  if (only !== undefined) return String(only)
  if (known !== undefined) return namesIn(known as readonly unknown[])
  if (type === 'array') return `a list of ${wordsOf(items as Json, true)}`
  if (type === 'boolean') return 'true or false'
  if ([type].flat().includes('integer')) return 'a whole number'
  if (type === 'object') return `objects with ${requiredOf(schema).join(', ')}`
  return isEach ? 'texts' : 'a text'
}

/** Members that an inner object does not name are passed over. */
function fits(schema: Json, value: unknown): boolean {
  const { type, enum: known, const: only, items, [TARGET]: target } = schema as Json & { [TARGET]?: Json }
  if (target !== undefined) return fits(target, value)
  if (only !== undefined) return value === only
  if (value === null) return Array.isArray(type) && type.includes('null')
  if (known !== undefined) return (known as readonly unknown[]).includes(value)
  if (type === 'array') return Array.isArray(value) && value.every(one => fits(items as Json, one))
  if ([type].flat().includes('integer'))
    return Number.isSafeInteger(value) && (value as number) >= ((schema['minimum'] as number) ?? value)
  if (type !== 'object') return [type].flat().includes(typeof value)
  return (
    isObject(value) &&
    requiredOf(schema).every(name => Object.hasOwn(value, name)) &&
    Object.entries(propertiesOf(schema)).every(
      ([name, property]) => !Object.hasOwn(value, name) || fits(property, value[name]),
    )
  )
}

function namesIn(known: readonly unknown[]): string {
  return known.filter(one => one !== null).join(', ')
}

function requiredOf(schema: Json): readonly string[] {
  return (schema['required'] as readonly string[] | undefined) ?? []
}

function propertiesOf(schema: Json): Readonly<Record<string, Json>> {
  return schema['properties'] as Readonly<Record<string, Json>>
}
