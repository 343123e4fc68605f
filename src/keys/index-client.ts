/**
 * The index as the main thread sees it: promises over the index thread.
 *
 *   W-4  A commit resolves after its flush. If the thread ends, every call rejects with Unavailable.
 */
import { Worker } from 'node:worker_threads'
import { fromWire, Unavailable } from '../errors.ts'
import { assert } from '../util/assert.ts'
import type { IndexOpened, KeyIndex, SealCommit, SwapCommit } from './protocol.ts'
import type { Swept } from './sweep.ts'
import type {
  IndexCall,
  IndexFirst,
  IndexMessage,
  IndexNotes,
  IndexOwner,
  IndexResults,
  IndexThreadData,
} from './thread-protocol.ts'

interface StartIndexOptions extends IndexThreadData {
  /** A rebuild has done `done` of `of` rows and deletes of all pools; `pool` is at hand. After each segment. */
  readonly onProgress?: (done: number, of: number, pool: number) => void
  /** The thread ended although nobody stopped it: nothing can be sealed until a restart. Called once. */
  readonly onFailed?: (error: Error) => void
}

/** A started index and whose it is. */
export interface OpenIndexOptions extends StartIndexOptions, IndexOwner {}

/** The index thread, which reads what is there until `open` tells it whose index it is. */
export interface StartedIndex {
  /** Rejects with Damaged or CannotRun; the thread ends then. */
  open(owner: IndexOwner): Promise<OpenedIndex>
  /** Ends the thread where `open` was not called. */
  leave(): Promise<void>
}

/** KeyIndex, and the sweep, which main.ts asks for after ready. */
interface IndexClient extends KeyIndex {
  /** Removes files that nothing names. `poolsByFolder`: pool number by folder name, of every living pool. */
  sweep(poolsByFolder: ReadonlyMap<string, number>): Promise<Swept>
}

export interface OpenedIndex {
  readonly opened: IndexOpened
  readonly notes: IndexNotes
  readonly index: IndexClient
}

interface Pending {
  readonly resolve: (result: never) => void
  readonly reject: (error: Error) => void
}

/** A call without its number. */
type Ask = IndexCall extends infer C ? (C extends IndexCall ? Omit<C, 'id'> : never) : never

/** Starts the thread and opens the index. Rejects with Damaged or CannotRun. */
export function openIndex({ identity, pools, ...options }: OpenIndexOptions): Promise<OpenedIndex> {
  return startIndex(options).open({ identity, pools })
}

/** Starts the thread. */
export function startIndex(options: StartIndexOptions): StartedIndex {
  const { onProgress, onFailed, ...data } = options
  const worker = new Worker(new URL('../../workers/index.js', import.meta.url), { workerData: data })
  const pending = new Map<number, Pending>()
  let nextId = 1
  let ended: Error | undefined
  let stopId: number | undefined
  let isStopped = false
  let isOpen = false
  const ask: AskIndex = call =>
    new Promise((resolve, reject) => {
      if (ended !== undefined) return reject(ended)
      const id = nextId++
      pending.set(id, { resolve, reject })
      worker.postMessage({ ...call, id }, buffersOf(call))
    })
  const end = (error: Error) => {
    // Before it opened, the caller is told by the rejection.
    if (isOpen && ended === undefined && !isStopped) onFailed?.(error)
    ended ??= error
    for (const { reject } of pending.values()) reject(ended)
    pending.clear()
  }
  const settle = (message: Extract<IndexMessage, { id: number }>) => {
    const call = pending.get(message.id)
    assert(call !== undefined, 'an answer belongs to a call')
    pending.delete(message.id)
    // In the turn of the answer: the thread's end may come in the same one.
    isStopped ||= message.id === stopId
    if (message.kind === 'done') call.resolve(message.result as never)
    else call.reject(fromWire(message.error))
  }
  const exited = new Promise<void>(resolve => worker.once('exit', () => resolve()))
  const index = clientOf(ask, exited, () => {
    stopId = nextId
  })
  let onOpened: (opened: OpenedIndex) => void = () => {}
  let onRefused: (error: Error) => void = () => {}
  worker.on('message', (message: IndexMessage) => {
    if (message.kind === 'progress') onProgress?.(message.done, message.of, message.pool)
    else if (message.kind === 'opened') {
      isOpen = true
      onOpened({ opened: message.opened, notes: message.notes, index })
    } else if (message.kind === 'failed') onRefused(fromWire(message.error))
    else settle(message)
  })
  const fail = (what: string) => {
    end(new Unavailable('index_failed', what))
    if (ended !== undefined) onRefused(ended)
  }
  worker.on('error', error => fail(`the index thread failed: ${error.message}`))
  worker.on('exit', () => fail('the index thread has ended'))
  let isTaken = false
  return {
    open: owner =>
      new Promise((resolve, reject) => {
        isTaken = true
        if (ended !== undefined) return reject(ended)
        onOpened = resolve
        onRefused = reject
        worker.postMessage({ call: 'open', ...owner } satisfies IndexFirst)
      }),
    leave: async () => {
      if (isTaken) return
      worker.postMessage({ call: 'leave' } satisfies IndexFirst)
      await exited
    },
  }
}

type AskIndex = <C extends keyof IndexResults>(call: Ask & { call: C }) => Promise<IndexResults[C]>

/** @param onStop called right before the stop is asked for */
function clientOf(ask: AskIndex, exited: Promise<void>, onStop: () => void): IndexClient {
  return {
    commit: seals => ask({ call: 'commit', seals }),
    swap: swap => ask({ call: 'swap', swap }),
    readMarks: pool => ask({ call: 'readMarks', pool }),
    dropPool: async pool => {
      await ask({ call: 'dropPool', pool })
    },
    sweep: poolsByFolder => ask({ call: 'sweep', poolsByFolder }),
    stop: async () => {
      onStop()
      await ask({ call: 'stop' })
      await exited
    },
  }
}

/** Key runs are moved: the sealer has no use for them after the commit. */
function buffersOf(call: Ask): ArrayBuffer[] {
  if (call.call === 'swap') {
    const { keys } = (call as unknown as { readonly swap: SwapCommit }).swap
    return keys === undefined ? [] : [keys]
  }
  if (call.call !== 'commit') return []
  const runs = new Set<ArrayBuffer>()
  for (const seal of call.seals as readonly SealCommit[]) if (seal.keys !== undefined) runs.add(seal.keys)
  return [...runs]
}
