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

/** One form of a file, with a tag of its own (RFC 9110, 8.8.3.3). */
interface FileForm {
  readonly etag: string
  readonly whole: Reply
  readonly unchanged: Reply
}

export interface ServedFile {
  readonly plain: FileForm
  /** Compressed when it is first asked for; undefined where that gains nothing. */
  readonly gzipped: () => FileForm | undefined
}

/** @param more headers of every answer, without those of caching by content */
export function servedFile(bytes: Buffer, more: Readonly<Record<string, string>>): ServedFile {
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
  const form = (etag: string, body: Buffer, coding: Readonly<Record<string, string>>): FileForm => {
    const headers = { ...more, vary: 'accept-encoding', etag }
    return {
      etag,
      whole: { status: 200, headers: { ...headers, ...coding }, body },
      unchanged: { status: 304, headers, body: '' },
    }
  }
  let gzipped: FileForm | undefined
  return {
    plain: form(`"${digest}"`, bytes, {}),
    gzipped: () => {
      if (bytes.byteLength < GZIP_BYTES_MIN) return undefined
      gzipped ??= form(`"${digest}-gzip"`, gzipSync(bytes), { 'content-encoding': 'gzip' })
      return gzipped
    },
  }
}

/** @param header the value of one of FILE_HEADERS; "" where the request has none */
export function answerFile({ plain, gzipped }: ServedFile, header: (name: string) => string): Reply {
  const { etag, whole, unchanged } = (takesGzip(header('accept-encoding')) ? gzipped() : undefined) ?? plain
  const known = header('if-none-match').trim()
  const isKnown = known === '*' || known.split(',').some(one => one.trim().replace(/^W\//, '') === etag)
  return isKnown ? unchanged : whole
}

/** RFC 9110, 12.5.3. A weight of zero refuses an encoding. */
function takesGzip(header: string): boolean {
  return header.split(',').some(one => {
    const [name = '', ...parameters] = one.split(';').map(part => part.trim().toLowerCase())
    return name === 'gzip' && !parameters.some(parameter => /^q=0(\.0*)?$/.test(parameter))
  })
}
