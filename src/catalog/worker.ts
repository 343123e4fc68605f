/** The catalog worker: opens the store, then applies one change at a time, each flushed before its answer. */
import type { MessagePort } from 'node:worker_threads'
import { toWire } from '../errors.ts'
import { armCrash } from '../util/crash.ts'
import type { CatalogAnswer, CatalogRequest, CatalogWorkerData } from './protocol.ts'
import { NotChanged, openStore, type Store } from './store.ts'

/** Serves `port` until it is told to stop. LMDB is closed before the thread ends. */
export function serveCatalog(port: MessagePort, data: CatalogWorkerData): void {
  armCrash(data.crashAt)
  const answer = (message: CatalogAnswer) => port.postMessage(message)
  let store: Store
  try {
    store = openStore(data.path)
  } catch (error) {
    answer({ kind: 'failed', error: toWire(error) })
    port.close()
    return
  }
  port.on('message', (request: CatalogRequest) => {
    if (request.kind === 'stop') void stop(store, port, answer)
    else answer(tryApply(store, request))
  })
  answer({ kind: 'opened', entries: store.entries })
}

function tryApply(store: Store, request: Extract<CatalogRequest, { kind: 'apply' }>): CatalogAnswer {
  try {
    store.apply(request.change)
    return { kind: 'applied' }
  } catch (error) {
    return { kind: error instanceof NotChanged ? 'refused' : 'failed', error: toWire(error) }
  }
}

async function stop(store: Store, port: MessagePort, answer: (message: CatalogAnswer) => void) {
  try {
    await store.close()
    answer({ kind: 'stopped' })
  } catch (error) {
    answer({ kind: 'failed', error: toWire(error) })
  }
  port.close()
}
