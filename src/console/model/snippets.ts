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
        : `\n    authorization: 'Basic ' + btoa(${text(`${basicAuth.username}:${basicAuth.password}`)}),`
    return `const answer = await fetch(${text(url)}, {
  method: 'POST',
  headers: {
    'content-type': 'application/json',${auth}
  },
  body: JSON.stringify(${JSON.stringify(example)}),
})
if (!answer.ok) throw new Error(await answer.text())`
  },
  Python: ({ url, basicAuth, example }) => {
    const auth = basicAuth === null ? '' : `, auth=(${text(basicAuth.username)}, ${text(basicAuth.password)})`
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

/** A string of HCL, in which `${` and `%{` begin a template. */
function hcl(value: string): string {
  return JSON.stringify(value).replaceAll(/[$%](?=\{)/g, '$&$&')
}

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
  place(body, stepsOf(eventsPath), [event])
  return body
}

/** `a.b[0].c` as its names and indexes. */
function stepsOf(path: string): readonly string[] {
  return path.split('.').flatMap(name => name.split(/\[(\d+)\]/).filter(step => step !== ''))
}

/** Puts a value where the steps lead, through objects and arrays that it makes on the way. */
function place(root: object, steps: readonly string[], value: unknown): void {
  let at = root
  for (const [index, step] of steps.slice(0, -1).entries()) {
    const inner: unknown = Object.hasOwn(at, step) ? Reflect.get(at, step) : undefined
    if (typeof inner === 'object' && inner !== null) at = inner
    else at = define(at, step, /^\d+$/.test(steps[index + 1]!) ? [] : {}) as object
  }
  define(at, steps.at(-1)!, value)
}

/** A property may have any name, `__proto__` too. */
function define(object: object, name: string, value: unknown): unknown {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
  return value
}
