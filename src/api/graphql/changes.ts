/** How resolvers change the catalog: they run its operations, and turn refusals into errors. */
import type { BadRequest, IdOrName } from '../../catalog/catalog-types.ts'
import type { Decide } from '../../catalog/change.ts'
import type { Context } from './context.ts'
import { badRequest, notFound, type ObjectKind } from './errors.ts'
import type { Inputs } from './schema-types.ts'

/**
 * Runs a change of the catalog and returns its result. Throws BAD_REQUEST, and NOT_FOUND where the
 * result is null: `kind` says what is missing then.
 */
export async function change<T extends object>(
  { deps }: Context,
  decide: Decide<T | null>,
  kind: ObjectKind,
): Promise<T> {
  const result = await deps.catalog.change(decide)
  if (result === null) throw notFound(kind)
  if (isRefused(result)) throw badRequest(result.badRequest)
  return result
}

/**
 * Deletes the object that `which` names. Returns its id, or null where there is none: a client that
 * repeats a deletion gets no error. Throws BAD_REQUEST.
 */
export async function remove(
  { deps }: Context,
  which: IdOrName,
  operation: (which: IdOrName) => Decide<string | null>,
): Promise<string | null> {
  if ((which.id ?? '') === '' && (which.uniqueName ?? '') === '') return null
  const result = await deps.catalog.change(operation(which))
  if (result !== null && isRefused(result)) throw badRequest(result.badRequest)
  return result
}

/** A collection of the catalog, as far as look-ups need it. */
interface Lookup<T> {
  find(idOrName: string): T | undefined
  byName(uniqueName: string): T | undefined
}

/** The object that `which` names. Throws NOT_FOUND, and BAD_REQUEST where nothing is named. */
export function find<T>(collection: Lookup<T>, which: Inputs['idOrUniqueName'], kind: ObjectKind): T {
  const { id, uniqueName } = which
  const isById = id !== null && id !== undefined && id !== ''
  if (!isById && (uniqueName ?? '') === '') throw badRequest('Give "id" or "uniqueName" in "idOrUniqueName".')
  return found(isById ? collection.find(id) : collection.byName(uniqueName ?? ''), kind)
}

/** The object of a look-up. Throws NOT_FOUND where there is none. */
export function found<T>(object: T | undefined, kind: ObjectKind): T {
  if (object === undefined) throw notFound(kind)
  return object
}

function isRefused(result: object | string): result is BadRequest {
  return typeof result === 'object' && 'badRequest' in result
}
