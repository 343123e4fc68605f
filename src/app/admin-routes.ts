/**
 * `POST /v1/admin/applications`, `/v1/admin/keys` and `/v1/admin/jobs`: what `weir applications`,
 * `weir keys` and `weir jobs` ask of a running server. Body and answer are JSON, as tools/manage.ts
 * and tools/manage-jobs.ts have them.
 */
import type { ControlRequest, ControlRoute, Reply } from '../api/api-types.ts'
import type { AuditEntry } from '../api/graphql/context.ts'
import { unknownParameter } from '../api/parameters.ts'
import { problemReply, refuse } from '../api/problem.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { BadRequest } from '../catalog/catalog-types.ts'
import type { Scope } from '../catalog/model.ts'
import { keepingAdmin } from '../catalog/open-catalog.ts'
import type { Tokens } from '../catalog/token.ts'
import {
  attemptOf,
  KEY_ROTATION,
  manageApplications,
  readApplicationsRequest,
  readKeysRequest,
  rotateKeys,
} from '../tools/manage.ts'
import { jobAttemptOf, manageJobs, readJobsRequest } from '../tools/manage-jobs.ts'
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

/** The routes. Scopes `application:admin` and `admin`. */
export function adminRoutes(deps: AdminDeps): ControlRoute[] {
  const { catalog, paths, audit } = deps
  return [
    route(deps, {
      path: '/v1/admin/applications',
      scope: 'application:admin',
      read: readApplicationsRequest,
      attemptOf,
      run: (request, by) =>
        keepingAdmin(catalog, paths.admin, () => manageApplications(catalog, request, by, audit)),
    }),
    route(deps, {
      path: '/v1/admin/keys',
      scope: 'admin',
      read: readKeysRequest,
      attemptOf: () => KEY_ROTATION,
      run: (request, by) => rotateKeys(catalog, request, by, audit),
    }),
    route(deps, {
      path: '/v1/admin/jobs',
      scope: 'admin',
      read: readJobsRequest,
      attemptOf: jobAttemptOf,
      run: (request, by) => manageJobs(catalog, request, by, audit),
    }),
  ]
}

/** A route whose requests are read as `Request`. */
interface AdminRoute<Request extends object> {
  readonly path: string
  readonly scope: Scope
  read(given: unknown): Request | BadRequest
  /** The change for the audit trail; undefined: there is none. */
  attemptOf(request: Request): Pick<AuditEntry, 'mutation' | 'object'> | undefined
  /** @param by the application that asks */
  run(request: Request, by: string): Promise<object>
}

function route<Request extends object>(
  { verify, audit }: AdminDeps,
  { path, scope, read, attemptOf: attempt, run }: AdminRoute<Request>,
): ControlRoute {
  const handle = async ({ address, authorization, body, query }: ControlRequest): Promise<Reply> => {
    const caller = await verify(authorization, address)
    if ('status' in caller) return problemReply(caller)
    const unknown = unknownParameter(query, [])
    if (unknown !== undefined) return problemReply(refuse(400, 'bad_parameter', unknown))
    const { applicationId } = caller
    const given = jsonOf(body)
    const request = given === undefined ? NOT_JSON : read(given)
    if (!caller.scopes.has(scope)) {
      const asked = 'badRequest' in request ? undefined : attempt(request)
      if (asked !== undefined) audit({ ...asked, applicationId, outcome: 'FORBIDDEN' })
      return problemReply(refuse(403, 'forbidden', `application ${applicationId} lacks the scope ${scope}`))
    }
    const answered = 'badRequest' in request ? request : await run(request, applicationId)
    if ('badRequest' in answered)
      return problemReply(refuse(400, 'bad_request', (answered as BadRequest).badRequest))
    return { status: 200, headers: JSON_HEADERS, body: JSON.stringify(answered) }
  }
  return { methods: ['POST'], path, bodyBytesMax: ROUTE_BODY_BYTES_MAX, handle }
}

const NOT_JSON: BadRequest = { badRequest: 'The body must be one JSON object.' }
const JSON_HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

/** undefined: the body is not JSON in UTF-8. */
function jsonOf(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    return undefined
  }
}
