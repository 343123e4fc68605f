/** Browsers call /graphql and /oauth2/token from any page: tokens, not cookies, say who is calling. */
import type { Reply } from './protocol.ts'

/** The answer to a preflight. */
export const PREFLIGHT: Reply = {
  status: 204,
  headers: {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'POST, OPTIONS',
    'access-control-allow-headers': 'authorization, content-type',
    'access-control-max-age': '86400',
  },
  body: '',
}

/** The same reply, readable by pages of any origin. */
export function withCors(reply: Reply): Reply {
  const { status, headers, body } = reply // not its `head`: that is without the new one
  return { status, headers: { ...headers, 'access-control-allow-origin': '*' }, body }
}
