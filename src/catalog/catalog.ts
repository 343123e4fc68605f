/**
 * The catalog: reads come from memory, and changes are made one at a time.
 *
 * A change waits for its turn. It is checked against everything that was synced before it, synced
 * by the catalog thread, applied to memory, and then answered. So a POST after the answer to a
 * creation finds the pool, a POST after the answer to a deletion does not, and unique names hold.
 *
 * Pool numbers come from a counter that only grows, so a log record is never taken for one of
 * another pool.
 */
import type { PoolSchema } from '../format/schema.ts'
import { wallMs } from '../util/clock.ts'
import type {
  BadRequest,
  CatalogService,
  Change,
  Entry,
  IdOrName,
  NewWebhookSource,
  PoolChange,
  Target,
} from './catalog-types.ts'
import { keys, type Memory } from './memory.ts'
import type { Application, DataSource, Meta, Pool, SigningKey, Tombstone } from './model.ts'
import { checkChange, checkCreation, makeWebhookSource, orNull } from './rules.ts'
import type { StoreClient } from './store-client.ts'

/** Called after a change is in memory and before it is answered. */
export interface CatalogListener {
  /** Once per deleted pool. */
  poolDeleted(pool: Pool): void
  poolModified(pool: Pool): void
}

const ID = /^[A-Z]{3}[0-9A-Z]{26}$/

export class Catalog implements CatalogService {
  readonly #memory: Memory
  readonly #store: StoreClient
  readonly #listener: CatalogListener
  #turn: Promise<unknown> = Promise.resolve()

  constructor(memory: Memory, store: StoreClient, listener: CatalogListener) {
    this.#memory = memory
    this.#store = store
    this.#listener = listener
  }

  meta(): Meta {
    return this.#memory.meta()
  }

  /**
   * The reason for refusing every change until a restart, one sentence; undefined where changes are
   * accepted.
   */
  refusal(): string | undefined {
    return this.#store.refusal()
  }

  /** Every document as it is now, for a backup. */
  documents(): readonly Entry[] {
    return this.#memory.documents()
  }

  signingKey(): SigningKey {
    return this.#memory.signingKey()
  }

  application(id: string): Application | undefined {
    return this.#memory.applications.byId.get(id)
  }

  source(id: string): DataSource | undefined {
    return this.#memory.sources.byId.get(id)
  }

  sourceByName(uniqueName: string): DataSource | undefined {
    return this.#memory.sources.byName.get(uniqueName)
  }

  sources(): readonly DataSource[] {
    return [...this.#memory.sources.byId.values()].sort(byAge)
  }

  pool(id: string): Pool | undefined {
    return this.#memory.pools.byId.get(id)
  }

  poolByName(uniqueName: string): Pool | undefined {
    return this.#memory.pools.byName.get(uniqueName)
  }

  poolByNumber(number: number): Pool | undefined {
    return this.#memory.poolsByNumber.get(number)
  }

  pools(): readonly Pool[] {
    return [...this.#memory.pools.byId.values()].sort((a, b) => a.number - b.number)
  }

  byWebhookId(webhookId: string): Target | undefined {
    const source = this.#memory.sourcesByWebhook.get(webhookId)
    const pool = source && this.#memory.pools.byId.get(source.poolId)
    return source && pool && { pool, source }
  }

  tombstones(): readonly Tombstone[] {
    return [...this.#memory.tombstones.values()]
  }

  schema(pool: number, version: number): PoolSchema | undefined {
    return this.#memory.schema(pool, version)?.schema
  }

  sharedSchema(pool: number, version: number): SharedArrayBuffer | undefined {
    return this.#memory.schema(pool, version)?.shared
  }

  createWebhookSource(input: NewWebhookSource, createdBy: string): Promise<Target | BadRequest> {
    return this.#inTurn(async () => {
      const checked = checkCreation(input)
      if ('badRequest' in checked) return checked
      const name = orNull(input.uniqueName)
      const problem = name === null ? undefined : this.#nameProblem(name)
      if (problem !== undefined) return { badRequest: problem }
      const made = makeWebhookSource(input, checked, this.meta(), createdBy, wallMs())
      await this.#change({ puts: made.puts, removes: [] })
      return made.target
    })
  }

  modifyPool(which: IdOrName, change: PoolChange, modifiedBy: string): Promise<Pool | BadRequest | null> {
    return this.#inTurn(async () => {
      const [id, name] = [orNull(which.id), orNull(which.uniqueName)]
      if (id === null && name === null) return { badRequest: 'Neither id nor uniqueName was given.' }
      const pool = id === null ? this.poolByName(name ?? '') : this.pool(id)
      if (pool === undefined) return null
      const checked = checkChange(pool, change)
      if ('badRequest' in checked) return checked
      const problem =
        checked.uniqueName === pool.uniqueName ? undefined : this.#nameProblem(checked.uniqueName, pool)
      if (problem !== undefined) return { badRequest: problem }
      const isSame = (Object.keys(checked) as (keyof typeof checked)[]).every(
        key => checked[key] === pool[key],
      )
      if (isSame) return pool
      const modified: Pool = { ...pool, ...checked, modifiedAt: new Date(wallMs()).toISOString(), modifiedBy }
      await this.#change({ puts: [[keys.pool(pool.id), modified]], removes: [] })
      this.#listener.poolModified(modified)
      return modified
    })
  }

  deletePool(id: string): Promise<string | null> {
    return this.#inTurn(() => this.#deletePool(this.pool(id)))
  }

  deletePoolByName(uniqueName: string): Promise<string | null> {
    return this.#inTurn(() => this.#deletePool(this.poolByName(uniqueName)))
  }

  deleteSource(id: string): Promise<string | null> {
    return this.#inTurn(() => this.#deleteSource(this.source(id)))
  }

  deleteSourceByName(uniqueName: string): Promise<string | null> {
    return this.#inTurn(() => this.#deleteSource(this.sourceByName(uniqueName)))
  }

  /** Writes the documents of a start; see open-catalog.ts. */
  put(puts: readonly Entry[], removes: readonly string[] = []): Promise<void> {
    return this.#inTurn(() => this.#change({ puts, removes }))
  }

  /** Waits for the running changes, closes the store and ends the thread. */
  stop(): Promise<void> {
    return this.#inTurn(() => this.#store.stop())
  }

  async #deletePool(pool: Pool | undefined): Promise<string | null> {
    if (pool === undefined) return null
    await this.#change(this.#poolRemoval(pool))
    this.#listener.poolDeleted(pool)
    return pool.id
  }

  async #deleteSource(source: DataSource | undefined): Promise<string | null> {
    if (source === undefined) return null
    const pool = this.pool(source.poolId)
    const { puts, removes } = pool === undefined ? { puts: [], removes: [] } : this.#poolRemoval(pool)
    await this.#change({ puts, removes: [...removes, keys.source(source.id)] })
    if (pool !== undefined) this.#listener.poolDeleted(pool)
    return source.id
  }

  /** Removes the pool and its schema versions, and leaves a tombstone. */
  #poolRemoval(pool: Pool): Change {
    const tombstone: Tombstone = {
      number: pool.number,
      poolId: pool.id,
      deletedAt: new Date(wallMs()).toISOString(),
    }
    return {
      puts: [[keys.tombstone(pool.number), tombstone]],
      removes: [keys.pool(pool.id), ...this.#memory.schemaKeys(pool.number)],
    }
  }

  /**
   * A source and its pool share a name, so it must be free among both. `pool` may take the name of
   * its source.
   */
  #nameProblem(name: string, pool?: Pool): string | undefined {
    const isOwn = pool !== undefined && this.sourceByName(name)?.id === pool.dataSourceId
    if (ID.test(name) && !isOwn) return `The unique name "${name}" has the form of an id.`
    if (this.#memory.sources.has(name) && !isOwn)
      return `A Data Source with the unique name "${name}" already exists.`
    if (this.#memory.pools.has(name)) return `A Data Pool with the unique name "${name}" already exists.`
    return undefined
  }

  async #change(change: Change): Promise<void> {
    await this.#store.apply(change)
    this.#memory.apply(change)
  }

  /** Runs one change at a time. A failed change does not stop the next one. */
  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(act)
    this.#turn = result.catch(() => undefined)
    return result
  }
}

function byAge(a: DataSource, b: DataSource): number {
  return a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : a.id < b.id ? -1 : 1
}
