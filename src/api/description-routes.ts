/**
 * The API describes itself:
 *
 *   GET /openapi.json     every path but pages, as OpenAPI 3.1; for anybody: it has no data
 *   GET /graphql/schema   the GraphQL schema as text; for those whom introspection answers
 *
 * The texts are made when they are first asked for, and sent from memory then.
 */
import type { GraphQLSchema } from 'graphql'
import { ROUTE_BODY_BYTES_MAX } from '../util/limits.ts'
import type { ControlRequest, ControlRoute, Reply } from './api-types.ts'
import { graphql } from './graphql/library.ts'
import { OPENAPI } from './openapi/document.ts'
import { unknownParameter } from './parameters.ts'
import type { ReaderDeps } from './pool-reader.ts'
import { problemReply, refuse } from './problem.ts'
import { answerFile, FILE_HEADERS, type ServedFile, servedFile } from './served-file.ts'

interface DescriptionDeps {
  /** The one that executes requests. */
  readonly schema: GraphQLSchema
  readonly verify: ReaderDeps['verify']
}

export function descriptionRoutes({ schema, verify }: DescriptionDeps): ControlRoute[] {
  const document = made(() => JSON.stringify(OPENAPI), 'application/json', 'no-cache')
  const sdl = made(() => `${graphql.printSchema(schema)}\n`, 'text/plain; charset=utf-8', 'private, no-cache')
  return [
    route('/openapi.json', async asked => answered(asked, document())),
    route('/graphql/schema', async asked => {
      const caller = await verify(asked.authorization, asked.address)
      return 'status' in caller ? problemReply(caller) : answered(asked, sdl())
    }),
  ]
}

function route(path: string, handle: ControlRoute['handle']): ControlRoute {
  return {
    methods: ['GET'],
    path,
    bodyBytesMax: ROUTE_BODY_BYTES_MAX,
    cors: true,
    headers: FILE_HEADERS,
    handle,
  }
}

function answered({ query, headers }: ControlRequest, file: ServedFile): Reply {
  const unknown = unknownParameter(query, [])
  if (unknown !== undefined) return problemReply(refuse(400, 'bad_parameter', unknown))
  return answerFile(file, name => headers[name] ?? '')
}

/** @param print called once: printing the GraphQL schema takes 20 ms of the main thread */
function made(print: () => string, type: string, caching: string): () => ServedFile {
  const headers = { 'content-type': type, 'cache-control': caching, 'x-content-type-options': 'nosniff' }
  let file: ServedFile | undefined
  return () => {
    file ??= servedFile(Buffer.from(print()), headers)
    return file
  }
}
