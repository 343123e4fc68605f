/**
 * The catalog in memory: every document by its key, and the maps that readers use. A change is
 * applied only after it is synced, so everything that a reader sees here is on disk.
 */
import type { PoolSchema } from '../format/schema.ts'
import { assert, must } from '../util/assert.ts'
import { Damaged } from '../util/errors.ts'
import type { Change, Entry } from './catalog-types.ts'
import type { Application, DataSource, Meta, Pool, SchemaVersion, SigningKey, Tombstone } from './model.ts'
import { schemaOf, shareSchema } from './model.ts'

/** The keys of the documents. No other place spells them. */
export const keys = {
  meta: 'meta',
  signingKey: 'signing-key',
  application: (id: string) => `application/${id}`,
  source: (id: string) => `source/${id}`,
  pool: (id: string) => `pool/${id}`,
  schema: (pool: number, version: number) => `plan/${pool}/${version}`,
  tombstone: (pool: number) => `tombstone/${pool}`,
}

/** A schema version, and the same as JSON in memory that threads share. */
interface LoadedSchema {
  readonly schema: PoolSchema
  readonly shared: SharedArrayBuffer
}

/** Objects of one kind by id and by unique name. */
class Named<T extends { readonly id: string; readonly uniqueName: string }> {
  readonly byId = new Map<string, T>()
  readonly byName = new Map<string, T>()

  set(value: T): void {
    this.delete(value.id)
    this.byId.set(value.id, value)
    this.byName.set(value.uniqueName, value)
  }

  delete(id: string): void {
    const old = this.byId.get(id)
    if (old === undefined) return
    this.byId.delete(id)
    this.byName.delete(old.uniqueName)
  }

  /** True where the name is taken, as a unique name or as an id. */
  has(name: string): boolean {
    return this.byName.has(name) || this.byId.has(name)
  }
}

export class Memory {
  readonly applications = new Named<Application>()
  readonly sources = new Named<DataSource>()
  readonly pools = new Named<Pool>()
  readonly poolsByNumber = new Map<number, Pool>()
  readonly sourcesByWebhook = new Map<string, DataSource>()
  readonly tombstones = new Map<number, Tombstone>()
  readonly #schemas = new Map<string, LoadedSchema>()
  /** The documents as they are on disk. */
  readonly #documents = new Map<string, unknown>()
  #meta: Meta | undefined
  #signingKey: SigningKey | undefined

  /**
   * Throws Damaged naming `path` where the key or the form of a document is unknown, or one is
   * missing.
   */
  load(entries: readonly Entry[], path: string): void {
    for (const [key, value] of entries) {
      if (!this.#put(key, value)) throw new Damaged(path, 0, `the catalog has an unknown document ${key}`)
    }
    if (entries.length > 0 && (this.#meta === undefined || this.#signingKey === undefined))
      throw new Damaged(
        path,
        0,
        'the catalog has documents, but its meta document or its signing key is missing',
      )
    for (const pool of this.pools.byId.values()) {
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

  signingKey(): SigningKey {
    return must(this.#signingKey, 'the signing key')
  }

  schema(pool: number, version: number): LoadedSchema | undefined {
    return this.#schemas.get(keys.schema(pool, version))
  }

  /** The keys of all schema versions of a pool. */
  schemaKeys(pool: number): string[] {
    return [...this.#schemas.keys()].filter(key => key.startsWith(`plan/${pool}/`))
  }

  /** Applies a change that is synced. */
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
    switch (kindOf(key)) {
      case 'meta':
        this.#meta = value as Meta
        return this.#meta.format === 1
      case 'signing-key':
        this.#signingKey = value as SigningKey
        return true
      case 'application':
        this.applications.set(value as Application)
        return true
      case 'source':
        this.sources.set(value as DataSource)
        this.sourcesByWebhook.set((value as DataSource).webhookId, value as DataSource)
        return true
      case 'pool':
        this.pools.set(value as Pool)
        this.poolsByNumber.set((value as Pool).number, value as Pool)
        return true
      case 'plan': {
        const schema = schemaOf(value as SchemaVersion)
        this.#schemas.set(key, { schema, shared: shareSchema(schema) })
        return true
      }
      case 'tombstone':
        this.tombstones.set((value as Tombstone).number, value as Tombstone)
        return true
      default:
        return false
    }
  }

  #remove(key: string): void {
    this.#documents.delete(key)
    const id = key.slice(key.indexOf('/') + 1)
    switch (kindOf(key)) {
      case 'application':
        this.applications.delete(id)
        return
      case 'source':
        this.sourcesByWebhook.delete(must(this.sources.byId.get(id), key).webhookId)
        this.sources.delete(id)
        return
      case 'pool':
        this.poolsByNumber.delete(must(this.pools.byId.get(id), key).number)
        this.pools.delete(id)
        return
      case 'plan':
        this.#schemas.delete(key)
        return
      default:
        assert(false, `document ${key} is never removed`)
    }
  }
}

function kindOf(key: string): string {
  return key.split('/', 1)[0]!
}
