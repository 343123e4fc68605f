/**
 * Answers of statements as CSV, Arrow and Parquet of any length.
 *
 *   GraphQL checks and plans ──► a slot ──► the rows are copied to a file ──► head ──► parts of it
 *
 *   W-8  The end of a stream comes only after its last row. A stream whose application is deleted,
 *        or sees something else now, breaks off before its next part.
 *   W-9  One part is in memory. The file is removed with the end of the stream.
 */
import { rm } from 'node:fs/promises'
import { END_OF_STREAM } from '../format/arrow.ts'
import type { ExportClient } from '../query/arrow/export-client.ts'
import type { PartOfFile } from '../query/arrow/export-stream.ts'
import { piecesOf } from '../query/copy-rows.ts'
import { csvLine } from '../query/plan/answer-table.ts'
import type { CopiedStatement, CopyStatement, PlannedStatement } from '../query/statement-copies.ts'
import { assert, Unavailable } from '../util/errors.ts'
import { STREAM_ROWS_DEFAULT, STREAM_ROWS_MAX } from '../util/limits.ts'
import type { Reply, StreamAnswer, StreamReply } from './api-types.ts'
import { problemReply, refuse } from './problem.ts'

interface StatementStreamDeps {
  readonly copyStatement: CopyStatement
  readonly exportThread: Pick<ExportClient, 'part'>
}

export interface StreamedForm {
  readonly format: 'csv' | 'arrow' | 'parquet'
  readonly contentType: string
  /** The answer ends after so many rows. Undefined: one that is too long is refused. */
  readonly maxRows: number | undefined
}

export function statementStream(
  planned: PlannedStatement,
  form: StreamedForm,
  deps: StatementStreamDeps,
): StreamAnswer {
  return {
    owner: { applicationId: planned.reader.applicationId, isAdmin: false },
    isFile: form.format === 'parquet',
    begin: () => beginStream(planned, form, deps),
  }
}

async function beginStream(
  planned: PlannedStatement,
  form: StreamedForm,
  deps: StatementStreamDeps,
): Promise<Reply | StreamReply> {
  const copied = await copy(planned, form, deps)
  if ('status' in copied) return copied
  const headers = {
    'content-type': form.contentType,
    'cache-control': 'no-store',
    'x-rows': String(copied.rows),
  }
  return { status: 200, headers, chunks: removing(copied.file, chunksOf(copied, planned, form, deps)) }
}

/** The rows in a file, or why there is none. The codes are GraphQL's, as of every question. */
async function copy(
  planned: PlannedStatement,
  { format, maxRows }: StreamedForm,
  { copyStatement }: StatementStreamDeps,
): Promise<CopiedStatement | Reply> {
  const rowsMax = maxRows ?? STREAM_ROWS_DEFAULT + 1
  const copied = await copyStatement(planned, { rowsMax, isSent: format === 'parquet' }).catch(
    (error: unknown) => {
      if (error instanceof Unavailable) return problemReply(refuse(503, 'unavailable', error.message))
      throw error
    },
  )
  if ('status' in copied) return copied
  if ('badRequest' in copied) return problemReply(refuse(400, 'bad_request', copied.badRequest))
  if (maxRows !== undefined || copied.rows <= STREAM_ROWS_DEFAULT) return copied
  await rm(copied.file, { force: true })
  return problemReply(refuse(400, 'bad_request', TOO_MANY_ROWS))
}

const TOO_MANY_ROWS = `the answer has more than ${STREAM_ROWS_DEFAULT} rows: give maxRows, at most ${STREAM_ROWS_MAX}, after which the answer ends`

/** The chunks, and the end of the file with them: a client may go before the first one. */
function removing(file: string, chunks: AsyncGenerator<Uint8Array, void, void>): AsyncIterable<Uint8Array> {
  const end = async () => {
    await chunks.return()
    await rm(file, { force: true })
    return { done: true as const, value: undefined }
  }
  return { [Symbol.asyncIterator]: () => ({ next: () => chunks.next(), return: end }) }
}

async function* chunksOf(
  copied: CopiedStatement,
  { pools, reader }: PlannedStatement,
  { format }: StreamedForm,
  { exportThread }: StatementStreamDeps,
): AsyncGenerator<Uint8Array, void, void> {
  const chunks = format === 'parquet' ? piecesOf(copied.file) : partsOf(copied, format, exportThread)
  for await (const chunk of chunks) {
    reader.verifyAgain(pools)
    yield chunk
  }
}

async function* partsOf(
  { file, names, rows }: CopiedStatement,
  format: PartOfFile['format'],
  thread: StatementStreamDeps['exportThread'],
): AsyncGenerator<Uint8Array, void, void> {
  if (format === 'csv') yield Buffer.from(csvLine(names))
  let sent = 0
  for (let at: PartOfFile | undefined = { file, format, group: 0, row: 0 }; at !== undefined; ) {
    const part = await thread.part(at)
    sent += part.rows
    yield part.bytes
    at = part.next && { file, format, ...part.next }
  }
  assert(sent === rows, `${rows} rows were copied, and ${sent} were read`)
  if (format === 'arrow') yield END_OF_STREAM
}
