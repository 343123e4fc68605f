/**
 * The requests of `weir import`: one upload of a file, and the list of imports that a server knows.
 */
import { createReadStream } from 'node:fs'
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { ImportJob, ImportReport } from '../api/openapi/components.ts'
import { CannotRun } from '../util/errors.ts'
import { UPLOAD_PIECE_BYTES } from '../util/limits.ts'
import { unreachableServer } from './running-server.ts'

export interface Server {
  readonly base: string
  readonly authorization: string
}

export interface ImportedFile {
  /** Undefined for standard input. */
  readonly path: string | undefined
  readonly bytes: number | undefined
  readonly format: string
  readonly encoding: string
  readonly label: string
}

interface Upload extends ImportedFile {
  readonly pool: string
  readonly skipRows: number
  readonly errorsMax: number
  /** The parameters of the request that name columns. */
  readonly mapping: string
  /** Called with the number of bytes that were sent. */
  readonly onBytes: (bytes: number) => void
}

/** The answer of an import; that of a refused request has no rows, and no id. */
export type ImportAnswer = Omit<
  ImportReport,
  'durableBytes' | 'skippedRows' | 'rejectedBy' | 'refusedOmitted'
> & {
  readonly status: number
  readonly detail: string
  readonly retryable: boolean
}

/** Sends a file. `lost`: the connection ended without an answer. */
export async function upload(
  { base, authorization }: Server,
  given: Upload,
): Promise<ImportAnswer | { readonly lost: string }> {
  const { pool, path, bytes, format, encoding, label, skipRows, errorsMax, mapping, onBytes } = given
  const parameters = new URLSearchParams(mapping)
  for (const [name, value] of Object.entries({ format, label, skipRows, errorsMax }))
    parameters.append(name, String(value))
  const url = `${base}${pathOf(pool)}?${parameters}`
  const outgoing = (url.startsWith('https:') ? httpsRequest : httpRequest)(url, {
    method: 'POST',
    headers: {
      authorization,
      ...(encoding === 'identity' ? {} : { 'content-encoding': encoding }),
      ...(bytes === undefined ? {} : { 'content-length': bytes }),
    },
  })
  const answered = answerOf(outgoing)
  const input =
    path === undefined ? process.stdin : createReadStream(path, { highWaterMark: UPLOAD_PIECE_BYTES })
  let isAnswered = false
  void answered.then(() => {
    isAnswered = true
    input.destroy() // an answer before the end of the file
  })
  try {
    let sent = 0
    for await (const piece of input as AsyncIterable<Buffer>) {
      if (isAnswered) break
      if (!outgoing.write(piece)) await Promise.race([drained(outgoing), answered])
      sent += piece.byteLength
      onBytes(sent)
    }
    if (!isAnswered) outgoing.end()
  } catch (error) {
    if (!isAnswered) {
      outgoing.destroy()
      throw new CannotRun(`${path ?? 'standard input'} cannot be read: ${(error as Error).message}`)
    }
  }
  const answer = await answered
  outgoing.destroy() // a server that answered early may wait for the rest of the body
  return answer
}

/** Unlike once(), it does not reject where the connection ends: that is an answer. */
function drained(outgoing: ClientRequest): Promise<void> {
  return new Promise(resolve => outgoing.once('drain', resolve))
}

/** Resolves with the answer, or with the reason why there is none. */
function answerOf(outgoing: ClientRequest): Promise<ImportAnswer | { readonly lost: string }> {
  return new Promise(resolve => {
    outgoing.once('response', incoming => void read(incoming).then(resolve))
    // After an answer it has no effect: a server that answers early closes the connection.
    outgoing.on('error', error =>
      setImmediate(() => resolve({ lost: `the connection was lost: ${error.message}` })),
    )
  })
}

async function read(incoming: IncomingMessage): Promise<ImportAnswer | { readonly lost: string }> {
  const parts: Buffer[] = []
  try {
    for await (const part of incoming) parts.push(part as Buffer)
    const body = JSON.parse(Buffer.concat(parts).toString()) as Partial<ImportAnswer>
    const none = {
      import: '',
      detail: '',
      retryable: false,
      rows: 0,
      accepted: 0,
      rejected: 0,
      durableRows: 0,
      refused: [],
      unknownFields: [],
      unfilledColumns: [],
    }
    return { ...none, ...body, status: incoming.statusCode ?? 0 }
  } catch (error) {
    return { lost: `the answer was lost: ${(error as Error).message}` }
  }
}

/**
 * The imports of a pool with this label, newest first. The same bytes in another format are another
 * import: their rows have other numbers. @throws CannotRun
 */
export async function listImports(
  { base, authorization }: Server,
  pool: string,
  { label, format }: { readonly label: string; readonly format: string },
): Promise<readonly ImportJob[]> {
  const url = `${base}${pathOf(pool)}?label=${encodeURIComponent(label)}`
  const answer = await fetch(url, { headers: { authorization } }).catch(error => {
    throw new CannotRun(unreachableServer(base, error as Error))
  })
  const body = (await answer.json().catch(() => ({}))) as {
    readonly imports?: ImportJob[]
    readonly detail?: string
  }
  if (answer.status === 200 && body.imports !== undefined)
    return body.imports.filter(known => known.format === format)
  throw new CannotRun(
    `${base} refused the list of imports with status ${answer.status}: ${body.detail ?? ''}`,
  )
}

function pathOf(pool: string): string {
  return `/v1/pools/${encodeURIComponent(pool)}/import`
}
