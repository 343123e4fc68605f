/**
 * CORS: pages of any origin may call routes with `cors` and webhooks that accept BROWSER, because
 * tokens, not cookies, identify the caller.
 */
import type { Reply } from './api-types.ts'

/** The answer to a browser that asks whether a page may use these methods. */
export function preflightOf(methods: string): Reply {
  const headers = {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': methods,
    'access-control-allow-headers':
      'authorization, content-type, if-none-match, x-request-id, traceparent, tracestate',
    'access-control-max-age': '86400',
  }
  return { status: 204, headers, body: '' }
}

/** Pages may read counts of events and rows, when to try again, a file's tag, a request's id. */
export const CORS_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'x-events-accepted, x-events-rejected, x-rows, retry-after, etag, x-request-id',
}

export function withCors(reply: Reply): Reply {
  const { status, headers, body } = reply // without its `head`, which lacks the new header
  return { status, headers: { ...headers, ...CORS_HEADERS }, body }
}
