/**
 * A query, joined: seal the pool's tail, pin a manifest, plan, prune, run.
 *
 *   W-8  Everything acknowledged before the call is sealed first; the manifest stays pinned until the query ended.
 */
import type { Plan } from './batch/plan.ts'
import type { CounterResult } from './graphql/context.ts'
import type {
  BadQuery,
  CounterQuery,
  Planned,
  QueryDone,
  QueryEngine,
  QuerySegment,
} from './query/protocol.ts'

/** What a query needs of the stages. */
interface ReaderServices {
  sealNow(pool: number): Promise<void>
  snapshot(pool: number): Promise<{ readonly segments: readonly QuerySegment[]; release(): void }>
  planCounter(plan: Plan, query: CounterQuery): Planned | BadQuery
  prune(plan: Plan, planned: Planned, segments: readonly QuerySegment[]): readonly QuerySegment[]
  readonly engine: QueryEngine
  /** Called with each query's duration, waiting and sealing included. */
  onQuery(ms: number): void
  nowMs(): number
}

/** Answers a counter over one pool. Rejects with Unavailable or SegmentDamaged, never with a short count. */
export async function readCounter(
  plan: Plan,
  query: CounterQuery,
  fairKey: string,
  services: ReaderServices,
): Promise<CounterResult | BadQuery> {
  const begin = services.nowMs()
  const planned = services.planCounter(plan, query)
  if ('badRequest' in planned) return planned
  const done = await runPlanned(plan, planned, 1, fairKey, services)
  services.onQuery(services.nowMs() - begin)
  return {
    value: done.rows[0]?.[0] ?? null,
    info: {
      recordsProcessed: done.recordsProcessed,
      bytesProcessed: done.bytesProcessed,
      durationMs: Math.round(done.durationMs),
      sql: planned.statement.sql,
    },
  }
}

async function runPlanned(
  plan: Plan,
  planned: Planned,
  rowsMax: number,
  fairKey: string,
  services: ReaderServices,
): Promise<QueryDone> {
  await services.sealNow(plan.pool)
  const snapshot = await services.snapshot(plan.pool)
  try {
    const segments = services.prune(plan, planned, snapshot.segments)
    return await services.engine.run({ plan, segments, statement: planned.statement, rowsMax }, fairKey)
  } finally {
    snapshot.release()
  }
}
