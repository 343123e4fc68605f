/**
 * The catalog thread: opens the store, then applies one change at a time. Each is synced before its
 * answer.
 */
import type { MessagePort } from 'node:worker_threads'
import { must, Unavailable } from '../../util/errors.ts'
import { serve } from '../../util/thread-server.ts'
import type { CatalogCalls, CatalogThreadData, Change } from '../documents/catalog-types.ts'
import { NotChanged, openStore, type Store } from './catalog-store.ts'

/** Serves `port` until it is told to stop. LMDB is closed before the thread ends. */
export function serveCatalog(port: MessagePort, data: CatalogThreadData): void {
  let store: Store | undefined
  serve<CatalogCalls>(
    port,
    {
      open: async () => {
        store = await openStore(data.path)
        return store.entries
      },
      apply: change => applyChange(must(store, 'the open store'), change),
    },
    { close: () => store?.close() },
  )
}

function applyChange(store: Store, change: Change): void {
  try {
    store.apply(change)
  } catch (error) {
    if (!(error instanceof NotChanged)) throw error
    throw new Unavailable('catalog_full', `The change was not made: ${error.message}`)
  }
}
