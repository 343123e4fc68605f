/**
 * Changes of the catalog as pure functions: each takes the catalog as it is and decides what to
 * write, or says in one sentence why not. catalog.ts runs one at a time.
 *
 * "" counts as not given for names and texts of objects: clients send it for unset values.
 */

import { newId } from '../util/ids.ts'
import { DESCRIPTION_BYTES_MAX, UNIQUE_NAME_BYTES_MAX } from '../util/limits.ts'
import type { BadRequest, Change, IdOrName } from './catalog-types.ts'
import type { Collection } from './collection.ts'
import type { Memory } from './memory.ts'
import type { Common } from './model.ts'
import { orNull, textProblem } from './rules.ts'

/** What a change writes in one transaction, and what its caller gets. */
export interface Decision<T> extends Change {
  readonly result: T
}

/** A change that waits for its turn. `nowMs` is wall-clock time. */
export type Decide<T> = (memory: Memory, nowMs: number) => Decision<T> | BadRequest

/** A decision that changes nothing. */
export function unchanged<T>(result: T): Decision<T> {
  return { puts: [], removes: [], result }
}

/** Name and description as a caller gives them. */
export interface Named {
  readonly uniqueName?: string | null | undefined
  readonly description?: string | null | undefined
}

/** A new id that is no unique name of these collections: who looks up an id finds names too. */
export function unusedId(
  prefix: Parameters<typeof newId>[0],
  nowMs: number,
  ...among: readonly Pick<Collection<Common>, 'has'>[]
): string {
  const id = newId(prefix, nowMs)
  return among.some(each => each.has(id)) ? unusedId(prefix, nowMs, ...among) : id
}

/** The fields of a new object. It is named by its id where no name is given. */
export function newCommon(id: string, input: Named, by: string, nowMs: number): Common {
  const at = new Date(nowMs).toISOString()
  return {
    id,
    uniqueName: orNull(input.uniqueName) ?? id,
    description: input.description ?? '',
    createdAt: at,
    createdBy: by,
    modifiedAt: at,
    modifiedBy: by,
  }
}

/**
 * `old` with the fields of `change`, and who made it when; undefined where no field is another one.
 */
export function modified<T extends Common>(
  old: T,
  change: Partial<T>,
  by: string,
  nowMs: number,
): T | undefined {
  const isSame = (Object.keys(change) as (keyof T)[]).every(
    key => JSON.stringify(change[key]) === JSON.stringify(old[key]),
  )
  if (isSame) return undefined
  return { ...old, ...change, modifiedAt: new Date(nowMs).toISOString(), modifiedBy: by }
}

/** Name and description after a change: null keeps either, and "" keeps the name. */
export function renamed(old: Common, input: Named): Pick<Common, 'uniqueName' | 'description'> {
  return {
    uniqueName: orNull(input.uniqueName) ?? old.uniqueName,
    description: input.description ?? old.description,
  }
}

/**
 * The filterSql after a change. "" clears it: null must leave it, because clients send null for
 * unset fields.
 */
export function changedFilterSql(
  old: { readonly filterSql: string | null },
  { filterSql }: { readonly filterSql?: string | null | undefined },
): string | null {
  return filterSql === null || filterSql === undefined ? old.filterSql : orNull(filterSql)
}

/** The problem with the texts of a name and a description. */
export function namedProblem(input: Named): string | undefined {
  return (
    textProblem('uniqueName', input.uniqueName, UNIQUE_NAME_BYTES_MAX) ??
    textProblem('description', input.description, DESCRIPTION_BYTES_MAX)
  )
}

/**
 * The problem with `name` as the unique name of an object: another one has it as unique name or as
 * id. A name may have the form of an id: who moves here from another server keeps the ids in the
 * dashboards. `own` is the object that may keep its name.
 */
export function nameProblem(
  kind: string,
  collection: Pick<Collection<Common>, 'find'>,
  name: string | null | undefined,
  own?: Common,
): string | undefined {
  const given = orNull(name)
  if (given === null || given === own?.uniqueName) return undefined
  const taken = collection.find(given)
  if (taken === undefined || taken.id === own?.id) return undefined
  return taken.id === given
    ? `The unique name "${given}" is the id of another ${kind}.`
    : `Another ${kind} with the unique name "${given}" already exists.`
}

/**
 * The problem with one object more in a collection that is full. `kinds` names them in a message.
 */
export function fullProblem(
  kinds: string,
  { size }: { readonly size: number },
  max: number,
): string | undefined {
  return size >= max ? `The server has ${max} ${kinds}, which is its limit.` : undefined
}

/**
 * The change of the object that `which` names. The result is null where there is none, and a
 * BadRequest where nothing is named.
 */
export function changing<T extends Common, R>(
  collectionOf: (memory: Memory) => Collection<T>,
  which: IdOrName,
  decide: (found: T, memory: Memory, nowMs: number) => Decision<R> | BadRequest,
): Decide<R | null> {
  return (memory, nowMs) => {
    const collection = collectionOf(memory)
    const [id, name] = [orNull(which.id), orNull(which.uniqueName)]
    if (id === null && name === null) return { badRequest: 'Neither id nor uniqueName was given.' }
    const found = id === null ? collection.byName(name ?? '') : collection.find(id)
    return found === undefined ? unchanged(null) : decide(found, memory, nowMs)
  }
}

/** The decision that writes `change` over `old`, whose document has the key `key`. */
export function replacing<T extends Common>(
  key: string,
  old: T,
  change: Partial<T>,
  by: string,
  nowMs: number,
): Decision<T> {
  const changed = modified(old, change, by, nowMs)
  if (changed === undefined) return unchanged(old)
  return { puts: [[key, changed]], removes: [], result: changed }
}
