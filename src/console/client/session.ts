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
/** The application of the last sign-in. */
let applicationId: string | undefined
/** The session ended below a page. Its requests wait here until the same person signs in again. */
let ended: PromiseWithResolvers<string> | undefined

/**
 *   Signed      somebody signed in
 *   signed out  nobody is signed in, or somebody signed out, here or in another tab
 *   ended       the session ended by itself: what stands in the page may be somebody's draft
 */
type SessionChange = Signed | 'signed out' | 'ended'
let onChange: (change: SessionChange) => void = () => {}

/** Calls `listener` whenever the session changes. */
export function watchSession(listener: typeof onChange): void {
  onChange = listener
}

/** A sign-out in one tab is one in all. */
const otherTabs = new BroadcastChannel('weir-session')
otherTabs.addEventListener('message', () => forget())

/** Finds out who is signed in. Throws ApiError where the server is not there. */
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
  otherTabs.postMessage('signed out')
  forget()
}

/**
 * A token that lasts for the next request. Where the session ended, it waits for the next sign-in.
 * Throws ApiError: `signed_out`, `offline`.
 */
export async function currentToken(): Promise<string> {
  if (ended !== undefined) return await ended.promise
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
    if (!(error instanceof ApiError) || error.code !== 'signed_out' || begun !== signIns) throw error
    if (applicationId === undefined) {
      forget()
      throw error
    }
    return await waitForSignIn()
  }
}

function waitForSignIn(): Promise<string> {
  token = undefined
  ended = Promise.withResolvers()
  // Nobody may be waiting when another application signs in.
  ended.promise.catch(() => {})
  onChange('ended')
  return ended.promise
}

function take({ token: text, expiresInSeconds, application, scopes }: Answer): string {
  token = { text, untilMs: Date.now() + expiresInSeconds * 1000 - RENEW_MS }
  // What one application began is not ended by another one.
  if (application.id === applicationId) ended?.resolve(text)
  else ended?.reject(new ApiError('signed_out', 'Another application signed in.'))
  ended = undefined
  applicationId = application.id
  onChange({ application, scopes: new Set(scopes) })
  return text
}

/** Nobody is signed in here from now on. The server is not asked. */
export function forget(): void {
  signIns += 1
  token = undefined
  applicationId = undefined
  ended?.reject(new ApiError('signed_out', 'You signed out.'))
  ended = undefined
  onChange('signed out')
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
