/**
 * One node of the cluster leads: it does what only one may do, such as jobs and sweeps. It has an
 * ephemeral node of Keeper, which goes with its session; then another node leads.
 *
 * A leader takes itself for one for two thirds of its session, and another one comes after all of
 * it. A process that stood still meanwhile may yet go on in the middle of a step, so:
 *
 *   the catalog     `fenced` asks before each change whether this node leads. What was sent before
 *                   is made before the next leader begins or never: it takes the root of the
 *                   catalog, which every change compares (KeeperStore.fence).
 *   the tables      a statement of ClickHouse goes on without the node that sent it. So each one
 *                   must change nothing when it is done twice or late: rows with the version of
 *                   their job (docs/decisions/0086), columns and tables that may be there already,
 *                   numbers of pools that are never used again.
 */
import type { Catalog } from '../../catalog/catalog.ts'
import type { Decide } from '../../catalog/change/change.ts'
import { Unavailable } from '../../util/errors.ts'
import { KEEPER_ERROR } from './jute.ts'
import { isRefused } from './keeper-client.ts'
import type { KeeperStore } from './keeper-store.ts'

const LOOK_MS = 250
const NOTHING = new Uint8Array(0)

export type FencedCatalog = Pick<Catalog, 'change' | 'pool' | 'read'>

export interface LeaderOptions {
  readonly store: KeeperStore
  /** The node of Keeper that the leader makes; its parent is there. */
  readonly path: string
  /** This node leads until the signal. */
  onLead(ended: AbortSignal): void
}

export class Leader {
  readonly #options: LeaderOptions
  #leading: { readonly session: bigint; readonly ended: AbortController } | undefined
  #looking: Promise<void>
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(options: LeaderOptions) {
    this.#options = options
    this.#looking = this.#look()
  }

  /** True while no other node can lead. */
  isLeader(): boolean {
    const { keeper } = this.#options.store
    return this.#leading?.session === keeper.sessionId && keeper.isAlive()
  }

  /** A change that only a leader makes: of another node it is refused with Unavailable. */
  fenced<T>(decide: Decide<T>): Decide<T> {
    return (memory, nowMs) => {
      if (this.isLeader()) return decide(memory, nowMs)
      throw new Unavailable('not_leader', 'Another node of the cluster leads now')
    }
  }

  /** The catalog of what only a leader does. */
  fencedCatalog(catalog: Catalog): FencedCatalog {
    return {
      read: catalog.read,
      pool: id => catalog.pool(id),
      change: decide => catalog.change(this.fenced(decide)),
    }
  }

  /** Resolves when this node leads no more, and tries no more. The session frees the place. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#end()
    await this.#looking
  }

  async #look(): Promise<void> {
    const { store, onLead } = this.#options
    if (!this.isLeader()) this.#end()
    const session = store.keeper.sessionId
    try {
      if (store.isCurrent()) {
        if (!(await this.#isOurs(session))) this.#end()
        else if (this.#leading === undefined) {
          await store.fence()
          if (!this.#isStopped && store.isCurrent() && store.keeper.sessionId === session) {
            this.#leading = { session, ended: new AbortController() }
            onLead(this.#leading.ended.signal)
          }
        }
      }
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error // otherwise the next look tries again
    }
    if (!this.#isStopped)
      this.#timer = setTimeout(() => {
        this.#looking = this.#look()
      }, LOOK_MS)
  }

  #end(): void {
    this.#leading?.ended.abort()
    this.#leading = undefined
  }

  /** Makes the node where there is none. */
  async #isOurs(session: bigint): Promise<boolean> {
    const { store, path } = this.#options
    try {
      return (await store.keeper.getData(path)).stat.ephemeralOwner === session
    } catch (error) {
      if (!isRefused(error, KEEPER_ERROR.noNode)) throw error
    }
    try {
      await store.keeper.write({ kind: 'create', path, data: NOTHING, isEphemeral: true })
      return true
    } catch (error) {
      if (!isRefused(error, KEEPER_ERROR.nodeExists)) throw error
      return false
    }
  }
}
