/**
 * A thread that starts with the first call and ends when no call came for a while: a server that
 * has no work for it keeps no thread, and what the thread loaded is freed.
 */
import type { ResultOf, ValueOf } from './callee.ts'
import { Unavailable } from './errors.ts'
import { startThread, type Thread } from './thread-kit.ts'

/** Time without a call after which a thread ends. It gives its memory back. */
const THREAD_IDLE_MS = 10_000

interface OnDemandOptions {
  /** As in startThread. */
  readonly name: string
  readonly crashAt?: string
  readonly nice: number
  /** The start-up data of the next thread. */
  readonly data?: () => unknown
  /** Called once when a thread has crashed: no call can be served any more. */
  readonly onCrash: (error: Error) => void
  readonly idleMs?: number | undefined
}

export class ThreadOnDemand<Calls> {
  readonly #options: OnDemandOptions
  #thread: Thread<Calls> | undefined
  /** The exit of a thread that was told to stop. The next thread starts after it. */
  #exited: Promise<void> = Promise.resolve()
  #idle: NodeJS.Timeout | undefined
  #running = 0
  #ended: Unavailable | undefined

  constructor(options: OnDemandOptions) {
    this.#options = options
  }

  /** True while no call runs. */
  get isIdle(): boolean {
    return this.#running === 0
  }

  /** Rejects with the handler's error, or with Unavailable after a stop or a crash. */
  async call<N extends keyof Calls & string>(name: N, value: ValueOf<Calls[N]>): Promise<ResultOf<Calls[N]>> {
    this.#running += 1
    clearTimeout(this.#idle)
    try {
      if (this.#thread === undefined) await this.#exited
      if (this.#ended !== undefined) throw this.#ended
      this.#thread ??= this.#start()
      return await this.#thread.call(name, value)
    } finally {
      this.#running -= 1
      if (this.isIdle && this.#thread !== undefined) {
        const idleMs = this.#options.idleMs ?? THREAD_IDLE_MS
        this.#idle = setTimeout(() => this.#endThread(), idleMs).unref()
      }
    }
  }

  /** Tells the running thread. Does nothing where none runs. */
  tell<N extends keyof Calls & string>(name: N, value: ValueOf<Calls[N]>): void {
    this.#thread?.tell(name, value)
  }

  /** Resolves when no thread runs any more: it ends `idleMs` after its last call. */
  ended(): Promise<void> {
    return this.#thread?.exited ?? this.#exited
  }

  /**
   * Ends running calls, which reject with Unavailable (`stopping`). Resolves when the thread has
   * ended.
   */
  async stop(): Promise<void> {
    this.#ended ??= new Unavailable('stopping', 'Weir is stopping')
    clearTimeout(this.#idle)
    this.#endThread()
    await this.#exited
  }

  #start(): Thread<Calls> {
    const { name, crashAt, nice, data, onCrash } = this.#options
    const lost = (error: Error) =>
      this.#ended ?? new Unavailable(`${name}_thread_lost`, `the ${name} thread failed: ${error.message}`)
    return startThread<Calls>({
      name,
      data: data?.(),
      nice,
      lost,
      onCrash: error => {
        if (this.#ended !== undefined) return
        this.#ended = lost(error)
        onCrash(error)
      },
      ...(crashAt === undefined ? {} : { crashAt }),
    })
  }

  /** NOTE: never terminate(): ending a thread inside a DuckDB call aborts the process. */
  #endThread(): void {
    const thread = this.#thread
    if (thread === undefined) return
    this.#thread = undefined
    this.#exited = thread.exited
    thread.stop().catch(() => {}) // onCrash has got the reason
  }
}
