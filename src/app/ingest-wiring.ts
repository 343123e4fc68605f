/**
 * Wires the ingest path: the functions of catalog, log and memtable that the front end calls.
 *
 *   W-1   commit() resolves after the sync that covers the records.
 *   W-13  Rows enter the memtable after their sync returned, in sequence order: syncs return in
 *         that order, and so do the continuations of their promises.
 */
import type { CommitBatch, IngestTarget } from '../api/api-types.ts'
import type { CatalogService } from '../catalog/catalog-types.ts'
import type { DataSource, Pool } from '../catalog/model.ts'
import { batchCostOf } from '../format/batch-layout.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { Commit } from '../log/log-types.ts'
import { ENTRY_WORDS, type MemtableEntry } from '../store/flush/memtable.ts'
import { must } from '../util/assert.ts'
import type { ReceivedClocks } from '../util/clock.ts'

/** The functions of other layers that the ingest path calls. */
interface IngestWiring {
  readonly catalog: CatalogService
  readonly commit: Commit
  readonly received: ReceivedClocks
  /** Appends to a pool's memtable; entries of a deleted pool are dropped. */
  append(pool: number, schema: PoolSchema, entries: readonly MemtableEntry[]): void
}

interface CachedTarget {
  readonly pool: Pool
  readonly source: DataSource
  readonly target: IngestTarget
}

/** The functions target(), isLive() and commit() of ApiDeps, and forget() for deleted pools. */
export function wireIngest({ catalog, commit, received, append }: IngestWiring) {
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
      const target = targetOf(catalog, found.pool, found.source, received)
      targets.set(webhookId, { ...found, target })
      return target
    },
    /** Forgets the targets of a deleted pool. */
    forget(pool: Pool): void {
      for (const [webhookId, cached] of targets)
        if (cached.pool.number === pool.number) targets.delete(webhookId)
      received.drop(pool.number)
    },
    isLive: (pool: number) => catalog.poolByNumber(pool) !== undefined,
    async commit(batch: CommitBatch): Promise<void> {
      const { firstSequence, durable } = commit.append(batch.spans, batch.records)
      for (const { requests } of batch.parts)
        for (let word = 0; word < requests.length; word += ENTRY_WORDS)
          requests[word] = requests[word]! + firstSequence
      // Looked up before the sync. `append` drops the rows of a pool that is deleted meanwhile.
      const schemas = batch.parts.map(part => catalog.schema(part.pool, part.version))
      await durable
      for (const [index, part] of batch.parts.entries()) {
        const schema = schemas[index]
        if (schema !== undefined)
          append(part.pool, schema, [{ kind: part.kind, batch: part.batch, requests: part.requests }])
      }
    },
  }
}

function targetOf(
  catalog: CatalogService,
  pool: Pool,
  source: DataSource,
  received: ReceivedClocks,
): IngestTarget {
  const schema = must(catalog.schema(pool.number, pool.planVersion), 'the schema of a live pool')
  return {
    poolNumber: pool.number,
    poolId: pool.id,
    schemaVersion: pool.planVersion,
    schema: must(catalog.sharedSchema(pool.number, pool.planVersion), 'the schema of a live pool'),
    cost: batchCostOf(schema),
    basicAuth: source.basicAuth,
    hasUniqueId: pool.uniqueIdColumn !== null,
    received: received.of(pool.number),
  }
}
