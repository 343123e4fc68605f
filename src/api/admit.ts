/**
 * Admission: everything that method, path, query and headers can tell about an ingest request, in the
 * contract's order: 503, 404, 405, 401, 415, bad parameter 400, declared size 413, 429.
 */
import type { CutKind } from '../batch/plan.ts'
import type { Refusal } from '../errors.ts'
import { BODY_BYTES_MAX } from '../limits.ts'
import { basicAuthMatches } from './basic-auth.ts'
import { refuse, rejectedHeaders } from './problem.ts'
import type { ApiServices, IngestTarget } from './protocol.ts'
import type { RateLimit } from './rate.ts'

/** The head of a request, valid only while its handler runs. */
export interface Head {
  /** Lower case. */
  readonly method: string
  /** The path's last part as sent. */
  readonly webhook: string
  /** Without the "?". */
  readonly query: string
  /** The first such header, "" where there is none. The name is lower case. */
  header(name: string): string
  /** Content-Length, 0 without a body, -1 where it comes in chunks. */
  readonly declaredBytes: number
  /** How many such headers there are. */
  headerCount(name: string): number
}

/** A request whose body may come. */
export interface Admission {
  readonly target: IngestTarget
  readonly kind: CutKind
  readonly allOrNothing: boolean
  readonly gzip: boolean
  /** `Prefer: return=minimal`. */
  readonly minimal: boolean
  /** Content-Length, -1 where the body comes in chunks. */
  readonly declaredBytes: number
}

/** The admission, or why not. */
export function admit(
  head: Head,
  services: Pick<ApiServices, 'target' | 'health'>,
  rate: RateLimit,
): Admission | Refusal {
  const health = services.health()
  if (health.refuse !== undefined) return refuse(503, health.refuse.code, health.refuse.message, RETRY_SOON)
  if (!health.ready) return refuse(503, 'not_ready', health.why ?? 'the server is not ready', RETRY_SOON)
  const target = targetOf(head.webhook, services)
  if (target === undefined) return refuse(404, 'unknown_webhook', 'no webhook has this id')
  const kind = KINDS[head.method]
  if (kind === undefined)
    return refuse(405, 'method_not_allowed', 'a webhook takes POST and DELETE', { allow: 'POST, DELETE' })
  if (target.basicAuth !== null && !basicAuthMatches(head.header('authorization'), target.basicAuth))
    return refuse(401, 'unauthorized', "the pool's Basic credentials are missing or wrong", CHALLENGE)
  const encoding = encodingOf(head)
  const media = encoding === undefined ? undefined : refuseMedia(head)
  if (encoding === undefined) return UNKNOWN_ENCODING
  if (media !== undefined) return media
  const allOrNothing = disablePartialSuccess(head.query)
  if (typeof allOrNothing !== 'boolean') return allOrNothing
  if (kind === 'delete' && !target.hasUniqueId)
    return refuse(400, 'no_unique_id', 'this pool has no unique id, so its records cannot be deleted')
  const declaredBytes = head.declaredBytes
  if (declaredBytes > BODY_BYTES_MAX) return tooLarge()
  const seconds = rate.retryAfterSeconds(target.poolNumber)
  if (seconds > 0) return refuse(429, 'rate_limited', RATE_MESSAGE, { 'retry-after': String(seconds) })
  const minimal = prefersMinimal(head.header('prefer'))
  return { target, kind, allOrNothing, gzip: encoding === 'gzip', minimal, declaredBytes }
}

const KINDS: Readonly<Record<string, CutKind>> = { post: 'post', delete: 'delete' }
const RETRY_SOON = { 'retry-after': '1' }
const CHALLENGE = { 'www-authenticate': 'Basic realm="weir"' }
const RATE_MESSAGE = 'the pool takes no more events just now'
const UNKNOWN_ENCODING = refuse(
  415,
  'unsupported_encoding',
  'Content-Encoding is gzip or identity, and only one of them',
  { 'accept-encoding': 'gzip' },
)

/** 413 for a body over the limit, however it was noticed. */
export function tooLarge(): Refusal {
  const message = `a body takes at most ${BODY_BYTES_MAX} bytes`
  return refuse(413, 'body_too_large', message, rejectedHeaders(0))
}

function targetOf(webhook: string, services: Pick<ApiServices, 'target'>): IngestTarget | undefined {
  if (!webhook.includes('%')) return services.target(webhook)
  const decoded = tryDecode(webhook)
  return decoded === undefined ? undefined : services.target(decoded)
}

/** Percent-decoded text, undefined where it is malformed. */
export function tryDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined // URIError is the only error it throws
  }
}

function encodingOf(head: Head): 'gzip' | 'identity' | undefined {
  const text = head.header('content-encoding')
  if (text === '') return 'identity'
  if (head.headerCount('content-encoding') > 1) return undefined
  const encoding = text.trim().toLowerCase()
  return encoding === 'gzip' || encoding === 'identity' ? encoding : undefined
}

function refuseMedia(head: Head): Refusal | undefined {
  const text = head.header('content-type')
  if (text === '' || text === 'application/json') return undefined
  const media = text.split(';', 1)[0]!.trim().toLowerCase()
  if (media === '' || media === 'application/json') return undefined
  return refuse(415, 'unsupported_media_type', 'the content type is application/json', {
    accept: 'application/json',
  })
}

const PARAMETER = 'disable_partial_success'

/** The parameter's value; given twice or as anything but a boolean it is refused. Others are ignored. */
function disablePartialSuccess(query: string): boolean | Refusal {
  if (query === '') return false
  let found: boolean | undefined
  for (const pair of query.split('&')) {
    const at = pair.indexOf('=')
    const name = tryDecode((at < 0 ? pair : pair.slice(0, at)).replaceAll('+', ' '))
    if (name !== PARAMETER) continue
    const value = tryDecode(at < 0 ? '' : pair.slice(at + 1).replaceAll('+', ' '))
    const on = value === 'true' || value === '1'
    if (!on && value !== 'false' && value !== '0')
      return refuse(400, 'bad_parameter', `${PARAMETER} is true, 1, false or 0`)
    if (found !== undefined) return refuse(400, 'bad_parameter', `${PARAMETER} is given more than once`)
    found = on
  }
  return found ?? false
}

/** Is one of the preferences `return=minimal` (RFC 7240)? */
function prefersMinimal(text: string): boolean {
  if (text === '') return false
  return text.split(',').some(preference => /^\s*return\s*=\s*"?minimal"?\s*(;|$)/i.test(preference))
}
