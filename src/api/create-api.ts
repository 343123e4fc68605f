/** The front end: joins admission, ingest and control requests, listens and stops. */

import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { monotonicMs } from '../util/clock.ts'
import { moved, type Refusal } from '../util/errors.ts'
import { HTTP_IDLE_MS_MAX } from '../util/limits.ts'
import { API_TIMES, type Api, type ApiDeps, type ApiOptions } from './api-types.ts'
import { Control, controlRoutes, type Router } from './control.ts'
import {
  type Connections,
  connectionsMaxOf,
  Drain,
  descriptorLimit,
  SERVER_LIFE,
  Sockets,
  Unread,
} from './http/connections.ts'
import { answerEarly, type Responder } from './http/responder.ts'
import { Streams } from './http/stream.ts'
import { watchPair } from './http/tls.ts'
import { CHUNKED, declaredBytesOf, type OnRequest, type RequestHead, tryDecode } from './http/transport.ts'
import { Imports } from './imports/import-route.ts'
import { admit, admitRefused, isReadable, RateLimit } from './ingest/admission.ts'
import { Tarpit } from './ingest/guess-tarpit.ts'
import type { HeadHandshake } from './ingest/handshakes.ts'
import { Ingest } from './ingest/ingest.ts'
import { replayPort } from './ingest/replay-port.ts'
import { shown } from './parameters.ts'
import { problemReply, refusalOfError, refuse } from './problem.ts'
import { QUERY_PATH } from './query-route.ts'

/** Interval of the one timer for waiting requests, slow bodies and drained connections. */
const API_TICK_MS = 100

/** Makes the API and listens. Rejects with CannotRun when the address cannot be used. */
export async function createApi(deps: ApiDeps, options: ApiOptions): Promise<Api> {
  const connectionsMax = options.connectionsMax || connectionsMaxOf(descriptorLimit())
  const times = { ...API_TIMES, ...options }
  const connections = newConnections(deps, connectionsMax, times.answerMsMax)
  const rate = new RateLimit(options.rateLimit)
  const ingest = new Ingest(deps, rate, times)
  const streams = new Streams(times)
  const imports = new Imports(deps, ingest, rate, connections, times)
  const control = new Control(streams)
  const routes = controlRoutes(deps, connections, control, imports)
  const onRequest = dispatcher(deps, connections, ingest, rate, routes, options.chunked)
  const { drain, unread, sockets } = connections
  const ticking = [ingest, control.bodies, drain, unread, sockets, streams, imports]
  const timer = setInterval(() => {
    const now = monotonicMs()
    connections.ticks += 1
    for (const one of ticking) one.tick(now)
  }, API_TICK_MS)
  try {
    const { host, port, tls, idleMsMax = HTTP_IDLE_MS_MAX } = options
    const listening = await options.transport.listen({ host, port, connections, onRequest, tls, idleMsMax })
    const unwatch = tls === undefined ? () => {} : watchPair(tls, pair => listening.renew(pair))
    return {
      host,
      port: listening.port,
      state: () => connections.state,
      replay: replayPort({ catalog: deps.imports.catalog, api: deps, ingest }),
      stats: () => ({
        open: connections.open,
        waitingRequests: ingest.bodies.waiting.length,
        bufferedBytes: ingest.bodies.waiting.bytes,
        slabsInUse: ingest.slabs.inUse,
        tasksRunning: ingest.tasks,
        unreadAnswers: connections.unread.length,
        imports: imports.length,
        streams: streams.length,
        connections: sockets.open,
        connectionsMax,
        connectionsRefused: sockets.refused,
        connectionsUnheard: sockets.unheard,
      }),
      leave: async delayMs => {
        connections.state = moved(SERVER_LIFE, connections.state, 'leaving')
        await sleep(delayMs)
        unwatch() // a certificate that is renewed makes uWebSockets.js listen again
        listening.stopListening()
        await lastRequests(sockets)
      },
      stop: async deadlineMs => {
        // Meanwhile /readyz answers 503. Then close() ends listening as well.
        unwatch()
        streams.stop()
        imports.stop()
        for (const route of deps.routes) route.stop?.()
        const idle = await answerOpen(connections, deadlineMs)
        clearInterval(timer)
        // Over node:http an answer before the end of its body reaches the socket after this turn.
        await nextTurn()
        await ingest.rejected.stop(REJECTED_STOP_MS)
        listening.close()
        return idle
      },
    }
  } catch (error) {
    clearInterval(timer)
    throw error
  }
}

function newConnections({ meter }: ApiDeps, connectionsMax: number, answerMsMax: number): Connections {
  return {
    open: 0,
    state: 'serving',
    get stopping() {
      return this.state !== 'serving'
    },
    get refusing() {
      return this.state === 'stopping'
    },
    onIdle: () => {},
    onReply: status => meter.request(status),
    drain: new Drain(answerMsMax),
    unread: new Unread(answerMsMax),
    sockets: new Sockets(connectionsMax),
    ticks: 0,
  }
}

/** Time for requests of connections that were made just before the server listened no more. */
const LAST_REQUESTS_MS = 1_000

async function lastRequests(sockets: Sockets): Promise<void> {
  const endMs = monotonicMs() + LAST_REQUESTS_MS
  do await sleep(API_TICK_MS)
  while (sockets.open > 0 && monotonicMs() < endMs)
}

function dispatcher(
  deps: ApiDeps,
  connections: Connections,
  ingest: Ingest,
  rate: RateLimit,
  routes: Router,
  chunked: boolean,
): OnRequest {
  const tarpit = new Tarpit()
  const webhook = (head: RequestHead, responder: Responder, id: string, subpath: string) => {
    responder.route = head.method === 'delete' ? 'delete' : 'ingest'
    // The path is the secret of the webhook's sender.
    const route = subpath === '' ? '/v1/{webhook_id}' : '/v1/{webhook_id}/{path}'
    responder.span?.route(head, route, '/v1/REDACTED')
    const admission = connections.refusing ? STOPPING : admit(head, id, subpath, deps, rate)
    if ('target' in admission) {
      ingest.receive(admission, responder)
      return
    }
    if ('reply' in admission) {
      answerHandshake(head, responder, admission, () =>
        deps.storeSecret(tryDecode(id) ?? id, admission.secret),
      )
      return
    }
    deps.meter.refused(admission.code)
    if (admission.status !== 401) {
      const kept = admitRefused(head, id, subpath, admission, deps)
      if (kept === undefined || !ingest.refuse(kept, isReadable(head), responder))
        refuseHead(head, responder, admission)
      return
    }
    // The head is not valid any more when the answer is delayed.
    const declaredBytes = declaredBytesOf(head)
    tarpit.refuse(head.address(), id, responder, () =>
      answerEarly(responder, problemReply(admission), declaredBytes),
    )
  }
  return (head, responder) => {
    const { path, framing } = head
    responder.requestId = head.requestId
    responder.span = deps.trace?.(head)
    if (typeof framing !== 'number') refuseHead(head, responder, framing)
    else if (framing === CHUNKED && !chunked) refuseHead(head, responder, NO_CHUNKS)
    else if (path.startsWith(INGEST) && !path.includes('/', INGEST.length) && path !== QUERY_PATH)
      webhook(head, responder, path.slice(INGEST.length), '')
    else if (!routes.run(head, responder)) {
      const end = path.startsWith(INGEST) ? path.indexOf('/', INGEST.length) : -1
      const id = path.slice(INGEST.length, end)
      if (end < 0 || deps.target(tryDecode(id) ?? id) === undefined)
        refuseHead(head, responder, notFound(path))
      else webhook(head, responder, id, path.slice(end))
    }
  }
}

/** Time in which rejected events reach the log at a stop. */
const REJECTED_STOP_MS = 1_000

const INGEST = '/v1/'

/** Answers a handshake without reading its body. A secret that it brings is stored first. */
function answerHandshake(
  head: RequestHead,
  responder: Responder,
  { reply, secret }: HeadHandshake,
  store: () => Promise<void>,
): void {
  const declaredBytes = declaredBytesOf(head)
  if (secret === null) answerEarly(responder, reply, declaredBytes)
  else
    store().then(
      () => answerEarly(responder, reply, declaredBytes),
      error => {
        const refusal = refusalOfError(error, 'handshake', responder.ids)
        answerEarly(responder, problemReply(refusal), declaredBytes)
      },
    )
}

function notFound(path: string): Refusal {
  return refuse(404, 'not_found', `nothing is served at "${shown(path)}"; docs/contract.md lists the routes`)
}

const NO_CHUNKS = refuse(
  411,
  'length_required',
  'this server takes no bodies in chunks, only a Content-Length',
)
const STOPPING = refuse(503, 'stopping', 'the server is stopping')

function refuseHead(head: RequestHead, responder: Responder, refusal: Refusal): void {
  answerEarly(responder, problemReply(refusal), declaredBytesOf(head))
}

/** Waits until no request is open. Resolves with false where the deadline passed first. */
function answerOpen(connections: Connections, deadlineMs: number): Promise<boolean> {
  connections.state = moved(SERVER_LIFE, connections.state, 'stopping')
  if (connections.open === 0) return Promise.resolve(true)
  return new Promise(resolve => {
    const timer = setTimeout(() => resolve(false), deadlineMs)
    connections.onIdle = () => {
      clearTimeout(timer)
      resolve(true)
    }
  })
}
