/**
 * GraphQL errors: a message for a person, `extensions.code` for a program, and the place in the
 * document. All of them are answered with HTTP 200. An unforeseen error is INTERNAL: it is logged,
 * and the client sees no details.
 */
import type { ASTNode, DocumentNode, GraphQLFormattedError, SourceLocation, Token } from 'graphql'
import { AccessEnded, SegmentDamaged, Unavailable } from '../../util/errors.ts'
import { inLog, type RequestIds } from '../../util/request-id.ts'
import { fail } from '../../util/say.ts'
import { type GraphQLError, graphql } from './library.ts'

/** Programs compare these codes, so they never change. */
export type GraphqlCode =
  | 'NOT_FOUND'
  | 'BAD_REQUEST'
  | 'FORBIDDEN'
  | 'UNAVAILABLE'
  | 'SEGMENT_DAMAGED'
  | 'UNAUTHENTICATED'
  | 'INTERNAL'

export function failure(code: GraphqlCode, message: string): GraphQLError {
  return new graphql.GraphQLError(message, { extensions: { code } })
}

/** Kinds of objects as messages name them. Existing clients compare these words. */
export type ObjectKind =
  | 'Add Column To Data Pool Job'
  | 'Application'
  | 'Booster'
  | 'Data Pool'
  | 'Data Pool Access Policy'
  | 'Data Source'
  | 'Deletion Job'
  | 'Job'
  | 'Environment'
  | 'Materialized View'
  | 'Metric'
  | 'Policy'
  | 'Replay Rejected Events Job'
  | 'Sync'
  | 'Table'
  | 'Update Data Pool Records Job'

/** Existing clients search messages for the ending ` not found`. */
export function notFound(what: ObjectKind): GraphQLError {
  return failure('NOT_FOUND', `${what} not found`)
}

export function badRequest(message: string): GraphQLError {
  return failure('BAD_REQUEST', message)
}

export function missing(what: ObjectKind): () => never {
  return () => {
    throw notFound(what)
  }
}

/** The resolver of an operation that Weir does not serve. The message says what to do instead. */
export function refusing(message: string): () => never {
  return () => {
    throw badRequest(message)
  }
}

/** An error of no field. Many fields may throw it: graphql does not copy an error with a path. */
export function wholeRequest(message: string): GraphQLError {
  return new graphql.GraphQLError(message, { path: [], extensions: { code: 'BAD_REQUEST' } })
}

/** The documented wording, in which scopes are spelled with hyphens. */
export function lacksScope(applicationId: string, action: string, scope: string): GraphQLError {
  const spelled = scope.replaceAll('_', '-')
  return failure(
    'FORBIDDEN',
    `Application ${applicationId} is not allowed to ${action}, because it lacks the "${spelled}" scope`,
  )
}

/** graphql repeats wrong values in its messages, however long they are. */
const MESSAGE_CHARACTERS_MAX = 2_000

/** @param ids for the log, where the server failed */
export function formatError(error: GraphQLError, ids: RequestIds): GraphQLFormattedError {
  const { code, message } = codeAndMessage(error, ids)
  const locations = locationsOf(error)
  return {
    message:
      message.length > MESSAGE_CHARACTERS_MAX ? `${message.slice(0, MESSAGE_CHARACTERS_MAX)} …` : message,
    ...(locations === undefined ? {} : { locations }),
    ...((error.path ?? []).length === 0 ? {} : { path: error.path! }),
    extensions: { code },
  }
}

export function codeOf(error: unknown): GraphqlCode {
  if (error instanceof graphql.GraphQLError && typeof error.extensions['code'] === 'string')
    return error.extensions['code'] as GraphqlCode
  if (error instanceof Unavailable) return 'UNAVAILABLE'
  if (error instanceof AccessEnded) return 'UNAUTHENTICATED'
  return error instanceof SegmentDamaged ? 'SEGMENT_DAMAGED' : 'INTERNAL'
}

function codeAndMessage(
  error: GraphQLError,
  ids: RequestIds,
): { readonly code: GraphqlCode; readonly message: string } {
  const { originalError: cause, extensions, message } = error
  // graphql's own errors have no cause, or another GraphQLError as cause.
  if (cause === undefined || cause instanceof graphql.GraphQLError)
    return { code: extensions['code'] === undefined ? 'BAD_REQUEST' : codeOf(error), message }
  const code = codeOf(cause)
  if (cause instanceof SegmentDamaged) return { code, message: cause.messageForClient }
  if (code !== 'INTERNAL') return { code, message }
  fail(`graphql${inLog(ids)}: ${cause.stack ?? cause.message}`, ids)
  return { code, message: 'Internal error' }
}

/** The first token of each node of the documents whose positions were taken. */
const firstTokens = new WeakMap<ASTNode, Token>()

/**
 * Moves the location of each node to a map, so that graphql does not work out lines and columns
 * itself. It reads the document from its beginning for each error: 600 fields that failed below
 * 5,000 empty lines held the main thread for 200 ms. The lexer's tokens have both numbers already.
 */
export function takePositions(document: DocumentNode): void {
  const open: unknown[] = [document]
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    const { loc } = node as { loc?: ASTNode['loc'] | undefined }
    if (loc !== undefined) {
      firstTokens.set(node as ASTNode, loc.startToken)
      ;(node as { loc?: unknown }).loc = undefined
    }
    for (const inner of Object.values(node as object))
      if (typeof inner === 'object' && inner !== null) open.push(inner)
  }
}

/**
 * The locations of an error: those that takePositions kept, or graphql's own where the document
 * could not be parsed.
 */
export function locationsOf({ nodes, locations }: GraphQLError): readonly SourceLocation[] | undefined {
  const tokens = nodes?.flatMap(node => firstTokens.get(node) ?? []) ?? []
  return tokens.length > 0 ? tokens.map(({ line, column }) => ({ line, column })) : locations
}
