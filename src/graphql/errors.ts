/**
 * GraphQL errors: a message for a person and `extensions.code` for a program. Everything here is answered with
 * HTTP 200. An error that we did not foresee is INTERNAL: it is logged, and the client learns nothing of it.
 */
import type { GraphQLFormattedError } from 'graphql'
import { SegmentDamaged, Unavailable } from '../errors.ts'
import { warn } from '../util/say.ts'
import { GraphQLError } from './library.ts'

/** Stable codes; programs compare them. */
type GraphqlCode =
  | 'NOT_FOUND'
  | 'BAD_REQUEST'
  | 'FORBIDDEN'
  | 'UNAVAILABLE'
  | 'SEGMENT_DAMAGED'
  | 'UNAUTHENTICATED'
  | 'INTERNAL'

/** An error that a resolver throws for a caller to read. */
export function failure(code: GraphqlCode, message: string): GraphQLError {
  return new GraphQLError(message, { extensions: { code } })
}

/** Clients look for the ending ` not found`. */
export function notFound(what: 'Data Pool' | 'Data Source' | 'Metric'): GraphQLError {
  return failure('NOT_FOUND', `${what} not found`)
}

export function badRequest(message: string): GraphQLError {
  return failure('BAD_REQUEST', message)
}

/** The documented wording; scopes are spelled with hyphens in it. */
export function lacksScope(applicationId: string, action: string, scope: string): GraphQLError {
  const spelled = scope.replaceAll('_', '-')
  return failure(
    'FORBIDDEN',
    `Application ${applicationId} is not allowed to ${action}, because it lacks the "${spelled}" scope`,
  )
}

/** What the client sees of `error`. */
export function formatError(error: GraphQLError): GraphQLFormattedError {
  const { code, message } = judge(error)
  return {
    message,
    ...(error.locations === undefined ? {} : { locations: error.locations }),
    ...(error.path === undefined ? {} : { path: error.path }),
    extensions: { code },
  }
}

function judge(error: GraphQLError): { readonly code: GraphqlCode; readonly message: string } {
  const { originalError, extensions, message } = error
  if (originalError instanceof Unavailable) return { code: 'UNAVAILABLE', message }
  if (originalError instanceof SegmentDamaged) return { code: 'SEGMENT_DAMAGED', message }
  if (typeof extensions['code'] === 'string') return { code: extensions['code'] as GraphqlCode, message }
  // graphql's own errors about documents and variables come without a cause, or with one of theirs.
  if (originalError === undefined || originalError instanceof GraphQLError)
    return { code: 'BAD_REQUEST', message }
  warn(`graphql: ${originalError.stack ?? originalError.message}`)
  return { code: 'INTERNAL', message: 'Internal error' }
}
