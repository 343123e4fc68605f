/** Shorthands of JSON Schema for the OpenAPI document. */

export type Json = Readonly<Record<string, unknown>>

export const text: Json = { type: 'string' }
export const texts: Json = { type: 'array', items: text }
export const flag: Json = { type: 'boolean' }
export const count: Json = { type: 'integer', minimum: 0 }
export const time: Json = { type: 'string', format: 'date-time' }
export const binary: Json = { type: 'string', contentEncoding: 'binary' }
/** Any JSON object. */
export const anyObject: Json = { type: 'object', additionalProperties: true }

export function ref(kind: string, name: string): Json {
  return { $ref: `#/components/${kind}/${name}` }
}

export function schema(name: string): Json {
  return ref('schemas', name)
}

/** The member `headers` of an answer; nothing without names. */
export function headersOf(names: readonly string[]): Json {
  if (names.length === 0) return {}
  return { headers: Object.fromEntries(names.map(name => [name, ref('headers', name)])) }
}

export function oneOf(values: readonly string[]): Json {
  return { type: 'string', enum: values }
}

export function list(items: Json, more: Json = {}): Json {
  return { type: 'array', items, ...more }
}

export function orNull(one: Json): Json {
  return { ...one, type: [one['type'], 'null'] }
}

/** An object. Every property is required but the `optional` ones. */
export function object(
  required: Readonly<Record<string, Json>>,
  optional: Readonly<Record<string, Json>> = {},
): Json {
  const names = Object.keys(required)
  return {
    type: 'object',
    properties: { ...required, ...optional },
    ...(names.length === 0 ? {} : { required: names }),
  }
}
