/**
 * POST /graphql: bytes in, a reply value out. The status is 401 for a bad token, 400 for a body
 * that is not a GraphQL request, and 429 if too many requests are under way.
 * Everything else is 200: clients look for errors in the body and do not see them on another
 * status.
 *
 *   W-11  The bytes of a body are counted before JSON.parse sees them. The cost of parsing depends
 *         on objects, lists and commas, not on length: half a megabyte of column names takes 2 ms,
 *         of `{}` 50 ms.
 */
import type { DocumentNode, ExecutionResult } from 'graphql'
import type { Identity } from '../../catalog/token.ts'
import {
  GRAPHQL_APPLICATION_REQUESTS_MAX,
  GRAPHQL_BODY_BYTES_MAX,
  GRAPHQL_BODY_PARTS_MAX,
  GRAPHQL_NESTING_MAX,
  GRAPHQL_REQUESTS_MAX,
} from '../../util/limits.ts'
import type { ControlRequest, Reply } from '../api-types.ts'
import { Budget, type Context, type GraphqlDeps } from './context.ts'
import { documentReader, fieldCounter } from './document.ts'
import { formatError } from './errors.ts'
import { execute, GraphQLError, Kind } from './library.ts'
import { makeSchema } from './schema.ts'
import { MainThreadShare, Slices } from './share.ts'

export interface GraphqlReply extends Reply {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const BUSY = `Too many GraphQL requests are under way (at most ${GRAPHQL_APPLICATION_REQUESTS_MAX} of an application, ${GRAPHQL_REQUESTS_MAX} of all): send fewer at once.`

/**
 * The wrong values of variables that an answer names. graphql prints each with the whole variable:
 * 50 of them made 30 MB of a body of 600 kB.
 */
const COERCION_ERRORS_MAX = 5

/** Builds the schema and binds it to the other stages. Returns the handler of requests. */
export function createGraphql(
  deps: GraphqlDeps,
): (request: Pick<ControlRequest, 'address' | 'authorization' | 'body'>) => Promise<GraphqlReply> {
  const schema = makeSchema()
  const readDocument = documentReader(schema)
  const share = new MainThreadShare()
  return async ({ address, authorization, body }) => {
    const caller = await deps.verify(authorization, address)
    if ('status' in caller) {
      const code = caller.status === 401 ? 'UNAUTHENTICATED' : 'UNAVAILABLE'
      return reply(caller.status, errorBody(caller.message, code), caller.headers)
    }
    if (!(await share.enter(caller.applicationId)))
      return reply(429, errorBody(BUSY, 'UNAVAILABLE'), { 'Retry-After': '1' })
    try {
      return await answer(body, caller, new Slices(share, caller.applicationId))
    } finally {
      share.leave(caller.applicationId)
    }
  }

  async function answer(body: Uint8Array, caller: Identity, slices: Slices): Promise<GraphqlReply> {
    const asked = slices.whole(() => readBody(body))
    if (typeof asked === 'string') return reply(400, errorBody(asked, 'BAD_REQUEST'))
    return run(asked, caller, slices)
  }

  async function run(asked: Asked, caller: Identity, slices: Slices): Promise<GraphqlReply> {
    try {
      const document = slices.whole(() => readDocument(asked.query))
      if (!('kind' in document)) return failed(document)
      const { data, errors } = await slices.whole(() => executeAsked(document, asked, caller, slices))
      return slices.whole(() => {
        if (errors === undefined) return reply(200, { data })
        return data === undefined ? failed(errors) : reply(200, { data, errors: errors.map(formatError) })
      })
    } catch (error) {
      return failed([new GraphQLError('Internal error', { originalError: error as Error })])
    }
  }

  function executeAsked(
    document: DocumentNode,
    asked: Asked,
    caller: Identity,
    slices: Slices,
  ): ExecutionResult | Promise<ExecutionResult> {
    const contextValue: Context = { deps, caller, budget: new Budget(fieldCounter(document)), slices }
    return execute({
      schema,
      document,
      contextValue,
      variableValues: asked.variables,
      operationName: operationToRun(document, asked.operationName),
      options: { maxCoercionErrors: COERCION_ERRORS_MAX },
    }) as ExecutionResult | Promise<ExecutionResult>
  }
}

/** The name has no effect if the document has a single operation. */
function operationToRun(document: DocumentNode, name: string | null): string | null {
  const operations = document.definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION)
  return operations.length === 1 || name === '' ? null : name
}

function failed(errors: readonly GraphQLError[]): GraphqlReply {
  return reply(200, { errors: errors.map(formatError) })
}

function errorBody(message: string, code: string): object {
  return { errors: [{ message, extensions: { code } }] }
}

function reply(status: number, body: object, headers: Readonly<Record<string, string>> = {}): GraphqlReply {
  return {
    status,
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', ...headers },
    body: JSON.stringify(body),
  }
}

/** The parts of a request's JSON, each of the right type. */
interface Asked {
  readonly query: string
  readonly variables: Readonly<Record<string, unknown>> | null
  readonly operationName: string | null
}

/**
 * The request in a body, or a sentence that says what is wrong. The content type does not matter.
 */
function readBody(body: Uint8Array): Asked | string {
  if (body.byteLength > GRAPHQL_BODY_BYTES_MAX)
    return `The body has more than ${GRAPHQL_BODY_BYTES_MAX} bytes.`
  if (hasMoreParts(body, GRAPHQL_BODY_PARTS_MAX))
    return `The body has more than ${GRAPHQL_BODY_PARTS_MAX} objects, lists and commas.`
  let json: unknown
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    return 'The body is not JSON in UTF-8.'
  }
  if (!isObject(json)) return 'The body must be one JSON object.'
  const { query, variables = null, operationName = null } = json
  if (typeof query !== 'string') return '"query" must be a string.'
  if (variables !== null && !isObject(variables)) return '"variables" must be an object.'
  if (operationName !== null && typeof operationName !== 'string') return '"operationName" must be a string.'
  if (isDeeperThan(variables, GRAPHQL_NESTING_MAX))
    return `"variables" nest deeper than ${GRAPHQL_NESTING_MAX}.`
  return { query, variables, operationName }
}

const OBJECT = 0x7b
const LIST = 0x5b
const COMMA = 0x2c
/** The begin of a comment in a document. The lexer makes a token of each. */
const COMMENT = 0x23

/** Counts inside strings too, because a document has its own braces and commas. */
function hasMoreParts(body: Uint8Array, max: number): boolean {
  let parts = 0
  for (const byte of body)
    if (byte === COMMA || byte === OBJECT || byte === LIST || byte === COMMENT) parts += 1
  return parts > max
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** True if `value` nests deeper than `max`. Walks level by level, without recursion. */
function isDeeperThan(value: unknown, max: number): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > max) return true
    const next: unknown[] = []
    for (const item of level)
      if (typeof item === 'object' && item !== null) for (const inner of Object.values(item)) next.push(inner)
    level = next
  }
  return false
}
