/**
 * Changes of access policies and of their assignments. An application has at most one policy on a
 * pool: assigning another one replaces it.
 */
import { must } from '../../util/errors.ts'
import { COLUMNS_MAX, POLICIES_PER_POOL_MAX, SQL_TEXT_BYTES_MAX } from '../../util/limits.ts'
import type { Entry, IdOrName } from '../documents/catalog-types.ts'
import { keys, type Memory } from '../documents/memory.ts'
import type { AccessPolicy, Pool, StoredFilter } from '../documents/model.ts'
import {
  changedFilterSql,
  creating,
  type Decide,
  deleting,
  forPool,
  modified,
  modifying,
  type Named,
  unchanged,
} from './change.ts'
import { columnTypeOf, orNull, textProblem } from './rules.ts'

/** A policy as a caller gives it. Its filters were checked against the pool's columns. */
export interface NewPolicy extends Named {
  readonly poolId: string
  /** `*` alone means all columns. */
  readonly columns: readonly string[]
  readonly rows?: readonly StoredFilter[] | null | undefined
  readonly filterSql?: string | null | undefined
}

/** Absent and null leave a field as it is. */
export interface PolicyChange extends Named, Pick<NewPolicy, 'rows' | 'filterSql'> {
  readonly columns?: readonly string[] | null | undefined
}

export function createPolicy(input: NewPolicy, by: string): Decide<AccessPolicy | null> {
  return forPool(input.poolId, pool =>
    creating('policies', input, by, ({ policies }) => {
      const badRequest =
        textProblem('filterSql', input.filterSql, SQL_TEXT_BYTES_MAX) ??
        columnsProblem(pool, input.columns) ??
        (policies.of(pool.id).length >= POLICIES_PER_POOL_MAX
          ? `A Data Pool has at most ${POLICIES_PER_POOL_MAX} Access Policies.`
          : undefined)
      if (badRequest !== undefined) return { badRequest }
      return {
        poolId: pool.id,
        columns: input.columns,
        rows: input.rows ?? [],
        filterSql: orNull(input.filterSql),
        applicationIds: [],
      }
    }),
  )
}

export function modifyPolicy(which: IdOrName, input: PolicyChange, by: string): Decide<AccessPolicy | null> {
  return modifying('policies', which, input, by, (found, memory) => {
    const pool = must(memory.pools.get(found.poolId), `the pool of ${found.id}`)
    const columns = input.columns ?? found.columns
    const badRequest =
      textProblem('filterSql', input.filterSql, SQL_TEXT_BYTES_MAX) ??
      (input.columns ? columnsProblem(pool, columns) : undefined)
    if (badRequest !== undefined) return { badRequest }
    return { columns, rows: input.rows ?? found.rows, filterSql: changedFilterSql(found, input) }
  })
}

/** Also ends its assignments. */
export function deletePolicy(which: IdOrName): Decide<string | null> {
  return deleting('policies', which)
}

export function assignPolicy(policyId: string, applicationId: string, by: string): Decide<string | null> {
  return (memory, nowMs) => {
    const policy = memory.policies.find(policyId)
    const application = memory.applications.find(applicationId)
    if (policy === undefined || application === undefined) return unchanged(null)
    const before = memory.policyOf(policy.poolId, application.id)
    if (before?.id === policy.id) return unchanged(policy.id)
    const puts = before === undefined ? [] : [entryOf(without(before, application.id, by, nowMs))]
    const applicationIds = [...policy.applicationIds, application.id]
    const assigned = modified(policy, { applicationIds }, by, nowMs) ?? policy
    return { puts: [...puts, entryOf(assigned)], removes: [], result: policy.id }
  }
}

export function unassignPolicy(policyId: string, applicationId: string, by: string): Decide<string | null> {
  return (memory, nowMs) => {
    const policy = memory.policies.find(policyId)
    const application = memory.applications.find(applicationId)
    if (application === undefined || !policy?.applicationIds.includes(application.id)) return unchanged(null)
    const left = without(policy, application.id, by, nowMs)
    return { puts: [entryOf(left)], removes: [], result: policy.id }
  }
}

export function policyKeysOf(memory: Memory, poolId: string): string[] {
  return memory.policies.of(poolId).map(({ id }) => keys.policy(id))
}

export function policiesWithout(memory: Memory, applicationId: string, by: string, nowMs: number): Entry[] {
  return memory.policiesOf(applicationId).map(policy => entryOf(without(policy, applicationId, by, nowMs)))
}

function without(policy: AccessPolicy, applicationId: string, by: string, nowMs: number): AccessPolicy {
  const applicationIds = policy.applicationIds.filter(id => id !== applicationId)
  return modified(policy, { applicationIds }, by, nowMs) ?? policy
}

function entryOf(policy: AccessPolicy): Entry {
  return [keys.policy(policy.id), policy]
}

function columnsProblem(pool: Pool, names: readonly string[]): string | undefined {
  if (names.includes('*'))
    return names.length === 1 ? undefined : 'The column "*" stands alone: it means all columns.'
  if (names.length > COLUMNS_MAX + 2) return `A policy names at most ${COLUMNS_MAX + 2} columns.`
  const missing = names.find(name => columnTypeOf(pool, name) === undefined)
  return missing === undefined ? undefined : `There is no column "${missing}" in the Data Pool.`
}
