/**
 * Issues and checks tokens: OAuth 2 client credentials (RFC 6749) and HTTP Basic. A function
 * returns a value, and api/ writes it to the socket.
 *
 * Tokens are JWTs signed with the newest of the folder's keys, so they survive a restart and a new
 * key. A token never gives more scopes than its application has now, and none once the application
 * is deleted. It is bound to the application's secret: when the secret changes, the tokens for the
 * old one end at once.
 *
 * A token that was verified is remembered while its key and its application are the same: clients
 * send one for an hour, and a check takes 0.2 ms of the main thread.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { JWTHeaderParameters, JWTPayload } from 'jose'
import { SignJWT } from 'jose/jwt/sign'
import { jwtVerify } from 'jose/jwt/verify'
import { readBearer, secretDigest } from '../../util/authorization.ts'
import { wallMs } from '../../util/clock.ts'
import { AccessEnded, must, type Refusal } from '../../util/errors.ts'
import { TOKEN_CLOCK_STEP_SECONDS, TOKEN_SECONDS, TOKENS_REMEMBERED_MAX } from '../../util/limits.ts'
import type { Application, Scope, SigningKey } from '../documents/model.ts'
import { acceptedKeys } from '../documents/signing-keys.ts'
import { GuessThrottle } from './guess-throttle.ts'
import { type PolicyValues, policyValuesOfClaim } from './policy-values.ts'
import { basicOf, type Credentials, readTokenRequest, type TokenError } from './token-request.ts'

interface TokenRequest {
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

export interface Identity {
  readonly applicationId: string
  readonly scopes: ReadonlySet<Scope>
  readonly policyValues?: PolicyValues
  /**
   * Asked again by work that waits or takes long. Throws AccessEnded where the application was
   * deleted, its secret replaced, or the key of its token removed. A token that expires meanwhile
   * ends nothing.
   * @param anyOf the application must have one of these scopes still, which its caller had
   */
  verifyAgain(...anyOf: readonly Scope[]): void
}

export interface Tokens {
  token(request: TokenRequest): Promise<TokenReply>
  /** `Bearer <token>` or Basic id:secret; a refusal is 401, or 429 after too many wrong secrets. */
  verify(authorization: string | undefined, address: string): Promise<Identity | Refusal>
  /** All that an application may do that was authenticated in another way; undefined without it. */
  identity(applicationId: string): Identity | undefined
  /** A token with all scopes of an application; undefined where there is none any more. */
  tokenFor(applicationId: string, seconds: number): Promise<string | undefined>
}

interface TokenDeps {
  application(id: string): Application | undefined
  /** The newest first; at least one. */
  signingKeys(): readonly SigningKey[]
  /** The wall clock of a test. */
  nowMs?(): number
  /** Set by tests. */
  readonly monotonicMs?: () => number
}

const ISSUER = 'weir'
const ALGORITHM = 'HS256'

export function createTokens(deps: TokenDeps): Tokens {
  const throttle = new GuessThrottle(deps.monotonicMs)
  const verified: VerifiedTokens = { tokens: new Map(), checks: new Map() }
  return {
    token: request => issue(deps, throttle, request),
    verify: (authorization, address) => verify(deps, throttle, verified, { authorization, address }),
    identity(applicationId) {
      const application = deps.application(applicationId)
      return application && ownIdentity(deps, application)
    },
    async tokenFor(applicationId, seconds) {
      const application = deps.application(applicationId)
      return application && sign(deps, application, application.scopes.join(' '), undefined, seconds)
    },
  }
}

async function issue(deps: TokenDeps, throttle: GuessThrottle, request: TokenRequest): Promise<TokenReply> {
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
  const token = await sign(deps, application, scope, read.policyValues)
  return reply(200, { access_token: token, expires_in: TOKEN_SECONDS, token_type: 'Bearer', scope })
}

async function sign(
  deps: TokenDeps,
  application: Application,
  scope: string,
  policyValues: PolicyValues | undefined,
  validSeconds = TOKEN_SECONDS,
): Promise<string> {
  const newest = must(deps.signingKeys()[0], 'a signing key')
  const key = bytesOf(newest)
  const claims: TokenClaims = {
    scope,
    secret: secretMark(key, application),
    ...(policyValues === undefined ? {} : { policy_values: policyValues }),
  }
  const seconds = Math.floor((deps.nowMs ?? wallMs)() / 1000)
  return await new SignJWT({ ...claims })
    .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT', kid: newest.kid })
    .setIssuer(ISSUER)
    .setSubject(application.id)
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + validSeconds)
    .sign(key)
}

async function verify(
  deps: TokenDeps,
  throttle: GuessThrottle,
  verified: VerifiedTokens,
  { authorization, address }: Pick<TokenRequest, 'authorization' | 'address'>,
): Promise<Identity | Refusal> {
  if (authorization === undefined || authorization === '')
    return unauthorized('token_missing', 'An Authorization header with a token is needed.')
  const basic = basicOf(authorization)
  if (basic !== undefined) {
    const application = await authenticate(deps, throttle, address, basic)
    if (application === undefined) return WRONG_CREDENTIALS
    if ('retrySeconds' in application)
      return {
        status: 429,
        code: 'too_many_guesses',
        message: TOO_MANY,
        retryable: true,
        headers: { 'Retry-After': String(application.retrySeconds) },
      }
    return ownIdentity(deps, application)
  }
  const token = readBearer(authorization)
  if (token === undefined)
    return unauthorized('token_missing', 'The Authorization header holds no Bearer token.')
  const { tokens } = verified
  const known = tokens.get(token)
  const current =
    known !== undefined && isCurrent(deps, known) ? known : await verifyOnce(deps, verified, token)
  tokens.delete(token)
  if ('status' in current) return current
  tokens.set(token, current)
  if (tokens.size > TOKENS_REMEMBERED_MAX) tokens.delete(must(tokens.keys().next().value, 'the oldest'))
  return current.identity
}

/** Requests that come together with a token share a check: a dashboard sends many at once. */
async function verifyOnce(
  deps: TokenDeps,
  { checks }: VerifiedTokens,
  token: string,
): Promise<VerifiedToken | Refusal> {
  const begun = checks.get(token)
  const check = begun ?? verifyBearer(deps, token).finally(() => checks.delete(token))
  checks.set(token, check)
  const checked = await check
  // The keys may have changed between the begin of the check and this request.
  const isStale = begun !== undefined && !('status' in checked) && !isCurrent(deps, checked)
  return isStale ? await verifyBearer(deps, token) : checked
}

interface VerifiedToken {
  readonly identity: Identity
  readonly application: Application
  readonly key: SigningKey
  readonly issuedAt: number
  readonly expiresAt: number
}

/** By the token's text. */
interface VerifiedTokens {
  /** The least recently used is the first. */
  readonly tokens: Map<string, VerifiedToken>
  /** Those that are under way, of requests that wait for them. */
  readonly checks: Map<string, Promise<VerifiedToken | Refusal>>
}

/** True where another check of a token would end as the one before. */
function isCurrent(deps: TokenDeps, { application, key, issuedAt, expiresAt }: VerifiedToken): boolean {
  const nowMs = (deps.nowMs ?? wallMs)()
  return (
    Math.floor(nowMs / 1000) < expiresAt &&
    !isFromLater(issuedAt, nowMs) &&
    // A change puts another object in its place.
    deps.application(application.id) === application &&
    acceptedKeys(deps.signingKeys(), nowMs).includes(key)
  )
}

async function verifyBearer(deps: TokenDeps, token: string): Promise<VerifiedToken | Refusal> {
  const nowMs = (deps.nowMs ?? wallMs)()
  let signedBy: SigningKey | undefined
  /** jose asks for the key of a token's head, which nothing has proved yet. */
  const findKey = ({ kid = '' }: JWTHeaderParameters): Uint8Array => {
    signedBy = acceptedKeys(deps.signingKeys(), nowMs).find(one => one.kid === kid)
    if (signedBy === undefined) throw new Error('the key is unknown')
    return bytesOf(signedBy)
  }
  let claims: JWTPayload & Partial<TokenClaims>
  try {
    const options = {
      algorithms: [ALGORITHM],
      issuer: ISSUER,
      currentDate: new Date(nowMs),
      requiredClaims: CLAIMS,
    }
    claims = (await jwtVerify(token, findKey, options)).payload
  } catch {
    // jose throws for every mistake of a client: form, signature, age.
    return INVALID_TOKEN
  }
  const key = must(signedBy, 'the key of a token that jose has verified')
  const { iat: issuedAt = Number.POSITIVE_INFINITY, exp: expiresAt = 0 } = claims
  if (isFromLater(issuedAt, nowMs))
    return unauthorized(
      'token_invalid',
      'The token is from a later time than now: the clock was set back, or those of two nodes are apart.',
    )
  const application = claims.sub === undefined ? undefined : deps.application(claims.sub)
  if (application === undefined || typeof claims.scope !== 'string')
    return unauthorized('token_invalid', 'The token’s application does not exist.')
  if (claims.secret !== secretMark(bytesOf(key), application))
    return unauthorized('token_invalid', 'The application’s secret was changed after the token was given.')
  const granted = claims.scope.split(' ')
  const values = claims.policy_values
  const scopes = new Set(application.scopes.filter(scope => granted.includes(scope)))
  const identity = {
    ...identityOf(deps, { application, scopes, refusal: INVALID_TOKEN, kid: key.kid }),
    ...(values === undefined ? {} : { policyValues: policyValuesOfClaim(values) }),
  }
  return { identity, application, key, issuedAt, expiresAt }
}

/** A token of a moment when the clock was ahead would be valid for too long. */
function isFromLater(issuedAt: number, nowMs: number): boolean {
  return issuedAt > nowMs / 1000 + TOKEN_CLOCK_STEP_SECONDS
}

function bytesOf({ secret }: SigningKey): Uint8Array {
  return Buffer.from(secret, 'base64url')
}

function ownIdentity(deps: TokenDeps, application: Application): Identity {
  const scopes = new Set(application.scopes)
  return identityOf(deps, { application, scopes, refusal: WRONG_CREDENTIALS, kid: undefined })
}

interface Verified {
  readonly application: Application
  readonly scopes: ReadonlySet<Scope>
  /** The answer once it is no longer valid. */
  readonly refusal: Refusal
  /** The key of its token, or undefined where it has none. */
  readonly kid: string | undefined
}

function identityOf(deps: TokenDeps, verified: Verified): Identity {
  const { application, scopes } = verified
  return {
    applicationId: application.id,
    scopes,
    verifyAgain: (...anyOf) => verifyAgain(deps, verified, anyOf),
  }
}

function verifyAgain(deps: TokenDeps, verified: Verified, anyOf: readonly Scope[]): void {
  const { application, scopes, refusal, kid } = verified
  const current = deps.application(application.id)
  const hasKey = kid === undefined || deps.signingKeys().some(key => key.kid === kid)
  if (current?.secret !== application.secret || !hasKey) throw new AccessEnded(refusal)
  const lost = anyOf.find(scope => scopes.has(scope))
  if (lost === undefined || anyOf.some(scope => scopes.has(scope) && current.scopes.includes(scope))) return
  const message = `the application has the scope ${lost} no longer`
  throw new AccessEnded({ status: 403, code: 'forbidden', message, retryable: false })
}

interface TokenClaims {
  readonly scope: string
  readonly secret: string
  readonly policy_values?: PolicyValues
}

const CLAIMS = ['sub', 'iat', 'exp', 'scope', 'secret']

/** Tells secrets apart and reveals nothing of them: whoever holds a token can read it. */
function secretMark(key: Uint8Array, { secret }: Application): string {
  return createHmac('sha256', key)
    .update(`secret:${secret}`)
    .digest('base64url')
    .slice(0, SECRET_MARK_CHARACTERS)
}

/** 132 bits: no two secrets share a digest by chance. */
const SECRET_MARK_CHARACTERS = 22

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

const WRONG_CREDENTIALS = unauthorized('credentials_wrong', 'The application id or secret is wrong.')
const INVALID_TOKEN = unauthorized('token_invalid', 'The token is not valid or has expired.')

function unauthorized(code: string, message: string): Refusal {
  return {
    status: 401,
    code,
    message,
    retryable: false,
    headers: { 'WWW-Authenticate': 'Bearer realm="weir"' },
  }
}
