/**
 * Reads POST /oauth2/token (RFC 6749, section 4.4): form fields and HTTP Basic. The result is the
 * request, or the error to answer. Nothing here knows an application.
 */
import { readBasic } from '../../util/authorization.ts'
import { TOKEN_BODY_BYTES_MAX, TOKEN_FIELDS_MAX } from '../../util/limits.ts'
import { type PolicyValues, readPolicyValues } from './policy-values.ts'

/** An id and a secret as a client sent them, unchecked. */
export interface Credentials {
  readonly id: string
  readonly secret: string
}

/** RFC 6749, section 5.2. */
export interface TokenError {
  readonly error: 'invalid_request' | 'invalid_client' | 'invalid_scope' | 'unsupported_grant_type'
  readonly description: string
}

interface TokenAsked {
  /** One of these must be right: the parts of a Basic header count as sent and as URL-decoded. */
  readonly credentials: readonly Credentials[]
  /** Null where the request names none; the token then gets all that the application has. */
  readonly scopes: readonly string[] | null
  readonly policyValues: PolicyValues | undefined
}

export function readTokenRequest(
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
  const policyValues = readPolicyValues(form.get('policy_values') ?? '')
  if (typeof policyValues === 'string') return invalid(policyValues)
  const credentials = readCredentials(authorization, form)
  if ('error' in credentials) return credentials
  const scopes = [...new Set((form.get('scope') ?? '').split(' ').filter(scope => scope !== ''))]
  return { credentials, scopes: scopes.length === 0 ? null : scopes, policyValues }
}

/** As sent and as form-decoded, because clients differ. Empty where broken; undefined without. */
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
