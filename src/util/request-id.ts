/**
 * The id that a client gives a request: the answer repeats it, and lines of the log that are about
 * the request name it. Weir makes none: a client that gives none does not look for it.
 */

export const REQUEST_ID = 'x-request-id'

/** UUIDs, ULIDs and trace ids have these characters, which need no escape in a log or a header. */
const KNOWN = /^[0-9A-Za-z._~:/+=-]{1,128}$/

/** @param given the header's value @returns "" where there is none, or none that is taken */
export function requestIdOf(given: string): string {
  return given !== '' && KNOWN.test(given) ? given : ''
}

/** The ids by which lines of the log name a request. "" where it has none. */
export interface RequestIds {
  readonly requestId: string
  /** Of its trace, where requests are traced (util/tracing.ts). */
  readonly traceId: string
}

export const NO_IDS: RequestIds = { requestId: '', traceId: '' }

/** Ids that one line of the log names, 4 KiB at most: as many small bodies gather for one task. */
const REQUEST_IDS_LOGGED_MAX = 32

/** The ids of requests that failed together, as one text. "" stands for a request without one. */
export function joinRequestIds(requestIds: readonly string[]): string {
  const known = [...new Set(requestIds)].filter(id => id !== '')
  const more = known.length - REQUEST_IDS_LOGGED_MAX
  const named = known.slice(0, REQUEST_IDS_LOGGED_MAX).join(', ')
  return more > 0 ? `${named} and ${more} more` : named
}

/** The same of requests that may be traced too. */
export function joinIds(requests: readonly RequestIds[]): RequestIds {
  return {
    requestId: joinRequestIds(requests.map(one => one.requestId)),
    traceId: joinRequestIds(requests.map(one => one.traceId)),
  }
}

/** The ids, or those of joinIds, as a part of a line of the log. */
export function inLog({ requestId, traceId }: RequestIds): string {
  const ids = [requestId && `request ${requestId}`, traceId && `trace ${traceId}`]
  return requestId + traceId === '' ? '' : ` (${ids.filter(id => id !== '').join(', ')})`
}
