/**
 * A small endpoint of S3 in memory, whose clock, faults and list of requests belong to a test. It
 * compares each body with the checksum that was signed. Real servers: real_servers.test.ts.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { crc32 } from 'node:zlib'

export interface FakeRequest {
  /** `GET`, `HEAD`, `PUT`, `LIST`, `BEGIN`, `PART`, `END`, … */
  readonly what: string
  /** The key of the object, or the prefix of a list. */
  readonly name: string
  readonly bytes: number
}

/**
 * A fault: an answer of the server, or
 *   break      the connection breaks before the answer, `after`: after the work was done
 *   hang       no answer comes
 *   cut        half of the answer's body comes, then the connection breaks
 *   flip       a byte of the answer differs
 *   page       a page of a proxy with status 200 comes in place of the answer
 *   keep half  the server stores half of the body, and says that it has all
 *   text       the body of an answer that says that all went well
 */
export type Fault =
  | { readonly status: number; readonly code: string }
  | { readonly text: string }
  | 'break'
  | 'break after'
  | 'hang'
  | 'cut'
  | 'flip'
  | 'page'
  | 'keep half'

interface Stored {
  readonly bytes: Buffer
  readonly changedMs: number
  /** Base64, as it was sent. */
  readonly crc32?: string
}

/**
 * What becomes of checksums in headers: kept, as S3 does; ignored; refused with this code; of a
 * large object one of those of its parts, as MinIO did before 2025.
 */
export type Checksums = 'kept' | 'ignored' | 'composite' | { readonly refused: string }

export const FAKE_KEYS = {
  AWS_ACCESS_KEY_ID: 'key-of-the-test',
  AWS_SECRET_ACCESS_KEY: 'secret/of+the=test',
  AWS_SESSION_TOKEN: 'token-of-the-test',
}

/** The key in docs/how-to. */
export const PAGE_KEY = 'weir-backup'
const KEYS = [FAKE_KEYS.AWS_ACCESS_KEY_ID, PAGE_KEY].map(key => `Credential=${key}/`)
const BUCKETS = ['bucket', 'backups']

export class FakeS3 {
  readonly objects = new Map<string, Stored>()
  readonly uploads = new Map<string, { readonly name: string; readonly parts: Map<number, Buffer> }>()
  readonly requests: FakeRequest[] = []
  /** Names in one answer of a list. */
  pageSize = 1000
  checksums: Checksums = 'kept'
  /** Milliseconds that the bucket's clock is ahead. */
  aheadMs = 0
  fault: (request: FakeRequest) => Fault | undefined = () => undefined
  endpoint = ''
  #uploads = 0
  readonly #server = createServer((request, response) => {
    void this.#receive(request, response)
  })

  static async start(): Promise<FakeS3> {
    const fake = new FakeS3()
    fake.#server.listen(0, '127.0.0.1')
    await once(fake.#server, 'listening')
    fake.endpoint = `http://127.0.0.1:${(fake.#server.address() as AddressInfo).port}`
    return fake
  }

  get environment(): Record<string, string> {
    return { ...FAKE_KEYS, AWS_ENDPOINT_URL: this.endpoint }
  }

  /** As when it was new, with no object. For `beforeEach`. */
  reset(): void {
    this.objects.clear()
    this.uploads.clear()
    this.requests.length = 0
    this.fault = () => undefined
    this.aheadMs = 0
    this.pageSize = 1000
    this.checksums = 'kept'
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  /** The names of objects that begin so. */
  names(begin: string): string[] {
    return [...this.objects.keys()].filter(name => name.startsWith(begin)).sort()
  }

  put(name: string, bytes: Uint8Array, crc?: string): void {
    const stored = { bytes: Buffer.from(bytes), changedMs: this.#nowMs() }
    this.objects.set(name, crc === undefined ? stored : { ...stored, crc32: crc })
  }

  /** Flips a bit of an object. `crc32` of the new bytes is kept where another tool wrote it. */
  change(name: string, how: 'by another tool' | 'on the disk'): void {
    const { bytes, crc32: before } = this.objects.get(name)!
    const changed = Buffer.from(bytes)
    changed[changed.byteLength >> 1]! ^= 1
    this.put(name, changed, how === 'on the disk' ? before : crcText(changed))
  }

  /** Bytes of objects that arrived since. */
  sentSince(request: number): number {
    return this.requests
      .slice(request)
      .filter(({ what, name }) => (what === 'PUT' || what === 'PART') && name.includes('objects/'))
      .reduce((sum, { bytes }) => sum + bytes, 0)
  }

  #nowMs(): number {
    return Date.now() + this.aheadMs
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    let body = Buffer.concat(chunks)
    const url = new URL(request.url ?? '', this.endpoint)
    const [, bucket, ...rest] = url.pathname.split('/')
    const name = rest.length > 0 ? rest.join('/') : (url.searchParams.get('prefix') ?? '')
    const what = whatOf(request.method ?? '', url.searchParams, rest.length > 0)
    const asked = { what, name, bytes: body.byteLength }
    this.requests.push(asked)
    const fault = this.fault(asked)
    if (fault === 'hang') return
    if (fault === 'break') return void request.socket.destroy()
    response.setHeader('date', new Date(this.#nowMs()).toUTCString())
    const signed = request.headers['x-amz-content-sha256']
    const error: Answer | undefined =
      typeof fault === 'object'
        ? 'text' in fault
          ? { status: 200, body: fault.text }
          : fault
        : !BUCKETS.includes(bucket ?? '')
          ? { status: 404, code: 'NoSuchBucket' }
          : !KEYS.some(key => request.headers.authorization?.includes(key))
            ? { status: 403, code: 'InvalidAccessKeyId' }
            : createHash('sha256').update(body).digest('hex') !== signed
              ? { status: 400, code: 'XAmzContentSHA256Mismatch' }
              : typeof this.checksums === 'object' && Object.keys(request.headers).some(isChecksum)
                ? { status: 400, code: this.checksums.refused }
                : undefined
    if (fault === 'keep half') body = body.subarray(0, body.byteLength / 2)
    const answer = error ?? this.#carryOut(what, name, url.searchParams, body, request.headers)
    if (fault === 'break after') return void request.socket.destroy()
    send(request, response, answer, fault)
  }

  #carryOut(
    what: string,
    name: string,
    query: URLSearchParams,
    body: Buffer,
    headers: IncomingHttpHeaders,
  ): Answer {
    const uploadId = query.get('uploadId') ?? ''
    const upload = this.uploads.get(uploadId)
    const crc = this.checksums === 'ignored' ? undefined : headers['x-amz-checksum-crc32']?.toString()
    if ((what === 'PUT' || what === 'PART') && crc !== undefined && crc !== crcText(body))
      return { status: 400, code: 'XAmzContentChecksumMismatch' }
    if (what === 'PUT') this.put(name, body, crc)
    else if (what === 'GET') return this.#get(name, headers.range)
    else if (what === 'HEAD') return this.#head(name, headers)
    else if (what === 'DELETE') this.objects.delete(name)
    else if (what === 'LIST') return { status: 200, body: this.#list(name, query.get('continuation-token')) }
    else if (what === 'BEGIN') {
      this.uploads.set(String(++this.#uploads), { name, parts: new Map() })
      return {
        status: 200,
        body: `<InitiateMultipartUploadResult><UploadId>${this.#uploads}</UploadId></InitiateMultipartUploadResult>`,
      }
    } else if (what === 'UPLOADS') {
      const all = [...this.uploads].filter(([, one]) => one.name.startsWith(name))
      const xml = all.map(([id, one]) => `<Upload><Key>${one.name}</Key><UploadId>${id}</UploadId></Upload>`)
      return { status: 200, body: `<ListMultipartUploadsResult>${xml.join('')}</ListMultipartUploadsResult>` }
    } else if (upload === undefined) return { status: 404, code: 'NoSuchUpload' }
    else if (what === 'PART') {
      const part = Number(query.get('partNumber'))
      upload.parts.set(part, body)
      return { status: 200, etag: `"part &${part}"` }
    } else if (what === 'END') {
      const parts = [...body.toString().matchAll(/<PartNumber>(\d+)</g)].map(([, part]) => Number(part))
      const whole = Buffer.concat(parts.map(part => upload.parts.get(part) ?? Buffer.alloc(0)))
      const told =
        this.checksums === 'composite' ? `${crcText(whole.subarray(1))}-${parts.length}` : crcText(whole)
      if (crc !== undefined && crc !== told) return { status: 400, code: 'XAmzContentChecksumMismatch' }
      this.uploads.delete(uploadId)
      this.put(name, whole, this.checksums === 'composite' ? told : crc)
    } else this.uploads.delete(uploadId)
    return { status: 200 }
  }

  #get(name: string, range?: string): Answer {
    const stored = this.objects.get(name)
    if (stored === undefined) return { status: 404, code: 'NoSuchKey' }
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? []
    if (from === undefined) return { status: 200, body: stored.bytes }
    return { status: 206, body: stored.bytes.subarray(Number(from), Number(to) + 1) }
  }

  #head(name: string, headers: IncomingHttpHeaders): Answer {
    const stored = this.objects.get(name)
    if (stored === undefined) return { status: 404, code: 'NoSuchKey' }
    const isAsked = headers['x-amz-checksum-mode'] === 'ENABLED' && this.checksums !== 'ignored'
    return { status: 200, ...(isAsked && stored.crc32 !== undefined ? { crc32: stored.crc32 } : {}) }
  }

  #list(prefix: string, token: string | null): string {
    const names = this.names(prefix).filter(name => token === null || name > token)
    const page = names.slice(0, this.pageSize)
    const more = names.length > page.length
    const objects = page.map(name => {
      const { bytes, changedMs } = this.objects.get(name)!
      return `<Contents><Key>${name}</Key><LastModified>${new Date(changedMs).toISOString()}</LastModified><Size>${bytes.byteLength}</Size></Contents>`
    })
    const next = more ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : ''
    return `<ListBucketResult><IsTruncated>${more}</IsTruncated>${next}${objects.join('')}</ListBucketResult>`
  }
}

interface Answer {
  readonly status: number
  readonly code?: string
  readonly body?: Buffer | string
  readonly etag?: string
  readonly crc32?: string
}

function isChecksum(header: string): boolean {
  return header.startsWith('x-amz-checksum-')
}

/** As headers of S3 have it. */
function crcText(bytes: Uint8Array): string {
  const four = Buffer.alloc(4)
  four.writeUInt32BE(crc32(bytes))
  return four.toString('base64')
}

function whatOf(method: string, query: URLSearchParams, hasName: boolean): string {
  if (method === 'GET' && !hasName) return query.has('uploads') ? 'UPLOADS' : 'LIST'
  if (method === 'POST') return query.has('uploads') ? 'BEGIN' : 'END'
  if (!query.has('uploadId')) return method
  return method === 'PUT' ? 'PART' : 'CANCEL'
}

function send(request: IncomingMessage, response: ServerResponse, answer: Answer, fault?: Fault): void {
  // The text of an error repeats what was signed, as that of some servers does.
  const error = `<Error><Code>${answer.code}</Code><Message>${request.headers.authorization} ${FAKE_KEYS.AWS_SECRET_ACCESS_KEY}</Message></Error>`
  const page = fault === 'page' ? '<html>Please sign in</html>' : undefined
  const body = Buffer.from(page ?? (answer.code === undefined ? (answer.body ?? '') : error))
  if (fault === 'flip') body[body.byteLength >> 1]! ^= 1
  response.writeHead(answer.status, {
    'content-length': body.byteLength,
    ...(answer.etag === undefined ? {} : { etag: answer.etag }),
    ...(answer.crc32 === undefined ? {} : { 'x-amz-checksum-crc32': answer.crc32 }),
  })
  if (fault !== 'cut') return void response.end(body)
  response.write(body.subarray(0, body.byteLength / 2), () => response.destroy())
}
