/**
 * The catalog: reads come from memory, and changes are made one at a time.
 *
 * A change waits for its turn; applications take turns. It is checked against everything that was
 * made before it, made durable by the store (the catalog thread, or Keeper in a cluster), applied
 * to memory, and then answered. So a POST after the answer to a creation finds the pool, a POST
 * after the answer to a deletion does not, and unique names hold.
 *
 * The documents and the memory are in documents/. Three rooms import from it, and not from each
 * other: change/ (what a change may do), lmdb/ (the thread that keeps them) and access/ (tokens).
 *
 * Pool numbers come from a counter that only grows, so a log record is never taken for one of
 * another pool.
 */
import type { PoolSchema } from '../format/schema.ts'
import { wallMs } from '../util/clock.ts'
import { Unavailable } from '../util/errors.ts'
import { FairQueue } from '../util/fair-queue.ts'
import type { Decide } from './change/change.ts'
import type { BadRequest, Change, Entry, Target } from './documents/catalog-types.ts'
import { keys, type Memory } from './documents/memory.ts'
import {
  type Application,
  type Job,
  type Pool,
  PROPELLERS,
  type Propeller,
  type SigningKey,
  type Tombstone,
} from './documents/model.ts'
import type { StoreClient } from './lmdb/store-client.ts'

/** Tries of one change. Each other change that comes between takes some milliseconds. */
const DECISIONS_MAX = 50

/** The catalog has changed, here or on another node. It is in memory already. */
export interface CatalogListener {
  readonly poolDeleted?: (pool: Pool) => void
  readonly poolModified?: (pool: Pool, before: Pool) => void
  readonly jobCreated?: (job: Job) => void
}

export class Catalog {
  readonly read: Memory
  readonly #store: StoreClient
  readonly #listener: CatalogListener
  /** Changes that wait, one of each request and job. */
  readonly #waiting = new FairQueue<() => Promise<void>>()
  #working: Promise<void> | undefined
  /** By the id of a source, of a data folder. A restart forgets them all. */
  readonly #handshakesUntilMs = new Map<string, number>()

  constructor(memory: Memory, store: StoreClient, listener: CatalogListener) {
    this.read = memory
    this.#store = store
    this.#listener = listener
    store.follow(change => this.#take(change))
  }

  /** This process among the nodes of a cluster; undefined in a data folder. */
  get process(): string | undefined {
    return this.#store.process
  }

  /** The reason for refusing every change until a restart, one sentence. */
  refusal(): string | undefined {
    return this.#store.refusal()
  }

  /** The newest first; at least one. */
  signingKeys(): readonly SigningKey[] {
    return this.read.signingKeys()
  }

  application(id: string): Application | undefined {
    return this.read.applications.get(id)
  }

  /** The resources of an application. One that was deleted has the smallest. */
  propellerOf(applicationId: string): Propeller {
    return this.application(applicationId)?.propeller ?? PROPELLERS[0]
  }

  pool(id: string): Pool | undefined {
    return this.read.pools.get(id)
  }

  poolByNumber(number: number): Pool | undefined {
    return this.read.poolsByNumber.get(number)
  }

  /** Oldest first. */
  pools(): readonly Pool[] {
    return this.read.pools.all()
  }

  byWebhookId(webhookId: string): Target | undefined {
    const pool = this.read.poolOfWebhook(webhookId)
    const source = pool && this.read.sources.get(pool.dataSourceId)
    return source && pool && { pool, source }
  }

  /**
   * Lets the sender of a source hand over its secret until then, in ms since 1970. Its request may
   * come to any node of a cluster.
   */
  async openHandshake(sourceId: string, untilMs: number): Promise<void> {
    if (this.process !== undefined) {
      await this.change(({ sources }) => {
        const source = sources.get(sourceId)
        const puts: Entry[] =
          source === undefined ? [] : [[keys.source(sourceId), { ...source, handshakeUntilMs: untilMs }]]
        return { puts, removes: [], result: null }
      })
      return
    }
    for (const id of this.#handshakesUntilMs.keys())
      if (this.read.sources.get(id) === undefined) this.#handshakesUntilMs.delete(id)
    this.#handshakesUntilMs.set(sourceId, untilMs)
  }

  /** 0 where nobody asked for a handshake. */
  handshakeUntilMs(sourceId: string): number {
    const source = this.read.sources.get(sourceId)
    return source?.handshakeUntilMs ?? this.#handshakesUntilMs.get(sourceId) ?? 0
  }

  /**
   * The change that keeps a secret which was handed over; the next one needs another
   * openHandshake(). The result is undefined where another request was first.
   */
  async takeHandshake<T>(sourceId: string, decide: Decide<T>): Promise<T | BadRequest | undefined> {
    if (this.process === undefined)
      return this.#handshakesUntilMs.delete(sourceId) ? await this.change(decide) : undefined
    return await this.change<T | undefined>((memory, nowMs) => {
      const untilMs = memory.sources.get(sourceId)?.handshakeUntilMs ?? 0
      return nowMs < untilMs ? decide(memory, nowMs) : { puts: [], removes: [], result: undefined }
    })
  }

  tombstones(): readonly Tombstone[] {
    return [...this.read.tombstones.values()]
  }

  /** The schema by which events of a live pool are parsed; undefined for an unknown version. */
  schema(pool: number, version: number): PoolSchema | undefined {
    return this.read.schema(pool, version)?.schema
  }

  sharedSchema(pool: number, version: number): SharedArrayBuffer | undefined {
    return this.read.schema(pool, version)?.shared
  }

  /**
   * Resolves when the change is durable and in memory. Rejects with Unavailable. `decide` is called
   * again where another node of a cluster changed the catalog meanwhile.
   * @param fairKey whose turn it is: an application; absent for the server's own changes
   */
  change<T>(decide: Decide<T>, fairKey = ''): Promise<T | BadRequest> {
    return this.#inTurn(fairKey, async () => {
      for (let tries = 0; tries < DECISIONS_MAX; tries += 1) {
        const decision = decide(this.read, wallMs())
        if ('badRequest' in decision) return decision
        const { puts, removes, result } = decision
        const badRequest = this.#store.refuses?.(decision)
        if (badRequest !== undefined) return { badRequest }
        if (puts.length + removes.length === 0 || (await this.#store.apply({ puts, removes }))) return result
      }
      throw new Unavailable('catalog_busy', 'Others change the catalog without a pause: try again')
    })
  }

  async put(puts: readonly Entry[], removes: readonly string[] = []): Promise<void> {
    await this.change(() => ({ puts, removes, result: null }))
  }

  /** Stops after the changes that wait. */
  async stop(): Promise<void> {
    await this.#working
    await this.#inTurn('', () => this.#store.stop())
  }

  /** Applies a durable change to memory and tells the listener of the pools and new jobs in it. */
  #take(change: Change): void {
    const { pools, jobs } = this.read
    const newJobs = change.puts
      .map(([key]) => key)
      .filter(key => key.startsWith('job/') && jobs.get(key.slice('job/'.length)) === undefined)
    const idsOf = (keys: readonly string[]) =>
      keys.filter(key => key.startsWith('pool/')).map(key => key.slice('pool/'.length))
    const before = idsOf([...change.puts.map(([key]) => key), ...change.removes]).map(id => pools.get(id))
    // As a restart reads it. V8 gives objects that were made by copying others a shape of their own
    // each, and then every request misses its inline caches: 60 µs with 2,000 pools.
    this.read.apply(JSON.parse(JSON.stringify(change)) as Change)
    for (const pool of before) {
      if (pool === undefined) continue
      const now = pools.get(pool.id)
      if (now === undefined) this.#listener.poolDeleted?.(pool)
      else this.#listener.poolModified?.(now, pool)
    }
    for (const key of newJobs) {
      const job = jobs.get(key.slice('job/'.length))
      if (job !== undefined) this.#listener.jobCreated?.(job)
    }
  }

  /** Runs one change at a time. A failed change does not stop the next one. */
  #inTurn<T>(fairKey: string, act: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(fairKey, () => act().then(resolve, reject))
      this.#working ??= this.#work()
    })
  }

  async #work(): Promise<void> {
    for (let next = this.#waiting.tryShift(); next !== undefined; next = this.#waiting.tryShift())
      await next()
    this.#working = undefined
  }
}
