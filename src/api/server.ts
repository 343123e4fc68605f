/** The front end: every route on one screen, listening and stopping. */
import uWS, { type HttpRequest, type HttpResponse } from 'uWebSockets.js'
import { CannotRun, type Refusal } from '../errors.ts'
import { ANSWER_MS_MAX, API_TICK_MS, STREAM_STALL_MS } from '../limits.ts'
import { monotonicMs } from '../util/clock.ts'
import { admit, type Head } from './admit.ts'
import { Control } from './control.ts'
import { ControlBodies } from './control-body.ts'
import { PREFLIGHT, withCors } from './cors.ts'
import { Drain } from './drain.ts'
import { answerEarly, declaredBytesOf } from './early.ts'
import { livez, readyz } from './health.ts'
import { Ingest } from './ingest.ts'
import { problemReply, refuse } from './problem.ts'
import type { Api, ApiOptions, ApiServices, ControlRoute, Reply } from './protocol.ts'
import { RateLimit } from './rate.ts'
import { type Connections, Responder } from './reply.ts'
import { Streams } from './stream.ts'
import { Unread } from './unread.ts'

type Handler = (request: HttpRequest, responder: Responder) => void | Promise<void>

/** Listens. Rejects with CannotRun where the address cannot be used. */
export async function createApi(services: ApiServices, options: ApiOptions): Promise<Api> {
  const drain = new Drain()
  const unread = new Unread(options.answerMsMax ?? ANSWER_MS_MAX)
  const connections: Connections = {
    open: 0,
    stopping: false,
    onIdle: () => {},
    onReply: (route, status) => services.meter.request(route, status),
    drain: responder => drain.start(responder),
    drained: (responder, bytes, last) => drain.count(responder, bytes, last),
    unread,
  }
  const rate = new RateLimit(options.rateLimit)
  const ingest = new Ingest(services, rate, options)
  const controlBodies = new ControlBodies()
  const streams = new Streams(options.streamStallMs ?? STREAM_STALL_MS)
  const app = uWS.App()
  addRoutes(app, services, connections, ingest, new Control(controlBodies, streams), rate)
  const timer = setInterval(() => {
    const now = monotonicMs()
    ingest.tick(now)
    controlBodies.tick(now)
    drain.tick(now)
    unread.tick(now)
    streams.tick(now)
  }, API_TICK_MS)
  try {
    const socket = await listen(app, options)
    return {
      host: options.host,
      port: uWS.us_socket_local_port(socket as unknown as uWS.us_socket),
      stats: () => ({
        open: connections.open,
        waitingRequests: ingest.bodies.waiting,
        heldBytes: ingest.bodies.heldBytes,
        slabsInUse: ingest.slabs.inUse,
        jobsRunning: ingest.jobs,
        unreadAnswers: unread.length,
        streams: streams.length,
      }),
      stop: async deadlineMs => {
        // Probes see /readyz turn 503 while requests in flight are answered; then close() ends the listening too.
        // NOTE: closing the listening socket in the same turn as close() crashes the process in this release.
        streams.stop()
        const idle = await answerOpen(connections, deadlineMs)
        clearInterval(timer)
        app.close()
        return idle
      },
    }
  } catch (error) {
    clearInterval(timer)
    throw error
  }
}

function addRoutes(
  app: uWS.TemplatedApp,
  services: ApiServices,
  connections: Connections,
  ingest: Ingest,
  control: Control,
  rate: RateLimit,
): void {
  const on = (route: string, handler: Handler) => (res: HttpResponse, request: HttpRequest) =>
    handler(request, new Responder(res, request.getMethod() === 'head', route, connections))
  const controlled = (handle: ControlRoute['handle'], parameters: number, cors: boolean) =>
    ((request, responder) => control.run(request, responder, handle, parameters, cors)) satisfies Handler

  const webhook = (res: HttpResponse, request: HttpRequest, method: string) => {
    const route = method === 'delete' ? 'delete' : 'ingest'
    const responder = new Responder(res, method === 'head', route, connections)
    const admission = connections.stopping
      ? STOPPING
      : admit(new RequestHead(request, method), services, rate)
    if ('target' in admission) {
      ingest.receive(admission, responder)
      return
    }
    services.meter.refused(admission.code)
    refuseHead(request, responder, admission)
  }
  app.post('/v1/:webhook', (res, request) => webhook(res, request, 'post'))
  app.del('/v1/:webhook', (res, request) => webhook(res, request, 'delete'))
  app.any('/v1/:webhook', (res, request) => webhook(res, request, request.getMethod()))

  app.post('/graphql', on('graphql', controlled(services.graphql, 0, true)))
  app.post('/oauth2/token', on('token', controlled(services.token, 0, true)))
  for (const path of ['/graphql', '/oauth2/token']) {
    app.options(
      path,
      on('other', (_, responder) => responder.send(PREFLIGHT)),
    )
    app.any(path, on('other', refusing('POST, OPTIONS', true)))
  }
  for (const { method, path, handle } of services.routes) {
    const parameters = path.split('/:').length - 1
    const handler = on('other', controlled(handle, parameters, false))
    if (method === 'GET') {
      app.get(path, handler)
      app.head(path, handler)
    } else app.post(path, handler)
    app.any(path, on('other', refusing(method === 'GET' ? 'GET, HEAD' : method, false)))
  }

  const metrics = async () => ({ status: 200, headers: METRICS_TYPE, body: await services.metricsText() })
  const reading: readonly (readonly [string, string, () => Reply | Promise<Reply>])[] = [
    ['/livez', 'health', livez],
    ['/readyz', 'health', () => readyz(services.health(), connections.stopping)],
    ['/metrics', 'metrics', metrics],
  ]
  for (const [path, route, read] of reading) {
    const answer = on(route, async (request, responder) => {
      const declaredBytes = declaredBytesOf(request) // before the first wait: the request is gone after it
      answerEarly(responder, await read(), declaredBytes)
    })
    app.get(path, answer)
    app.head(path, answer)
    app.any(path, on(route, refusing('GET, HEAD', false)))
  }
  app.any(
    '/*',
    on('other', (request, responder) => refuseHead(request, responder, NOT_FOUND)),
  )
}

const METRICS_TYPE = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }
const NOT_FOUND = refuse(404, 'not_found', 'nothing is served under this path')
const STOPPING = refuse(503, 'stopping', 'the server is stopping', { 'retry-after': '1' })

/** 405 with the methods that a path takes. */
function refusing(allow: string, cors: boolean): Handler {
  const refusal = refuse(405, 'method_not_allowed', `this path takes ${allow}`, { allow })
  const reply = cors ? withCors(problemReply(refusal)) : problemReply(refusal)
  return (request, responder) => answerEarly(responder, reply, declaredBytesOf(request))
}

/** Answers a request whose body nobody wants. */
function refuseHead(request: HttpRequest, responder: Responder, refusal: Refusal): void {
  answerEarly(responder, problemReply(refusal), declaredBytesOf(request))
}

/** A head read from uWebSockets.js where it is asked for: each look is a call into C++. */
class RequestHead implements Head {
  readonly method: string
  readonly #request: HttpRequest

  constructor(request: HttpRequest, method: string) {
    this.method = method
    this.#request = request
  }

  get webhook(): string {
    return this.#request.getParameter(0)
  }

  get query(): string {
    return this.#request.getQuery() ?? ''
  }

  get declaredBytes(): number {
    return declaredBytesOf(this.#request)
  }

  header(name: string): string {
    return this.#request.getHeader(name)
  }

  headerCount(name: string): number {
    let count = 0
    this.#request.forEach(key => {
      if (key === name) count += 1
    })
    return count
  }
}

/** LIBUS_LISTEN_EXCLUSIVE_PORT; the package's types leave out both it and this form of listen(). */
const EXCLUSIVE_PORT = 1
type ListenWithOptions = (
  host: string,
  port: number,
  options: number,
  done: (socket: uWS.us_listen_socket | false) => void,
) => void

function listen(app: uWS.TemplatedApp, options: ApiOptions): Promise<uWS.us_listen_socket> {
  const { host, port } = options
  return new Promise((resolve, reject) => {
    // Exclusive: without it a second server on the same port would listen too, and take half of the connections.
    ;(app.listen as unknown as ListenWithOptions).call(app, host, port, EXCLUSIVE_PORT, socket => {
      if (socket === false)
        reject(
          new CannotRun(
            `cannot listen on ${host}:${port}: the port is in use, or this machine has no such address`,
          ),
        )
      else resolve(socket)
    })
  })
}

/** Waits until nothing is open. False where the deadline passed first. */
function answerOpen(connections: Connections, deadlineMs: number): Promise<boolean> {
  connections.stopping = true
  if (connections.open === 0) return Promise.resolve(true)
  return new Promise(resolve => {
    const timer = setTimeout(() => resolve(false), deadlineMs)
    connections.onIdle = () => {
      clearTimeout(timer)
      resolve(true)
    }
  })
}
