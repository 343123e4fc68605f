/**
 * Requests to a bucket: signed by aws4fetch, with a time limit, and tried again where that helps.
 * Nothing is streamed: a request and an answer are small, or parts of a large object.
 *
 * Each request is signed with the SHA-256 of its body, so a server that keeps to the protocol
 * stores no other bytes. An object goes with the CRC-32 of all its bytes, which S3 compares, keeps
 * and tells. A server that refuses such headers gets none from then on. Errors are Unavailable;
 * their codes are in the table of docs/operating.md.
 * Of a server's error only its code is shown: its text may repeat what was signed.
 */
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { AwsV4Signer } from 'aws4fetch'
import { wallMs } from '../../util/clock.ts'
import { crc32 } from '../../util/crc32.ts'
import { Unavailable } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'
import { unreachableServer } from '../running-server.ts'
import type { BucketAddress } from './bucket-address.ts'

/** Bytes of one request. S3 takes no smaller part of a large object than 5 MiB. */
export const PART_BYTES = 8 * MiB

/** Bytes of an answer that is no object: 1,000 names of at most 1 KiB each. */
const XML_BYTES_MAX = 4 * MiB

/** Time for a request and its answer: a part of 8 MiB at 140 kB/s. */
const REQUEST_MS_MAX = 60_000
/** Tries of one request. The waits between them take up to 15 s together. */
const TRIES_MAX = 5
const FIRST_WAIT_MS = 1_000
/** Time in which tries begin. A machine that slept must look first whether its claim died. */
const TRIES_MS_MAX = 3 * 60_000
/** Answers of one list: 10M names. */
const PAGES_MAX = 10_000

interface ClientOptions {
  readonly requestMs?: number
  readonly firstWaitMs?: number
  readonly tries?: number
  readonly pagesMax?: number
  /** Ends requests and waits. */
  readonly signal?: AbortSignal
}

interface Asked {
  /** Below the prefix. */
  readonly name?: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** Headers that are left out for a server that refuses them. */
  readonly checksums?: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  /** The element that is the whole answer. One without its end is asked for again. */
  readonly element?: string
  /** More bytes of an answer are an error. */
  readonly bytesMax?: number
  /** Bytes that the answer must have. */
  readonly bytes?: number
}

interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer
}

/** An object of the bucket. */
export interface Listed {
  /** Below the prefix. */
  readonly name: string
  readonly bytes: number
  /** By the clock of the bucket. */
  readonly changedMs: number
}

/** Why a try failed. */
interface Failure {
  readonly code: string
  readonly why: string
  readonly isRetryable: boolean
  /** The server may have refused a header. */
  readonly isRefusal?: boolean
}

/** A part of an object that was sent. */
export interface SentPart {
  readonly tag: string
  readonly crc32: number
}

export class S3Client {
  readonly url: string
  readonly #address: BucketAddress
  readonly #options: ClientOptions
  /** False once the server refused a request for its checksum. */
  #takesChecksums = true

  constructor(address: BucketAddress, options: ClientOptions = {}) {
    this.#address = address
    this.#options = options
    this.url = address.url
  }

  /** Its requests are tried twice, not for long, and also after the work was cancelled. */
  brief(): S3Client {
    return new S3Client(this.#address, { requestMs: 3_000, tries: 2 })
  }

  /** Returns the time of the bucket's clock. */
  async put(name: string, body: Uint8Array): Promise<number> {
    return timeOf((await this.#ask('PUT', { name, body, checksums: crcHeader(crc32(body)) }))!)
  }

  /**
   * Undefined where there is no such object. `crc32` is that of the whole object, and missing where
   * the server keeps none, or only one of its parts.
   */
  async head(name: string): Promise<{ readonly crc32?: number } | undefined> {
    const checksums = { 'x-amz-checksum-mode': 'ENABLED' }
    const answered = await this.#ask('HEAD', { name, checksums }, 'NoSuchKey')
    if (answered === undefined) return undefined
    const text = answered.headers.get(CRC_HEADER) ?? ''
    return /^[A-Za-z\d+/]{6}==$/.test(text) ? { crc32: Buffer.from(text, 'base64').readUInt32BE() } : {}
  }

  /** The bytes of an object; undefined where there is none. */
  async get(name: string, bytes: number): Promise<Buffer | undefined> {
    return (await this.#ask('GET', { name, bytes, bytesMax: bytes }, 'NoSuchKey'))?.body
  }

  /** A part of an object that has more bytes; undefined where there is none. */
  async getPart(name: string, from: number, bytes: number): Promise<Buffer | undefined> {
    const headers = { range: `bytes=${from}-${from + bytes - 1}` }
    return (await this.#ask('GET', { name, headers, bytes, bytesMax: bytes }, 'NoSuchKey'))?.body
  }

  /** An object that is not there is no error. */
  async remove(name: string): Promise<void> {
    await this.#ask('DELETE', { name }, 'NoSuchKey')
  }

  /** All objects whose names begin so, by name, and the time of the bucket's clock. */
  async list(begin: string): Promise<{ readonly objects: Listed[]; readonly nowMs: number }> {
    const objects: Listed[] = []
    let token: string | undefined
    const { pagesMax = PAGES_MAX } = this.#options
    for (let page = 0; page < pagesMax; page++) {
      const more = token === undefined ? {} : { 'continuation-token': token }
      const query = { 'list-type': '2', prefix: this.#address.prefix + begin, ...more }
      const answered = (await this.#ask('GET', { query, element: 'ListBucketResult' }))!
      const xml = answered.body.toString()
      for (const one of xml.split('<Contents>').slice(1)) objects.push(this.#listed(one))
      if (textOf(xml, 'IsTruncated') !== 'true') return { objects, nowMs: timeOf(answered) }
      token = textOf(xml, 'NextContinuationToken')
      if (token === undefined) break
    }
    throw this.#odd()
  }

  #odd(): Unavailable {
    return new Unavailable('bucket_failed', `${this.url}: ${NOT_S3.why}`)
  }

  #listed(xml: string): Listed {
    return {
      name: (textOf(xml, 'Key') ?? '').slice(this.#address.prefix.length),
      bytes: Number(textOf(xml, 'Size')),
      changedMs: Date.parse(textOf(xml, 'LastModified') ?? ''),
    }
  }

  /** Begins an object of several parts. Nobody sees it before its end. */
  async beginUpload(name: string): Promise<string> {
    const checksums = { 'x-amz-checksum-algorithm': 'CRC32', ...WHOLE_OBJECT }
    const element = 'InitiateMultipartUploadResult'
    const { body } = (await this.#ask('POST', { name, query: { uploads: '' }, checksums, element }))!
    const uploadId = textOf(body.toString(), 'UploadId')
    if (uploadId === undefined) throw this.#odd()
    return uploadId
  }

  /** @param part from 1 @returns what the end needs */
  async putPart(name: string, uploadId: string, part: number, body: Uint8Array): Promise<SentPart> {
    const query = { partNumber: String(part), uploadId }
    const crc = crc32(body)
    const { headers } = (await this.#ask('PUT', { name, query, body, checksums: crcHeader(crc) }))!
    return { tag: headers.get('etag') ?? '', crc32: crc }
  }

  /** @param crc the CRC-32 of the whole object */
  async endUpload(name: string, uploadId: string, sent: readonly SentPart[], crc: number): Promise<void> {
    const parts = sent.map(({ tag, crc32: ofPart }, index) => {
      const checksum = this.#takesChecksums ? `<ChecksumCRC32>${inBase64(ofPart)}</ChecksumCRC32>` : ''
      return `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag.replace(/[<>&]/g, '')}</ETag>${checksum}</Part>`
    })
    const xml = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join('')}</CompleteMultipartUpload>`
    // After a lost answer the upload is gone. Who sent it compares the list of objects at the end.
    const checksums = { ...crcHeader(crc), ...WHOLE_OBJECT }
    await this.#ask('POST', { name, query: { uploadId }, body: Buffer.from(xml), checksums }, 'NoSuchUpload')
  }

  async cancelUpload(name: string, uploadId: string): Promise<void> {
    await this.#ask('DELETE', { name, query: { uploadId } }, 'NoSuchUpload')
  }

  /** Uploads of several parts that have no end yet, at most 1,000. */
  async uploads(begin: string): Promise<{ readonly name: string; readonly uploadId: string }[]> {
    const query = { uploads: '', prefix: this.#address.prefix + begin }
    const element = 'ListMultipartUploadsResult'
    const answered = await this.#ask('GET', { query, element }, 'NotImplemented')
    const xml = answered?.body.toString() ?? ''
    return xml
      .split('<Upload>')
      .slice(1)
      .map(one => ({
        name: (textOf(one, 'Key') ?? '').slice(this.#address.prefix.length),
        uploadId: textOf(one, 'UploadId') ?? '',
      }))
  }

  /** @param missing the error of the server that is an answer: undefined */
  async #ask(method: string, asked: Asked, missing?: string): Promise<Answered | undefined> {
    const { tries = TRIES_MAX, firstWaitMs = FIRST_WAIT_MS, signal } = this.#options
    const begunMs = wallMs()
    for (let tried = 1; ; tried++) {
      const answered = await this.#try(method, asked, missing)
      if (answered === 'missing') return undefined
      if ('body' in answered) return answered
      // A server without checksums of whole objects compares that of an upload with another one.
      const isRefused =
        answered.isRefusal === true || (method === 'POST' && answered.code === 'bucket_checksum')
      if (isRefused && asked.checksums !== undefined && this.#takesChecksums) {
        this.#takesChecksums = false
        continue
      }
      if (!answered.isRetryable || tried === tries || wallMs() - begunMs > TRIES_MS_MAX) {
        const times = tried === 1 ? '' : `, ${tried} times`
        throw new Unavailable(answered.code, `${this.url}: ${answered.why}${times}`)
      }
      const waitMs = firstWaitMs * 2 ** (tried - 1) * (0.5 + Math.random() / 2)
      await delay(waitMs, undefined, signal === undefined ? {} : { signal }).catch(() => undefined)
      this.#throwIfCancelled()
    }
  }

  #throwIfCancelled(): void {
    if (this.#options.signal?.aborted === true)
      throw new Unavailable('backup_cancelled', 'the backup was cancelled')
  }

  async #try(method: string, asked: Asked, missing?: string): Promise<Answered | Failure | 'missing'> {
    const { body = new Uint8Array(0), bytesMax = XML_BYTES_MAX } = asked
    const { requestMs = REQUEST_MS_MAX, signal } = this.#options
    const timeout = AbortSignal.timeout(requestMs)
    try {
      const signed = await this.#sign(method, asked, body)
      const answer = await fetch(signed.url, {
        method,
        headers: signed.headers,
        redirect: 'manual',
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
        ...(method === 'PUT' || method === 'POST' ? { body: body as Uint8Array<ArrayBuffer> } : {}),
      })
      const read = await readBody(answer, answer.ok ? bytesMax : XML_BYTES_MAX)
      // The end of an upload may fail after its 200 was sent.
      const [, failed = ''] = asked.bytes === undefined ? read.toString().split('<Error>') : []
      const error = textOf(failed, 'Code')
      if (!answer.ok || error !== undefined) {
        // The answer to HEAD has no body that could name the error.
        const isNoKey = method === 'HEAD' && answer.status === 404
        const code = isNoKey ? 'NoSuchKey' : (error ?? textOf(read.toString(), 'Code') ?? '')
        return code === missing || (missing === 'NotImplemented' && answer.status === 501)
          ? 'missing'
          : failureOf(answer.status, code)
      }
      if (asked.bytes !== undefined && read.byteLength !== asked.bytes)
        return brokenOff(`an answer has ${read.byteLength} bytes of ${asked.bytes}`)
      if (asked.element !== undefined && !read.includes(`</${asked.element}>`))
        return /^<(\?xml|\w+Result\b)/.test(read.toString('latin1', 0, 40))
          ? brokenOff('an answer was cut short')
          : NOT_S3
      return { status: answer.status, headers: answer.headers, body: read }
    } catch (error) {
      this.#throwIfCancelled()
      if (timeout.aborted)
        return { code: 'bucket_slow', why: `no answer within ${requestMs / 1000} s`, isRetryable: true }
      const why = unreachableServer(new URL(this.#address.base).origin, error as Error)
      return { code: 'bucket_unreachable', why, isRetryable: true }
    }
  }

  #sign(method: string, asked: Asked, body: Uint8Array) {
    const { name, query = {}, headers = {} } = asked
    const checksums = this.#takesChecksums ? asked.checksums : {}
    const { base, prefix, ...credentials } = this.#address
    const search = new URLSearchParams(query).toString()
    const url = `${base}${name === undefined ? '' : `/${prefix}${name}`}${search === '' ? '' : `?${search}`}`
    const sha256 = createHash('sha256').update(body).digest('hex')
    return new AwsV4Signer({
      ...credentials,
      service: 's3',
      method,
      url,
      headers: { ...headers, ...checksums, 'x-amz-content-sha256': sha256 },
    }).sign()
  }
}

/** Reads an answer of at most `bytesMax` bytes. What comes after them is not read. */
async function readBody(answer: Response, bytesMax: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    chunks.push(chunk)
    bytes += chunk.byteLength
    if (bytes > bytesMax) break
  }
  return Buffer.concat(chunks)
}

function brokenOff(why: string): Failure {
  return { code: 'bucket_checksum', why, isRetryable: true }
}

/** What is no list would be taken for an empty one. */
const NOT_S3: Failure = {
  code: 'bucket_failed',
  why: 'the answer is not one of S3: check the endpoint',
  isRetryable: false,
}

const CRC_HEADER = 'x-amz-checksum-crc32'
/** The checksum of all bytes, and not one of the checksums of parts. */
const WHOLE_OBJECT = { 'x-amz-checksum-type': 'FULL_OBJECT' }

function inBase64(crc: number): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(crc)
  return bytes.toString('base64')
}

function crcHeader(crc: number): Record<string, string> {
  return { [CRC_HEADER]: inBase64(crc) }
}

/** Errors of a server by code, and what to do. */
const ERRORS: Readonly<Record<string, readonly [code: string, why: string]>> = {
  NoSuchBucket: ['bucket_missing', 'there is no such bucket: make it, or mend the name or the endpoint'],
  RequestTimeTooSkewed: ['bucket_denied', 'the clock of this machine is wrong: set it'],
  InvalidObjectState: ['bucket_archived', 'an object is in an archive: restore it there first'],
  ExpiredToken: ['bucket_denied', 'AWS_SESSION_TOKEN has expired: set new credentials'],
  SignatureDoesNotMatch: ['bucket_denied', 'the secret key is wrong: check AWS_SECRET_ACCESS_KEY'],
  InvalidAccessKeyId: ['bucket_denied', 'the access key is not known: check AWS_ACCESS_KEY_ID'],
  PermanentRedirect: ['bucket_failed', 'the bucket is in another region: set AWS_REGION'],
  AuthorizationHeaderMalformed: ['bucket_failed', 'the bucket is in another region: set AWS_REGION'],
}
/** A full disk or a quota. Trying again does not help. */
const FULL = /^(QuotaExceeded|InsufficientStorage|InsufficientCapacity|XMinioStorageFull|EntityTooLarge)$/
/** The server got other bytes than were signed. */
const OTHER_BYTES = /^(BadDigest|InvalidDigest|XAmzContentSHA256Mismatch|XAmzContentChecksumMismatch)$/

function failureOf(status: number, given: string): Failure {
  const name = /^[A-Za-z\d.]{1,64}$/.test(given) ? given : ''
  const shown = `(HTTP ${status}${name === '' ? '' : ` ${name}`})`
  const failure = (code: string, why: string, isRetryable = false): Failure => ({
    code,
    why: `${why} ${shown}`,
    isRetryable,
  })
  const known = ERRORS[name]
  if (known !== undefined) return failure(...known)
  if (status === 507 || FULL.test(name)) return failure('bucket_full', 'there is no room left')
  if (OTHER_BYTES.test(name)) return failure('bucket_checksum', 'other bytes arrived than were sent', true)
  if (status === 401 || status === 403) return failure('bucket_denied', 'the credentials lack a permission')
  if (status === 503 || status === 429) return failure('bucket_busy', 'it asks to send less', true)
  const isRetryable =
    status < 300 || (status >= 500 && status !== 501) || status === 408 || name === 'RequestTimeout'
  const failed = failure('bucket_failed', 'the request failed', isRetryable)
  return { ...failed, isRefusal: !isRetryable && (status === 400 || status === 501) }
}

function timeOf({ headers }: Answered): number {
  return Date.parse(headers.get('date') ?? '')
}

/** The text of the first element of this name. */
function textOf(xml: string, name: string): string | undefined {
  const from = xml.indexOf(`<${name}>`)
  const to = xml.indexOf(`</${name}>`, from)
  if (from < 0 || to < 0) return undefined
  return xml
    .slice(from + name.length + 2, to)
    .replace(/&(?:quot|lt|gt|apos|amp|#34|#39);/g, entity => ENTITIES[entity] ?? '')
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&quot;': '"',
  '&#34;': '"',
  '&lt;': '<',
  '&gt;': '>',
  '&apos;': "'",
  '&#39;': "'",
  '&amp;': '&',
}
