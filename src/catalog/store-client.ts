/**
 * The store as the main thread sees it: one request at a time, each a promise.
 *
 * After a failed commit nothing more is written until restart: what is on disk is not known, and a number given
 * twice would mix two pools' records.
 */
import { Worker } from 'node:worker_threads'
import { fromWire, Unavailable } from '../errors.ts'
import { assert } from '../util/assert.ts'
import { warn } from '../util/say.ts'
import type { CatalogAnswer, CatalogRequest, CatalogWorkerData, Change, Entry } from './protocol.ts'

export interface StoreClient {
  readonly entries: readonly Entry[]
  /** Resolves when the change is flushed. Rejects with Unavailable `catalog_refused`. One call at a time. */
  apply(change: Change): Promise<void>
  /** Closes LMDB, then ends the thread. */
  stop(): Promise<void>
}

interface Waiting {
  readonly resolve: (answer: CatalogAnswer) => void
  readonly reject: (error: Error) => void
}

/** Starts the worker and opens the store. Rejects with CannotRun or Damaged. */
export async function openStoreClient(data: CatalogWorkerData): Promise<StoreClient> {
  const worker = new Worker(new URL('../../workers/catalog.js', import.meta.url), { workerData: data })
  let waiting: Waiting | undefined
  let failure: Error | undefined

  const next = (): Promise<CatalogAnswer> => {
    assert(waiting === undefined, 'the catalog worker does one thing at a time')
    if (failure !== undefined) return Promise.reject(failure)
    return new Promise((resolve, reject) => {
      waiting = { resolve, reject }
    })
  }
  const end = (error: Error): void => {
    failure ??= error
    waiting?.reject(failure)
    waiting = undefined
  }
  worker.on('message', (answer: CatalogAnswer) => {
    const { resolve } = waiting ?? {}
    waiting = undefined
    resolve?.(answer)
  })
  worker.on('error', end)
  const exited = new Promise<void>(resolve => {
    worker.on('exit', code => {
      end(new Unavailable('catalog_stopped', `the catalog's thread has ended (${code})`))
      resolve()
    })
  })
  const ask = (request: CatalogRequest): Promise<CatalogAnswer> => {
    const answer = next()
    if (failure === undefined) worker.postMessage(request)
    return answer
  }

  const opened = await next()
  if (opened.kind === 'failed') {
    await exited
    throw fromWire(opened.error)
  }
  assert(opened.kind === 'opened', 'the first answer is opened or failed')
  return {
    entries: opened.entries,
    apply: poisonable(change => ask({ kind: 'apply', change })),
    stop: async () => {
      const answer = failure === undefined ? await ask({ kind: 'stop' }) : undefined
      await exited
      if (answer?.kind === 'failed') throw fromWire(answer.error)
    },
  }
}

/** Refuses everything after the first failure. */
function poisonable(send: (change: Change) => Promise<CatalogAnswer>): (change: Change) => Promise<void> {
  let poison: Unavailable | undefined
  return async change => {
    if (poison !== undefined) throw poison
    let cause: Error
    try {
      const answer = await send(change)
      if (answer.kind === 'applied') return
      assert(answer.kind === 'failed', 'a change is applied or failed')
      cause = fromWire(answer.error)
    } catch (error) {
      cause = error as Error
    }
    warn(`catalog: a change could not be written, no more are accepted until restart: ${cause.message}`)
    poison = new Unavailable(
      'catalog_refused',
      `The catalog accepts no changes until restart: ${cause.message}`,
    )
    throw poison
  }
}
