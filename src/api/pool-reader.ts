/**
 * What the routes share that give rows of a pool: who asks, which pool, what of it is visible, and
 * the parameters that select rows.
 */
import type { Identity } from '../catalog/access/token.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Memory } from '../catalog/documents/memory.ts'
import type { Pool, Scope } from '../catalog/documents/model.ts'
import type { BadQuery } from '../query/expression/values.ts'
import { type Access, accessOf, type PoolsOfQuestion } from '../query/plan/policy.ts'
import { readColumns, type Selection } from '../query/selection.ts'
import { type Refusal, Unavailable } from '../util/errors.ts'
import type { ControlRequest } from './api-types.ts'
import { noSuchParameter } from './parameters.ts'
import { refuse, unknownPool } from './problem.ts'

/** A stream of rows needs it until its end. */
export const QUERY_SCOPE = 'data_pool:query'

export interface ReaderDeps {
  readonly catalog: Pick<Catalog, 'read'>
  verify(authorization: string, address: string): Promise<Identity | Refusal>
}

/** The caller, and the pool that the path names; or 401, 403 or 404. */
export async function readerOf(
  { authorization, address, parameters }: ControlRequest,
  { catalog, verify }: ReaderDeps,
): Promise<{ readonly caller: Identity; readonly pool: Pool } | Refusal> {
  const caller = await verify(authorization, address)
  if ('status' in caller) return caller
  if (!caller.scopes.has(QUERY_SCOPE)) return refuse(403, 'forbidden', `the scope ${QUERY_SCOPE} is needed`)
  const name = parameters[0] ?? ''
  const pool = catalog.read.pools.find(name)
  return pool === undefined ? unknownPool(name) : { caller, pool }
}

/** True where the caller had the scope, and its application still has it. */
export function hasScope(
  caller: Pick<Identity, 'applicationId' | 'scopes'>,
  scope: Scope,
  { applications }: Pick<Memory, 'applications'>,
): boolean {
  const current = applications.get(caller.applicationId)?.scopes ?? []
  return caller.scopes.has(scope) && current.includes(scope)
}

/** What the caller may see of a pool now. */
export function accessTo(pool: Pool, caller: Identity, read: Memory): Access {
  const assigned = read.policyOf(pool.id, caller.applicationId)
  return accessOf(pool, assigned, caller.policyValues, hasScope(caller, 'admin', read))
}

/**
 * Checks a long answer before each of its parts: the caller must be allowed to read still, and to
 * see of each pool what it saw at the beginning. A deleted pool has no policy any more: its rows go
 * on to their end. Throws AccessEnded or Unavailable.
 * @param scopes see Identity
 */
export function verifyView(
  pools: PoolsOfQuestion,
  caller: Identity,
  read: Memory,
  ...scopes: readonly Scope[]
): void {
  caller.verifyAgain(...scopes)
  for (const { schema, policy } of pools) {
    const pool = read.poolsByNumber.get(schema.pool)
    if (pool === undefined) continue
    const access = accessTo(pool, caller, read)
    if ('forbidden' in access || JSON.stringify(access.policy) !== JSON.stringify(policy))
      throw new Unavailable(
        'policy_changed',
        `what the application may see of Data Pool ${pool.uniqueName} was changed meanwhile: ask again`,
      )
  }
}

/**
 * The selection of a request. `columns` may come several times, each with a list for readColumns.
 * @param names the parameters of the selection that the route takes
 * @param own further ones, which are no part of it
 */
export function selectionOf(
  query: string,
  names: readonly (keyof Selection)[],
  own: readonly string[] = [],
): Selection | BadQuery {
  const columns: string[] = []
  const texts = new Map<string, string>()
  const known: readonly string[] = [...names, ...own]
  for (const [name, value] of new URLSearchParams(query)) {
    if (own.includes(name)) continue
    if (name === 'columns') {
      const given = readColumns(value)
      if ('badRequest' in given) return given
      columns.push(...given)
    } else if (!known.includes(name)) return { badRequest: noSuchParameter(name, known) }
    else if (texts.has(name)) return { badRequest: `${name}: it is given more than once` }
    else texts.set(name, value)
  }
  return { ...(columns.length > 0 ? { columns } : {}), ...Object.fromEntries(texts) }
}
