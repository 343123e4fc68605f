/** The parts that the operations of the OpenAPI document share. */
import { JOB_STATUSES, SCOPES } from '../../catalog/documents/model.ts'
import { ENCODINGS, IMPORT_FORMATS } from '../../parse/import/import-types.ts'
import { FILTER_OPERATORS } from '../../query/plan/where.ts'
import { EVENTS_MAX } from '../../util/limits.ts'
import { ADMIN_SCHEMAS } from './admin-requests.ts'
import {
  anyObject,
  count,
  flag,
  headersOf,
  type Json,
  list,
  named,
  object,
  oneOf,
  orNull,
  schema,
  text,
  texts,
  time,
  type ValueOf,
} from './schema.ts'

/** The answers to refusals by status; all are problems. */
export const REFUSALS = {
  400: { name: 'BadRequest', description: 'The request is wrong; nothing was changed.', headers: [] },
  401: {
    name: 'Unauthorized',
    description: 'Credentials are missing, wrong or too old.',
    headers: ['WWW-Authenticate'],
  },
  403: { name: 'Forbidden', description: 'The caller is known and may not do this.', headers: [] },
  404: { name: 'NotFound', description: 'There is no such object or path.', headers: [] },
  405: { name: 'MethodNotAllowed', description: 'The source does not take this method.', headers: ['Allow'] },
  408: { name: 'TooSlow', description: 'The body did not arrive in time.', headers: [] },
  409: { name: 'Conflict', description: 'The state of the server or of a job forbids it.', headers: [] },
  413: { name: 'TooLarge', description: 'The body is too long, or has too many events.', headers: [] },
  415: {
    name: 'UnsupportedMedia',
    description: 'The Content-Type or the Content-Encoding is not taken.',
    headers: [],
  },
  429: {
    name: 'TooMany',
    description: 'Too many requests, or too many wrong secrets.',
    headers: ['Retry-After'],
  },
  500: { name: 'ServerError', description: 'The server failed; its log has the details.', headers: [] },
  503: {
    name: 'Unavailable',
    description: 'The server cannot answer now; try again.',
    headers: ['Retry-After'],
  },
} as const

const ANY_REFUSAL =
  'A refusal that any path may give before its own checks: 400 `bad_framing`, `malformed_http` or `tiny_chunks`, 405, 408, 411 (`--chunked off`), 413, 417, 431, 501, 505, and 503 of a server that stops.'

export function problem(description: string, headers: readonly string[] = [], component = 'Problem'): Json {
  return {
    description,
    ...headersOf(headers),
    content: { 'application/problem+json': { schema: schema(component) } },
  }
}

const PROBLEM = {
  errors: text,
  type: { type: 'string', pattern: '^urn:weir:problem:' },
  title: text,
  status: { type: 'integer', minimum: 400, maximum: 599 },
  detail: text,
  code: { type: 'string', pattern: '^[a-z][a-z0-9_]*$', description: 'For programs: it never changes.' },
  retryable: flag,
  events: list(schema('EventError')),
}

const PROGRESS = {
  rows: count,
  accepted: count,
  rejected: count,
  durableRows: count,
  durableBytes: orNull(count),
}

const RefusedRow = object({ row: count, line: count, code: text, column: orNull(text), message: text })

const REPORT = {
  import: text,
  ...PROGRESS,
  skippedRows: count,
  rejectedBy: { type: 'object', additionalProperties: count },
  refused: list(named('RefusedRow', RefusedRow)),
  refusedOmitted: count,
  unknownFields: list(object({ field: text, column: orNull(text) })),
  unfilledColumns: list(text),
}

const ImportJob = object(
  {
    id: text,
    status: oneOf(JOB_STATUSES),
    progress: { type: 'number', minimum: 0, maximum: 1 },
    error: orNull(text),
    createdAt: time,
    modifiedAt: time,
    format: oneOf(IMPORT_FORMATS),
    encoding: oneOf(ENCODINGS),
    label: text,
    skipRows: count,
    bytes: orNull(count),
    ...PROGRESS,
  },
  { mapping: text },
)

const ImportReport = object(REPORT)
export type ImportReport = ValueOf<typeof ImportReport>
export type ImportJob = ValueOf<typeof ImportJob>

const SUMMARY = {
  sequence: count,
  pools: count,
  segments: count,
  files: count,
  bytes: count,
  damaged: list(anyObject),
}
/** Of a backup in a bucket only. */
const IN_BUCKET = {
  id: text,
  sent: count,
  wrong: object({ mended: count, lost: count }),
  removed: object({ backups: count, objects: count, bytes: count }),
  notRemoved: text,
}

const SCHEMAS: Readonly<Record<string, Json>> = {
  Problem: object(PROBLEM),
  EventError: object({ index: count, code: text, column: orNull(text), message: text }),
  Event: {
    ...anyObject,
    description: 'An event: the columns of the pool name the properties that they read.',
  },
  EventAnswers: list(object({ statusCode: { type: 'integer', enum: [200, 400] }, statusMessage: text }), {
    maxItems: EVENTS_MAX,
    description: 'An element for each event, in their order; empty with `Prefer: return=minimal`.',
  }),
  GraphqlError: object(
    { message: text, extensions: object({ code: text }) },
    {
      path: list({ type: ['string', 'integer'] }),
      locations: list(object({ line: count, column: count })),
    },
  ),
  GraphqlErrors: object({ errors: list(schema('GraphqlError'), { minItems: 1 }) }),
  TokenError: object({ error: text, error_description: text }),
  Filter: object(
    { column: text, operator: oneOf(FILTER_OPERATORS) },
    { value: orNull(text), and: list(schema('Filter')), or: list(schema('Filter')) },
  ),
  Table: object({
    columns: list(object({ name: text, type: text })),
    rows: list(list(orNull(text))),
  }),
  ImportReport,
  ImportProblem: object(PROBLEM, REPORT),
  RefusedRow,
  ImportJob,
  ...ADMIN_SCHEMAS,
  BackupLine: {
    description: 'Progress; the last line says whether there is a backup.',
    anyOf: [
      object({ phase: text, bytesDone: count, bytesTotal: count }),
      object({ done: { const: true }, ...SUMMARY }, IN_BUCKET),
      object({ error: text, code: text }, { ...SUMMARY, ...IN_BUCKET }),
    ],
  },
  Session: object({
    token: text,
    expiresInSeconds: count,
    application: object({ id: text, uniqueName: text }),
    scopes: list(oneOf(SCOPES)),
  }),
}

const HEADERS = {
  Allow: 'The methods that the path takes.',
  'WWW-Authenticate': 'The scheme of the credentials.',
  'Retry-After': 'Seconds after which another try may succeed.',
  'X-Events-Accepted': 'Events, or rows, that were stored.',
  'X-Events-Rejected': 'Events, or rows, that were refused.',
  'X-Rows': 'Rows of a stream.',
  'Preference-Applied': '`return=minimal` where it was asked for and nothing was refused.',
  'Access-Control-Allow-Methods': 'The methods that pages may use.',
  'Set-Cookie': 'The cookie of the session.',
  'Content-Disposition': 'A name for the file.',
  ETag: 'Send it as `If-None-Match`: the answer is 304 where nothing has changed.',
}

function selected(name: string, description: string, more: Json = { schema: text }): Json {
  return { name, in: 'query', description, ...more }
}

const PARAMETERS: Readonly<Record<string, Json>> = {
  Webhook: {
    name: 'webhook_id',
    in: 'path',
    required: true,
    description: 'The id in the `webhookUrl`.',
    schema: text,
  },
  Pool: { name: 'pool', in: 'path', required: true, description: 'The id or the unique name.', schema: text },
  Columns: selected('columns', 'Columns to read; all without it.', {
    schema: texts,
    style: 'form',
    explode: false,
  }),
  Filters: selected('filters', 'Filters as GraphQL has them.', {
    content: { 'application/json': { schema: list(schema('Filter')) } },
  }),
  Start: selected('start', 'Rows from this time on the primary timestamp, ISO 8601.'),
  Stop: selected('stop', 'Rows before this time on the primary timestamp, ISO 8601.'),
  PartialSuccess: selected('disable_partial_success', 'One invalid event refuses the whole request.', {
    schema: oneOf(['true', '1', 'false', '0']),
  }),
  Prefer: {
    name: 'Prefer',
    in: 'header',
    description: '`return=minimal` shortens a 200 to `[]`.',
    schema: text,
  },
  Encoding: { name: 'Content-Encoding', in: 'header', schema: oneOf(ENCODINGS) },
  IfNoneMatch: { name: 'If-None-Match', in: 'header', description: 'An earlier ETag.', schema: text },
}

const SECURITY = {
  token: {
    type: 'oauth2',
    flows: {
      clientCredentials: {
        tokenUrl: '/oauth2/token',
        scopes: Object.fromEntries(SCOPES.map(scope => [scope, `The scope ${scope}.`])),
      },
    },
  },
  application: { type: 'http', scheme: 'basic', description: 'The id and the secret of an application.' },
  webhook: { type: 'http', scheme: 'basic', description: 'The credentials of a pool that has some.' },
  metrics: { type: 'http', scheme: 'bearer', description: 'The value of `WEIR_METRICS_TOKEN`.' },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: 'weir_session',
    description: 'Of the console. With a port in the Host its name ends with it: `weir_session_8420`.',
  },
}

export const COMPONENTS: Json = {
  schemas: SCHEMAS,
  parameters: PARAMETERS,
  headers: Object.fromEntries(
    Object.entries(HEADERS).map(([name, description]) => [name, { description, schema: text }]),
  ),
  responses: {
    ...Object.fromEntries(
      Object.values(REFUSALS).map(({ name, description, headers }) => [name, problem(description, headers)]),
    ),
    AnyRefusal: problem(ANY_REFUSAL),
  },
  securitySchemes: SECURITY,
}
