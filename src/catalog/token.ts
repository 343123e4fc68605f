/**
 * The token endpoint's logic and the check of what clients send back: OAuth 2 client credentials (RFC 6749) and
 * HTTP Basic. A handler returns a value; api/ writes it to the socket.
 *
 * Tokens are JWTs signed with the folder's key, so they survive a restart. A token carries scopes, but never
 * more than its application has now, and none once the application is gone.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { SignJWT } from 'jose/jwt/sign'
import { jwtVerify } from 'jose/jwt/verify'
import type { Refusal } from '../errors.ts'
import { TOKEN_SECONDS } from '../limits.ts'
import { wallMs } from '../util/clock.ts'
import type { Application, Scope, SigningKey } from './model.ts'
import { basicOf, type Credentials, readTokenRequest, type TokenError } from './token-request.ts'

interface TokenRequest {
  readonly authorization: string | undefined
  readonly contentType: string | undefined
  readonly body: Uint8Array
}

export interface TokenReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Who calls, and what they may do. */
export interface Identity {
  readonly applicationId: string
  readonly scopes: ReadonlySet<Scope>
}

export interface Tokens {
  /** Answers POST /oauth2/token. */
  token(request: TokenRequest): Promise<TokenReply>
  /** `Bearer <token>` or Basic id:secret; a refusal is always 401. */
  verify(authorization: string | undefined): Promise<Identity | Refusal>
}

/** What tokens need of the catalog. */
interface TokenServices {
  application(id: string): Application | undefined
  signingKey(): SigningKey
  /** Wall clock; for tests. */
  nowMs?(): number
}

const ISSUER = 'weir'
const ALGORITHM = 'HS256'

/** Binds the token logic to a catalog. */
export function createTokens(services: TokenServices): Tokens {
  const key = Buffer.from(services.signingKey().secret, 'base64url')
  return {
    token: request => issue(services, key, request),
    verify: authorization => verify(services, key, authorization),
  }
}

async function issue(services: TokenServices, key: Uint8Array, request: TokenRequest): Promise<TokenReply> {
  const read = readTokenRequest(request.authorization, request.contentType, request.body)
  if ('error' in read) return failure(read)
  const application = authenticate(services, read.credentials)
  if (application === undefined)
    return failure({ error: 'invalid_client', description: 'The client id or secret is wrong.' })
  const scopes = read.scopes ?? application.scopes
  const lacking = scopes.filter(scope => !(application.scopes as readonly string[]).includes(scope))
  if (lacking.length > 0)
    return failure({ error: 'invalid_scope', description: 'The application lacks a requested scope.' })
  const scope = scopes.join(' ')
  const seconds = Math.floor((services.nowMs ?? wallMs)() / 1000)
  const token = await new SignJWT({ scope })
    .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
    .setIssuer(ISSUER)
    .setSubject(application.id)
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + TOKEN_SECONDS)
    .sign(key)
  return reply(200, { access_token: token, expires_in: TOKEN_SECONDS, token_type: 'Bearer', scope })
}

async function verify(
  services: TokenServices,
  key: Uint8Array,
  authorization: string | undefined,
): Promise<Identity | Refusal> {
  if (authorization === undefined || authorization === '')
    return unauthorized('token_missing', 'An Authorization header with a token is needed.')
  const basic = basicOf(authorization)
  if (basic !== undefined) {
    const application = authenticate(services, basic)
    if (application === undefined)
      return unauthorized('credentials_wrong', 'The application id or secret is wrong.')
    return { applicationId: application.id, scopes: new Set(application.scopes) }
  }
  const token = /^bearer +(\S+) *$/i.exec(authorization)?.[1]
  if (token === undefined)
    return unauthorized('token_missing', 'The Authorization header holds no Bearer token.')
  return verifyBearer(services, key, token)
}

async function verifyBearer(
  services: TokenServices,
  key: Uint8Array,
  token: string,
): Promise<Identity | Refusal> {
  const currentDate = new Date((services.nowMs ?? wallMs)())
  let claims: { readonly sub?: string; readonly scope?: unknown }
  try {
    claims = (await jwtVerify(token, key, { algorithms: [ALGORITHM], issuer: ISSUER, currentDate })).payload
  } catch {
    // jose throws for everything a client can get wrong: form, signature, age.
    return unauthorized('token_invalid', 'The token is not valid or has expired.')
  }
  const application = claims.sub === undefined ? undefined : services.application(claims.sub)
  if (application === undefined || typeof claims.scope !== 'string')
    return unauthorized('token_invalid', 'The token’s application does not exist.')
  const granted = claims.scope.split(' ')
  return {
    applicationId: application.id,
    scopes: new Set(application.scopes.filter(scope => granted.includes(scope))),
  }
}

/** The application whose id and secret one of `credentials` holds. Takes as long for an unknown id. */
function authenticate(services: TokenServices, credentials: readonly Credentials[]): Application | undefined {
  let found: Application | undefined
  for (const { id, secret } of credentials) {
    const application = services.application(id)
    const same = timingSafeEqual(digest(secret), digest(application?.secret ?? ''))
    if (same && application !== undefined) found = application
  }
  return found
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function failure({ error, description }: TokenError): TokenReply {
  const body = { error, error_description: description }
  if (error !== 'invalid_client') return reply(400, body)
  return reply(401, body, { 'WWW-Authenticate': 'Basic realm="weir"' })
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
