/**
 * `GET /v1/pools/{id or name}/export`: the live rows of a pool as NDJSON, CSV or Parquet, which an
 * import takes again. Authorization, selection and pinning are those of the Arrow route.
 *
 *   W-8  The rows are those of one manifest, which stays pinned until the stream ends.
 *   W-9  One batch of lines is in memory. A Parquet file is copied to data/tmp first: at most
 *        FILE_EXPORTS_MAX stand there, from their copy to the end of their download.
 *   W-11 The export thread makes the lines.
 */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { CopySegments, ExportText, OpenBatches } from '../query/arrow/export-stream.ts'
import { copyFailed, recordBatches } from '../query/arrow/export-stream.ts'
import { pinSegments } from '../query/ask.ts'
import { copyRows, copyTo, nextExportFile, parquetTarget } from '../query/copy-rows.ts'
import { csvLine } from '../query/plan/answer-table.ts'
import { isDiskError } from '../util/disk.ts'
import { EXPORT_DOWNLOAD_MS_MAX, EXPORT_PIECE_BYTES, ROUTE_BODY_BYTES_MAX } from '../util/limits.ts'
import type { ControlRequest, ControlRoute, Reply, StreamAnswer } from './api-types.ts'
import {
  type ArrowDeps,
  askerOf,
  badParameter,
  EXPORT_SCOPE,
  type SelectedRows,
  selectRows,
  streamAnswer,
} from './arrow-export.ts'

const TYPES = {
  ndjson: 'application/x-ndjson',
  csv: 'text/csv; charset=utf-8; header=present',
  parquet: 'application/vnd.apache.parquet',
} as const
type Format = keyof typeof TYPES

/** The route. Scope `data_pool:query`. */
export function exportRoute(deps: ArrowDeps): ControlRoute {
  const handle = async (request: ControlRequest): Promise<Reply | StreamAnswer> => {
    const formats = new URLSearchParams(request.query).getAll('format')
    const [format = ''] = formats
    if (formats.length !== 1 || !Object.hasOwn(TYPES, format))
      return badParameter({ badRequest: `format: give one of ${Object.keys(TYPES).join(', ')}` })
    const selected = await selectRows(request, deps, ['format'])
    if ('status' in selected) return selected
    const isFile = format === 'parquet'
    const chunks = isFile ? parquet(selected, deps) : lines(format as ExportText['format'], selected, deps)
    return { ...streamAnswer(selected, headersOf(format as Format, selected), chunks), isFile }
  }
  return { methods: ['GET'], path: '/v1/pools/:pool/export', bodyBytesMax: ROUTE_BODY_BYTES_MAX, handle }
}

function headersOf(format: Format, { pool }: SelectedRows): Record<string, string> {
  const name = pool.uniqueName.replaceAll(/[^\w.-]+/g, '_')
  return {
    'content-type': TYPES[format],
    'content-disposition': `attachment; filename="${name}.${format}"`,
    'cache-control': 'no-store',
  }
}

async function* lines(
  format: ExportText['format'],
  { schema, planned, caller, gone }: SelectedRows,
  deps: ArrowDeps,
): AsyncGenerator<Uint8Array, void, void> {
  const { columns } = planned
  const open: OpenBatches = copied => deps.exportThread.open(copied, { format, columns })
  const { segments, release } = await pinSegments(schema, planned, deps)
  try {
    if (format === 'csv') yield Buffer.from(csvLine(columns.map(({ name }) => name)))
    const copy: CopySegments = (group, ended) =>
      copyRows(schema, planned, group, { ...askerOf(caller), gone: ended }, deps)
    for await (const chunk of recordBatches(segments, copy, open, gone)) {
      caller.verifyAgain(EXPORT_SCOPE)
      yield chunk
    }
  } finally {
    release()
  }
}

/** DuckDB writes the file as a whole, because its table of contents stands at its end. */
async function* parquet(
  { schema, planned, caller, gone }: SelectedRows,
  deps: ArrowDeps,
): AsyncGenerator<Uint8Array, void, void> {
  const file = nextExportFile(deps.temporaryFolder)
  try {
    const { segments, release } = await pinSegments(schema, planned, deps)
    try {
      const target = parquetTarget(file, segments, EXPORT_DOWNLOAD_MS_MAX)
      await copyTo(target, schema, planned, { segments }, { ...askerOf(caller), gone }, deps.engine)
    } finally {
      release()
    }
    for await (const piece of createReadStream(file, { highWaterMark: EXPORT_PIECE_BYTES })) {
      caller.verifyAgain(EXPORT_SCOPE)
      yield piece as Uint8Array
    }
  } catch (error) {
    throw isDiskError(error) ? copyFailed(file, 'read', error) : error
  } finally {
    await rm(file, { force: true })
  }
}
