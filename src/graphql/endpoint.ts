/**
 * POST /graphql: bytes in, a reply value out. 401 for token trouble, 400 for a body that is no GraphQL request,
 * 200 for everything else: clients look for errors in the body and lose them on other statuses.
 */
import type { DocumentNode } from 'graphql'
import { GRAPHQL_NESTING_MAX } from '../limits.ts'
import { Budget } from './budget.ts'
import type { Caller, Context, GraphqlServices } from './context.ts'
import { documentReader, fieldCounter } from './document.ts'
import { formatError } from './errors.ts'
import { execute, GraphQLError, Kind } from './library.ts'
import { makeSchema } from './schema.ts'

interface GraphqlRequest {
  readonly authorization: string | undefined
  readonly body: Uint8Array
}

export interface GraphqlReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface Graphql {
  handle(request: GraphqlRequest): Promise<GraphqlReply>
}

/** A request's JSON, its parts of the right kind. */
interface Asked {
  readonly query: string
  readonly variables: Readonly<Record<string, unknown>> | null
  readonly operationName: string | null
}

/** Builds the schema and binds it to the other stages. */
export function createGraphql(services: GraphqlServices): Graphql {
  const schema = makeSchema()
  const readDocument = documentReader(schema)
  return {
    async handle({ authorization, body }) {
      const caller = await services.verify(authorization)
      if ('status' in caller)
        return reply(caller.status, errorBody(caller.message, 'UNAUTHENTICATED'), caller.headers)
      const asked = readBody(body)
      if (typeof asked === 'string') return reply(400, errorBody(asked, 'BAD_REQUEST'))
      return run(asked, caller)
    },
  }

  async function run(asked: Asked, caller: Caller): Promise<GraphqlReply> {
    try {
      const document = readDocument(asked.query)
      if (!('kind' in document)) return failed(document)
      const contextValue: Context = { services, caller, budget: new Budget(fieldCounter(document)) }
      const result = await execute({
        schema,
        document,
        contextValue,
        variableValues: asked.variables,
        operationName: operationToRun(document, asked.operationName),
      })
      const { data, errors } = result
      if (errors === undefined) return reply(200, { data })
      return data === undefined ? failed(errors) : reply(200, { data, errors: errors.map(formatError) })
    } catch (error) {
      return failed([new GraphQLError('Internal error', { originalError: error as Error })])
    }
  }
}

/** The name is ignored where there is nothing to choose. */
function operationToRun(document: DocumentNode, name: string | null): string | null {
  const operations = document.definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION)
  return operations.length === 1 || name === '' ? null : name
}

/** What is asked, or a sentence about what is wrong. The content type does not matter. */
function readBody(body: Uint8Array): Asked | string {
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

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Level by level, without recursion. */
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
