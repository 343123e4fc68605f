/** Leaves out segments that cannot hold a selected row, by what the manifest says of them. Keeps when in doubt. */
import type { Plan } from '../batch/plan.ts'
import type { SegmentMeta } from '../keys/protocol.ts'
import type { Planned, QuerySegment } from './protocol.ts'

/** The segments that a planned query must read. Without rows there is no Parquet file, so those go too. */
export function prune(
  plan: Plan,
  planned: Pick<Planned, 'timeFromUs' | 'timeToUs' | 'timeIsPrimary' | 'tenantEquals'>,
  segments: readonly QuerySegment[],
): readonly QuerySegment[] {
  return segments.filter(
    ({ meta }) =>
      meta.rows > 0 && mayHoldTime(planned, meta) && mayHoldTenant(plan, planned.tenantEquals, meta),
  )
}

function mayHoldTime(
  planned: Pick<Planned, 'timeFromUs' | 'timeToUs' | 'timeIsPrimary'>,
  meta: SegmentMeta,
): boolean {
  const { timeFromUs: from, timeToUs: to } = planned
  if (!planned.timeIsPrimary) return true
  if (from !== null && meta.timestampToUs !== null && meta.timestampToUs < from) return false
  if (to === null || meta.timestampFromUs === null) return true
  // Microseconds beyond 2^53 (the year 2255) are rounded: equal numbers may be different instants.
  return meta.timestampFromUs < to || (meta.timestampFromUs === to && !Number.isSafeInteger(to))
}

function mayHoldTenant(plan: Plan, tenant: string | null, meta: SegmentMeta): boolean {
  if (tenant === null || meta.tenant === null) return true
  const { min, max } = meta.tenant
  if (plan.columns[plan.tenant]?.type !== 'STRING') {
    const value = BigInt(tenant)
    return value >= BigInt(min) && value <= BigInt(max)
  }
  const value = Buffer.from(tenant, 'utf8')
  return (
    Buffer.compare(value, Buffer.from(min, 'utf8')) >= 0 &&
    Buffer.compare(value, Buffer.from(max, 'utf8')) <= 0
  )
}
