/** /livez, /readyz, and the access to /metrics. Ingest reads the same health state as /readyz. */

import { timingSafeEqual } from 'node:crypto'
import { isIPv4 } from 'node:net'
import type { LogState } from '../log/log-types.ts'
import { readBearer, secretDigest } from '../util/authorization.ts'
import type { Refusal } from '../util/errors.ts'
import type { Health, Reply } from './api-types.ts'
import { problemReply, refuse } from './problem.ts'

/** The state of a data folder. Every ingest request asks for it. */
interface HealthState {
  readonly log: LogState
  /** Why the catalog takes no changes until the restart. Events are accepted nevertheless. */
  readonly catalogRefusal: () => string | undefined
  /** Pools whose last flush failed. Their events are accepted, their queries are refused. */
  readonly poolsFailing: () => number
}

export function healthOf({ log: state, catalogRefusal, poolsFailing }: HealthState): Health {
  if (state === 'stopped') return stoppingHealth()
  if (state === 'poisoned')
    return refusing('log_refused', 'the log refuses writes after a failed one; restart Weir')
  if (state === 'disk_full')
    return refusing(
      'disk_full',
      'the log has no room: the disk is full or file descriptors ran out; Weir tries again each second',
    )
  const why = catalogRefusal() ?? flushRefusal(poolsFailing())
  return why === undefined ? { ready: true } : { ready: false, why }
}

/** Names neither pool nor path, because anybody may ask. The log of the server names them. */
function flushRefusal(pools: number): string | undefined {
  if (pools === 0) return undefined
  return `the last flush of ${pools === 1 ? 'a pool' : `${pools} pools`} failed and is tried again: see the server's log`
}

export function stoppingHealth(): Health {
  return refusing('stopping', 'the server is stopping')
}

export function refusing(code: string, message: string): Health {
  return { ready: false, why: message, refuse: { code, message } }
}

const JSON_TYPE = { 'content-type': 'application/json' }

export function livez(): Reply {
  return { status: 200, headers: JSON_TYPE, body: '{"live":true}' }
}

export function readyz(health: Health, stopping: boolean): Reply {
  if (stopping) return problemReply(refuse(503, 'stopping', 'the server is stopping'))
  if (health.refuse !== undefined) return problemReply(refuse(503, health.refuse.code, health.refuse.message))
  if (!health.ready) return problemReply(refuse(503, 'not_ready', health.why ?? 'the server is not ready'))
  return { status: 200, headers: JSON_TYPE, body: '{"ready":true}' }
}

const CHALLENGE = { 'www-authenticate': 'Bearer realm="weir metrics"' }
const TOKEN_WRONG = refuse(
  401,
  'metrics_token',
  'the Bearer token of /metrics is missing or wrong',
  CHALLENGE,
)
const NOT_LOCAL = refuse(
  403,
  'metrics_closed',
  'Weir listens on an address that others reach, and /metrics names pools: start Weir with WEIR_METRICS_TOKEN and send it as a Bearer token',
)

/**
 * /metrics names pools. With a token, whoever sends it may read the page. Without one, everybody
 * may, but only on a server that listens on a loopback address.
 *
 * Returns a check of an Authorization header. The check returns undefined to allow.
 * @param token '' for none
 */
export function metricsAccess(host: string, token: string): (authorization: string) => Refusal | undefined {
  if (token === '') {
    const refusal = isLoopback(host) ? undefined : NOT_LOCAL
    return () => refusal
  }
  const wanted = secretDigest(token)
  return authorization =>
    timingSafeEqual(secretDigest(readBearer(authorization) ?? ''), wanted) ? undefined : TOKEN_WRONG
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}
