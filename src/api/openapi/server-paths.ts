/** The paths of access, administration and probes in the OpenAPI document. */
import { ADMIN_REQUESTS, type AdminRequest } from './admin-requests.ts'
import { answer, emptyAnswer, json, needs, operation, preflight, type Refused } from './operation.ts'
import { anyObject, count, type Json, list, object, orNull, ref, schema, text } from './schema.ts'

const OF_BODIES: readonly Refused[] = [408, 413, 500, 503]

const TOKEN_FIELDS = object(
  { grant_type: { const: 'client_credentials' } },
  {
    client_id: text,
    client_secret: text,
    scope: { ...text, description: 'Names with spaces between them; all of the application without it.' },
    policy_values: { ...text, description: 'A JSON object for the placeholders of access policies.' },
  },
)
const TOKEN = object({
  access_token: text,
  expires_in: { type: 'integer' },
  token_type: { const: 'Bearer' },
  scope: text,
})

const GRAPHQL = object({ query: text }, { variables: orNull(anyObject), operationName: orNull(text) })
const graphqlError = (description: string, headers: readonly string[] = []) =>
  answer(description, json(schema('GraphqlErrors')), headers)

const ACCESS: Json = {
  '/oauth2/token': {
    post: operation('getToken', 'access', 'An access token by client credentials', {
      text: 'RFC 6749, section 4.4. The credentials are form fields, or HTTP Basic.',
      body: { 'application/x-www-form-urlencoded': TOKEN_FIELDS },
      needsBody: true,
      security: [{}, { application: [] }],
      answers: {
        200: answer('The token.', json(TOKEN)),
        400: answer('The request is wrong.', json(schema('TokenError'))),
        401: answer('The id or the secret is wrong.', json(schema('TokenError')), ['WWW-Authenticate']),
        429: answer('Too many wrong secrets.', json(schema('TokenError')), ['Retry-After']),
      },
      refused: OF_BODIES,
    }),
    options: preflight('mayGetToken', 'access'),
  },
  '/graphql': {
    post: operation('graphql', 'queries', 'Management and queries', {
      text: 'A request that was executed has the status 200, with its errors in `errors`. `/graphql/schema` has the schema. Each field says which scopes it needs.',
      body: json(GRAPHQL),
      needsBody: true,
      security: needs(),
      answers: {
        200: answer(
          'The request was executed, or its document is wrong.',
          json(object({}, { data: orNull(anyObject), errors: list(schema('GraphqlError')) })),
        ),
        400: graphqlError('The body is not a request of GraphQL.'),
        401: graphqlError('The token is missing, wrong or too old.', ['WWW-Authenticate']),
        429: graphqlError('Too many requests are under way, or too many wrong secrets came.', [
          'Retry-After',
        ]),
      },
      refused: OF_BODIES,
    }),
    options: preflight('mayAskGraphql', 'queries'),
  },
  '/graphql/schema': {
    get: operation('graphqlSchema', 'queries', 'The GraphQL schema as text (SDL)', {
      text: 'What introspection answers, for the same callers.',
      parameters: [ref('parameters', 'IfNoneMatch')],
      security: needs(),
      answers: {
        200: answer('The schema.', { 'text/plain': text }, ['ETag']),
        304: emptyAnswer('It has not changed.', ['ETag']),
      },
      refused: [400, 401, 429, 500, 503],
    }),
    options: preflight('mayReadSchema', 'queries'),
  },
}

const ofSession = (id: string, summary: string, body: Json, ok: Json, refused: readonly Refused[]) =>
  operation(id, 'console', summary, {
    text: 'For pages of this server alone. 404 with `--console off`.',
    body: json(body),
    needsBody: true,
    ...(id === 'beginSession' ? {} : { security: [{ session: [] }] }),
    answers: { 200: ok },
    refused: [400, 403, 404, 415, ...refused, ...OF_BODIES],
  })

const SESSIONS: Json = {
  '/session': {
    post: ofSession(
      'beginSession',
      'Sign in with an id and a secret, or with a code',
      { anyOf: [object({ clientId: text, clientSecret: text }), object({ code: text })] },
      answer('The session, and its first token.', json(schema('Session')), ['Set-Cookie']),
      [401, 429],
    ),
  },
  '/session/token': {
    post: ofSession(
      'renewSession',
      'A new token',
      anyObject,
      answer('The token.', json(schema('Session'))),
      [401],
    ),
  },
  '/session/end': {
    post: ofSession(
      'endSession',
      'Sign out',
      anyObject,
      answer('It has ended.', json(object({})), ['Set-Cookie']),
      [],
    ),
  },
}

const ofAdmin = (
  { id, summary, scope, request }: Omit<AdminRequest<unknown, unknown>, 'path' | 'answer'>,
  ok: Json,
  refused: readonly Refused[] = [],
) =>
  operation(id, 'admin', summary, {
    body: json(request),
    needsBody: true,
    security: needs(scope),
    answers: { 200: answer('Done.', ok) },
    refused: [400, 401, 403, 429, ...refused, ...OF_BODIES],
  })

const BACK_UP = {
  id: 'backUp',
  summary: 'A consistent copy of the running server, in a new folder or in a bucket',
  scope: 'admin',
  request: {
    anyOf: [
      object({ folder: { ...text, description: 'The absolute path of a new folder on the server.' } }),
      object(
        { bucket: { ...text, description: '`s3://bucket/prefix`; credentials by its environment.' } },
        { keep: { ...count, minimum: 1, description: 'Backups that stay.' } },
      ),
    ],
  },
} as const

const ADMIN: Json = {
  '/v1/admin/backup': { post: ofAdmin(BACK_UP, { 'application/x-ndjson': schema('BackupLine') }, [409]) },
  ...Object.fromEntries(
    ADMIN_REQUESTS.map(request => [request.path, { post: ofAdmin(request, json(request.answer)) }]),
  ),
}

const PROBES: Json = {
  '/livez': {
    get: operation('livez', 'server', 'The process lives', {
      answers: { 200: answer('It does.', json(object({ live: { const: true } }))) },
      refused: [],
    }),
  },
  '/readyz': {
    get: operation('readyz', 'server', 'Events are accepted, synced and visible', {
      answers: { 200: answer('They are.', json(object({ ready: { const: true } }))) },
      refused: [503],
    }),
  },
  '/metrics': {
    get: operation('metrics', 'server', 'Metrics for Prometheus', {
      security: [{}, { metrics: [] }],
      answers: { 200: answer('The metrics.', { 'text/plain': text }) },
      refused: [401, 403, 500, 503],
    }),
  },
  '/openapi.json': {
    get: operation('openapi', 'server', 'This document', {
      parameters: [ref('parameters', 'IfNoneMatch')],
      answers: {
        200: answer('The document.', json(anyObject), ['ETag']),
        304: emptyAnswer('It has not changed.', ['ETag']),
      },
      refused: [400, 500, 503],
    }),
    options: preflight('mayReadOpenapi', 'server'),
  },
}

export const SERVER_PATHS: Json = { ...ACCESS, ...SESSIONS, ...ADMIN, ...PROBES }
