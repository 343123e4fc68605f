/** What a person pastes elsewhere to post an event: a webhook's URL and its credentials in code. */

export interface Target {
  readonly url: string
  readonly basicAuth: { readonly username: string; readonly password: string } | null
  /** A property and a value for each column, as one event. */
  readonly example: Readonly<Record<string, unknown>>
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
      ...(timestamp === null ? [] : [`    timestamp = ${text(timestamp)}\n`]),
      ...(uniqueId === null ? [] : [`    unique_id = ${text(uniqueId)}\n`]),
    ]
    const blocks = columns.map(
      ({ name, jsonProperty, type, nullable }) =>
        `    column {\n      name          = ${text(name)}\n      json_property = ${text(jsonProperty)}\n      type          = ${text(type)}\n      nullable      = ${nullable}\n    }`,
    )
    return `resource "propel_data_source" ${text(identifier(name))} {
  unique_name = ${text(name)}
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

/** A string of JSON is one of JavaScript, Python and HCL too, but for HCL's templates. */
function text(value: string): string {
  return JSON.stringify(value).replaceAll('${', '$${')
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

/** An event that the columns take. Columns of the request (`$header.…`) are no part of it. */
export function exampleEvent(columns: Target['columns']): Readonly<Record<string, unknown>> {
  const event: Record<string, unknown> = {}
  for (const { jsonProperty, type } of columns) {
    if (jsonProperty.startsWith('$')) continue
    const path = jsonProperty.split('.')
    let at = event
    for (const part of path.slice(0, -1)) {
      const inner = Object.hasOwn(at, part) ? at[part] : undefined
      if (typeof inner === 'object' && inner !== null) at = inner as Record<string, unknown>
      else at = define(at, part, {}) as Record<string, unknown>
    }
    define(at, path.at(-1)!, exampleOf(type))
  }
  return Object.keys(event).length === 0 ? { hello: 'weir' } : event
}

/** A property may have any name, `__proto__` too. */
function define(object: object, name: string, value: unknown): unknown {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
  return value
}
