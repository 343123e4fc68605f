/**
 * Admission: every check that method, path, query and headers allow, before a body is read. The
 * order of the checks is the contract's: 503, 404, 405, 401, 415, bad parameter 400, declared size
 * 413, 429.
 */

import { timingSafeEqual } from 'node:crypto'
import type { BasicAuth } from '../../catalog/documents/model.ts'
import type { RequestKind } from '../../format/schema.ts'
import { REJECTED_TEXT_BYTES_MAX } from '../../parse/rejected-rows.ts'
import type { BodyEncoding, Received } from '../../parse/sender/received.ts'
import { readBasic, secretDigest } from '../../util/authorization.ts'
import { wallMs } from '../../util/clock.ts'
import type { Refusal } from '../../util/errors.ts'
import { getOrMake } from '../../util/get-or-make.ts'
import { BODY_BYTES_MAX } from '../../util/limits.ts'
import { isMisspelt } from '../../util/misspelt.ts'
import { RateLimiter } from '../../util/rate-limiter.ts'
import type { ApiDeps, IngestTarget, Reply } from '../api-types.ts'
import { CORS_HEADERS, preflightOf } from '../cors.ts'
import { declaredBytesOf, type RequestHead, tryDecode } from '../http/transport.ts'
import { shown } from '../parameters.ts'
import { refuse, rejectedHeaders } from '../problem.ts'
import { type HeadHandshake, headHandshake } from './handshakes.ts'
import { formatOf, readContext, readHead, type Sender } from './sender.ts'

/** Pools whose rate is remembered; beyond it the least recently used one is forgotten. */
const RATE_POOLS_MAX = 10_000

export interface Admission {
  readonly target: IngestTarget
  readonly kind: RequestKind
  readonly allOrNothing: boolean
  /** Absent for plain JSON of an unsigned source. */
  readonly received?: Received | undefined
  /** The context of the request (parse/kernel.ts); absent where no column reads it. */
  readonly context?: Uint8Array | undefined
  /** `Prefer: return=minimal`. */
  readonly minimal: boolean
  /** Pages of any origin may read the answer. */
  readonly cors: boolean
  /** Content-Length; CHUNKED for a body in chunks. */
  readonly declaredBytes: number
  /**
   * The received-at of a request of a replay, which reserved it. Its events counted against the
   * rate limit when they came.
   */
  readonly reservedUs?: number
  /** The request is refused already. Its body is read, so that its text can be kept. */
  readonly refused?: RefusedHead
}

/** A request that was refused by its head. */
interface RefusedHead {
  readonly refusal: Refusal
  readonly contentType: string | null
}

export type RefusedAdmission = Admission & {
  readonly refused: RefusedHead
  /** False where the refusal is only counted. */
  readonly isKept: boolean
}

/**
 * Admits a request, refuses it, or answers a handshake.
 * @param webhook the webhook's id in the path, as sent
 * @param subpath the path behind it, as sent; "" without one
 */
export function admit(
  head: RequestHead,
  webhook: string,
  subpath: string,
  deps: Pick<ApiDeps, 'target' | 'health'>,
  rate: RateLimit,
): Admission | Refusal | HeadHandshake {
  const { refuse: refused } = deps.health() // not `ready`: events are accepted while flushes fail
  if (refused !== undefined) return refuse(503, refused.code, refused.message)
  const target = targetOf(webhook, deps)
  if (target === undefined) return refuse(404, 'unknown_webhook', UNKNOWN_WEBHOOK)
  const cors = target.sender?.accept.has('BROWSER') === true
  const admission = admitTo(target, head, subpath, cors, rate)
  if (!cors || 'reply' in admission || 'target' in admission) return admission
  return { ...admission, headers: { ...admission.headers, ...CORS_HEADERS } }
}

function admitTo(
  target: IngestTarget,
  head: RequestHead,
  subpath: string,
  cors: boolean,
  rate: RateLimit,
): Admission | Refusal | HeadHandshake {
  const { sender } = target
  if (subpath !== '' && sender?.accept.has('PATH') !== true)
    return refuse(404, 'unknown_path', "a path behind the webhook's id is taken where accept has PATH")
  if (cors && head.method === 'options' && head.header('access-control-request-method') !== '')
    return { reply: anyHeader(preflightOf(`${methodsOf(sender)}, OPTIONS`)), secret: null }
  const kind = kindOf(head.method, sender)
  if (kind === undefined && sender === undefined) return notAllowed(sender)
  if (target.basicAuth !== null && !basicAuthMatches(head.header('authorization'), target.basicAuth))
    return kind === undefined
      ? notAllowed(sender)
      : refuse(401, 'unauthorized', "the pool's Basic credentials are missing or wrong", CHALLENGE)
  if (sender !== undefined && sender.kinds.length > 0) {
    const handshake = headHandshake(head, sender, wallMs())
    if (handshake !== undefined) return handshake
  }
  if (kind === undefined) return notAllowed(sender)
  const encoding = encodingOf(head)
  if (encoding === undefined) return unknownEncoding(head, 'gzip, zstd or identity')
  const format = formatOf(head.header('content-type'), kind, sender)
  if (typeof format !== 'string') return format
  const allOrNothing = disablePartialSuccess(head.query)
  if (typeof allOrNothing !== 'boolean') return allOrNothing
  if (kind === 'delete' && !target.hasKey)
    return refuse(
      400,
      'no_unique_id',
      'the records of this pool have no unique id or key, so they cannot be deleted',
    )
  const declaredBytes = declaredBytesOf(head)
  if (declaredBytes > BODY_BYTES_MAX) return tooLarge()
  const seconds = rate.retryAfterSeconds(target.poolNumber)
  if (seconds > 0) return refuse(429, 'rate_limited', RATE_MESSAGE, { 'retry-after': String(seconds) })
  const read = readHead(head, kind, sender, subpath, format, encoding)
  if ('status' in read) return read
  // The context stands before the body in its slab, and counts as a part of it.
  if (declaredBytes > BODY_BYTES_MAX - (read.context?.byteLength ?? 0)) return tooLarge()
  const minimal = prefersMinimal(head.header('prefer'))
  const { received, context } = read
  return { target, kind, allOrNothing, received, context, minimal, cors, declaredBytes }
}

/** The statuses of refusals that are kept as rejected events: what a sender would have to mend. */
const KEPT_STATUSES = [400, 413, 415]

/**
 * The admission of a request that was refused by its head for what its sender would have to mend;
 * undefined for the others. It is only counted where its source says so, and where the source is
 * signed: nobody has checked the signature.
 */
export function admitRefused(
  head: RequestHead,
  webhook: string,
  subpath: string,
  refusal: Refusal,
  deps: Pick<ApiDeps, 'target'>,
): RefusedAdmission | undefined {
  if (!KEPT_STATUSES.includes(refusal.status)) return undefined
  const target = targetOf(webhook, deps)
  if (target === undefined) return undefined
  const { sender, rejects } = target
  const isPost = kindOf(head.method, sender) === 'post'
  const isKept = isPost && rejects !== undefined && (sender?.signature ?? null) === null
  const context = isKept && sender !== undefined ? readContext(head, sender, subpath) : undefined
  const contentType = head.header('content-type') || null
  const { status, code, message } = refusal
  return {
    ...{ target, kind: 'post', allOrNothing: false, minimal: false, isKept },
    received: {
      encoding: 'identity',
      format: 'TEXT',
      refused: { refusal: { status, code, message }, contentType },
    },
    cors: sender?.accept.has('BROWSER') === true,
    declaredBytes: declaredBytesOf(head),
    ...(context === undefined ? {} : { context }),
    refused: { refusal, contentType },
  }
}

/** True for a body whose text can be kept: not compressed, and no longer than what is kept. */
export function isReadable(head: RequestHead): boolean {
  const declaredBytes = declaredBytesOf(head)
  return declaredBytes > 0 && declaredBytes <= REJECTED_TEXT_BYTES_MAX && encodingOf(head) === 'identity'
}

function kindOf(method: string, sender: Sender | undefined): RequestKind | undefined {
  if (method === 'post') return 'post'
  if (method === 'delete') return sender === undefined || sender.takesDelete ? 'delete' : undefined
  return (method === 'put' || method === 'patch') && sender?.accept.has('PUT') === true ? 'post' : undefined
}

function notAllowed(sender: Sender | undefined): Refusal {
  const methods = methodsOf(sender)
  return refuse(405, 'method_not_allowed', `a webhook takes ${methods}`, { allow: methods })
}

function methodsOf(sender: Sender | undefined): string {
  const methods = ['POST']
  if (sender?.accept.has('PUT') === true) methods.push('PUT', 'PATCH')
  if (sender === undefined || sender.takesDelete) methods.push('DELETE')
  return methods.join(', ')
}

/** Pages may send the headers that columns read, whatever their names. */
function anyHeader(reply: Reply): Reply {
  return { ...reply, headers: { ...reply.headers, 'access-control-allow-headers': '*' } }
}

const UNKNOWN_WEBHOOK = 'no webhook has this id: post to the webhookUrl of the data source'
const CHALLENGE = { 'www-authenticate': 'Basic realm="weir"' }
const RATE_MESSAGE = 'the pool is over its limit of events per second; retry later'

/** 415 that says what came. */
export function unknownEncoding(head: RequestHead, takes: string): Refusal {
  const first = `"${shown(head.header('content-encoding'))}"`
  const found = head.headerCount('content-encoding') > 1 ? `several, the first is ${first}` : first
  const message = `Content-Encoding is ${takes}, and only one of them; found ${found}`
  return refuse(415, 'unsupported_encoding', message, { 'accept-encoding': 'gzip, zstd' })
}

export function tooLarge(): Refusal {
  const message = `a body takes at most ${BODY_BYTES_MAX} bytes`
  return refuse(413, 'body_too_large', message, rejectedHeaders(0))
}

function targetOf(webhook: string, deps: Pick<ApiDeps, 'target'>): IngestTarget | undefined {
  if (!webhook.includes('%')) return deps.target(webhook)
  const decoded = tryDecode(webhook)
  return decoded === undefined ? undefined : deps.target(decoded)
}

const ENCODINGS: readonly string[] = ['identity', 'gzip', 'zstd'] satisfies BodyEncoding[]

function encodingOf(head: RequestHead): BodyEncoding | undefined {
  const text = head.header('content-encoding')
  if (text === '') return 'identity'
  if (head.headerCount('content-encoding') > 1) return undefined
  const encoding = text.trim().toLowerCase()
  return ENCODINGS.includes(encoding) ? (encoding as BodyEncoding) : undefined
}

const PARAMETER = 'disable_partial_success'

/** Refuses a repeated, a wrong and a misspelt parameter. Senders may add others of their own. */
function disablePartialSuccess(query: string): boolean | Refusal {
  if (query === '') return false
  let found: boolean | undefined
  for (const [name, value] of new URLSearchParams(query)) {
    if (name !== PARAMETER) {
      if (isMisspelt(name, PARAMETER))
        return refuse(400, 'bad_parameter', `${shown(name)}: ${PARAMETER} is meant, and is spelt so`)
      continue
    }
    const on = value === 'true' || value === '1'
    if (!on && value !== 'false' && value !== '0')
      return refuse(400, 'bad_parameter', `${PARAMETER} is true, 1, false or 0`)
    if (found !== undefined) return refuse(400, 'bad_parameter', `${PARAMETER} is given more than once`)
    found = on
  }
  return found ?? false
}

function prefersMinimal(text: string): boolean {
  if (text === '') return false
  return text.split(',').some(preference => /^\s*return\s*=\s*"?minimal"?\s*(;|$)/i.test(preference))
}

/** Digests of the configured credentials: made once, and of equal length for all credentials. */
const digests = new WeakMap<BasicAuth, Buffer>()

/** Compares Basic credentials in constant time. */
export function basicAuthMatches(header: string, wanted: BasicAuth): boolean {
  const sent = readBasic(header)
  if (sent === undefined) return false
  const expected = getOrMake(digests, wanted, ({ username, password }) =>
    secretDigest(`${username}:${password}`),
  )
  return timingSafeEqual(secretDigest(sent), expected)
}

/**
 * The limit of events a second, per pool. A pool may use the events of one second at once. The
 * number of events in a body is known only after it is parsed: so a request is admitted while the
 * pool has units left and pays afterwards, and the next request waits for the difference.
 */
export class RateLimit {
  readonly #limiter: RateLimiter<number> | undefined

  /** @param perSecond events; 0 sets no limit */
  constructor(perSecond: number, now?: () => number) {
    if (perSecond === 0) return
    const limits = { burst: perSecond, intervalMs: 1000 / perSecond, keysMax: RATE_POOLS_MAX }
    this.#limiter = new RateLimiter(now === undefined ? limits : { ...limits, now })
  }

  /** Returns 0 where the request may come, else the seconds after which a retry may succeed. */
  retryAfterSeconds(pool: number): number {
    return this.#limiter === undefined ? 0 : Math.ceil(this.#limiter.waitMs(pool) / 1000)
  }

  pay(pool: number, events: number): void {
    if (events > 0) this.#limiter?.add(pool, events)
  }
}
