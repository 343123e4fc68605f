/**
 * Issues and checks tokens: OAuth 2 client credentials (RFC 6749) and HTTP Basic. A function
 * returns a value, and api/ writes it to the socket.
 *
 * Tokens are JWTs signed with the folder's key, so they survive a restart. A token never gives more
 * scopes than its application has now, and none once the application is deleted. It is bound to the
 * application's secret: when the secret changes, the tokens for the old one end at once.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { SignJWT } from 'jose/jwt/sign'
import { jwtVerify } from 'jose/jwt/verify'
import { readBasic, readBearer, secretDigest } from '../util/authorization.ts'
import { wallMs } from '../util/clock.ts'
import type { Refusal } from '../util/errors.ts'
import { TOKEN_BODY_BYTES_MAX, TOKEN_FIELDS_MAX, TOKEN_SECONDS } from '../util/limits.ts'
import { GuessThrottle } from './guess-throttle.ts'
import type { Application, Scope, SigningKey } from './model.ts'

interface TokenRequest {
  /** The client's address, as text. */
  readonly address: string
  readonly authorization: string | undefined
  readonly contentType: string | undefined
  readonly body: Uint8Array
}

export interface TokenReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The application that calls, and its scopes. */
export interface Identity {
  readonly applicationId: string
  readonly scopes: ReadonlySet<Scope>
}

export interface Tokens {
  /** Answers POST /oauth2/token. */
  token(request: TokenRequest): Promise<TokenReply>
  /** `Bearer <token>` or Basic id:secret; a refusal is 401, or 429 after too many wrong secrets. */
  verify(authorization: string | undefined, address: string): Promise<Identity | Refusal>
}

/** The parts of the catalog that tokens need. */
interface TokenDeps {
  application(id: string): Application | undefined
  signingKey(): SigningKey
  /** The wall clock of a test. */
  nowMs?(): number
  /** Set by tests. */
  readonly monotonicMs?: () => number
}

const ISSUER = 'weir'
const ALGORITHM = 'HS256'

/** Creates the token endpoint's functions over a catalog. */
export function createTokens(deps: TokenDeps): Tokens {
  const key = Buffer.from(deps.signingKey().secret, 'base64url')
  const throttle = new GuessThrottle(deps.monotonicMs)
  return {
    token: request => issue(deps, throttle, key, request),
    verify: (authorization, address) => verify(deps, throttle, key, { authorization, address }),
  }
}

async function issue(
  deps: TokenDeps,
  throttle: GuessThrottle,
  key: Uint8Array,
  request: TokenRequest,
): Promise<TokenReply> {
  const read = readTokenRequest(request.authorization, request.contentType, request.body)
  if ('error' in read) return failure(read)
  const application = await authenticate(deps, throttle, request.address, read.credentials)
  if (application === undefined)
    return failure({ error: 'invalid_client', description: 'The client id or secret is wrong.' })
  if ('retrySeconds' in application) return tooMany(application.retrySeconds)
  const scopes = read.scopes ?? application.scopes
  const lacking = scopes.filter(scope => !(application.scopes as readonly string[]).includes(scope))
  if (lacking.length > 0)
    return failure({ error: 'invalid_scope', description: 'The application lacks a requested scope.' })
  const scope = scopes.join(' ')
  const seconds = Math.floor((deps.nowMs ?? wallMs)() / 1000)
  const token = await new SignJWT({ scope, secret: secretMark(key, application) })
    .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
    .setIssuer(ISSUER)
    .setSubject(application.id)
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + TOKEN_SECONDS)
    .sign(key)
  return reply(200, { access_token: token, expires_in: TOKEN_SECONDS, token_type: 'Bearer', scope })
}

async function verify(
  deps: TokenDeps,
  throttle: GuessThrottle,
  key: Uint8Array,
  { authorization, address }: Pick<TokenRequest, 'authorization' | 'address'>,
): Promise<Identity | Refusal> {
  if (authorization === undefined || authorization === '')
    return unauthorized('token_missing', 'An Authorization header with a token is needed.')
  const basic = basicOf(authorization)
  if (basic !== undefined) {
    const application = await authenticate(deps, throttle, address, basic)
    if (application === undefined)
      return unauthorized('credentials_wrong', 'The application id or secret is wrong.')
    if ('retrySeconds' in application)
      return {
        status: 429,
        code: 'too_many_guesses',
        message: TOO_MANY,
        retryable: true,
        headers: { 'Retry-After': String(application.retrySeconds) },
      }
    return { applicationId: application.id, scopes: new Set(application.scopes) }
  }
  const token = readBearer(authorization)
  if (token === undefined)
    return unauthorized('token_missing', 'The Authorization header holds no Bearer token.')
  return verifyBearer(deps, key, token)
}

async function verifyBearer(deps: TokenDeps, key: Uint8Array, token: string): Promise<Identity | Refusal> {
  const currentDate = new Date((deps.nowMs ?? wallMs)())
  let claims: { readonly sub?: string; readonly scope?: unknown; readonly secret?: unknown }
  try {
    claims = (await jwtVerify(token, key, { algorithms: [ALGORITHM], issuer: ISSUER, currentDate })).payload
  } catch {
    // jose throws for every mistake of a client: form, signature, age.
    return unauthorized('token_invalid', 'The token is not valid or has expired.')
  }
  const application = claims.sub === undefined ? undefined : deps.application(claims.sub)
  if (application === undefined || typeof claims.scope !== 'string')
    return unauthorized('token_invalid', 'The token’s application does not exist.')
  if (claims.secret !== secretMark(key, application))
    return unauthorized('token_invalid', 'The application’s secret was changed after the token was given.')
  const granted = claims.scope.split(' ')
  return {
    applicationId: application.id,
    scopes: new Set(application.scopes.filter(scope => granted.includes(scope))),
  }
}

/**
 * A digest that tells secrets apart and reveals nothing of them: whoever holds a token can read it.
 * The signature protects it.
 */
function secretMark(key: Uint8Array, { secret }: Application): string {
  return createHmac('sha256', key)
    .update(`secret:${secret}`)
    .digest('base64url')
    .slice(0, SECRET_MARK_CHARACTERS)
}

/** 132 bits: no two secrets share a digest by chance. */
const SECRET_MARK_CHARACTERS = 22

/**
 * The application that one of `credentials` belongs to; TooMany where too many wrong ones came
 * before.
 */
async function authenticate(
  deps: TokenDeps,
  throttle: GuessThrottle,
  address: string,
  credentials: readonly Credentials[],
): Promise<Application | undefined | { readonly retrySeconds: number }> {
  // The decoded id: as sent, one id has many spellings.
  const applicationId = credentials.at(-1)?.id ?? ''
  return throttle.run({ address, applicationId }, () => find(deps, credentials))
}

/** Takes equally long for an unknown id. */
function find(deps: TokenDeps, credentials: readonly Credentials[]): Application | undefined {
  let found: Application | undefined
  for (const { id, secret } of credentials) {
    const application = deps.application(id)
    const same = timingSafeEqual(secretDigest(secret), secretDigest(application?.secret ?? ''))
    if (same && application !== undefined) found = application
  }
  return found
}

function failure({ error, description }: TokenError): TokenReply {
  const body = { error, error_description: description }
  if (error !== 'invalid_client') return reply(400, body)
  return reply(401, body, { 'WWW-Authenticate': 'Basic realm="weir"' })
}

const TOO_MANY = 'Too many wrong secrets came from this address or for this application: try again later.'

/** RFC 6749 has no error for this case. Every client understands 429 and Retry-After. */
function tooMany(retrySeconds: number): TokenReply {
  const body = { error: 'temporarily_unavailable', error_description: TOO_MANY }
  return reply(429, body, { 'Retry-After': String(retrySeconds) })
}

function reply(status: number, body: object, headers: Readonly<Record<string, string>> = {}): TokenReply {
  return {
    status,
    headers: {
      'Content-Type': 'application/json',
      'Cache-Control': 'no-store',
      Pragma: 'no-cache',
      ...headers,
    },
    body: JSON.stringify(body),
  }
}

function unauthorized(code: string, message: string): Refusal {
  return {
    status: 401,
    code,
    message,
    retryable: false,
    headers: { 'WWW-Authenticate': 'Bearer realm="weir"' },
  }
}

/** An id and a secret as a client sent them, unchecked. */
export interface Credentials {
  readonly id: string
  readonly secret: string
}

/** RFC 6749, section 5.2. */
interface TokenError {
  readonly error: 'invalid_request' | 'invalid_client' | 'invalid_scope' | 'unsupported_grant_type'
  readonly description: string
}

interface TokenAsked {
  /** One of these must be right: the parts of a Basic header count as sent and as URL-decoded. */
  readonly credentials: readonly Credentials[]
  /** null: the request names none, so the token gets all that the application has. */
  readonly scopes: readonly string[] | null
}

/**
 * Reads a token request: form fields and HTTP Basic. Returns the request, or the error to answer.
 */
function readTokenRequest(
  authorization: string | undefined,
  contentType: string | undefined,
  body: Uint8Array,
): TokenAsked | TokenError {
  const form = readForm(contentType, body)
  if ('error' in form) return form
  const grant = form.get('grant_type')
  if (!grant) return invalid('grant_type is missing.')
  if (grant !== 'client_credentials')
    return { error: 'unsupported_grant_type', description: 'The only grant_type is client_credentials.' }
  // No token is better than one that looks limited to a tenant and is not.
  if (form.has('policy_values')) return invalid('policy_values is not supported by this version.')
  const credentials = readCredentials(authorization, form)
  if ('error' in credentials) return credentials
  const scopes = [...new Set((form.get('scope') ?? '').split(' ').filter(scope => scope !== ''))]
  return { credentials, scopes: scopes.length === 0 ? null : scopes }
}

/**
 * The id and secret of a Basic header, as sent and as form-decoded, because clients differ. Empty
 * where the header is broken; undefined for another scheme.
 */
export function basicOf(authorization: string | undefined): Credentials[] | undefined {
  const text = readBasic(authorization)?.toString()
  if (text === undefined) return undefined
  const colon = text.indexOf(':')
  if (colon < 0) return []
  const raw = { id: text.slice(0, colon), secret: text.slice(colon + 1) }
  const decoded = { id: formDecode(raw.id), secret: formDecode(raw.secret) }
  return [raw, decoded]
}

function readForm(contentType: string | undefined, body: Uint8Array): URLSearchParams | TokenError {
  const type = (contentType ?? '').split(';', 1)[0]!.trim().toLowerCase()
  if (type !== '' && type !== 'application/x-www-form-urlencoded')
    return invalid('The content type must be application/x-www-form-urlencoded.')
  if (body.byteLength > TOKEN_BODY_BYTES_MAX)
    return invalid(`The body has more than ${TOKEN_BODY_BYTES_MAX} bytes.`)
  if (hasMoreFields(body, TOKEN_FIELDS_MAX))
    return invalid(`The form has more than ${TOKEN_FIELDS_MAX} fields.`)
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch {
    return invalid('The body is not UTF-8.')
  }
  const form = new URLSearchParams(text)
  for (const name of ['grant_type', 'client_id', 'client_secret', 'scope', 'policy_values'])
    if (form.getAll(name).length > 1) return invalid(`${name} is given more than once.`)
  return form
}

/** Counts the fields before URLSearchParams creates a pair of each: 500,000 of them took 150 ms. */
function hasMoreFields(body: Uint8Array, max: number): boolean {
  let fields = 1
  for (let at = body.indexOf(AND); at >= 0 && fields <= max; at = body.indexOf(AND, at + 1)) fields += 1
  return fields > max
}

const AND = 0x26

function readCredentials(
  authorization: string | undefined,
  form: URLSearchParams,
): readonly Credentials[] | TokenError {
  const basic = basicOf(authorization)
  const id = form.get('client_id')
  const secret = form.get('client_secret')
  if (basic !== undefined) {
    if (secret) return invalid('Credentials are given both in the header and in the form.')
    if (id && !basic.some(sent => sent.id === id)) return invalid('client_id differs from the header’s.')
    return basic
  }
  if (!id) return invalid('client_id is missing.')
  if (!secret) return invalid('client_secret is missing.')
  return [{ id, secret }]
}

function formDecode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return text // a percent sign that encodes nothing stays as it was sent
  }
}

function invalid(description: string): TokenError {
  return { error: 'invalid_request', description }
}
