/**
 * How resolvers find and change objects of the catalog: they run its operations, and turn refusals
 * into errors.
 */

import type { Decide } from '../../catalog/change/change.ts'
import type { BadRequest, IdOrName } from '../../catalog/documents/catalog-types.ts'
import type { Collection } from '../../catalog/documents/collection.ts'
import type { Memory } from '../../catalog/documents/memory.ts'
import type { Common, Pool } from '../../catalog/documents/model.ts'
import type { Context } from './context.ts'
import { badRequest, notFound, type ObjectKind } from './graphql-errors.ts'
import { type PageArgs, pageOfDocuments } from './list-page.ts'
import type { Inputs } from './schema-types.ts'

/** Runs a change when it is the turn of the caller. */
export function changeInTurn<T>(
  { deps, caller: { applicationId } }: Pick<Context, 'deps' | 'caller'>,
  operation: (by: string) => Decide<T>,
): Promise<T | BadRequest> {
  return deps.catalog.change(operation(applicationId), applicationId)
}

/** Runs a change by the caller. Throws BAD_REQUEST, and NOT_FOUND of `kind` for a null result. */
export async function change<T extends object>(
  context: Context,
  operation: (by: string) => Decide<T | null>,
  kind: ObjectKind,
): Promise<T> {
  const result = await changeInTurn(context, operation)
  if (result === null) throw notFound(kind)
  if (isRefused(result)) throw badRequest(result.badRequest)
  return result
}

/** Deletes an object. Its id, or null: a client may repeat a deletion. Throws BAD_REQUEST. */
export function removing(operation: (which: IdOrName, by: string) => Decide<string | null>) {
  return async (_: unknown, which: IdOrName, context: Context): Promise<string | null> => {
    if ((which.id ?? '') === '' && (which.uniqueName ?? '') === '') return null
    return changedId(await changeInTurn(context, by => operation(which, by)))
  }
}

/** The id that a change returns, null where there was nothing to change. Throws BAD_REQUEST. */
export function changedId(result: string | BadRequest | null): string | null {
  if (typeof result === 'object' && result !== null) throw badRequest(result.badRequest)
  return result
}

export function lookups<T extends Common>(kind: ObjectKind, collectionOf: (read: Memory) => Collection<T>) {
  return {
    byId: (_: unknown, { id }: { readonly id: string }, { deps }: Context) =>
      found(collectionOf(deps.catalog.read).find(id), kind),
    byName: (_: unknown, { uniqueName }: { readonly uniqueName: string }, { deps }: Context) =>
      found(collectionOf(deps.catalog.read).byName(uniqueName), kind),
    page: (_: unknown, args: PageArgs, context: Context) => {
      const collection = collectionOf(context.deps.catalog.read)
      return pageOfDocuments(collection, collection.all(), args, context)
    },
  }
}

export function poolNamed(name: string, { deps }: Context): Pool {
  return found(deps.catalog.read.pools.find(name), 'Data Pool')
}

/** The object that `which` names. Throws NOT_FOUND, and BAD_REQUEST where nothing is named. */
export function find<T extends Common>(
  collection: Collection<T>,
  which: Inputs['idOrUniqueName'],
  kind: ObjectKind,
): T {
  const { id, uniqueName } = which
  const isById = id !== null && id !== undefined && id !== ''
  if (!isById && (uniqueName ?? '') === '') throw badRequest('Give "id" or "uniqueName" in "idOrUniqueName".')
  return found(isById ? collection.find(id) : collection.byName(uniqueName ?? ''), kind)
}

export function found<T>(object: T | undefined, kind: ObjectKind): T {
  if (object === undefined) throw notFound(kind)
  return object
}

function isRefused(result: object): result is BadRequest {
  return 'badRequest' in result
}
