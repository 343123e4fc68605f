/**
 * What commands ask of a catalog: of a stopped folder, or of a running server through its route
 * (app/admin-routes.ts). Both read the same requests and answer the same JSON. Here are those of
 * `weir applications` and `weir keys`; manage-jobs.ts has those of `weir jobs`, and
 * manage-sources.ts those of `weir sources`.
 */
import type { AuditEntry } from '../api/graphql/context.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { createApplication, deleteApplication, rotateSecret } from '../catalog/change/change-application.ts'
import { rotateSigningKey } from '../catalog/change/change-signing-key.ts'
import type { BadRequest } from '../catalog/documents/catalog-types.ts'
import {
  type Application,
  PROPELLERS,
  type Propeller,
  SCOPES,
  type Scope,
} from '../catalog/documents/model.ts'
import { Unavailable } from '../util/errors.ts'
import { AUDIT_ID_CHARACTERS_MAX } from '../util/limits.ts'

/**
 * A change as the audit trail names it: as the API names its mutations, and the object asked for.
 */
type Attempt = Pick<AuditEntry, 'mutation' | 'object'>

/** The requests of one command. */
export interface Managed<Request extends object, Answer extends object> {
  readonly path: string
  readonly scope: Scope
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

const APPLICATION_ACTIONS = ['list', 'create', 'rotate', 'delete'] as const
type ApplicationAction = (typeof APPLICATION_ACTIONS)[number]

export interface ApplicationsRequest {
  readonly action: ApplicationAction
  /** Id or unique name; the unique name of a new one. "" for none. */
  readonly application: string
  readonly description: string
  /** An empty list stands for all. */
  readonly scopes: readonly Scope[]
  /** Undefined for the default propeller. */
  readonly propeller: Propeller | undefined
}

/** An application as the command prints it. Its secret is shown where it is new. */
export interface ShownApplication {
  readonly id: string
  readonly uniqueName: string
  readonly description: string
  readonly scopes: readonly Scope[]
  readonly propeller: Propeller
  readonly createdAt: string
  readonly secret?: string
}

/**
 * A misspelled "scopes" would make an application with all of them, so other fields are refused.
 */
const APPLICATIONS_FIELDS = ['action', 'application', 'description', 'scopes', 'propeller']

function readApplications(given: unknown): ApplicationsRequest | BadRequest {
  const read = (typeof given === 'object' ? given : null) as Record<string, unknown> | null
  const action = APPLICATION_ACTIONS.find(one => one === read?.['action'])
  if (read === null || action === undefined)
    return { badRequest: `"action" must be ${APPLICATION_ACTIONS.join(', ')}.` }
  const stray = strayField(read, APPLICATIONS_FIELDS)
  if (stray !== undefined) return stray
  const { application = '', description = '', scopes = [], propeller } = read
  if (typeof application !== 'string' || typeof description !== 'string')
    return { badRequest: '"application" and "description" must be texts.' }
  if (application === '' && (action === 'rotate' || action === 'delete'))
    return { badRequest: `An id or unique name is needed to ${action} an application.` }
  if (!Array.isArray(scopes)) return { badRequest: '"scopes" must be a list.' }
  const unknown = scopes.find(scope => !SCOPES.includes(scope as Scope))
  if (unknown !== undefined)
    return { badRequest: `There is no scope ${JSON.stringify(unknown)}; there are ${SCOPES.join(', ')}.` }
  const size = PROPELLERS.find(one => one === propeller)
  if (propeller !== undefined && propeller !== null && size === undefined)
    return {
      badRequest: `There is no propeller ${JSON.stringify(propeller)}; there are ${PROPELLERS.join(', ')}.`,
    }
  return { action, application, description, scopes: scopes as Scope[], propeller: size }
}

/** Refuses a request with a field that is not in the list. */
export function strayField(request: object, fields: readonly string[]): BadRequest | undefined {
  const stray = Object.keys(request).find(name => !fields.includes(name))
  if (stray === undefined) return undefined
  return { badRequest: `There is no ${JSON.stringify(stray)}; there are ${fields.join(', ')}.` }
}

/** The API has no mutation for a new secret. */
const MUTATIONS = {
  create: 'createApplication',
  rotate: 'rotateApplicationSecret',
  delete: 'deleteApplication',
} as const

export const APPLICATIONS: Managed<ApplicationsRequest, readonly ShownApplication[]> = {
  path: '/v1/admin/applications',
  scope: 'application:admin',
  read: readApplications,
  attemptOf: ({ action, application }) => {
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
  const { action, application: name, description, scopes, propeller } = request
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

/** A new signing key, as the command prints it. */
export interface ShownKey {
  readonly kid: string
  readonly createdAt: string
  /** Keys whose tokens are refused from now on. */
  readonly ended: number
}

const KEYS_FIELDS = ['action', 'endTokens']

interface KeysRequest {
  readonly action: 'rotate'
  readonly endTokens: boolean
}

function readKeys(given: unknown): KeysRequest | BadRequest {
  const read = (typeof given === 'object' ? given : null) as Record<string, unknown> | null
  const { action, endTokens = false } = read ?? {}
  if (action !== 'rotate' || typeof endTokens !== 'boolean')
    return { badRequest: 'The body must be {"action": "rotate"}, with "endTokens": true or false.' }
  return strayField(read ?? {}, KEYS_FIELDS) ?? { action, endTokens }
}

export const KEYS: Managed<KeysRequest, ShownKey> = {
  path: '/v1/admin/keys',
  scope: 'admin',
  read: readKeys,
  attemptOf: () => ({ mutation: 'rotateSigningKey', object: null }),
  run: (catalog, { endTokens }) => catalog.change(rotateSigningKey(endTokens)),
  idOf: ({ kid }) => kid,
}

function shown(application: Application, withSecret = false): ShownApplication {
  const { id, uniqueName, description, scopes, propeller, createdAt, secret } = application
  return { id, uniqueName, description, scopes, propeller, createdAt, ...(withSecret ? { secret } : {}) }
}
