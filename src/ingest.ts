/**
 * The ingest path, joined: what the front end asks of catalog, parse workers, log and tail.
 *
 *   W-1   commit() resolves after the sync that covers the records.
 *   W-13  Rows enter the tail when their sync returned, in sequence order: syncs return in that order, and so do their
 *         promises' continuations.
 */
import type { CommitBatch, IngestTarget } from './api/protocol.ts'
import { batchCostOf } from './batch/layout.ts'
import type { Plan } from './batch/plan.ts'
import type { DataSource, Pool } from './catalog/model.ts'
import type { CatalogService } from './catalog/protocol.ts'
import type { Commit } from './commit/protocol.ts'
import { ENTRY_WORDS, type TailEntry } from './segment/protocol.ts'
import { must } from './util/assert.ts'

/** What the ingest path needs of the stages. */
interface IngestJoin {
  readonly catalog: CatalogService
  readonly commit: Commit
  /** Appends to a pool's tail; entries of a deleted pool are dropped. */
  append(pool: number, plan: Plan, entries: readonly TailEntry[]): void
}

interface CachedTarget {
  readonly pool: Pool
  readonly source: DataSource
  readonly target: IngestTarget
}

/** target(), isLive() and commit() of the front end's services. */
export function joinIngest({ catalog, commit, append }: IngestJoin) {
  const targets = new Map<string, CachedTarget>()
  return {
    target(webhookId: string): IngestTarget | undefined {
      const found = catalog.byWebhookId(webhookId)
      if (found === undefined) {
        targets.delete(webhookId)
        return undefined
      }
      const cached = targets.get(webhookId)
      if (cached !== undefined && cached.pool === found.pool && cached.source === found.source)
        return cached.target
      const target = targetOf(catalog, found.pool, found.source)
      targets.set(webhookId, { ...found, target })
      return target
    },
    /** A deleted pool's target goes. */
    forget(pool: Pool): void {
      for (const [webhookId, cached] of targets)
        if (cached.pool.number === pool.number) targets.delete(webhookId)
    },
    isLive: (pool: number) => catalog.poolByNumber(pool) !== undefined,
    async commit(batch: CommitBatch): Promise<void> {
      const { firstSequence, durable } = commit.append(batch.spans, batch.records)
      for (const { requests } of batch.parts)
        for (let word = 0; word < requests.length; word += ENTRY_WORDS)
          requests[word] = requests[word]! + firstSequence
      // The plans as of now: a pool deleted while the sync runs is dropped by `append`.
      const plans = batch.parts.map(part => catalog.plan(part.pool, part.version))
      await durable
      for (const [index, part] of batch.parts.entries()) {
        const plan = plans[index]
        if (plan !== undefined)
          append(part.pool, plan, [{ kind: part.kind, batch: part.batch, requests: part.requests }])
      }
    },
  }
}

function targetOf(catalog: CatalogService, pool: Pool, source: DataSource): IngestTarget {
  const plan = must(catalog.plan(pool.number, pool.planVersion), 'the plan of a live pool')
  return {
    poolNumber: pool.number,
    poolId: pool.id,
    planVersion: pool.planVersion,
    plan: must(catalog.planShared(pool.number, pool.planVersion), 'the plan of a live pool'),
    cost: batchCostOf(plan),
    basicAuth: source.basicAuth,
    hasUniqueId: pool.uniqueIdColumn !== null,
  }
}
