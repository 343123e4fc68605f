/**
 * The store as the main thread sees it: one request at a time, each a promise.
 *
 * A change that a full disk refuses is rejected, and the next one is tried. Where it is unknown
 * whether a change was made, nothing more is written until a restart: a pool number that is given
 * twice would mix the records of two pools.
 */
import { assert, Unavailable } from '../../util/errors.ts'
import { fail } from '../../util/say.ts'
import { startThread } from '../../util/thread-kit.ts'
import type { CatalogCalls, CatalogThreadData, Change, Entry } from '../documents/catalog-types.ts'

export interface StoreClient {
  readonly entries: readonly Entry[]
  /** This process among those that share the store; absent where there are no others. */
  readonly process?: string
  /** Calls `take` with each change in order when it is durable, also with those of other nodes. */
  follow(take: (change: Change) => void): void
  /**
   * One call at a time. False: another node changed the catalog first, and this change was not
   * made. Rejects with Unavailable: `catalog_full` (it may be tried again) or `catalog_refused`.
   */
  apply(change: Change): Promise<boolean>
  /** Why the store can never have what the change makes; absent where it can have everything. */
  readonly refuses?: (change: Change) => string | undefined
  /** The reason for refusing every change until a restart, one sentence. */
  refusal(): string | undefined
  stop(): Promise<void>
}

/** Rejects with CannotRun or Damaged after the thread has ended. */
export async function openStoreClient(data: CatalogThreadData): Promise<StoreClient> {
  const thread = startThread<CatalogCalls>({ name: 'catalog', data, crashAt: data.crashAt })
  let entries: readonly Entry[]
  try {
    entries = await thread.call('open', undefined)
  } catch (error) {
    await thread.stop().catch(() => {}) // the first error says more
    throw error
  }
  let isApplying = false
  let poison: Unavailable | undefined
  const apply = async (change: Change): Promise<void> => {
    if (poison !== undefined) throw poison
    assert(!isApplying, 'the catalog thread applies one change at a time')
    isApplying = true
    try {
      await thread.call('apply', change)
    } catch (error) {
      if (error instanceof Unavailable && error.code === 'catalog_full') throw error
      const { message } = error as Error
      fail(`catalog: a change could not be written, no more are accepted until restart: ${message}`)
      poison = new Unavailable('catalog_refused', `The catalog accepts no changes until restart: ${message}`)
      throw poison
    } finally {
      isApplying = false
    }
  }
  return ofOneProcess({ entries, apply, refusal: () => poison?.message, stop: () => thread.stop() })
}

/** A store that no other process changes. `apply` resolves when the change is durable. */
export function ofOneProcess(
  store: Pick<StoreClient, 'entries' | 'refusal' | 'stop'> & { apply(change: Change): Promise<void> },
): StoreClient {
  let taken: (change: Change) => void = () => {}
  return {
    ...store,
    follow(take) {
      taken = take
    },
    async apply(change) {
      await store.apply(change)
      taken(change)
      return true
    },
  }
}
