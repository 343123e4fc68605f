/**
 * Refusals in HTTP: one JSON object, both the form that existing clients parse (`errors`, a string)
 * and RFC 9457.
 */
import { STATUS_CODES } from 'node:http'
import { AccessEnded, BodyBroken, type Refusal, SegmentDamaged, Unavailable } from '../util/errors.ts'
import { inLog, type RequestIds } from '../util/request-id.ts'
import { fail } from '../util/say.ts'
import type { Reply } from './api-types.ts'
import { shown } from './parameters.ts'

export const JSON_HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

/** A 503 has the header `retry-after`: one second where `headers` has none. */
export function refuse(
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Refusal {
  const all = status === 503 ? { 'retry-after': '1', ...headers } : headers
  return { status, code, message, retryable: RETRYABLE.has(status), headers: all }
}

export function unknownPool(name: string): Refusal {
  return refuse(404, 'unknown_pool', `no Data Pool has the id or unique name "${shown(name)}"`)
}

const RETRYABLE: ReadonlySet<number> = new Set([408, 429, 500, 503])

export const BAD_PATH = refuse(404, 'not_found', 'the path is not well-formed')
export const TOO_SLOW = refuse(408, 'body_too_slow', 'the body did not arrive in time')

/** The headers of an answer to a body that was read, when no event was accepted. */
export function rejectedHeaders(rejected: number): Record<string, string> {
  return { 'x-events-accepted': '0', 'x-events-rejected': String(rejected) }
}

export function problemReply(refusal: Refusal): Reply {
  return {
    status: refusal.status,
    headers: { ...refusal.headers, 'content-type': 'application/problem+json' },
    body: JSON.stringify(problemFields(refusal)),
  }
}

export function problemFields(refusal: Refusal) {
  return {
    errors: refusal.message,
    type: `urn:weir:problem:${refusal.code}`,
    title: STATUS_CODES[refusal.status] ?? 'Error',
    status: refusal.status,
    detail: refusal.message,
    code: refusal.code,
    retryable: refusal.retryable,
    events: refusal.events ?? [],
  }
}

/**
 * Words an error for the client. An error of the server also goes to standard error.
 * @param where the route or the part of the server
 * @param ids of the request, or those of joinIds
 */
export function refusalOfError(error: unknown, where: string, ids: RequestIds): Refusal {
  if (error instanceof Unavailable && error.code === 'too_much_work')
    return refuse(400, error.code, error.message)
  if (error instanceof Unavailable) return refuse(503, error.code, error.message)
  if (error instanceof BodyBroken) return refuse(400, error.code, error.message)
  if (error instanceof AccessEnded) return error.refusal
  if (error instanceof SegmentDamaged)
    return { ...refuse(500, 'segment_damaged', error.messageForClient), retryable: false }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  fail(`${where}${inLog(ids)}: ${text}`, ids)
  return refuse(500, 'internal', 'the server failed; its log has the error')
}
