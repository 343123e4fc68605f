/**
 * Sessions of the console. A person signs in once, with an application's id and secret or with the
 * code of the first start. The cookie of the session works on /session alone, and gives the page
 * tokens of five minutes. No other route takes the cookie, so by itself it changes nothing.
 *
 *   POST /session          {"clientId", "clientSecret"} or {"code"}: begins a session
 *   POST /session/token    a new token
 *   POST /session/end      ends the session
 *
 * A request of another origin is refused (RFC 6454): the body must be JSON, which no form of
 * another page sends, and `Sec-Fetch-Site` or `Origin` must name this server.
 *
 *   W-9  At most SESSIONS_MAX sessions, and SESSIONS_PER_APPLICATION_MAX of an application: the
 *        one that was begun first ends for a new one, of the application that has most. One code at
 *        a time.
 */

import { randomBytes } from 'node:crypto'
import type { Identity, Tokens } from '../catalog/access/token.ts'
import { secretDigest } from '../util/authorization.ts'
import { monotonicMs } from '../util/clock.ts'
import { AccessEnded, must, type Refusal } from '../util/errors.ts'
import { isObject } from '../util/json.ts'
import { sayAudit } from '../util/say.ts'
import type { ControlRequest, ControlRoute, Reply } from './api-types.ts'
import { jsonOf } from './json-object.ts'
import { unknownParameter } from './parameters.ts'
import { JSON_HEADERS, problemReply, refuse } from './problem.ts'

/** A working day. Then the person signs in again. */
const SESSION_MS = 12 * 3_600_000
/** The page asks for the next token before it ends. */
const SESSION_TOKEN_SECONDS = 300
const SESSIONS_MAX = 1_024
/** People share an application. One that signs in again and again ends its own sessions alone. */
const SESSIONS_PER_APPLICATION_MAX = 64
/** An id has 29 characters, a secret at most 256. */
const CREDENTIAL_LENGTH_MAX = 512
/** Cookies of one name: ours, and those that other servers of this host may plant. */
const COOKIES_MAX = 16
/** The code is printed on a terminal, and its reader opens it at once. */
const CODE_MS = 300_000
const SECRET_BYTES = 32
const BODY_BYTES_MAX = 4_096
const HEADERS = ['cookie', 'host', 'origin', 'sec-fetch-site']

interface SessionDeps {
  readonly tokens: Pick<Tokens, 'verify' | 'identity' | 'tokenFor'>
  applicationName(id: string): string
  /** The prefix of public URLs. A proxy may change the Host, so its origin counts too. */
  publicUrl(): string
}

interface Session {
  readonly identity: Identity
  readonly untilMs: number
}

export class Sessions {
  readonly #deps: SessionDeps
  /** By the digest of the cookie's value, the first begun first. */
  readonly #sessions = new Map<string, Session>()
  #code: { readonly digest: string; readonly session: Session } | undefined

  constructor(deps: SessionDeps) {
    this.#deps = deps
  }

  /** A code that signs in once within five minutes, in place of the one before. */
  newCode(applicationId: string): string | undefined {
    const identity = this.#deps.tokens.identity(applicationId)
    if (identity === undefined) return undefined
    const code = newSecret()
    this.#code = { digest: digestOf(code), session: { identity, untilMs: monotonicMs() + CODE_MS } }
    return code
  }

  routes(): ControlRoute[] {
    const route = (path: string, handle: (asked: ControlRequest) => Promise<Reply>): ControlRoute => ({
      methods: ['POST'],
      path,
      bodyBytesMax: BODY_BYTES_MAX,
      headers: HEADERS,
      handle: async asked => {
        const refusal = refusalOf(asked, this.#deps.publicUrl())
        const reply = refusal === undefined ? await handle(asked) : problemReply(refusal)
        return { ...reply, headers: { ...reply.headers, 'cache-control': 'no-store' } }
      },
    })
    return [
      route('/session', asked => this.#begin(asked)),
      route('/session/token', asked => this.#renew(asked)),
      route('/session/end', asked => this.#end(asked)),
    ]
  }

  async #begin(asked: ControlRequest): Promise<Reply> {
    const identity = await this.#signIn(asked)
    if ('status' in identity) return problemReply(identity)
    sayAudit({ mutation: 'signIn', applicationId: identity.applicationId, object: null, outcome: 'done' })
    // A new value each time: whoever planted a cookie before knows nothing (session fixation).
    const secret = newSecret()
    this.#forget(asked)
    const own = this.#of(identity.applicationId)
    if (own.length >= SESSIONS_PER_APPLICATION_MAX) this.#sessions.delete(own[0]!)
    else if (this.#sessions.size >= SESSIONS_MAX) this.#endOne()
    this.#sessions.set(digestOf(secret), { identity, untilMs: monotonicMs() + SESSION_MS })
    return await this.#answer(identity, this.#cookie(asked, secret, SESSION_MS / 1000))
  }

  /** The sessions of an application, the first begun first. */
  #of(applicationId: string): string[] {
    return [...this.#sessions].flatMap(([key, { identity }]) =>
      identity.applicationId === applicationId ? key : [],
    )
  }

  /** Ends the first session of the application that has most. */
  #endOne(): void {
    const applications = new Set([...this.#sessions.values()].map(one => one.identity.applicationId))
    const each = [...applications].map(id => this.#of(id)).sort((a, b) => b.length - a.length)
    this.#sessions.delete(must(each[0]?.[0], 'a session'))
  }

  /** Ends the sessions of all cookies of this server: one of them is the person's. */
  #forget(asked: ControlRequest): void {
    for (const cookie of cookiesOf(asked)) this.#sessions.delete(digestOf(cookie))
  }

  async #signIn({ body, address }: ControlRequest): Promise<Identity | Refusal> {
    const given = jsonOf(body)
    const { clientId, clientSecret, code } = isObject(given) ? given : {}
    if (typeof code === 'string') return this.#takeCode(code)
    if (typeof clientId !== 'string' || typeof clientSecret !== 'string')
      return refuse(400, 'bad_request', 'the body must be {"clientId", "clientSecret"} or {"code"}')
    if (clientId.length + clientSecret.length > CREDENTIAL_LENGTH_MAX)
      return refuse(400, 'bad_request', 'no application has such a long id or secret')
    const basic = Buffer.from(`${clientId}:${clientSecret}`).toString('base64')
    return await this.#deps.tokens.verify(`Basic ${basic}`, address)
  }

  #takeCode(code: string): Identity | Refusal {
    const known = this.#code
    if (known === undefined || known.digest !== digestOf(code) || !isOpen(known.session)) return CODE_USED
    this.#code = undefined
    return known.session.identity
  }

  async #renew(asked: ControlRequest): Promise<Reply> {
    const [cookie = '', ...others] = cookiesOf(asked)
    // Another server of this host may have planted one: nobody knows which is the person's.
    if (others.length > 0) return problemReply(SIGNED_OUT)
    const digest = digestOf(cookie)
    const session = this.#sessions.get(digest)
    if (session === undefined || !isOpen(session)) {
      this.#sessions.delete(digest)
      return problemReply(SIGNED_OUT)
    }
    return await this.#answer(session.identity)
  }

  async #end(asked: ControlRequest): Promise<Reply> {
    this.#forget(asked)
    return { status: 200, headers: { ...JSON_HEADERS, ...this.#cookie(asked, '', 0) }, body: '{}' }
  }

  async #answer({ applicationId, scopes }: Identity, headers = {}): Promise<Reply> {
    const token = await this.#deps.tokens.tokenFor(applicationId, SESSION_TOKEN_SECONDS)
    if (token === undefined) return problemReply(SIGNED_OUT)
    const uniqueName = this.#deps.applicationName(applicationId)
    const body = {
      token,
      expiresInSeconds: SESSION_TOKEN_SECONDS,
      application: { id: applicationId, uniqueName },
      scopes: [...scopes],
    }
    return { status: 200, headers: { ...JSON_HEADERS, ...headers }, body: JSON.stringify(body) }
  }

  #cookie(asked: ControlRequest, value: string, seconds: number): Record<string, string> {
    const secure = this.#deps.publicUrl().startsWith('https:') ? '; Secure' : ''
    const attributes = `Path=/session; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`
    return { 'set-cookie': `${cookieName(asked)}=${value}; ${attributes}` }
  }
}

/** A 401 names a scheme (RFC 9110, 11.6.1). With Basic a browser would ask for a password. */
const CHALLENGE = { 'www-authenticate': 'Cookie realm="weir"' }
const SIGNED_OUT = refuse(401, 'signed_out', 'there is no such session, or it has ended: sign in', CHALLENGE)
const CODE_USED = refuse(
  401,
  'code_used',
  'this link was used, or its five minutes are over: sign in',
  CHALLENGE,
)
const OTHER_ORIGIN = refuse(403, 'other_origin', 'a page of another origin may not use sessions')
const NOT_JSON = refuse(415, 'unsupported_media_type', 'the content type must be application/json')

/** The refusal of a request that another page may have caused. */
function refusalOf(asked: ControlRequest, publicUrl: string): Refusal | undefined {
  const { host = '', origin = '', 'sec-fetch-site': site = '' } = asked.headers
  const unknown = unknownParameter(asked.query, [])
  if (unknown !== undefined) return refuse(400, 'bad_parameter', unknown)
  if (asked.contentType.split(';', 1)[0]!.trim().toLowerCase() !== 'application/json') return NOT_JSON
  if (site !== '' && site !== 'same-origin') return OTHER_ORIGIN
  if (origin === '') return undefined // no browser: each sends it with a POST
  const own = [`http://${host}`, `https://${host}`, publicUrl].map(originOf)
  return own.includes(originOf(origin) ?? '') ? undefined : OTHER_ORIGIN
}

function originOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).origin : undefined
}

/** Browsers send a cookie to every port of its host, so each port has a name of its own. */
function cookieName({ headers: { host = '' } }: ControlRequest): string {
  const port = /:(\d{1,5})$/.exec(host)?.[1]
  return port === undefined ? 'weir_session' : `weir_session_${port}`
}

function cookiesOf(asked: ControlRequest): readonly string[] {
  const begin = `${cookieName(asked)}=`
  const pairs = (asked.headers['cookie'] ?? '').split(';').map(pair => pair.trim())
  const own = pairs.filter(pair => pair.startsWith(begin)).slice(0, COOKIES_MAX)
  return own.map(pair => pair.slice(begin.length))
}

/** Ends with its time, and with the application or its secret. */
function isOpen({ identity, untilMs }: Session): boolean {
  if (monotonicMs() >= untilMs) return false
  try {
    identity.verifyAgain()
    return true
  } catch (error) {
    if (error instanceof AccessEnded) return false
    throw error
  }
}

function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}

function digestOf(secret: string): string {
  return secretDigest(secret).toString('base64')
}
