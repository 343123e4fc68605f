/**
 * Who may read which part of a pool: the policy of an application, or the reason why there is none.
 */
import type { AccessPolicy } from '../catalog/documents/model.ts'
import { missingValue, type RowPolicy } from './policy.ts'
import type { Filter } from './where.ts'

/** The policy that limits a reader, null for none; or why the reader sees nothing. */
export type Access = { readonly policy: RowPolicy | null } | { readonly forbidden: string }

/**
 * @param assigned the policy that is assigned to the application on this pool
 * @param values the `policy_values` of its token
 */
export function accessOf(
  pool: { readonly accessControlEnabled: boolean },
  assigned: Pick<AccessPolicy, 'columns' | 'rows' | 'filterSql'> | undefined,
  values: Readonly<Record<string, unknown>> | undefined,
): Access {
  if (!pool.accessControlEnabled) return { policy: null }
  if (assigned === undefined)
    return { forbidden: 'the pool has access control and no Data Pool Access Policy is assigned' }
  const { columns, rows, filterSql } = assigned
  const policy = { columns, rows: rows as readonly Filter[], filterSql, values: values ?? {} }
  const missing = missingValue(policy)
  return missing === undefined ? { policy } : { forbidden: missing }
}
