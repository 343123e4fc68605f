/**
 * The client of the merge thread. The thread starts with the first merge and ends when no merge
 * came for a while. So a server that has nothing to merge keeps no second DuckDB in memory, and its
 * start does not wait for one.
 */
import type { PoolSchema } from '../../format/schema.ts'
import { assert } from '../../util/assert.ts'
import { SegmentDamaged, Unavailable } from '../../util/errors.ts'
import { startThread, type Thread } from '../../util/thread-kit.ts'
import type {
  MergeCalls,
  MergeChanges,
  MergeDone,
  Merger,
  MergeSpeed,
  MergeTask,
  MergeThreadData,
} from './compaction-types.ts'

/** Time without a merge after which the thread ends. DuckDB and the key reader give memory back. */
const MERGE_THREAD_IDLE_MS = 10_000

export class MergerClient implements Merger {
  readonly #data: MergeThreadData
  readonly #onCrash: (error: Error) => void
  readonly #idleMs: number
  #speed: MergeSpeed
  #thread: Thread<MergeCalls> | undefined
  /** The exit of a thread that was told to stop. The next thread starts after it. */
  #exited: Promise<void> = Promise.resolve()
  #idle: NodeJS.Timeout | undefined
  #isMerging = false
  #ended: Unavailable | undefined

  /**
   * @param onCrash called once when a thread has crashed: no merge can run any more
   * @param idleMs a thread without a merge ends after this
   */
  constructor(data: MergeThreadData, onCrash: (error: Error) => void, idleMs = MERGE_THREAD_IDLE_MS) {
    this.#data = data
    this.#speed = data.speed
    this.#onCrash = onCrash
    this.#idleMs = idleMs
  }

  /** See Merger. */
  merge(task: MergeTask): Promise<MergeDone> {
    return this.#call(thread => thread.call('merge', task))
  }

  /** See Merger. */
  problemOf(changes: MergeChanges, schema: PoolSchema): Promise<string | undefined> {
    return this.#call(thread => thread.call('problemOf', { changes, schema }))
  }

  async #call<T>(call: (thread: Thread<MergeCalls>) => Promise<T>): Promise<T> {
    assert(!this.#isMerging, 'one merge at a time')
    this.#isMerging = true
    clearTimeout(this.#idle)
    try {
      if (this.#thread === undefined) await this.#exited
      if (this.#ended !== undefined) throw this.#ended
      this.#thread ??= this.#start()
      return await call(this.#thread)
    } catch (error) {
      throw refused(error as Error)
    } finally {
      this.#isMerging = false
      if (this.#thread !== undefined) this.#idle = setTimeout(() => this.#endThread(), this.#idleMs).unref()
    }
  }

  /** Resolves when no thread runs any more: it ends `idleMs` after its last merge. */
  ended(): Promise<void> {
    return this.#thread?.exited ?? this.#exited
  }

  /** See Merger. */
  setSpeed(speed: MergeSpeed): void {
    if (speed === this.#speed) return
    this.#speed = speed
    this.#thread?.tell('speed', speed)
  }

  /**
   * Cancels a running merge, which rejects with Unavailable (`stopping`). Resolves when the thread
   * has ended.
   */
  async stop(): Promise<void> {
    this.#ended ??= new Unavailable('stopping', 'Weir is stopping')
    clearTimeout(this.#idle)
    this.#endThread()
    await this.#exited
  }

  #start(): Thread<MergeCalls> {
    const { crashAt, nice } = this.#data
    const lost = (error: Error) =>
      this.#ended ?? new Unavailable('merge_thread_lost', `the merge thread failed: ${error.message}`)
    return startThread<MergeCalls>({
      name: 'merge',
      data: { ...this.#data, speed: this.#speed },
      crashAt,
      nice,
      lost,
      onCrash: error => {
        if (this.#ended !== undefined) return
        this.#ended = lost(error)
        this.#onCrash(error)
      },
    })
  }

  /** NOTE: never terminate(): ending the thread inside a DuckDB call aborts the process. */
  #endThread(): void {
    const thread = this.#thread
    if (thread === undefined) return
    this.#thread = undefined
    this.#exited = thread.exited
    thread.stop().catch(() => {}) // onCrash has got the reason
  }
}

/** An error of the file system becomes Unavailable. */
function refused(error: Error): Error {
  if (error instanceof Unavailable || error instanceof SegmentDamaged) return error
  return Object.assign(new Unavailable('merge_io', error.message), { cause: error })
}
