/**
 * Files that are sent from memory: compressed where the client takes it, and not at all where it
 * has the same bytes already (RFC 9110, 13.1.2).
 */
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import type { Reply } from './api-types.ts'

/** Compression of less than a packet gains nothing. */
const GZIP_BYTES_MIN = 1_400

/** The headers of a request that answerFile reads. */
export const FILE_HEADERS = ['if-none-match', 'accept-encoding']

export interface ServedFile {
  readonly etag: string
  readonly plain: Reply
  /** Compressed when it is first asked for; undefined where that gains nothing. */
  readonly gzipped: () => Reply | undefined
  readonly unchanged: Reply
}

/** @param more headers of every answer, without those of caching by content */
export function servedFile(bytes: Buffer, more: Readonly<Record<string, string>>): ServedFile {
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
  const headers = { ...more, vary: 'accept-encoding', etag }
  let gzipped: Reply | undefined
  return {
    etag,
    plain: { status: 200, headers, body: bytes },
    gzipped: () => {
      if (bytes.byteLength < GZIP_BYTES_MIN) return undefined
      gzipped ??= { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body: gzipSync(bytes) }
      return gzipped
    },
    unchanged: { status: 304, headers, body: '' },
  }
}

/** @param header the value of one of FILE_HEADERS; "" where the request has none */
export function answerFile(
  { plain, gzipped, unchanged, etag }: ServedFile,
  header: (name: string) => string,
): Reply {
  const known = header('if-none-match')
  if (known.split(',').some(one => one.trim().replace(/^W\//, '') === etag)) return unchanged
  return (takesGzip(header('accept-encoding')) ? gzipped() : undefined) ?? plain
}

/** RFC 9110, 12.5.3. A weight of zero refuses an encoding. */
function takesGzip(header: string): boolean {
  return header.split(',').some(one => {
    const [name = '', ...parameters] = one.split(';').map(part => part.trim().toLowerCase())
    return name === 'gzip' && !parameters.some(parameter => /^q=0(\.0*)?$/.test(parameter))
  })
}
