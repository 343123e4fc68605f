/** /livez and /readyz. */
import { problemReply, refuse } from './problem.ts'
import type { Health, Reply } from './protocol.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

/** The process answers: that is all it says. */
export function livez(): Reply {
  return { status: 200, headers: JSON_TYPE, body: '{"live":true}' }
}

/** 200 only while events would be accepted. */
export function readyz(health: Health, stopping: boolean): Reply {
  if (stopping) return problemReply(refuse(503, 'stopping', 'the server is stopping'))
  if (health.refuse !== undefined) return problemReply(refuse(503, health.refuse.code, health.refuse.message))
  if (!health.ready) return problemReply(refuse(503, 'not_ready', health.why ?? 'the server is not ready'))
  return { status: 200, headers: JSON_TYPE, body: '{"ready":true}' }
}
