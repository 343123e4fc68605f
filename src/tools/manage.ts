/**
 * What `weir applications` and `weir keys` do to a catalog: of a stopped folder, or of a running
 * server through its routes (app/admin-routes.ts). Both read the same requests and answer the same
 * JSON.
 */
import type { AuditEntry } from '../api/graphql/context.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { BadRequest } from '../catalog/catalog-types.ts'
import { createApplication, deleteApplication, rotateSecret } from '../catalog/change-application.ts'
import { rotateSigningKey } from '../catalog/change-signing-key.ts'
import { type Application, PROPELLERS, type Propeller, SCOPES, type Scope } from '../catalog/model.ts'
import { Unavailable } from '../util/errors.ts'
import { AUDIT_ID_CHARACTERS_MAX } from '../util/limits.ts'

const APPLICATION_ACTIONS = ['list', 'create', 'rotate', 'delete'] as const
type ApplicationAction = (typeof APPLICATION_ACTIONS)[number]

/** A request of `weir applications`. */
export interface ApplicationsRequest {
  readonly action: ApplicationAction
  /** Id or unique name; the unique name of a new one. "" for none. */
  readonly application: string
  readonly description: string
  /** Empty: all. */
  readonly scopes: readonly Scope[]
  /** undefined: the default. */
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

/** Reads a request of unknown form: flags of a command, or a body. */
export function readApplicationsRequest(given: unknown): ApplicationsRequest | BadRequest {
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

/**
 * A change as the audit trail names it: as the API names its mutations, and the object asked for.
 */
type Attempt = Pick<AuditEntry, 'mutation' | 'object'>

/** The API has no mutation for a new secret. */
const MUTATIONS = {
  create: 'createApplication',
  rotate: 'rotateApplicationSecret',
  delete: 'deleteApplication',
} as const

/** The change that a request asks for; undefined: it changes nothing. */
export function attemptOf({ action, application }: ApplicationsRequest): Attempt | undefined {
  if (action === 'list') return undefined
  const object = application === '' ? null : application.slice(0, AUDIT_ID_CHARACTERS_MAX)
  return { mutation: MUTATIONS[action], object }
}

export const KEY_ROTATION: Attempt = { mutation: 'rotateSigningKey', object: null }

/**
 * Runs a change and adds its entry to the audit trail, whatever its outcome.
 * @param idOf the id of the changed object
 */
export async function audited<T extends object>(
  audit: (entry: AuditEntry) => void,
  entry: Omit<AuditEntry, 'outcome'>,
  run: () => Promise<T | BadRequest>,
  idOf: (answer: T) => string | undefined,
): Promise<T | BadRequest> {
  try {
    const answer = await run()
    if ('badRequest' in answer) audit({ ...entry, outcome: 'BAD_REQUEST' })
    else audit({ ...entry, object: idOf(answer) ?? entry.object, outcome: 'done' })
    return answer
  } catch (error) {
    audit({ ...entry, outcome: error instanceof Unavailable ? 'UNAVAILABLE' : 'INTERNAL' })
    throw error
  }
}

/**
 * Carries out a request, with its entry in the audit trail. `by` is the application that asks, or
 * `system`. Rejects with Unavailable.
 */
export async function manageApplications(
  catalog: Catalog,
  request: ApplicationsRequest,
  by: string,
  audit: (entry: AuditEntry) => void,
): Promise<readonly ShownApplication[] | BadRequest> {
  const attempt = attemptOf(request)
  const run = () => applyRequest(catalog, request, by)
  if (attempt === undefined) return await run()
  return await audited(audit, { ...attempt, applicationId: by }, run, ([changed]) => changed?.id)
}

async function applyRequest(
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

/** Reads the body of a request of `weir keys rotate`. */
export function readKeysRequest(given: unknown): { readonly endTokens: boolean } | BadRequest {
  const read = (typeof given === 'object' ? given : null) as Record<string, unknown> | null
  const { action, endTokens = false } = read ?? {}
  if (action !== 'rotate' || typeof endTokens !== 'boolean')
    return { badRequest: 'The body must be {"action": "rotate"}, with "endTokens": true or false.' }
  const stray = strayField(read ?? {}, KEYS_FIELDS)
  if (stray !== undefined) return stray
  return { endTokens }
}

/**
 * Makes a new signing key, with its entry in the audit trail. `by` is the application that asks, or
 * `system`. Rejects with Unavailable.
 */
export async function rotateKeys(
  catalog: Catalog,
  { endTokens }: { readonly endTokens: boolean },
  by: string,
  audit: (entry: AuditEntry) => void,
): Promise<ShownKey | BadRequest> {
  const run = () => catalog.change(rotateSigningKey(endTokens))
  return await audited(audit, { ...KEY_ROTATION, applicationId: by }, run, ({ kid }) => kid)
}

function shown(application: Application, withSecret = false): ShownApplication {
  const { id, uniqueName, description, scopes, propeller, createdAt, secret } = application
  return { id, uniqueName, description, scopes, propeller, createdAt, ...(withSecret ? { secret } : {}) }
}
