/**
 * The session: who is signed in, and the token of its requests. The token is here and nowhere else.
 * Before it ends, the next request gets another one from /session/token, by a cookie that scripts
 * cannot read.
 */
import { ApiError, errorOf } from './api-error.ts'

export interface Signed {
  readonly application: { readonly id: string; readonly uniqueName: string }
  readonly scopes: ReadonlySet<string>
}

interface Answer {
  readonly token: string
  readonly expiresInSeconds: number
  readonly application: Signed['application']
  readonly scopes: readonly string[]
}

/** A token is renewed so long before its end: a request may wait on its way. */
const RENEW_MS = 30_000
/** A server that takes longer is not there. */
const SESSION_MS_MAX = 15_000

let token: { readonly text: string; readonly untilMs: number } | undefined
/** Counts sign-ins and sign-outs. */
let signIns = 0
let renewing: Promise<string> | undefined
let onChange: (signed: Signed | undefined) => void = () => {}

/** Calls `listener` whenever somebody signed in or out. */
export function watchSession(listener: typeof onChange): void {
  onChange = listener
}

/** Who is signed in; undefined where nobody is. Throws ApiError where the server is not there. */
export async function resumeSession(): Promise<void> {
  try {
    await renew()
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'signed_out') throw error
  }
}

/** Throws ApiError: the id or the secret is wrong, or the code was used. */
export async function signIn(
  by: { readonly clientId: string; readonly clientSecret: string } | { readonly code: string },
): Promise<void> {
  const answer = await post('/session', by)
  signIns += 1
  take(answer)
}

/** Throws ApiError where the server did not hear of it: then the session goes on. */
export async function signOut(): Promise<void> {
  await post('/session/end', {})
  forget()
}

/** A token that lasts for the next request. Throws ApiError: `signed_out`, `offline`. */
export async function currentToken(): Promise<string> {
  if (token !== undefined && token.untilMs > Date.now()) return token.text
  renewing ??= renew().finally(() => {
    renewing = undefined
  })
  return await renewing
}

/** The server refused the token: the application was changed, or the server was started again. */
export function dropToken(): void {
  token = undefined
}

async function renew(): Promise<string> {
  const begun = signIns
  try {
    const answer = await post('/session/token', {})
    // Somebody signed out, or in as another one, meanwhile.
    if (begun !== signIns) throw new ApiError('signed_out', 'You signed out.')
    return take(answer)
  } catch (error) {
    if (error instanceof ApiError && error.code === 'signed_out' && begun === signIns) forget()
    throw error
  }
}

function take({ token: text, expiresInSeconds, application, scopes }: Answer): string {
  token = { text, untilMs: Date.now() + expiresInSeconds * 1000 - RENEW_MS }
  onChange({ application, scopes: new Set(scopes) })
  return text
}

function forget(): void {
  signIns += 1
  token = undefined
  onChange(undefined)
}

async function post(path: string, body: object): Promise<Answer> {
  let answer: Response
  try {
    answer = await fetch(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(SESSION_MS_MAX),
    })
  } catch {
    throw new ApiError('offline', 'The server does not answer. Is Weir running?')
  }
  if (!answer.ok) throw await errorOf(answer)
  return (await answer.json()) as Answer
}
