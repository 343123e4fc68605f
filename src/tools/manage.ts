/**
 * What commands ask of a catalog: of a stopped folder, or of a running server through its route
 * (app/admin-routes.ts). Both read the same requests and answer the same JSON. Here are those of
 * `weir applications` and `weir keys`; manage-jobs.ts has those of `weir jobs`, and
 * manage-sources.ts those of `weir sources`.
 */
import type { AuditEntry } from '../api/graphql/context.ts'
import { type AdminRequest, MANAGE_APPLICATIONS, MANAGE_KEYS } from '../api/openapi/admin-requests.ts'
import { readRequest, type ValueOf } from '../api/openapi/schema.ts'
import type { Catalog } from '../catalog/catalog.ts'
import {
  createApplication,
  deleteApplication,
  rotateSecret,
  rotateSigningKey,
} from '../catalog/change/change-application.ts'
import type { BadRequest } from '../catalog/documents/catalog-types.ts'
import type { Application } from '../catalog/documents/model.ts'
import { Unavailable } from '../util/errors.ts'
import { AUDIT_ID_CHARACTERS_MAX } from '../util/limits.ts'

/**
 * A change as the audit trail names it: as the API names its mutations, and the object asked for.
 */
type Attempt = Pick<AuditEntry, 'mutation' | 'object'>

/** The requests of one command. */
export interface Managed<Request extends object, Answer extends object>
  extends AdminRequest<Request, Answer> {
  /** Bytes of a request's body; absent for ROUTE_BODY_BYTES_MAX. */
  readonly bodyBytesMax?: number
  /** Reads a request of unknown form: flags of a command, or a body. */
  read(given: unknown): Request | BadRequest
  /** The change that a request asks for, or undefined where it changes nothing. */
  attemptOf(request: Request): Attempt | undefined
  /**
   * Carries out a request. Rejects with Unavailable.
   * @param by the application that asks, or `system`
   */
  run(catalog: Catalog, request: Request, by: string): Promise<Answer | BadRequest>
  idOf(answer: Answer): string | undefined
}

/** Carries out a request. A change has its entry in the audit trail, whatever its outcome. */
export async function manage<Request extends object, Answer extends object>(
  { attemptOf, run, idOf }: Managed<Request, Answer>,
  catalog: Catalog,
  request: Request,
  by: string,
  audit: (entry: AuditEntry) => void,
): Promise<Answer | BadRequest> {
  const attempt = attemptOf(request)
  if (attempt === undefined) return await run(catalog, request, by)
  const entry = { ...attempt, applicationId: by }
  try {
    const answer = await run(catalog, request, by)
    if ('badRequest' in answer) audit({ ...entry, outcome: 'BAD_REQUEST' })
    else audit({ ...entry, object: idOf(answer) ?? entry.object, outcome: 'done' })
    return answer
  } catch (error) {
    audit({ ...entry, outcome: error instanceof Unavailable ? 'UNAVAILABLE' : 'INTERNAL' })
    throw error
  }
}

type ApplicationsRequest = ValueOf<typeof MANAGE_APPLICATIONS.request>
export type ShownApplication = ValueOf<typeof MANAGE_APPLICATIONS.answer>[number]

/** The API has no mutation for a new secret. */
const MUTATIONS = {
  create: 'createApplication',
  rotate: 'rotateApplicationSecret',
  delete: 'deleteApplication',
} as const

export const APPLICATIONS: Managed<ApplicationsRequest, readonly ShownApplication[]> = {
  ...MANAGE_APPLICATIONS,
  read: given =>
    readRequest(MANAGE_APPLICATIONS.request, given, ({ action, application = '' }) =>
      application === '' && (action === 'rotate' || action === 'delete')
        ? `An id or unique name is needed to ${action} an application.`
        : undefined,
    ),
  attemptOf: ({ action, application = '' }) => {
    if (action === 'list') return undefined
    const object = application === '' ? null : application.slice(0, AUDIT_ID_CHARACTERS_MAX)
    return { mutation: MUTATIONS[action], object }
  },
  run: manageApplications,
  idOf: ([changed]) => changed?.id,
}

async function manageApplications(
  catalog: Catalog,
  request: ApplicationsRequest,
  by: string,
): Promise<readonly ShownApplication[] | BadRequest> {
  const { action, application: name = '', description, scopes, propeller } = request
  if (action === 'list') return catalog.read.applications.all().map(one => shown(one))
  if (action === 'create') {
    const input = { uniqueName: name, description, scopes, propeller }
    const made = await catalog.change(createApplication(input, by))
    return 'badRequest' in made ? made : [shown(made, true)]
  }
  const found = catalog.read.applications.find(name)
  const missing = { badRequest: `There is no application ${JSON.stringify(name)}.` }
  if (found === undefined) return missing
  if (action === 'rotate') {
    const rotated = await catalog.change(rotateSecret({ id: found.id }, by))
    if (rotated === null) return missing // deleted meanwhile
    return 'badRequest' in rotated ? rotated : [shown(rotated, true)]
  }
  const deleted = await catalog.change(deleteApplication({ id: found.id }, by))
  if (deleted === null) return missing
  return typeof deleted === 'string' ? [shown(found)] : deleted
}

type KeysRequest = ValueOf<typeof MANAGE_KEYS.request>

export const KEYS: Managed<KeysRequest, ValueOf<typeof MANAGE_KEYS.answer>> = {
  ...MANAGE_KEYS,
  read: given => readRequest(MANAGE_KEYS.request, given),
  attemptOf: () => ({ mutation: 'rotateSigningKey', object: null }),
  run: (catalog, { endTokens = false }) => catalog.change(rotateSigningKey(endTokens)),
  idOf: ({ kid }) => kid,
}

function shown(application: Application, withSecret = false): ShownApplication {
  const { id, uniqueName, description, scopes, propeller, createdAt, secret } = application
  return { id, uniqueName, description, scopes, propeller, createdAt, ...(withSecret ? { secret } : {}) }
}
