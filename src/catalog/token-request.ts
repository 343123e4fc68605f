/** Reads a token request: form fields and HTTP Basic. Pure. */

/** An id and a secret that a client sent; not checked. */
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
  /** Any one of these may be right: Basic parts count as sent and as URL-decoded. */
  readonly credentials: readonly Credentials[]
  /** null: none named, so all that the application has. */
  readonly scopes: readonly string[] | null
}

/** What is asked, or the error to answer. */
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
  // A token that looks limited to a tenant and is not would be worse than none.
  if (form.has('policy_values')) return invalid('policy_values is not supported by this version.')
  const credentials = readCredentials(authorization, form)
  if ('error' in credentials) return credentials
  const scopes = [...new Set((form.get('scope') ?? '').split(' ').filter(scope => scope !== ''))]
  return { credentials, scopes: scopes.length === 0 ? null : scopes }
}

/**
 * The id and secret in a Basic header, as sent and as form-decoded (clients differ); empty where it is broken;
 * undefined for another scheme.
 */
export function basicOf(authorization: string | undefined): Credentials[] | undefined {
  const match = /^basic(?: +(.*))?$/i.exec(authorization ?? '')
  if (match === null) return undefined
  const text = Buffer.from((match[1] ?? '').trim(), 'base64').toString()
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
    return text // a percent sign that encodes nothing: sent as it is
  }
}

function invalid(description: string): TokenError {
  return { error: 'invalid_request', description }
}
