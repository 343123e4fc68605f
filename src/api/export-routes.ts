/**
 * The routes by which the live rows of a pool leave: authorise, plan, stream as the store exports.
 *
 *   GET /v1/pools/{id or name}/arrow    as an Arrow IPC stream
 *   GET /v1/pools/{id or name}/export   as NDJSON, CSV or Parquet, which an import takes again
 *
 *   W-8  The end of a stream comes only after its last row. A stream whose application is deleted,
 *        or sees something else now, breaks off before its next batch.
 *   W-9  One batch is in memory. A Parquet file is copied to data/tmp first: at most
 *        FILE_EXPORTS_MAX stand there, from their copy to the end of their download.
 *   W-11 The export thread makes batches and lines.
 *
 * A stream takes a query's slot only while the store makes rows, never while its client reads.
 */
import { rm } from 'node:fs/promises'
import type { Identity } from '../catalog/access/token.ts'
import type { Pool } from '../catalog/documents/model.ts'
import type { ExportClient } from '../query/arrow/export-client.ts'
import { arrowStream, type ExportText } from '../query/arrow/export-stream.ts'
import { parseTexts } from '../query/ask.ts'
import { nextExportFile, piecesOf } from '../query/copy-rows.ts'
import type { BadQuery } from '../query/expression/values.ts'
import { csvLine } from '../query/plan/answer-table.ts'
import type { RowPolicy } from '../query/plan/policy.ts'
import type { QueryEngine } from '../query/plan/query-task.ts'
import type { RowExports, SelectedRows } from '../query/row-exports.ts'
import { type Selection, writeSelection } from '../query/selection.ts'
import { wallMs } from '../util/clock.ts'
import type { Refusal } from '../util/errors.ts'
import { ROUTE_BODY_BYTES_MAX } from '../util/limits.ts'
import type { ControlRequest, ControlRoute, Reply, StreamAnswer } from './api-types.ts'
import { accessTo, QUERY_SCOPE, type ReaderDeps, readerOf, selectionOf, verifyView } from './pool-reader.ts'
import { problemReply, refuse } from './problem.ts'

interface ExportDeps extends ReaderDeps {
  readonly engine: Pick<QueryEngine, 'parse' | 'dialect'>
  readonly exports: RowExports
  /** For Parquet files, absolute. */
  readonly temporaryFolder: string
  readonly exportThread: Pick<ExportClient, 'schema'>
}

const ARROW_TYPE = { 'content-type': 'application/vnd.apache.arrow.stream', 'cache-control': 'no-store' }
const TYPES = {
  ndjson: 'application/x-ndjson',
  csv: 'text/csv; charset=utf-8; header=present',
  parquet: 'application/vnd.apache.parquet',
} as const
type Format = keyof typeof TYPES

export function exportRoutes(deps: ExportDeps): ControlRoute[] {
  const route = (name: string, handle: ControlRoute['handle']): ControlRoute => ({
    methods: ['GET'],
    path: `/v1/pools/:pool/${name}`,
    bodyBytesMax: ROUTE_BODY_BYTES_MAX,
    handle,
  })
  return [
    route('arrow', request => answerArrow(request, deps)),
    route('export', request => answerFormat(request, deps)),
  ]
}

async function answerArrow(request: ControlRequest, deps: ExportDeps): Promise<Reply | StreamAnswer> {
  const reader = await allowedReader(request, deps)
  if ('status' in reader) return problemReply(reader)
  const selected = await selectRows(request, reader, deps, [])
  if ('status' in selected) return selected
  const { columns } = selected.rows.planned
  const framed = (batches: Chunks) => arrowStream(() => deps.exportThread.schema(columns), batches)
  return streamAnswer(selected, ARROW_TYPE, streamed(selected, undefined, framed, deps))
}

async function answerFormat(request: ControlRequest, deps: ExportDeps): Promise<Reply | StreamAnswer> {
  const reader = await allowedReader(request, deps)
  if ('status' in reader) return problemReply(reader)
  const formats = new URLSearchParams(request.query).getAll('format')
  const [format = ''] = formats
  if (formats.length !== 1 || !Object.hasOwn(TYPES, format))
    return badParameter({ badRequest: `format: give one of ${Object.keys(TYPES).join(', ')}` })
  const selected = await selectRows(request, reader, deps, ['format'])
  if ('status' in selected) return selected
  const headers = headersOf(format as Format, selected)
  if (format === 'parquet')
    return { ...streamAnswer(selected, headers, parquet(selected, deps)), isFile: true }
  const { columns } = selected.rows.planned
  const framed = (lines: Chunks) => (format === 'csv' ? withHeader(columns, lines) : lines)
  const text = { format: format as ExportText['format'], columns }
  return streamAnswer(selected, headers, streamed(selected, text, framed, deps))
}

function headersOf(format: Format, { pool }: Selected): Record<string, string> {
  const name = pool.uniqueName.replaceAll(/[^\w.-]+/g, '_')
  return {
    'content-type': TYPES[format],
    'content-disposition': `attachment; filename="${name}.${format}"`,
    'cache-control': 'no-store',
  }
}

/** What a caller selected. */
interface Selected {
  readonly pool: Pool
  readonly caller: Identity
  /** Throws where the rows may go on no longer. */
  readonly verify: () => void
  readonly rows: SelectedRows
}

type AllowedReader = Pick<Selected, 'caller' | 'pool'> & { readonly policy: RowPolicy | null }

/** The caller with what it may see of the pool; or 401, 403 or 404, before anything else. */
async function allowedReader(request: ControlRequest, deps: ExportDeps): Promise<AllowedReader | Refusal> {
  const reader = await readerOf(request, deps)
  if ('status' in reader) return reader
  const access = accessTo(reader.pool, reader.caller, deps.catalog.read)
  return 'forbidden' in access
    ? refuse(403, 'forbidden', access.forbidden)
    : { ...reader, policy: access.policy }
}

/** Plans a selection, or refuses it. @param own parameters that are no part of the selection */
async function selectRows(
  request: ControlRequest,
  { caller, pool, policy }: AllowedReader,
  deps: ExportDeps,
  own: readonly string[],
): Promise<Selected | Reply> {
  const selection = selectionOf(request.query, SELECTION, own)
  if ('badRequest' in selection) return badParameter(selection)
  const schema = deps.catalog.read.currentSchema(pool)
  const planned = await writeSelection(
    { schema, policy },
    selection,
    texts => parseTexts(texts, deps.engine, caller.applicationId),
    wallMs(),
    deps.engine.dialect,
  )
  if ('badRequest' in planned) return badParameter(planned)
  const verify = () => verifyView([{ schema, policy }], caller, deps.catalog.read, QUERY_SCOPE)
  const asker = { fairKey: caller.applicationId, verify, gone: request.gone }
  return { pool, caller, verify, rows: { schema, planned, asker } }
}

const SELECTION: readonly (keyof Selection)[] = ['columns', 'filters', 'start', 'stop']

function streamAnswer(
  { caller }: Selected,
  headers: Readonly<Record<string, string>>,
  chunks: AsyncIterable<Uint8Array>,
): StreamAnswer {
  return {
    owner: { applicationId: caller.applicationId, isAdmin: false },
    begin: async () => ({ status: 200, headers, chunks }),
  }
}

function badParameter({ badRequest }: BadQuery): Reply {
  return problemReply(refuse(400, 'bad_parameter', badRequest))
}

type Chunks = AsyncIterable<Uint8Array>

/**
 * Streams the selected rows.
 * @param text the format of the lines in the batches; undefined where the batches are Arrow's
 * @param framed adds what stands before the batches
 */
async function* streamed(
  { rows, verify }: Selected,
  text: ExportText | undefined,
  framed: (batches: Chunks) => Chunks,
  deps: ExportDeps,
): AsyncGenerator<Uint8Array, void, void> {
  for await (const chunk of framed(deps.exports.batches(rows, text))) {
    verify()
    yield chunk
  }
}

async function* withHeader(columns: ExportText['columns'], lines: Chunks): AsyncGenerator<Uint8Array> {
  yield Buffer.from(csvLine(columns.map(({ name }) => name)))
  yield* lines
}

async function* parquet(
  { rows, verify }: Selected,
  { exports, temporaryFolder }: ExportDeps,
): AsyncGenerator<Uint8Array, void, void> {
  const file = nextExportFile(temporaryFolder)
  try {
    await exports.parquet(file, rows)
    for await (const piece of piecesOf(file)) {
      verify()
      yield piece
    }
  } finally {
    await rm(file, { force: true })
  }
}
