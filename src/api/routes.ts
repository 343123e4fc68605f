/** Every route but ingest, and the router that finds one: by path, then by method. */
import { GRAPHQL_BODY_BYTES_MAX, TOKEN_BODY_BYTES_MAX } from '../util/limits.ts'
import type { ApiDeps, ControlRoute, Reply } from './api-types.ts'
import type { Connections } from './connections.ts'
import { type Control, PREFLIGHT, withCors } from './control.ts'
import { declaredBytesOf, type RequestHead, tryDecode } from './http/transport.ts'
import { livez, readyz } from './probes.ts'
import { problemReply, refuse } from './problem.ts'
import { answerEarly, type Responder } from './responder.ts'

/** @param parameters the `:name` parts of the path, percent-decoded; undefined when one is malformed */
type Handler = (head: RequestHead, responder: Responder, parameters: readonly string[] | undefined) => void

/** The handlers of one path. */
export interface Route {
  /** For the metrics: graphql, token, health, metrics or other. */
  readonly name: string
  /** Handlers by method, in lower case. */
  readonly methods: Readonly<Record<string, Handler>>
  /** Handles every other method. */
  readonly otherwise: Handler
}

interface Pattern {
  /** The parts of the path; undefined matches any one part. */
  readonly parts: readonly (string | undefined)[]
  readonly route: Route
}

const NO_PARAMETERS: readonly string[] = []

export class Router {
  readonly #exact = new Map<string, Route>()
  readonly #patterns: Pattern[] = []

  /** @param path as in `/v1/pools/:pool/arrow` */
  add(path: string, route: Route): void {
    if (!path.includes('/:')) {
      this.#exact.set(path, route)
      return
    }
    const parts = path.split('/').map(part => (part.startsWith(':') ? undefined : part))
    this.#patterns.push({ parts, route })
  }

  /** Passes the request to its handler. False: the table has no such path. */
  run(head: RequestHead, responder: Responder): boolean {
    const exact = this.#exact.get(head.path)
    if (exact !== undefined) {
      handlerOf(exact, head, responder)(head, responder, NO_PARAMETERS)
      return true
    }
    const given = head.path.split('/')
    for (const { parts, route } of this.#patterns) {
      if (!matches(parts, given)) continue
      handlerOf(route, head, responder)(head, responder, parametersOf(parts, given))
      return true
    }
    return false
  }
}

function handlerOf(route: Route, head: RequestHead, responder: Responder): Handler {
  responder.route = route.name
  return Object.hasOwn(route.methods, head.method) ? route.methods[head.method]! : route.otherwise
}

function matches(parts: Pattern['parts'], given: readonly string[]): boolean {
  return (
    given.length === parts.length &&
    parts.every((part, index) => (part === undefined ? given[index] !== '' : part === given[index]))
  )
}

function parametersOf(parts: Pattern['parts'], given: readonly string[]): string[] | undefined {
  const decoded: string[] = []
  for (const [index, part] of parts.entries()) {
    if (part !== undefined) continue
    const text = tryDecode(given[index]!)
    if (text === undefined) return undefined
    decoded.push(text)
  }
  return decoded
}

/** All routes but ingest. */
export function controlRoutes(deps: ApiDeps, connections: Connections, control: Control): Router {
  const routes = new Router()
  const controlled =
    (route: Pick<ControlRoute, 'handle' | 'bodyBytesMax'>, cors: boolean): Handler =>
    (head, responder, parameters) =>
      control.run(head, responder, route, parameters, cors)

  const browser: readonly (readonly [string, string, ControlRoute['handle'], number])[] = [
    ['/graphql', 'graphql', deps.graphql, GRAPHQL_BODY_BYTES_MAX],
    ['/oauth2/token', 'token', deps.token, TOKEN_BODY_BYTES_MAX],
  ]
  const preflight: Handler = (_, responder) => responder.send(PREFLIGHT)
  for (const [path, name, handle, bodyBytesMax] of browser) {
    const methods = { post: controlled({ handle, bodyBytesMax }, true), options: preflight }
    routes.add(path, { name, methods, otherwise: refusing('POST, OPTIONS', true) })
  }
  for (const route of deps.routes) {
    const { method, path } = route
    const handler = controlled(route, false)
    const [methods, allow] =
      method === 'GET' ? [{ get: handler, head: handler }, 'GET, HEAD'] : [{ post: handler }, method]
    routes.add(path, { name: 'other', methods, otherwise: refusing(allow, false) })
  }

  const metrics = async (head: RequestHead) => {
    const refusal = deps.metricsAccess(head.header('authorization'))
    if (refusal !== undefined) return problemReply(refusal)
    return { status: 200, headers: METRICS_TYPE, body: await deps.metricsText() }
  }
  const reading: readonly (readonly [string, string, (head: RequestHead) => Reply | Promise<Reply>])[] = [
    ['/livez', 'health', livez],
    ['/readyz', 'health', () => readyz(deps.health(), connections.stopping)],
    ['/metrics', 'metrics', metrics],
  ]
  for (const [path, name, read] of reading) {
    const answer: Handler = async (head, responder) => {
      const declaredBytes = declaredBytesOf(head) // read before the first await, while the head is valid
      answerEarly(responder, await read(head), declaredBytes)
    }
    routes.add(path, {
      name,
      methods: { get: answer, head: answer },
      otherwise: refusing('GET, HEAD', false),
    })
  }
  return routes
}

const METRICS_TYPE = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }

/** 405 with the methods of a path. */
function refusing(allow: string, cors: boolean): Handler {
  const refusal = refuse(405, 'method_not_allowed', `this path takes ${allow}`, { allow })
  const reply = cors ? withCors(problemReply(refusal)) : problemReply(refusal)
  return (head, responder) => answerEarly(responder, reply, declaredBytesOf(head))
}
