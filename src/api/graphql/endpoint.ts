/**
 * POST /graphql: bytes in, a reply value out. The status is 401 for a bad token, 400 for a body
 * that is not a GraphQL request, and 429 if the requests under way hold too much memory.
 *
 *   W-9  The memory that requests hold is estimated: GRAPHQL_BYTES_MAX, in shares of applications.
 *
 * Everything else is 200: clients look for errors in the body and do not see them on another
 * status.
 */

import type { DocumentNode, GraphQLSchema } from 'graphql'
import { isObject } from '../../util/json.ts'
import {
  ANSWER_CHARACTERS_MAX,
  GRAPHQL_BODY_BYTES_MAX,
  GRAPHQL_BYTES_MAX,
  GRAPHQL_BYTES_PER_BODY_BYTE,
  GRAPHQL_BYTES_PER_TOKEN,
  GRAPHQL_NESTING_MAX,
  GRAPHQL_REQUEST_BYTES,
  GRAPHQL_TOKENS_MAX,
} from '../../util/limits.ts'
import { NO_IDS, type RequestIds } from '../../util/request-id.ts'
import { Shares } from '../../util/shares.ts'
import type { ControlRequest, Reply } from '../api-types.ts'
import { isDeeperThan, readJsonObject } from '../json-object.ts'
import { Budget, type Context, type GraphqlDeps, HeldBytes } from './context.ts'
import { MainThreadShare, Slices } from './cpu-share.ts'
import { documentReader, fieldCounter } from './document.ts'
import { badRequest, formatError } from './graphql-errors.ts'
import { makeSchema } from './graphql-schema.ts'
import { type GraphQLError, graphql, Kind } from './library.ts'

/** Bytes of a document and its questions, for each character and at most for each token. */
export const GRAPHQL_BYTES_PER_CHARACTER = 48

export interface GraphqlReply extends Reply {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const BUSY =
  'The server has no room for this request: those of the application hold too much memory, or all wait for too long. Send fewer at once.'

const TOO_LARGE = `The answer has more than ${ANSWER_CHARACTERS_MAX} characters: ask for less in one request.`

/** graphql prints each with the whole variable: 50 made 30 MB of a body of 600 kB. */
const COERCION_ERRORS_MAX = 5

/**
 * @param onAnswered gets the whole answer of each question, whatever the document selects of it
 * @param onStatement gets each statement, which does not run then
 */
export type Graphql = (
  request: Pick<ControlRequest, 'address' | 'authorization' | 'body'> &
    Partial<Pick<ControlRequest, 'gone' | 'ids' | 'span'>>,
  onAnswered?: Context['onAnswered'],
  onStatement?: Context['onStatement'],
) => Promise<GraphqlReply>

type RequestContext = Omit<Context, 'budget'>

export function createGraphql(deps: GraphqlDeps, schema: GraphQLSchema = makeSchema()): Graphql {
  const readDocument = documentReader(schema)
  const share = new MainThreadShare()
  const room = new Shares(GRAPHQL_BYTES_MAX)
  return async ({ address, authorization, body, gone, ids = NO_IDS, span }, onAnswered, onStatement) => {
    const caller = await deps.verify(authorization, address)
    if ('status' in caller) {
      const code = caller.status === 401 ? 'UNAUTHENTICATED' : 'UNAVAILABLE'
      return reply(caller.status, errorBody(caller.message, code), caller.headers)
    }
    const held = new HeldBytes(room, caller.applicationId)
    try {
      const bytes = GRAPHQL_REQUEST_BYTES + GRAPHQL_BYTES_PER_BODY_BYTE * body.byteLength
      if (!held.tryAdd(bytes) || !(await share.enter(caller.applicationId, gone))) return busy()
      const slices = new Slices(share, caller.applicationId)
      const asked = slices.whole(() => readBody(body))
      if (typeof asked === 'string') return reply(400, errorBody(asked, 'BAD_REQUEST'))
      if (!held.tryAdd(documentBytes(asked.query))) return busy()
      return await answer(asked, { deps, caller, slices, held, gone, onAnswered, onStatement, span }, ids)
    } finally {
      held.release()
    }
  }

  async function answer(asked: Asked, request: RequestContext, ids: RequestIds): Promise<GraphqlReply> {
    const { slices } = request
    const failed = (errors: readonly GraphQLError[]) =>
      reply(200, { errors: errors.map(error => formatError(error, ids)) })
    try {
      const document = slices.whole(() => readDocument(asked.query))
      if (!('kind' in document)) return failed(document)
      const operationName = operationToRun(document, asked.operationName)
      if (graphql.getOperationAST(document, operationName)?.operation === 'query')
        slices.endWith(request.gone)
      const contextValue: Context = { ...request, budget: new Budget(fieldCounter(document)) }
      const executed = slices.whole(() =>
        graphql.execute({
          schema,
          document,
          contextValue,
          variableValues: asked.variables,
          operationName,
          options: { maxCoercionErrors: COERCION_ERRORS_MAX },
        }),
      )
      const { data, errors } = await slices.untilGone(executed)
      return slices.whole(() => {
        if (hasMoreCharacters(data, ANSWER_CHARACTERS_MAX)) return failed([badRequest(TOO_LARGE)])
        if (errors === undefined) return reply(200, { data })
        const different = [...new Set(errors)]
        return data === undefined
          ? failed(different)
          : reply(200, { data, errors: different.map(error => formatError(error, ids)) })
      })
    } catch (error) {
      return failed([new graphql.GraphQLError((error as Error).message, { originalError: error as Error })])
    }
  }
}

/** The name has no effect if the document has a single operation. */
function operationToRun(document: DocumentNode, name: string | null): string | null {
  const operations = document.definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION)
  return operations.length === 1 || name === '' ? null : name
}

function busy(): GraphqlReply {
  return reply(429, errorBody(BUSY, 'UNAVAILABLE'), { 'Retry-After': '1' })
}

/** Measured: 6 counters take 81 KiB with their 900 characters, and 100 counters 1 MiB. */
function documentBytes({ length }: string): number {
  return Math.min(GRAPHQL_BYTES_PER_CHARACTER * length, GRAPHQL_BYTES_PER_TOKEN * GRAPHQL_TOKENS_MAX)
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

/** Aliases repeat a text without a copy: 60 made 430 MB of JSON from one, in 1.7 s. */
function hasMoreCharacters(answer: unknown, max: number): boolean {
  const open: unknown[] = [answer]
  let characters = 0
  while (open.length > 0 && characters <= max) {
    const value = open.pop()
    if (typeof value === 'string') characters += value.length
    else if (typeof value === 'object' && value !== null)
      for (const inner of Object.values(value)) open.push(inner)
  }
  return characters > max
}

interface Asked {
  readonly query: string
  readonly variables: Readonly<Record<string, unknown>> | null
  readonly operationName: string | null
}

/** The request in a body, or what is wrong with it. The content type does not matter. */
function readBody(body: Uint8Array): Asked | string {
  if (body.byteLength > GRAPHQL_BODY_BYTES_MAX)
    return `The body has more than ${GRAPHQL_BODY_BYTES_MAX} bytes.`
  const json = readJsonObject('The body', body)
  if (typeof json === 'string') return json
  const { query, variables = null, operationName = null } = json
  if (typeof query !== 'string') return '"query" must be a string.'
  if (variables !== null && !isObject(variables)) return '"variables" must be an object.'
  if (operationName !== null && typeof operationName !== 'string') return '"operationName" must be a string.'
  if (isDeeperThan(variables, GRAPHQL_NESTING_MAX))
    return `"variables" nest deeper than ${GRAPHQL_NESTING_MAX}.`
  return { query, variables, operationName }
}
