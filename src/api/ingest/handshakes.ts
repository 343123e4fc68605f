/**
 * Handshakes that need no body (format/handshake.ts): the method, the query and the headers of a
 * request decide, before a body is read.
 *
 *   META             GET      ?hub.mode=subscribe&hub.verify_token&hub.challenge  ►  the challenge
 *   DROPBOX          GET      ?challenge                                          ►  the challenge
 *   OKTA             GET      X-Okta-Verification-Challenge                       ►  it, in JSON
 *   MICROSOFT_GRAPH  POST     ?validationToken                                    ►  the token
 *   CLOUDEVENTS      OPTIONS  WebHook-Request-Origin                              ►  headers
 *   HEAD             HEAD     nothing more (Trello)                               ►  200
 *   ASANA            POST     X-Hook-Secret                                       ►  the header
 *
 * An answer that repeats a client's text is plain text or JSON and says nosniff, so that no browser
 * takes it for a page.
 */
import { timingSafeEqual } from 'node:crypto'
import { type HandshakeKind, type HandshakeReply, mayEcho } from '../../format/handshake.ts'
import { secretDigest } from '../../util/authorization.ts'
import type { Reply } from '../api-types.ts'
import { type RequestHead, tryDecode } from '../http/transport.ts'
import { problemReply, refuse } from '../problem.ts'

/** The settings of the source that the request came to. */
export interface HandshakeSettings {
  /** handshakesOf() of the source. */
  readonly kinds: readonly HandshakeKind[]
  readonly verifyToken: string | null
  /**
   * The moment, in ms since 1970, until which the source takes over a secret from Asana: an
   * operator asked for it. 0 where nobody did.
   */
  readonly secretUntilMs: () => number
}

export interface HeadHandshake {
  readonly reply: Reply
  /**
   * The secret of the source from now on. It is stored before the reply is sent. null where the
   * handshake has none.
   */
  readonly secret: string | null
}

/** The part of a request that handshakes read. */
export type HandshakeHead = Pick<RequestHead, 'method' | 'query' | 'header' | 'headerCount'>

/** The answer to a handshake, or undefined where the request is none that the source answers. */
export function headHandshake(
  head: HandshakeHead,
  settings: HandshakeSettings,
  nowMs: number,
): HeadHandshake | undefined {
  for (const kind of settings.kinds) {
    const answer = ANSWERS[kind]?.(head, settings, nowMs)
    if (answer !== undefined) return answer
  }
  return undefined
}

/** The reply of a handshake that stood in a body. */
export function handshakeReply({ status, contentType, body }: HandshakeReply): Reply {
  return { status, headers: { ...HEADERS, 'content-type': contentType }, body }
}

const HEADERS = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }

type Answer = (head: HandshakeHead, settings: HandshakeSettings, nowMs: number) => HeadHandshake | undefined

const ANSWERS: Readonly<Partial<Record<HandshakeKind, Answer>>> = {
  META: (head, { verifyToken }) => {
    if (head.method !== 'get' || parameter(head, 'hub.mode') !== 'subscribe') return undefined
    const challenge = parameter(head, 'hub.challenge')
    if (challenge === undefined || verifyToken === null) return undefined
    const isMeant = sameSecret(parameter(head, 'hub.verify_token') ?? '', verifyToken)
    return isMeant ? text(challenge) : { reply: problemReply(WRONG_TOKEN), secret: null }
  },
  DROPBOX: head => (head.method === 'get' ? text(parameter(head, 'challenge')) : undefined),
  OKTA: head => {
    const challenge = head.method === 'get' ? header(head, 'x-okta-verification-challenge') : undefined
    if (challenge === undefined) return undefined
    return answered('application/json', JSON.stringify({ verification: challenge }))
  },
  MICROSOFT_GRAPH: head => (head.method === 'post' ? text(parameter(head, 'validationToken')) : undefined),
  CLOUDEVENTS: head => {
    const origin = head.method === 'options' ? header(head, 'webhook-request-origin') : undefined
    if (origin === undefined || !DNS_NAME.test(origin)) return undefined
    const rate = header(head, 'webhook-request-rate') ?? ''
    const allowed = {
      allow: 'POST',
      'webhook-allowed-origin': origin,
      'webhook-allowed-rate': RATE.test(rate) ? rate : '*',
    }
    return { reply: { status: 200, headers: { ...HEADERS, ...allowed }, body: '' }, secret: null }
  },
  HEAD: head => (head.method === 'head' ? answered('text/plain', '') : undefined),
  ASANA: (head, { secretUntilMs }, nowMs) => {
    const secret =
      head.method === 'post' && nowMs < secretUntilMs() ? header(head, 'x-hook-secret') : undefined
    if (secret === undefined || !HOOK_SECRET.test(secret)) return undefined
    return { reply: { status: 200, headers: { ...HEADERS, 'x-hook-secret': secret }, body: '' }, secret }
  },
}

const WRONG_TOKEN = refuse(
  403,
  'wrong_verify_token',
  'hub.verify_token is not the verifyToken of this data source',
)
/** The name of a sender's system. It may stand in a header of the answer. */
const DNS_NAME = /^[\w.*-]{1,253}$/
/** Requests a minute. The limit of a pool is one of events a second, so any rate is allowed. */
const RATE = /^[1-9]\d{0,8}$/
/** Asana's have 64 characters. A short one would be guessed. */
const HOOK_SECRET = /^[\x21-\x7e]{16,256}$/

function text(challenge: string | undefined): HeadHandshake | undefined {
  return challenge === undefined ? undefined : answered('text/plain', challenge)
}

function answered(contentType: string, body: string): HeadHandshake {
  return { reply: handshakeReply({ status: 200, contentType, body }), secret: null }
}

/** A header that was sent once and may be repeated. */
function header(head: HandshakeHead, name: string): string | undefined {
  const value = head.header(name)
  return mayEcho(value) && head.headerCount(name) === 1 ? value : undefined
}

/** A parameter that was sent once, in valid encoding, and may be repeated. */
function parameter({ query }: HandshakeHead, name: string): string | undefined {
  let found: string | undefined
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=')
    if (equals < 0 || decoded(pair.slice(0, equals)) !== name) continue
    if (found !== undefined) return undefined
    found = decoded(pair.slice(equals + 1)) ?? ''
  }
  return found !== undefined && mayEcho(found) ? found : undefined
}

function decoded(part: string): string | undefined {
  return tryDecode(part.replaceAll('+', ' '))
}

/** Takes constant time. */
function sameSecret(sent: string, wanted: string): boolean {
  return timingSafeEqual(secretDigest(sent), secretDigest(wanted))
}
