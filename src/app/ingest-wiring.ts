/** Wires the ingest path: the functions of catalog and store that the front end calls. */
import type { IngestTarget } from '../api/api-types.ts'
import { IngestPool, type IngestSchema } from '../api/ingest/ingest-pool.ts'
import { type Sender, senderOf } from '../api/ingest/sender.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Target } from '../catalog/documents/catalog-types.ts'
import type { DataSource, Pool } from '../catalog/documents/model.ts'
import { rejectedPool } from '../catalog/rejected-pool.ts'
import { batchCostOf } from '../format/batch-layout.ts'
import { KEY_RECEIVED_AT, type SchemaKey } from '../format/schema.ts'
import type { ReceivedClocks, RisingClock } from '../util/clock.ts'
import { must } from '../util/errors.ts'
import { getOrMake } from '../util/get-or-make.ts'
import { cutOver } from './cut-over.ts'
import type { RowStore } from './store.ts'

/** The functions of other layers that the ingest path calls. */
interface IngestWiring {
  readonly catalog: Catalog
  readonly rows: RowStore
  readonly received: ReceivedClocks
  /** The public URL of a webhook. */
  webhookUrl(webhookId: string): string
}

interface CachedTarget extends Target {
  readonly target: IngestTarget
}

/**
 * The functions target(), rejectedTarget(), isLive(), onReleased() and commit() of ApiDeps,
 * cutOver() for new schema versions, and forget() for deleted pools.
 */
export function wireIngest({ catalog, rows, received, webhookUrl }: IngestWiring) {
  /** By the number of the pool: a pool has one webhook id for life. */
  const targets = new Map<number, CachedTarget>()
  const pools = new Map<number, IngestPool>()
  let resumed = () => {}
  const ingestPool = (pool: Pool): IngestPool =>
    getOrMake(pools, pool.number, number => new IngestPool(number, ingestSchemaOf(catalog, pool)))
  return {
    target(webhookId: string): IngestTarget | undefined {
      const found = catalog.byWebhookId(webhookId)
      if (found === undefined) return undefined
      const { number } = found.pool
      const cached = targets.get(number)
      if (cached?.pool === found.pool && cached.source === found.source) return cached.target
      const schema = catalog.read.currentSchema(found.pool)
      const sender = senderOf(found.source.sender ?? null, schema, {
        url: () => webhookUrl(webhookId),
        secretUntilMs: () => catalog.handshakeUntilMs(found.source.id),
      })
      const target = targetOf(ingestPool(found.pool), schema.key, found, received.of(number), sender)
      targets.set(number, { pool: found.pool, source: found.source, target })
      return target
    },
    rejectedTarget: rejectedTarget(catalog, received, ingestPool),
    /** Forgets the target of a deleted pool. */
    forget({ number }: Pool): void {
      targets.delete(number)
      pools.delete(number)
      received.drop(number)
    },
    /**
     * Runs `change`, which may give the pool a new schema version from this sequence on; see
     * cut-over.ts. No change of a live pool's schema takes another way.
     */
    cutOver<T>(pool: Pool, change: (sequence: number) => Promise<T>): Promise<T> {
      return cutOver(ingestPool(pool), change, {
        boundary: () => rows.boundary(),
        schemaOf: ({ number, schema }) => {
          const now = catalog.poolByNumber(number)
          return now === undefined ? schema : ingestSchemaOf(catalog, now)
        },
        resumed: () => resumed(),
      })
    },
    /** Where the pool has a new schema without a cut-over here, later bodies are parsed with it. */
    modified(pool: Pool): void {
      const known = pools.get(pool.number)
      if (known === undefined || known.isPaused) return
      const schema = ingestSchemaOf(catalog, pool)
      if (schema.version === known.schema.version) return
      void known.pause()
      known.resume(schema)
      resumed()
    },
    onReleased(listener: () => void): void {
      resumed = listener
    },
    isLive: (pool: number) => catalog.poolByNumber(pool) !== undefined,
    commit: rows.commit,
  }
}

/** The target of the pool of rejected events, which has no webhook. It is never deleted. */
function rejectedTarget(
  catalog: Catalog,
  received: ReceivedClocks,
  ingestPool: (pool: Pool) => IngestPool,
): () => IngestTarget | undefined {
  let id: string | undefined
  return () => {
    id ??= rejectedPool(catalog.read)?.id
    const pool = id === undefined ? undefined : catalog.pool(id)
    const source = pool && catalog.read.sources.get(pool.dataSourceId)
    if (pool === undefined || source === undefined) return undefined
    const { key } = catalog.read.currentSchema(pool)
    return targetOf(ingestPool(pool), key, { pool, source }, received.of(pool.number), undefined)
  }
}

function targetOf(
  ingestPool: IngestPool,
  key: SchemaKey | null,
  { pool, source }: Target,
  received: RisingClock,
  sender: Sender | undefined,
): IngestTarget {
  return {
    poolNumber: pool.number,
    poolId: pool.id,
    pool: ingestPool,
    basicAuth: source.basicAuth,
    hasKey: key !== null,
    received,
    eventClock: key?.columns.includes(KEY_RECEIVED_AT) === true ? received.share() : undefined,
    sender,
    rejects: rejectsOf(pool, source),
  }
}

/** The pool of rejected events never records itself. */
function rejectsOf(pool: Pool, source: DataSource): string | undefined {
  if (pool.builtIn !== undefined || source.rejectedEvents === 'COUNT') return undefined
  return JSON.stringify({ source_id: source.id, data_pool_id: pool.id }).slice(1, -1)
}

/** The current schema of a pool as parse tasks need it. */
function ingestSchemaOf(catalog: Catalog, pool: Pool): IngestSchema {
  const schema = catalog.read.currentSchema(pool)
  const { version } = schema
  const bytes = must(catalog.sharedSchema(pool.number, version), 'the schema of a live pool')
  return { version, bytes, cost: batchCostOf(schema) }
}
