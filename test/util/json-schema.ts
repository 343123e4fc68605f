/**
 * Checks a value against a JSON Schema of the words that the OpenAPI document uses. A word that is
 * not known here is an error, so no part of a schema is passed over.
 */

export type Schema = Readonly<Record<string, unknown>>

/** What a word of a schema means for a value; "" where it holds. */
type Rule = (given: never, value: unknown, schema: Schema, at: string, root: Schema) => string

const KNOWN_FORMATS: Readonly<Record<string, RegExp>> = {
  'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/,
}

const RULES: Readonly<Record<string, Rule>> = {
  $ref: (given: string, value, _, at, root) => problemIn(resolve(given, root), value, root, at),
  type: (given: string | readonly string[], value) =>
    [given].flat().some(type => typesOf(value).includes(type)) ? '' : `is not ${String(given)}`,
  enum: (given: readonly unknown[], value) => (given.includes(value) ? '' : `is not one of ${given.join()}`),
  const: (given: unknown, value) => (given === value ? '' : `is not ${String(given)}`),
  pattern: (given: string, value) =>
    typeof value !== 'string' || new RegExp(given, 'u').test(value) ? '' : `does not match ${given}`,
  format: (given: string, value) => {
    const form = KNOWN_FORMATS[given]
    if (form === undefined) return `has the unknown format ${given}`
    return typeof value !== 'string' || form.test(value) ? '' : `is no ${given}`
  },
  minimum: (given: number, value) => (typeof value !== 'number' || value >= given ? '' : `is below ${given}`),
  maximum: (given: number, value) => (typeof value !== 'number' || value <= given ? '' : `is above ${given}`),
  maxLength: (given: number, value) =>
    typeof value !== 'string' || value.length <= given ? '' : `is longer than ${given}`,
  minItems: (given: number, value) =>
    !Array.isArray(value) || value.length >= given ? '' : `has fewer than ${given}`,
  maxItems: (given: number, value) =>
    !Array.isArray(value) || value.length <= given ? '' : `has more than ${given}`,
  items: (given: Schema, value, _, at, root) =>
    Array.isArray(value)
      ? firstOf(value.map((item, index) => () => problemIn(given, item, root, `${at}[${index}]`)))
      : '',
  required: (given: readonly string[], value) => {
    const missing = isObject(value) ? given.find(name => !Object.hasOwn(value, name)) : undefined
    return missing === undefined ? '' : `lacks ${missing}`
  },
  // Stricter than the standard: a property that the schema does not name is an error, so an answer
  // has no member that the document leaves out.
  properties: (given: Readonly<Record<string, Schema>>, value, schema, at, root) =>
    isObject(value)
      ? firstOf(
          Object.entries(value).map(([name, inner]) => () => {
            if (Object.hasOwn(given, name)) return problemIn(given[name]!, inner, root, `${at}.${name}`)
            return schema['additionalProperties'] === true ? '' : `has the undocumented ${name}`
          }),
        )
      : '',
  additionalProperties: (given: boolean | Schema, value, _, at, root) =>
    typeof given === 'object' && isObject(value)
      ? firstOf(
          Object.entries(value).map(
            ([name, inner]) =>
              () =>
                problemIn(given, inner, root, `${at}.${name}`),
          ),
        )
      : '',
  anyOf: (given: readonly Schema[], value, _, at, root) => {
    const problems = given.map(one => problemIn(one, value, root, at))
    return problems.includes('') ? '' : `is none of: ${problems.join('; ')}`
  },
}

/** Words that say nothing about a value. */
const NOTES = ['description', 'contentEncoding']

/**
 * The first thing that is wrong with the value, or "".
 * @param root the document that `$ref`s are looked up in
 */
export function problemIn(schema: Schema, value: unknown, root: Schema, at = 'it'): string {
  return firstOf(
    Object.entries(schema)
      .filter(([word]) => !NOTES.includes(word))
      .map(([word, given]) => () => {
        const rule = RULES[word]
        if (rule === undefined) return `${at}: the schema has the unknown word ${word}`
        const problem = rule(given as never, value, schema, at, root)
        return problem === '' || problem.startsWith('it') ? problem : `${at} ${problem}`
      }),
  )
}

/** The part of the document that a `$ref` names. */
export function resolve(pointer: string, root: Schema): Schema {
  let part: unknown = root
  for (const name of pointer.replace(/^#\//, '').split('/')) part = isObject(part) ? part[name] : undefined
  if (!isObject(part)) throw new Error(`${pointer} leads nowhere`)
  return part
}

function typesOf(value: unknown): readonly string[] {
  if (value === null) return ['null']
  if (Array.isArray(value)) return ['array']
  return Number.isInteger(value) ? ['integer', 'number'] : [typeof value]
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function firstOf(checks: readonly (() => string)[]): string {
  for (const check of checks) {
    const problem = check()
    if (problem !== '') return problem
  }
  return ''
}
