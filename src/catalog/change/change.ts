/**
 * Changes of the catalog as pure functions: each takes the catalog as it is and decides what to
 * write, or says in one sentence why not. catalog.ts runs one at a time. A null result means that
 * the object which the change names does not exist.
 *
 * "" counts as not given for names and texts of objects: clients send it for unset values.
 */

import { newId } from '../../util/ids.ts'
import type { BadRequest, Change, Entry, IdOrName } from '../documents/catalog-types.ts'
import type { Collection } from '../documents/collection.ts'
import { keys, type Memory } from '../documents/memory.ts'
import { type Common, newAuthorship, type Pool } from '../documents/model.ts'
import { orNull, textProblem } from './rules.ts'

/** Bytes of a unique name in UTF-8: it labels metrics and stands in URLs. */
const UNIQUE_NAME_BYTES_MAX = 256
/** Bytes of a description in UTF-8: the whole catalog is in memory. */
export const DESCRIPTION_BYTES_MAX = 8_192
/** Data pools of a server. Each has a memtable, a manifest and schemas in memory. */
export const POOLS_MAX = 20_000
/** Data sources of a server. One stays when its pool is deleted. */
export const SOURCES_MAX = 20_000
/** Predefined metrics of a server. */
export const METRICS_MAX = 100_000
/** Applications of a server. */
export const APPLICATIONS_MAX = 10_000

export interface Decision<T> extends Change {
  readonly result: T
}

/** A change that waits for its turn. `nowMs` is wall-clock time. */
export type Decide<T> = (memory: Memory, nowMs: number) => Decision<T> | BadRequest

export function unchanged<T>(result: T): Decision<T> {
  return { puts: [], removes: [], result }
}

export interface Named {
  readonly uniqueName?: string | null | undefined
  readonly description?: string | null | undefined
}

const KINDS = {
  applications: { name: 'Application', idPrefix: 'APP', keyOf: keys.application, max: APPLICATIONS_MAX },
  metrics: { name: 'Metric', idPrefix: 'MET', keyOf: keys.metric, max: METRICS_MAX },
  // Their limit is that of each pool.
  policies: { name: 'Data Pool Access Policy', idPrefix: 'POL', keyOf: keys.policy, max: Infinity },
  pools: { name: 'Data Pool', idPrefix: 'DPO', keyOf: keys.pool, max: POOLS_MAX },
  sources: { name: 'Data Source', idPrefix: 'DSO', keyOf: keys.source, max: SOURCES_MAX },
} as const

type Kind = keyof typeof KINDS
type ObjectOf<K extends Kind> = Memory[K] extends Collection<infer T extends Common> ? T : never

function objectsOf<K extends Kind>(memory: Memory, kind: K): Collection<ObjectOf<K>> {
  return memory[kind] as unknown as Collection<ObjectOf<K>>
}

/** Makes an object with the fields that `fieldsOf` returns, where its name is free. */
export function creating<K extends Kind>(
  kind: K,
  input: Named,
  by: string,
  fieldsOf: (memory: Memory, nowMs: number) => Omit<ObjectOf<K>, keyof Common> | BadRequest,
): Decide<ObjectOf<K>> {
  return (memory, nowMs) => {
    const badRequest = newObjectProblem(kind, memory, input)
    if (badRequest !== undefined) return { badRequest }
    const fields = fieldsOf(memory, nowMs)
    if ('badRequest' in fields) return fields
    const { idPrefix, keyOf } = KINDS[kind]
    const common = newCommon(unusedId(idPrefix, nowMs, memory[kind]), input, by, nowMs)
    const made = { ...common, ...fields } as unknown as ObjectOf<K>
    return { puts: [[keyOf(common.id), made]], removes: [], result: made }
  }
}

/** Changes name, description and the fields that `changeOf` returns. */
export function modifying<K extends Kind>(
  kind: K,
  which: IdOrName,
  input: Named,
  by: string,
  changeOf: (found: ObjectOf<K>, memory: Memory) => Partial<ObjectOf<K>> | BadRequest,
): Decide<ObjectOf<K> | null> {
  return changing(kind, which, (found, memory, nowMs) => {
    const badRequest = namedProblem(input) ?? nameProblem(kind, memory, input.uniqueName, found)
    if (badRequest !== undefined) return { badRequest }
    const change = changeOf(found, memory)
    if ('badRequest' in change) return change
    return replacing(KINDS[kind].keyOf(found.id), found, { ...renamed(found, input), ...change }, by, nowMs)
  })
}

/** @param putsOf what else the removal changes */
export function deleting<K extends Kind>(
  kind: K,
  which: IdOrName,
  putsOf: (found: ObjectOf<K>, memory: Memory, nowMs: number) => readonly Entry[] = () => [],
): Decide<string | null> {
  return changing(kind, which, (found, memory, nowMs) => ({
    puts: putsOf(found, memory, nowMs),
    removes: [KINDS[kind].keyOf(found.id)],
    result: found.id,
  }))
}

/** The result is a BadRequest where nothing is named. */
export function changing<K extends Kind, R>(
  kind: K,
  which: IdOrName,
  decide: (found: ObjectOf<K>, memory: Memory, nowMs: number) => Decision<R> | BadRequest,
): Decide<R | null> {
  return (memory, nowMs) => {
    const objects = objectsOf(memory, kind)
    const [id, name] = [orNull(which.id), orNull(which.uniqueName)]
    if (id === null && name === null) return { badRequest: 'Neither id nor uniqueName was given.' }
    const found = id === null ? objects.byName(name ?? '') : objects.find(id)
    return found === undefined ? unchanged(null) : decide(found, memory, nowMs)
  }
}

export function forPool<R>(idOrName: string, decide: (pool: Pool) => Decide<R>): Decide<R | null> {
  return (memory, nowMs) => {
    const pool = memory.pools.find(idOrName)
    return pool === undefined ? unchanged(null) : decide(pool)(memory, nowMs)
  }
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
  return {
    id,
    uniqueName: orNull(input.uniqueName) ?? id,
    description: input.description ?? '',
    ...newAuthorship(by, nowMs),
  }
}

/** undefined where no field is another one. */
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

/** "" clears it: null must leave it, because clients send null for unset fields. */
export function changedFilterSql(
  old: { readonly filterSql: string | null },
  { filterSql }: { readonly filterSql?: string | null | undefined },
): string | null {
  return filterSql === null || filterSql === undefined ? old.filterSql : orNull(filterSql)
}

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
  kind: Kind,
  memory: Memory,
  name: string | null | undefined,
  own?: Common,
): string | undefined {
  const given = orNull(name)
  if (given === null || given === own?.uniqueName) return undefined
  const taken = memory[kind].find(given)
  if (taken === undefined || taken.id === own?.id) return undefined
  return taken.id === given
    ? `The unique name "${given}" is the id of another ${KINDS[kind].name}.`
    : `Another ${KINDS[kind].name} with the unique name "${given}" already exists.`
}

export function fullProblem(kind: Kind, memory: Memory): string | undefined {
  const { name, max } = KINDS[kind]
  return memory[kind].size >= max ? `The server has ${max} ${name}s, which is its limit.` : undefined
}

export function newObjectProblem(kind: Kind, memory: Memory, input: Named): string | undefined {
  return namedProblem(input) ?? nameProblem(kind, memory, input.uniqueName) ?? fullProblem(kind, memory)
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
