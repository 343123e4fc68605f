/**
 * CORS: pages of any origin may call /graphql, /oauth2/token and /v1/query, because tokens, not
 * cookies, identify the caller.
 */
import type { Reply } from './api-types.ts'

/** The answer to a browser that asks whether a page may use these methods. */
export function preflightOf(methods: string): Reply {
  const headers = {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': methods,
    'access-control-allow-headers': 'authorization, content-type',
    'access-control-max-age': '86400',
  }
  return { status: 204, headers, body: '' }
}

/** Pages may read the counts of events, and when to try again. */
export const CORS_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'x-events-accepted, x-events-rejected, retry-after',
}

export function withCors(reply: Reply): Reply {
  const { status, headers, body } = reply // without its `head`, which lacks the new header
  return { status, headers: { ...headers, ...CORS_HEADERS }, body }
}
