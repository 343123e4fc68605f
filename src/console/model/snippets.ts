/** What a person pastes elsewhere to post an event: a webhook's URL and its credentials in code. */

export interface Target {
  readonly url: string
  readonly basicAuth: { readonly username: string; readonly password: string } | null
  /** A body that the source takes. */
  readonly example: object
  readonly name: string
  readonly timestamp: string | null
  readonly uniqueId: string | null
  readonly columns: readonly {
    readonly name: string
    readonly jsonProperty: string
    readonly type: string
    readonly nullable: boolean
  }[]
}

export const LANGUAGES = ['curl', 'JavaScript', 'Python', 'Terraform'] as const
export type Language = (typeof LANGUAGES)[number]

const WRITERS: Readonly<Record<Language, (target: Target) => string>> = {
  curl: ({ url, basicAuth, example }) => {
    const auth = basicAuth === null ? '' : ` -u ${shell(`${basicAuth.username}:${basicAuth.password}`)}`
    return `curl${auth} -H 'Content-Type: application/json' \\\n  -d ${shell(JSON.stringify(example))} \\\n  ${shell(url)}`
  },
  JavaScript: ({ url, basicAuth, example }) => {
    const auth =
      basicAuth === null
        ? ''
        : `\n    // btoa takes bytes\n    authorization: 'Basic ' + btoa(String.fromCharCode(...new TextEncoder().encode(${text(`${basicAuth.username}:${basicAuth.password}`)}))),`
    return `const answer = await fetch(${text(url)}, {
  method: 'POST',
  headers: {
    'content-type': 'application/json',${auth}
  },
  body: JSON.stringify(${literal(example)}),
})
if (!answer.ok) throw new Error(await answer.text())`
  },
  Python: ({ url, basicAuth, example }) => {
    const auth =
      basicAuth === null
        ? ''
        : `, auth=(${text(basicAuth.username)}.encode(), ${text(basicAuth.password)}.encode())`
    return `import json, requests

event = json.loads(${text(JSON.stringify(example))})
answer = requests.post(${text(url)}, json=event${auth})
answer.raise_for_status()`
  },
  Terraform: ({ name, columns, timestamp, uniqueId }) => {
    const key = [
      ...(timestamp === null ? [] : [`    timestamp = ${hcl(timestamp)}\n`]),
      ...(uniqueId === null ? [] : [`    unique_id = ${hcl(uniqueId)}\n`]),
    ]
    const blocks = columns.map(
      ({ name, jsonProperty, type, nullable }) =>
        `    column {\n      name          = ${hcl(name)}\n      json_property = ${hcl(jsonProperty)}\n      type          = ${hcl(type)}\n      nullable      = ${nullable}\n    }`,
    )
    return `resource "propel_data_source" ${hcl(identifier(name))} {
  unique_name = ${hcl(name)}
  type        = "WEBHOOK"

  webhook_connection_settings {
${key.join('')}${blocks.join('\n')}
  }
}`
  },
}

export function snippet(language: Language, target: Target): string {
  return WRITERS[language](target)
}

/** One word of a POSIX shell. */
function shell(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`
}

/** A string of JSON is one of JavaScript and Python too. */
function text(value: string): string {
  return JSON.stringify(value)
}

/** A literal of JavaScript, in which a plain `"__proto__":` would set the prototype. */
function literal(value: object): string {
  return JSON.stringify(value).replaceAll('"__proto__":', '["__proto__"]:')
}

/** A string of HCL, in which `${` and `%{` begin a template, and which has no \\b and \\f. */
function hcl(value: string): string {
  const known = JSON.stringify(value).replaceAll(/\\./g, one => LONG_ESCAPES[one] ?? one)
  return known.replaceAll(/[$%](?=\{)/g, '$&$&')
}

const LONG_ESCAPES: Readonly<Record<string, string>> = { '\\b': '\\u0008', '\\f': '\\u000c' }

function identifier(name: string): string {
  const word = name.toLowerCase().replaceAll(/[^a-z0-9_]/g, '_')
  return /^[a-z]/.test(word) ? word : `s_${word}`
}

/** A value that a column of this type takes. */
function exampleOf(type: string): unknown {
  if (type === 'BOOLEAN') return true
  if (type === 'DOUBLE' || type === 'FLOAT') return 1.5
  if (type.startsWith('INT')) return 1
  if (type === 'TIMESTAMP') return new Date().toISOString()
  if (type === 'DATE') return new Date().toISOString().slice(0, 10)
  return type === 'JSON' ? { a: 1 } : 'hello'
}

/**
 * A body that the columns take: an event, inside of what `eventsPath` goes through. Columns of the
 * request (`$header.…`) are no part of it. An index of a path is a place in an array.
 */
export function exampleBody(columns: Target['columns'], eventsPath: string | null): object {
  const event: object = {}
  for (const { jsonProperty, type } of columns)
    if (!jsonProperty.startsWith('$')) place(event, stepsOf(jsonProperty), exampleOf(type))
  if (Object.keys(event).length === 0) place(event, ['hello'], 'weir')
  if (eventsPath === null) return event
  const body: object = {}
  place(body, eventsPath.split('.'), [event])
  return body
}

/** An index at the end of a step, as the server reads it (json-property.ts); all else is a name. */
const INDEXED = /^([^[\]]+)((?:\[\d{1,4}\])+)$/
/** A column that reads a later element is left out: a longer example helps nobody. */
const INDEX_MAX = 9

type Step = string | number

/** `a.b[0].c` as its names and indexes. */
function stepsOf(property: string): readonly Step[] {
  return property.split('.').flatMap((step): Step[] => {
    const [, name, indexes] = INDEXED.exec(step) ?? []
    if (name === undefined || indexes === undefined) return [step]
    return [name, ...[...indexes.matchAll(/\d+/g)].map(([index]) => Number(index))]
  })
}

/**
 * Puts a value where the steps lead, through objects and arrays that it makes on the way. Where an
 * earlier column made another kind of thing there, it does nothing.
 */
function place(root: object, steps: readonly Step[], value: unknown): void {
  if (steps.some(step => typeof step === 'number' && step > INDEX_MAX)) return
  let at = root
  for (const [index, step] of steps.entries()) {
    if (Array.isArray(at) !== (typeof step === 'number')) return
    if (index === steps.length - 1) {
      define(at, String(step), value)
      return
    }
    const inner: unknown = Object.hasOwn(at, step) ? Reflect.get(at, step) : undefined
    if (typeof inner === 'object' && inner !== null) at = inner
    else at = define(at, String(step), typeof steps[index + 1] === 'number' ? [] : {}) as object
  }
}

/** A property may have any name, `__proto__` too. */
function define(object: object, name: string, value: unknown): unknown {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
  return value
}
