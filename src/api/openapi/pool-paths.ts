/** The paths of the OpenAPI document by which the rows of pools are asked for and moved. */
import { IMPORT_FORMATS } from '../../parse/import/import-types.ts'
import { NAMED_BY } from '../../parse/import/naming.ts'
import {
  IMPORT_ERRORS_DEFAULT,
  IMPORT_ERRORS_MAX,
  STREAM_ROWS_DEFAULT,
  STREAM_ROWS_MAX,
} from '../../util/limits.ts'
import { QUERY_INPUTS } from '../query-route.ts'
import { problem, REFUSALS } from './components.ts'
import { answer, json, needs, operation, preflight, type Refused } from './operation.ts'
import {
  anyObject,
  binary,
  count,
  flag,
  type Json,
  list,
  object,
  oneOf,
  ref,
  schema,
  text,
} from './schema.ts'

const POOL = ref('parameters', 'Pool')
const NDJSON = 'application/x-ndjson'
const ARROW = 'application/vnd.apache.arrow.stream'
const PARQUET = 'application/vnd.apache.parquet'
const READS = needs('data_pool:query')
/** Every refusal of a caller, of a path with a pool, and of a server that cannot answer. */
const OF_READERS: readonly Refused[] = [400, 401, 403, 404, 429, 500, 503]

function chosen(name: string, description: string, of: Json, required = false): Json {
  return { name, in: 'query', required, description, schema: of }
}

const reads = (id: string, summary: string, text: string, parameters: readonly Json[], ok: Json) =>
  operation(id, 'pools', summary, {
    text,
    parameters: [POOL, ...parameters],
    security: READS,
    answers: { 200: ok },
    refused: OF_READERS,
  })

const WHICH = ['Columns', 'Filters'].map(name => ref('parameters', name))
const WHEN = ['Start', 'Stop'].map(name => ref('parameters', name))

const IMPORT_PARAMETERS = [
  POOL,
  chosen('format', 'Without it the Content-Type says it.', oneOf(IMPORT_FORMATS)),
  chosen('skipRows', 'Rows at the beginning that are stored already.', count),
  chosen('errorsMax', `Refused rows that the answer lists; ${IMPORT_ERRORS_DEFAULT} without it.`, {
    ...count,
    maximum: IMPORT_ERRORS_MAX,
  }),
  chosen('label', 'A text by which the client finds the import again.', { ...text, maxLength: 256 }),
  chosen(
    'by',
    'What the fields of the file name. Without it, in NDJSON properties, and in CSV and Parquet both.',
    oneOf(NAMED_BY),
  ),
  chosen('map', '`field=column`: a field of the file, and the column that it fills.', list(text)),
  chosen('ignoreUnknown', 'Takes a header that is near the name of a column which nothing fills.', flag),
  ref('parameters', 'Encoding'),
]
/** Of an import that began: the problem has the members of the report. */
const IMPORT_REFUSED: readonly Refused[] = [400, 401, 403, 404, 408, 409, 415, 429, 500, 503]

const importProblems = Object.fromEntries(
  IMPORT_REFUSED.map(status => {
    const { description, headers } = REFUSALS[status]
    return [status, problem(description, headers, 'ImportProblem')]
  }),
)

const SUMMARY = 'Any question as a table'
const QUERY_TEXT =
  'Exactly one question: `sql`, or a field of GraphQL with its input as JSON. In a GET it is a parameter, in a POST it may be the body.'
const QUESTIONS = Object.fromEntries(
  Object.entries(QUERY_INPUTS).map(([name, input]) => [
    name,
    { ...anyObject, description: `${input} of the GraphQL schema.` },
  ]),
)
const PARAMETERS = {
  description: "The values of a statement's parameters: a list for $1, $2, or an object with their names.",
  anyOf: [{ type: 'array' }, anyObject],
}
const QUERY = {
  text: QUERY_TEXT,
  parameters: [
    chosen(
      'format',
      'json without it. Only statements have parquet.',
      oneOf(['json', 'csv', 'arrow', 'parquet']),
    ),
    chosen(
      'maxRows',
      `Rows after which a statement in CSV, Arrow or Parquet ends. Without it more than ${STREAM_ROWS_DEFAULT} are refused.`,
      { ...count, minimum: 1, maximum: STREAM_ROWS_MAX },
    ),
    chosen('sql', 'A statement in the PostgreSQL dialect.', text),
    { name: 'parameters', in: 'query', content: { 'application/json': { schema: PARAMETERS } } },
    ...Object.entries(QUESTIONS).map(([name, { description, ...one }]) => ({
      name,
      in: 'query',
      description,
      content: { 'application/json': { schema: one } },
    })),
  ],
  security: needs('data_pool:query', 'metric:query'),
  answers: {
    200: answer(
      'The table. A statement in CSV, Arrow or Parquet streams.',
      { 'application/json': schema('Table'), 'text/csv': text, [ARROW]: binary, [PARQUET]: binary },
      ['X-Rows'],
    ),
  },
}

export const POOL_PATHS: Json = {
  '/v1/pools/{pool}/arrow': {
    get: reads(
      'readArrow',
      'Live rows as an Arrow IPC stream',
      'It is complete only if it ends with the end-of-stream marker of Arrow.',
      [...WHICH, ...WHEN],
      answer('The stream.', { [ARROW]: binary }),
    ),
  },
  '/v1/pools/{pool}/export': {
    get: reads(
      'exportRows',
      'Live rows as a file',
      'An import takes the file again.',
      [chosen('format', 'The format of the file.', oneOf(IMPORT_FORMATS), true), ...WHICH, ...WHEN],
      answer('The file.', { [NDJSON]: text, 'text/csv': text, [PARQUET]: binary }, ['Content-Disposition']),
    ),
  },
  '/v1/pools/{pool}/tail': {
    get: reads(
      'tailEvents',
      'Events as they are acknowledged, as Server-Sent Events',
      '`data` has a row as a JSON object. `event: missed` counts rows that this reader did not get, and `event: end` says why the stream ends.',
      WHICH,
      answer('The stream.', { 'text/event-stream': text }),
    ),
  },
  '/v1/pools/{pool}/import': {
    post: operation('importRows', 'pools', 'Store the rows of a file of any size', {
      text: 'The answer comes at the end. An import that ended early says how many rows are durable: send the file again with `skipRows` of that number.',
      body: { [NDJSON]: text, 'text/csv': text, [PARQUET]: binary },
      needsBody: true,
      parameters: IMPORT_PARAMETERS,
      security: needs('data_pool:write', 'admin'),
      answers: {
        200: answer('The whole file was read.', json(schema('ImportReport')), [
          'X-Events-Accepted',
          'X-Events-Rejected',
        ]),
        ...importProblems,
      },
      refused: [],
    }),
    get: operation('listImports', 'pools', 'The last 100 imports, newest first', {
      parameters: [POOL, chosen('label', 'Imports of this label alone.', text)],
      security: needs('data_pool:write', 'admin'),
      answers: { 200: answer('The imports.', json(object({ imports: list(schema('ImportJob')) }))) },
      refused: OF_READERS,
    }),
  },
  '/v1/query': {
    get: operation('queryByParameters', 'queries', SUMMARY, { ...QUERY, refused: OF_READERS }),
    post: operation('query', 'queries', SUMMARY, {
      ...QUERY,
      body: json(object({}, { sql: text, parameters: PARAMETERS, ...QUESTIONS })),
      refused: [...OF_READERS, 408, 413],
    }),
    options: preflight('mayQuery', 'queries'),
  },
}
