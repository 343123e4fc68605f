/** Requests with the session's token: GraphQL, and files that a person downloads. */
import { ApiError, errorOf } from './api-error.ts'
import { changed, currentToken, dropToken, type Token } from './session.ts'

/** The longest query of the server, and its wait for a slot. */
const REQUEST_MS_MAX = 60_000

interface GraphqlAnswer {
  readonly data?: unknown
  /** A text in a problem (RFC 9457), which an overloaded server answers. */
  readonly errors?:
    | string
    | readonly { readonly message: string; readonly extensions?: { readonly code?: string } }[]
  readonly code?: string
}

/**
 * Asks GraphQL. Throws ApiError with the server's first error: an answer in part is none here.
 * @param signal ends the request when its page goes
 */
export async function ask<T>(
  query: string,
  variables: Readonly<Record<string, unknown>> = {},
  signal?: AbortSignal,
): Promise<T> {
  const body = JSON.stringify({ query, variables })
  const answer = await send('/graphql', { method: 'POST', body }, signal, REQUEST_MS_MAX)
  const { data, errors, code } = (await answer.json()) as GraphqlAnswer
  if (typeof errors === 'string') throw new ApiError(code ?? 'error', errors)
  const [error] = errors ?? []
  if (error !== undefined) throw new ApiError(error.extensions?.code ?? 'error', error.message)
  if (data === undefined) throw new ApiError('error', `the server answered ${answer.status} without data`)
  return data as T
}

/**
 * Sends with a token, and once more where it was refused, as the same application. Throws ApiError
 * where no answer came.
 * @param msMax undefined for an answer that has no end
 */
export async function send(
  path: string,
  init: RequestInit,
  signal: AbortSignal | undefined,
  msMax: number | undefined,
): Promise<Response> {
  const token = await currentToken()
  const answer = await sendOnce(token, path, init, signal, msMax)
  if (answer.status !== 401) return answer
  dropToken()
  const next = await currentToken()
  if (next.applicationId !== token.applicationId) throw changed()
  return await sendOnce(next, path, init, signal, msMax)
}

async function sendOnce(
  { text }: Token,
  path: string,
  init: RequestInit,
  signal: AbortSignal | undefined,
  msMax: number | undefined,
): Promise<Response> {
  const late = msMax === undefined ? undefined : AbortSignal.timeout(msMax)
  try {
    return await fetch(path, {
      ...init,
      headers: { 'content-type': 'application/json', ...init.headers, authorization: `Bearer ${text}` },
      signal: AbortSignal.any([signal, late].filter(one => one !== undefined)),
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    if (late?.aborted === true)
      throw new ApiError('late', 'The server took more than a minute. Ask for less, or try again.')
    throw new ApiError('offline', 'The server does not answer. Is Weir running?')
  }
}

/** A download of the largest size over a slow line. */
const DOWNLOAD_MS_MAX = 3_600_000
/** A page holds a download in memory before the browser saves it. */
const DOWNLOAD_BYTES_MAX = 256_000_000

/** Saves an answer as a file. Throws ApiError. */
export async function download(path: string, name: string): Promise<void> {
  const answer = await send(path, {}, undefined, DOWNLOAD_MS_MAX)
  if (!answer.ok) throw await errorOf(answer)
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let bytes = 0
  const reader = answer.body!.getReader()
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    chunks.push(next.value)
    bytes += next.value.byteLength
    if (bytes <= DOWNLOAD_BYTES_MAX) continue
    await reader.cancel()
    throw new ApiError('too_large', 'This is more than a page can hold: filter it, or use "weir export".')
  }
  const url = URL.createObjectURL(new Blob(chunks))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), DOWNLOAD_KEPT_MS)
}

/** The browser reads the blob after the click. */
const DOWNLOAD_KEPT_MS = 60_000
