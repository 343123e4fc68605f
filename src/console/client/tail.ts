/**
 * Follows the tail of a pool: Server-Sent Events over fetch, because EventSource sends no token. It
 * connects again until its page goes.
 */
import { ApiError, errorOf } from './api-error.ts'
import { send } from './request.ts'
import { dropToken } from './session.ts'

const RECONNECT_MS = 2_000
/** Why a tail ends for a while: a restart, too many readers, a server that is not there. */
const PASSING: ReadonlySet<string> = new Set([
  'offline',
  'stopping',
  'busy',
  'starting',
  'too_many_tails',
  'http_502',
  'http_503',
  'http_504',
])

/** The code of a token that is not valid any more. */
const REFUSED_TOKEN = 'token_invalid'

export interface TailListener {
  rows(rows: readonly Readonly<Record<string, string | null>>[]): void
  /** So many events did not come to this page. */
  missed(count: number): void
  /** The stream begins, or ended and begins again soon. */
  connected(isConnected: boolean): void
}

/** Follows until `signal`. Throws ApiError where the server ends the tail for good. */
export async function followTail(
  pool: string,
  parameters: Readonly<Record<string, string>>,
  listener: TailListener,
  signal: AbortSignal,
): Promise<void> {
  const path = `/v1/pools/${encodeURIComponent(pool)}/tail?${new URLSearchParams(parameters)}`
  while (!signal.aborted) {
    try {
      const answer = await send(path, {}, signal, undefined)
      if (!answer.ok) throw await errorOf(answer)
      listener.connected(true)
      await readEvents(answer, listener)
    } catch (error) {
      if (signal.aborted) return
      listener.connected(false)
      // The secret was changed: the next connection waits for the sign-in.
      if (error instanceof ApiError && error.code === REFUSED_TOKEN) dropToken()
      else if (error instanceof ApiError && !PASSING.has(error.code)) throw error
    }
    if (signal.aborted) return
    listener.connected(false)
    await pause(RECONNECT_MS, signal)
  }
}

async function readEvents(answer: Response, listener: TailListener): Promise<void> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
  let buffered = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    buffered += value
    const events = buffered.split('\n\n')
    buffered = events.pop()!
    take(events, listener)
  }
}

function take(events: readonly string[], listener: TailListener): void {
  const rows: Record<string, string | null>[] = []
  for (const event of events) {
    const fields = fieldsOf(event)
    const data = fields.get('data')
    if (data === undefined) continue
    const kind = fields.get('event')
    if (kind === undefined) rows.push(JSON.parse(data))
    else if (kind === 'missed') listener.missed(JSON.parse(data).count)
    else if (kind === 'end') {
      const { code, message } = JSON.parse(data) as { readonly code: string; readonly message: string }
      if (rows.length > 0) listener.rows(rows)
      throw new ApiError(code, message)
    }
  }
  if (rows.length > 0) listener.rows(rows)
}

function fieldsOf(event: string): Map<string, string> {
  const fields = new Map<string, string>()
  for (const line of event.split('\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).replace(/^ /, ''))
  }
  return fields
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
