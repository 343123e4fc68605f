/**
 * The catalog in memory: every document by its key, and the collections that readers use. A change
 * is applied only after it is durable, so everything that a reader sees here survives a crash.
 */
import type { PoolSchema } from '../../format/schema.ts'
import { assert, Damaged, must } from '../../util/errors.ts'
import type { Change, Entry } from './catalog-types.ts'
import { Collection } from './collection.ts'
import {
  type AccessPolicy,
  type Application,
  type DataSource,
  type Environment,
  type Job,
  type Meta,
  type Metric,
  newAuthorship,
  type Pool,
  SCOPES,
  type SchemaVersion,
  type SigningKey,
  schemaOf,
  shareSchema,
  type Tombstone,
  type WebhookSettings,
} from './model.ts'
import { newestFirst } from './signing-keys.ts'
import { CONNECTED, stateOf } from './source-kinds.ts'

/** The keys of the documents. No other place spells them. */
export const keys = {
  meta: 'meta',
  /** That of an earlier version has no kid. */
  signingKey: (kid: string) => (kid === '' ? 'signing-key' : `signing-key/${kid}`),
  environment: 'environment',
  application: (id: string) => `application/${id}`,
  source: (id: string) => `source/${id}`,
  pool: (id: string) => `pool/${id}`,
  schema: (pool: number, version: number) => `plan/${pool}/${version}`,
  tombstone: (pool: number) => `tombstone/${pool}`,
  metric: (id: string) => `metric/${id}`,
  policy: (id: string) => `policy/${id}`,
  job: (id: string) => `job/${id}`,
}

/** A schema version, and the same as JSON in memory that threads share. */
interface LoadedSchema {
  readonly schema: PoolSchema
  readonly shared: SharedArrayBuffer
}

/** Of 2^53, so that the positions of pools sort as strings. */
const POOL_NUMBER_DIGITS = 16

const nameOf = ({ uniqueName }: { readonly uniqueName: string }) => uniqueName

export class Memory {
  readonly applications = new Collection<Application>({ nameOf })
  readonly sources = new Collection<DataSource>({ nameOf })
  readonly pools = new Collection<Pool>({
    nameOf,
    ownerOf: pool => pool.dataSourceId,
    positionOf: pool => String(pool.number).padStart(POOL_NUMBER_DIGITS, '0'),
  })
  readonly metrics = new Collection<Metric>({ nameOf, ownerOf: metric => metric.poolId })
  readonly policies = new Collection<AccessPolicy>({ nameOf, ownerOf: policy => policy.poolId })
  readonly jobs = new Collection<Job>({ ownerOf: job => job.poolId })
  /** The kinds of documents that are in their collection and nowhere else. */
  readonly #plain = new Map<string, Pick<Collection<never>, 'set' | 'delete'>>([
    ['application', this.applications],
    ['metric', this.metrics],
    ['job', this.jobs],
  ])
  readonly #policiesOf = new Map<string, Collection<AccessPolicy>>()
  readonly poolsByNumber = new Map<number, Pool>()
  readonly tombstones = new Map<number, Tombstone>()
  /** The id of the pool of a webhook id. In an earlier version a source outlived its pool. */
  readonly #poolIdOfWebhook = new Map<string, string>()
  readonly #schemas = new Map<string, LoadedSchema>()
  readonly #documents = new Map<string, unknown>()
  #meta: Meta | undefined
  /** The newest first. */
  #signingKeys: readonly SigningKey[] = []
  #environment: Environment | undefined

  /** Throws Damaged naming `path` where a document is unknown, misshapen or missing. */
  load(entries: readonly Entry[], path: string): void {
    for (const [key, value] of entries) {
      if (!this.#put(key, upgrade(key, value)))
        throw new Damaged(path, 0, `the catalog has an unknown document ${key}`)
    }
    if (entries.length > 0 && (this.#meta === undefined || this.#signingKeys.length === 0))
      throw new Damaged(
        path,
        0,
        'the catalog has documents, but its meta document or its signing key is missing',
      )
    for (const pool of this.pools.all()) {
      if (this.#schemas.has(keys.schema(pool.number, pool.planVersion))) continue
      throw new Damaged(path, 0, `the catalog has no schema version ${pool.planVersion} of pool ${pool.id}`)
    }
  }

  isEmpty(): boolean {
    return this.#meta === undefined
  }

  meta(): Meta {
    return must(this.#meta, 'the meta document')
  }

  /** The newest first; at least one. */
  signingKeys(): readonly SigningKey[] {
    return this.#signingKeys
  }

  /** Its document is made by its first change. */
  environment(): Environment {
    const { environmentId: id } = this.meta()
    return (
      this.#environment ?? {
        id,
        uniqueName: id,
        description: '',
        ...newAuthorship('system', 0),
      }
    )
  }

  environmentOf(idOrName: string): Environment | undefined {
    const environment = this.environment()
    return [environment.id, environment.uniqueName].includes(idOrName) ? environment : undefined
  }

  /** The webhook id of a pool; undefined where the pool is deleted. */
  webhookIdOf({ webhookId, dataSourceId }: Pool): string | undefined {
    return webhookId ?? this.sources.get(dataSourceId)?.webhook?.webhookId
  }

  schema(pool: number, version: number): LoadedSchema | undefined {
    return this.#schemas.get(keys.schema(pool, version))
  }

  /** The schema by which new events of a pool are parsed. */
  currentSchema({ number, planVersion }: Pool): PoolSchema {
    return must(this.schema(number, planVersion), 'the schema of a pool').schema
  }

  poolOfWebhook(webhookId: string): Pool | undefined {
    const id = this.#poolIdOfWebhook.get(webhookId)
    return id === undefined ? undefined : this.pools.get(id)
  }

  /** The policy of an application on a pool: at most one is assigned. */
  policyOf(poolId: string, applicationId: string): AccessPolicy | undefined {
    return this.#policiesOf.get(applicationId)?.of(poolId)[0]
  }

  policiesOf(applicationId: string): readonly AccessPolicy[] {
    return this.#policiesOf.get(applicationId)?.all() ?? []
  }

  apply(change: Change): void {
    for (const key of change.removes) this.#remove(key)
    for (const [key, value] of change.puts)
      assert(this.#put(key, value), `document ${key} is of a known kind`)
  }

  /** Every document as it is on disk, in no order. Documents are never changed in place. */
  documents(): Entry[] {
    return [...this.#documents]
  }

  #put(key: string, value: unknown): boolean {
    this.#documents.set(key, value)
    const kind = kindOf(key)
    switch (kind) {
      case 'meta':
        this.#meta = value as Meta
        return this.#meta.format === 1
      case 'signing-key':
        this.#setSigningKeys(key, value as SigningKey)
        return true
      case 'environment':
        this.#environment = value as Environment
        return true
      case 'source': {
        const source = value as DataSource
        this.sources.set(source)
        if (source.webhook !== null)
          this.#poolIdOfWebhook.set(source.webhook.webhookId, source.webhook.poolId)
        return true
      }
      case 'pool': {
        const pool = value as Pool
        this.pools.set(pool)
        this.poolsByNumber.set(pool.number, pool)
        if (pool.webhookId !== null) this.#poolIdOfWebhook.set(pool.webhookId, pool.id)
        return true
      }
      case 'plan': {
        const schema = schemaOf(value as SchemaVersion)
        this.#schemas.set(key, { schema, shared: shareSchema(schema) })
        return true
      }
      case 'tombstone':
        this.tombstones.set((value as Tombstone).number, value as Tombstone)
        return true
      case 'policy':
        this.#unassign(this.policies.get((value as AccessPolicy).id))
        this.policies.set(value as AccessPolicy)
        this.#assign(value as AccessPolicy)
        return true
      default:
        this.#plain.get(kind)?.set(value as never)
        return this.#plain.has(kind)
    }
  }

  #setSigningKeys(documentKey: string, ...added: readonly SigningKey[]): void {
    const others = this.#signingKeys.filter(({ kid }) => keys.signingKey(kid) !== documentKey)
    this.#signingKeys = newestFirst([...others, ...added])
  }

  #assign(policy: AccessPolicy): void {
    for (const id of policy.applicationIds) {
      const assigned =
        this.#policiesOf.get(id) ?? new Collection<AccessPolicy>({ ownerOf: ({ poolId }) => poolId })
      this.#policiesOf.set(id, assigned)
      assigned.set(policy)
    }
  }

  #unassign(policy: AccessPolicy | undefined): void {
    for (const id of policy?.applicationIds ?? []) {
      const assigned = this.#policiesOf.get(id)
      assigned?.delete(policy?.id ?? '')
      if (assigned?.size === 0) this.#policiesOf.delete(id)
    }
  }

  #remove(key: string): void {
    this.#documents.delete(key)
    const id = key.slice(key.indexOf('/') + 1)
    const kind = kindOf(key)
    switch (kind) {
      case 'signing-key':
        this.#setSigningKeys(key)
        return
      case 'source': {
        const { webhook } = must(this.sources.get(id), key)
        if (webhook !== null) this.#poolIdOfWebhook.delete(webhook.webhookId)
        this.sources.delete(id)
        return
      }
      case 'pool': {
        const pool = must(this.pools.get(id), key)
        this.poolsByNumber.delete(pool.number)
        if (pool.webhookId !== null) this.#poolIdOfWebhook.delete(pool.webhookId)
        this.pools.delete(id)
        return
      }
      case 'plan':
        this.#schemas.delete(key)
        return
      case 'tombstone':
        this.tombstones.delete(Number(id))
        return
      case 'policy':
        this.#unassign(this.policies.get(id))
        this.policies.delete(id)
        return
      default:
        assert(this.#plain.has(kind), `document ${key} is never removed`)
        this.#plain.get(kind)?.delete(id)
    }
  }
}

function kindOf(key: string): string {
  return key.split('/', 1)[0]!
}

/** A source as it was while every source was a webhook. */
interface WebhookSourceBefore
  extends Omit<DataSource, 'kind' | 'status' | 'webhook' | 'tables' | 'settings'>,
    Omit<WebhookSettings, 'tableSettings'> {}

/**
 * The document of `key` in today's form. One of an earlier version is written in it by its next
 * change.
 */
function upgrade(key: string, value: unknown): unknown {
  const kind = kindOf(key)
  if (kind === 'application') return upgradeApplication(value as Application)
  if (kind === 'signing-key') return { kid: '', createdAt: EPOCH, ...(value as object) }
  if (kind === 'source') return upgradeSource(value as DataSource | WebhookSourceBefore)
  if (kind === 'pool') return upgradePool(value as Pool)
  return value
}

const EPOCH = new Date(0).toISOString()

/** The only application of an earlier version had every right and no limits of its queries. */
function upgradeApplication(application: Application): Application {
  if ('propeller' in application) return application
  const before: Application = application
  return { ...before, propeller: 'P1_X_LARGE', scopes: SCOPES }
}

function upgradeSource(source: DataSource | WebhookSourceBefore): DataSource {
  // An earlier version stored CONNECTING, and BROKEN with a second change.
  if ('kind' in source)
    return source.status === 'CONNECTING' ? { ...source, ...stateOf(source.kind) } : source
  const { webhookId, poolId, timestamp, uniqueIdColumn, tenant, ...common } = source
  return {
    ...CONNECTED,
    ...common,
    kind: 'WEBHOOK',
    webhook: { webhookId, poolId, timestamp, uniqueIdColumn, tenant, tableSettings: null },
  }
}

function upgradePool(pool: Pool): Pool {
  if ('webhookId' in pool) return pool
  const before: Pool = pool
  return { ...before, webhookId: null, table: before.uniqueName, tableSettings: null }
}
