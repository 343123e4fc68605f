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

/** A token, and whose it is: what one application began is never sent by another one. */
export interface Token {
  readonly text: string
  readonly applicationId: string
}

let token: (Token & { readonly untilMs: number }) | undefined
/** Counts the changes of who is signed in: an answer to what began before one does not count. */
let turns = 0
let renewing: Promise<Token> | undefined
/** The application of the page. */
let applicationId: string | undefined
/** The session ended below a page. Its requests wait here until the same application signs in. */
let ended: PromiseWithResolvers<Token> | undefined

/**
 *   Signed      somebody signed in
 *   signed out  nobody is signed in, or somebody left, here or in another tab
 *   ended       the session ended by itself: what stands in the page may be somebody's draft
 */
type SessionChange = Signed | 'signed out' | 'ended'
let onChange: (change: SessionChange) => void = () => {}

/** Calls `listener` whenever the session changes. */
export function watchSession(listener: typeof onChange): void {
  onChange = listener
}

/** The other tabs of this browser: a sign-out and a sign-in in one are known in all. */
const otherTabs = new BroadcastChannel('weir-session')
otherTabs.addEventListener('message', ({ data }) => {
  if (data === 'signed out') forget()
  // The cookie is good again. Where it is another application's, its pages are shown.
  else if (ended !== undefined) renew().catch(() => {})
})

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
  const begun = turns
  const answer = await post('/session', by)
  if (begun !== turns) {
    // Somebody left meanwhile.
    await post('/session/end', {})
    return
  }
  take(answer)
  otherTabs.postMessage('signed in')
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
export async function currentToken(): Promise<Token> {
  if (ended !== undefined) return await ended.promise
  if (token !== undefined && token.untilMs > Date.now()) return token
  renewing ??= renew().finally(() => {
    renewing = undefined
  })
  return await renewing
}

/** The server refused the token: the application was changed, or the server was started again. */
export function dropToken(): void {
  token = undefined
}

async function renew(): Promise<Token> {
  const begun = turns
  const before = applicationId
  try {
    const answer = await post('/session/token', {})
    if (begun !== turns) throw changed()
    const renewed = take(answer)
    // Another application signed in with this browser.
    if (before !== undefined && before !== renewed.applicationId) throw changed()
    return renewed
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'signed_out' || begun !== turns) throw error
    if (applicationId === undefined) {
      forget()
      throw error
    }
    return await waitForSignIn()
  }
}

/** For what an application began that is not signed in any more. */
export function changed(): ApiError {
  return new ApiError('signed_out', 'Somebody signed in or out meanwhile.')
}

function waitForSignIn(): Promise<Token> {
  token = undefined
  if (ended === undefined) {
    ended = Promise.withResolvers()
    // Nobody may be waiting when somebody leaves.
    ended.promise.catch(() => {})
    onChange('ended')
  }
  return ended.promise
}

function take({ token: text, expiresInSeconds, application, scopes }: Answer): Token {
  if (application.id !== applicationId) turns += 1
  token = { text, applicationId: application.id, untilMs: Date.now() + expiresInSeconds * 1000 - RENEW_MS }
  if (application.id === applicationId) ended?.resolve(token)
  else ended?.reject(changed())
  ended = undefined
  applicationId = application.id
  onChange({ application, scopes: new Set(scopes) })
  return token
}

/** Nobody is signed in here from now on. The server is not asked. */
export function forget(): void {
  turns += 1
  token = undefined
  applicationId = undefined
  ended?.reject(changed())
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
