/** Finds the pool that a command line names, or says which there are. */
import type { Pool } from '../catalog/model.ts'
import { CannotRun } from '../util/errors.ts'
import { POOLS_NAMED_MAX } from '../util/limits.ts'

/** Where to look. */
interface PoolsByName {
  byId(id: string): Pool | undefined
  byName(name: string): Pool | undefined
  readonly all: readonly Pool[]
}

/** By id or unique name. Throws CannotRun, which names those that are there. */
export function choosePool(name: string, pools: PoolsByName): Pool {
  const pool = pools.byId(name) ?? pools.byName(name)
  if (pool !== undefined) return pool
  const names = pools.all.map(({ uniqueName }) => uniqueName).sort()
  const named = names.slice(0, POOLS_NAMED_MAX).join(', ')
  const more = names.length > POOLS_NAMED_MAX ? `, … (${names.length} in all, weir inspect lists them)` : ''
  const there = names.length === 0 ? 'there are no pools' : `there are ${named}${more}`
  throw new CannotRun(`there is no pool "${name}"; ${there}`)
}
