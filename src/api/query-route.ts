/**
 * GET and POST /v1/query: any question of the GraphQL API as a table in JSON, CSV or Arrow, for
 * notebooks, spreadsheets and panels; statements in Parquet too, and as streams. The question runs
 * through the GraphQL API itself, so that authorization, scopes, policies, limits and messages are
 * the same.
 *
 *   POST /v1/query?format=csv   {"timeSeries": {"metric": …, "granularity": "DAY"}}
 *   GET  /v1/query?sql=SELECT…  a statement; or a question's name with its input as JSON
 */
import type { ExportClient } from '../query/arrow/export-client.ts'
import type { Answered } from '../query/ask.ts'
import { csvOf, type Table, tableOf } from '../query/plan/answer-table.ts'
import type { CopyStatement } from '../query/statement-copies.ts'
import { isObject, jsonIn } from '../util/json.ts'
import {
  GRAPHQL_BODY_BYTES_MAX,
  GRAPHQL_NESTING_MAX,
  STATEMENT_ROWS_MAX,
  STREAM_ROWS_MAX,
} from '../util/limits.ts'
import type { ControlRequest, ControlRoute, Reply, StreamAnswer } from './api-types.ts'
import type { Graphql } from './graphql/endpoint.ts'
import { isDeeperThan, readJsonObject } from './json-object.ts'
import { readParameters } from './parameters.ts'
import { problemReply, refuse } from './problem.ts'
import { statementStream } from './statement-stream.ts'

/** The input types of the questions in the GraphQL schema. */
export const QUERY_INPUTS = {
  counter: 'CounterInput',
  timeSeries: 'TimeSeriesInput',
  leaderboard: 'LeaderboardInput',
  metricReport: 'MetricReportInput',
  dataGrid: 'DataGridInput',
  recordsByUniqueId: 'RecordsByUniqueIdInput',
  topValues: 'TopValuesInput',
  percentile: 'PercentileInput',
  sqlV1: 'SqlV1Input',
} as const
const NAMES = Object.keys(QUERY_INPUTS) as readonly (keyof typeof QUERY_INPUTS)[]

const FORMATS = {
  json: 'application/json',
  csv: 'text/csv; charset=utf-8; header=present',
  arrow: 'application/vnd.apache.arrow.stream',
  parquet: 'application/vnd.apache.parquet',
} as const
type Format = keyof typeof FORMATS

interface QueryRouteDeps {
  readonly graphql: Graphql
  readonly exportThread: Pick<ExportClient, 'part' | 'table'>
  /** Undefined where statements do not stream. */
  readonly copyStatement: CopyStatement | undefined
}

/** Its path looks like that of a webhook. */
export const QUERY_PATH = '/v1/query'

export function queryRoute(deps: QueryRouteDeps): ControlRoute {
  return {
    methods: ['GET', 'POST'],
    path: QUERY_PATH,
    cors: true,
    bodyBytesMax: GRAPHQL_BODY_BYTES_MAX,
    handle: request => answer(request, deps),
  }
}

async function answer(
  request: ControlRequest,
  { graphql, exportThread, copyStatement }: QueryRouteDeps,
): Promise<Reply | StreamAnswer> {
  const asked = readRequest(request, copyStatement !== undefined)
  if (typeof asked === 'string') {
    // GraphQL answers 400 to an empty body of a known caller. Others do not hear what is wrong.
    const reply = await graphql({ ...request, body: new Uint8Array() })
    return reply.status === 400 ? problemReply(refuse(400, 'bad_parameter', asked)) : refused(reply)
  }
  const { name, input, format, maxRows } = asked
  const query = `query ($input: ${QUERY_INPUTS[name]}!) { ${name}(input: $input) { __typename } }`
  let answered: Answered | undefined
  let stream: StreamAnswer | undefined
  const reply = await graphql(
    { ...request, body: Buffer.from(JSON.stringify({ query, variables: { input } })) },
    each => {
      answered = each
    },
    copyStatement && format !== 'json'
      ? planned => {
          const form = { format, contentType: FORMATS[format], maxRows }
          stream = statementStream(planned, form, { copyStatement, exportThread })
        }
      : undefined,
  )
  if (stream !== undefined) return stream
  if (answered === undefined) return refused(reply)
  if (format === 'parquet') return problemReply(refuse(400, 'bad_parameter', ONLY_STREAMS))
  const table = tableOf(answered.answer, answered.outputs)
  if ('badRequest' in table) return problemReply(refuse(400, 'bad_request', table.badRequest))
  return {
    status: 200,
    headers: { 'Content-Type': FORMATS[format], 'Cache-Control': 'no-store' },
    body: await written(table, format, exportThread),
  }
}

async function written(
  table: Table,
  format: Format,
  exportThread: QueryRouteDeps['exportThread'],
): Promise<string | Uint8Array> {
  if (format === 'csv') return csvOf(table)
  return format === 'json' ? JSON.stringify(table) : await exportThread.table(table)
}

/** @param streams statements stream, as all else does not */
function readRequest({ query, body }: ControlRequest, streams: boolean) {
  const texts = readParameters(query, ['format', 'maxRows', 'sql', 'parameters', ...NAMES])
  if (typeof texts === 'string') return texts
  const format = texts.get('format') ?? 'json'
  if (!isFormat(format)) return `format: it is one of ${Object.keys(FORMATS).join(', ')}`
  const asked = readQuestion(texts, body)
  if (typeof asked === 'string') return asked
  const maxRows = texts.get('maxRows')
  const isStreamed = streams && asked.name === 'sqlV1' && format !== 'json'
  if (!isStreamed && (format === 'parquet' || maxRows !== undefined))
    return streams ? ONLY_STREAMS : ONLY_STREAMS_OF_A_FOLDER
  if (maxRows !== undefined && !(/^[1-9]\d{0,8}$/.test(maxRows) && Number(maxRows) <= STREAM_ROWS_MAX))
    return `maxRows: it is a number from 1 to ${STREAM_ROWS_MAX}`
  return { ...asked, format, maxRows: maxRows === undefined ? undefined : Number(maxRows) }
}

const ONLY_STREAMS = `format=parquet and maxRows are for statements (sql), maxRows for formats csv, arrow and parquet. JSON has at most ${STATEMENT_ROWS_MAX} rows: end a statement with LIMIT`
const ONLY_STREAMS_OF_A_FOLDER = `a node of a cluster has no format=parquet and no maxRows: an answer has at most ${STATEMENT_ROWS_MAX} rows, so end the statement with LIMIT`

function isFormat(text: string): text is Format {
  return Object.hasOwn(FORMATS, text)
}

function readQuestion(texts: ReadonlyMap<string, string>, body: Uint8Array) {
  const given = readGiven(texts, body)
  if (typeof given === 'string') return given
  const { parameters: values, ...questions } = given
  const [name, ...others] = Object.keys(questions)
  if (name === 'sql' && others.length === 0) {
    const parameters = values === undefined ? undefined : readValues(values)
    if (typeof parameters === 'string') return parameters
    return { name: 'sqlV1' as const, input: { query: given['sql'], parameters } }
  }
  if (values !== undefined) return 'parameters: only a statement (sql) has them'
  const known = NAMES.find(each => each === name)
  if (known === undefined || others.length > 0) return `give exactly one question: sql, ${NAMES.join(', ')}`
  return { name: known, input: given[known] }
}

/** Parameters of a statement, from a list or from an object with their names; or what is wrong. */
function readValues(values: unknown): readonly object[] | string {
  const isList = Array.isArray(values)
  if (!isList && !isObject(values)) return 'parameters: a list of values, or an object with their names'
  const read = Object.entries(values).map(([name, value]) => {
    const type = typeof value === 'number' && !Number.isInteger(value) ? 'DOUBLE' : TYPES[typeof value]
    if (value !== null && type === undefined) return undefined
    return { ...(isList ? {} : { name }), value: value === null ? null : String(value), type: type ?? null }
  })
  if (read.includes(undefined)) return 'parameters: a value is a text, a number, true, false or null'
  return read as object[]
}

const TYPES: Readonly<Record<string, string>> = { string: 'STRING', number: 'INT64', boolean: 'BOOLEAN' }

/** The questions of the parameters and of the body by their names, or what is wrong with them. */
function readGiven(
  texts: ReadonlyMap<string, string>,
  body: Uint8Array,
): Readonly<Record<string, unknown>> | string {
  const given = new Map<string, unknown>()
  for (const [name, text] of texts) {
    if (name === 'format' || name === 'maxRows') continue
    const isJson = name !== 'sql' && name !== 'parameters'
    const value =
      name === 'parameters'
        ? jsonIn(text)
        : isJson
          ? readJsonObject(`The parameter ${name}`, Buffer.from(text))
          : text
    if (isJson && typeof value === 'string') return value
    given.set(name, value)
  }
  const asked = body.byteLength === 0 ? {} : readJsonObject('The body', body)
  if (typeof asked === 'string') return asked
  for (const [name, value] of Object.entries(asked)) {
    if (given.has(name)) return `${name}: it is given more than once`
    given.set(name, value)
  }
  const all = Object.fromEntries(given)
  // The question is written as JSON again, which takes a place on the stack for each nesting.
  return isDeeperThan(all, GRAPHQL_NESTING_MAX) ? `a question nests deeper than ${GRAPHQL_NESTING_MAX}` : all
}

const STATUS: Readonly<Record<string, number>> = {
  BAD_REQUEST: 400,
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  UNAVAILABLE: 503,
}

function refused({ status, body, headers }: Awaited<ReturnType<Graphql>>): Reply {
  const { errors } = JSON.parse(body) as {
    readonly errors: readonly { readonly message: string; readonly extensions: { readonly code: string } }[]
  }
  const { message, extensions } = errors[0] ?? { message: 'Internal error', extensions: { code: 'INTERNAL' } }
  const { 'Content-Type': _, ...others } = headers
  const own = status === 200 ? (STATUS[extensions.code] ?? 500) : status
  const refusal = refuse(own, extensions.code.toLowerCase(), message, others)
  // Another try reads the same damaged file.
  return problemReply(extensions.code === 'SEGMENT_DAMAGED' ? { ...refusal, retryable: false } : refusal)
}
