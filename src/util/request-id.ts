/**
 * The id that a client gives a request: the answer repeats it, and lines of the log that are about
 * the request name it. Weir makes none: a client that gives none does not look for it.
 */

export const REQUEST_ID = 'x-request-id'

/** Those of UUIDs, ULIDs and traces: no log, terminal or header takes them for anything else. */
const KNOWN = /^[0-9A-Za-z._~:/+=-]{1,128}$/

/** @param given the header's value @returns "" where there is none, or none that is taken */
export function requestIdOf(given: string): string {
  return given !== '' && KNOWN.test(given) ? given : ''
}

/** As a part of a line of the log. */
export function inLog(requestId: string): string {
  return requestId === '' ? '' : ` (request ${requestId})`
}
