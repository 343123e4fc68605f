/**
 * The words in which the paths of the OpenAPI document are written: shorthands of JSON Schema, and
 * one form for every operation. Refusals are named by their statuses: components.ts has each once.
 */
import type { Scope } from '../../catalog/documents/model.ts'
import { REFUSALS } from './components.ts'
import { headersOf, type Json, ref } from './schema.ts'

/** A status whose answer is a problem. */
export type Refused = keyof typeof REFUSALS

/** An operation beside its id, tag and summary, as the files of paths write it. */
interface Described {
  readonly text?: string
  readonly parameters?: readonly Json[]
  /** Schemas of the request's body by content type; absent where it has none. */
  readonly body?: Json
  /** Absent where a client may leave the body out. */
  readonly needsBody?: true
  /** Credentials, of which one is enough. Absent where none are asked for. */
  readonly security?: readonly Json[]
  /** Answers by status that are no plain problem. */
  readonly answers: Readonly<Record<number, Json>>
  readonly refused: readonly Refused[]
}

/** Members that are undefined are not in the JSON. @param id the operationId */
export function operation(id: string, tag: string, summary: string, described: Described): Json {
  const { text, parameters, body, needsBody, security = [], answers, refused } = described
  const responses: Record<string, Json> = { ...answers }
  for (const status of refused) responses[status] ??= ref('responses', REFUSALS[status].name)
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: text,
    parameters,
    requestBody: body && { required: needsBody === true, content: contentOf(body) },
    security,
    responses: { ...responses, default: ref('responses', 'AnyRefusal') },
  }
}

/** An answer with a body. `content`: schemas by content type. */
export function answer(description: string, content: Json, headers: readonly string[] = []): Json {
  return { description, ...headersOf(headers), content: contentOf(content) }
}

/** An answer without a body. */
export function emptyAnswer(description: string, headers: readonly string[] = []): Json {
  return { description, ...headersOf(headers) }
}

export function json(schema: Json): Json {
  return { 'application/json': schema }
}

/** Schemas by content type, as requestBody and responses have them. */
function contentOf(schemas: Json): Json {
  return Object.fromEntries(Object.entries(schemas).map(([type, schema]) => [type, { schema }]))
}

/** The token or the credentials of an application with one of these scopes; of any without them. */
export function needs(...scopes: readonly Scope[]): Json[] {
  const each = scopes.length === 0 ? [[]] : scopes.map(scope => [scope])
  return each.flatMap(list => [{ token: list }, { application: list }])
}

/** Pages of any origin may ask whether they may call the path. */
export function preflight(id: string, tag: string): Json {
  const answers = { 204: emptyAnswer('They may.', ['Access-Control-Allow-Methods']) }
  return operation(id, tag, 'CORS preflight', { answers, refused: [] })
}
