/**
 * The store as the main thread sees it: one request at a time, each a promise.
 *
 * A change that the disk refuses (a full one) is told to its caller, and the next one is tried. Where it is not known
 * whether a change was made, nothing more is written until restart: a number given twice would mix two pools' records.
 */
import { Worker } from 'node:worker_threads'
import { fromWire, Unavailable } from '../errors.ts'
import { assert } from '../util/assert.ts'
import { warn } from '../util/say.ts'
import type { CatalogAnswer, CatalogRequest, CatalogWorkerData, Change, Entry } from './protocol.ts'

export interface StoreClient {
  readonly entries: readonly Entry[]
  /**
   * Resolves when the change is flushed. Rejects with Unavailable: `catalog_full`, it was not made and may be tried again;
   * `catalog_refused`, nothing is until restart. One call at a time.
   */
  apply(change: Change): Promise<void>
  /** Why no change is taken until restart, one sentence; undefined: changes are taken. */
  refusal(): string | undefined
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
  const { apply, refusal } = poisonable(change => ask({ kind: 'apply', change }))
  return {
    entries: opened.entries,
    apply,
    refusal,
    stop: async () => {
      const answer = failure === undefined ? await ask({ kind: 'stop' }) : undefined
      await exited
      if (answer?.kind === 'failed') throw fromWire(answer.error)
    },
  }
}

/** Refuses everything after the first failure that may have changed something. */
function poisonable(
  send: (change: Change) => Promise<CatalogAnswer>,
): Pick<StoreClient, 'apply' | 'refusal'> {
  let poison: Unavailable | undefined
  const apply = async (change: Change): Promise<void> => {
    if (poison !== undefined) throw poison
    let cause: Error
    try {
      const answer = await send(change)
      if (answer.kind === 'applied') return
      if (answer.kind === 'refused')
        throw new Unavailable('catalog_full', `The change was not made: ${answer.error.message}`)
      assert(answer.kind === 'failed', 'a change is applied, refused or failed')
      cause = fromWire(answer.error)
    } catch (error) {
      if (error instanceof Unavailable && error.code === 'catalog_full') throw error
      cause = error as Error
    }
    warn(`catalog: a change could not be written, no more are accepted until restart: ${cause.message}`)
    poison = new Unavailable(
      'catalog_refused',
      `The catalog accepts no changes until restart: ${cause.message}`,
    )
    throw poison
  }
  return { apply, refusal: () => poison?.message }
}
