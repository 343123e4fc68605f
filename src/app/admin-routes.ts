/**
 * `POST /v1/admin/applications`, `/v1/admin/keys` and `/v1/admin/jobs`: what `weir applications`,
 * `weir keys` and `weir jobs` ask of a running server. Body and answer are JSON, as tools/manage.ts
 * and tools/manage-jobs.ts have them.
 */
import type { ControlRequest, ControlRoute, Reply } from '../api/api-types.ts'
import type { AuditEntry } from '../api/graphql/context.ts'
import { jsonOf } from '../api/json-object.ts'
import { unknownParameter } from '../api/parameters.ts'
import { JSON_HEADERS, problemReply, refuse } from '../api/problem.ts'
import type { Tokens } from '../catalog/access/token.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { BadRequest } from '../catalog/documents/catalog-types.ts'
import { keepingAdmin } from '../catalog/open-catalog.ts'
import { APPLICATIONS, KEYS, type Managed, manage } from '../tools/manage.ts'
import { JOBS } from '../tools/manage-jobs.ts'
import { ROUTE_BODY_BYTES_MAX } from '../util/limits.ts'
import type { Paths } from '../util/paths.ts'

/** What the routes need of the running server. */
interface AdminDeps {
  readonly catalog: Catalog
  readonly verify: Tokens['verify']
  readonly paths: Paths
  /** See api/graphql/audit.ts. */
  readonly audit: (entry: AuditEntry) => void
}

/** The routes. */
export function adminRoutes(deps: AdminDeps): ControlRoute[] {
  return [route(deps, APPLICATIONS), route(deps, KEYS), route(deps, JOBS)]
}

function route<Request extends object, Answer extends object>(
  { catalog, verify, paths, audit }: AdminDeps,
  managed: Managed<Request, Answer>,
): ControlRoute {
  const { path, scope } = managed
  const handle = async ({ address, authorization, body, query }: ControlRequest): Promise<Reply> => {
    const caller = await verify(authorization, address)
    if ('status' in caller) return problemReply(caller)
    const unknown = unknownParameter(query, [])
    if (unknown !== undefined) return problemReply(refuse(400, 'bad_parameter', unknown))
    const { applicationId } = caller
    const given = jsonOf(body)
    const request = given === undefined ? NOT_JSON : managed.read(given)
    if (!caller.scopes.has(scope)) {
      const asked = 'badRequest' in request ? undefined : managed.attemptOf(request)
      if (asked !== undefined) audit({ ...asked, applicationId, outcome: 'FORBIDDEN' })
      return problemReply(refuse(403, 'forbidden', `application ${applicationId} lacks the scope ${scope}`))
    }
    const run = async () =>
      'badRequest' in request ? request : await manage(managed, catalog, request, applicationId, audit)
    const answered = await keepingAdmin(catalog, paths.admin, run)
    if ('badRequest' in answered) return problemReply(refuse(400, 'bad_request', answered.badRequest))
    return { status: 200, headers: JSON_HEADERS, body: JSON.stringify(answered) }
  }
  return { methods: ['POST'], path, bodyBytesMax: ROUTE_BODY_BYTES_MAX, handle }
}

const NOT_JSON: BadRequest = { badRequest: 'The body must be one JSON object.' }
