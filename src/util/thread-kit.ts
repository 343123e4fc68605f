/**
 * The one way to run a thread of Weir: start it, call it, hear its events, notice its crash, stop
 * it.
 *
 *   main thread                                        workers/<name>.ts
 *   startThread({ name, data })  ── workerData ──►  beginThread(): name, nice value, crash points
 *   thread.call('merge', task)   ── { id, name, value } ──►  serve(port, { merge }): the handler
 *         its promise            ◄── { id, value } or { id, error } ──
 *   thread.tell('speed', value)  ── { id: 0, name, value } ──►  the same; nothing comes back
 *   on: { progress }             ◄── { id: 0, name, value } ──  tell('progress', value)
 *   thread.stop()                ── the last call ──►  interrupt(), open calls end, close(), exit
 *
 *   K-1  Every call settles: with its answer, or with an error once the thread is gone.
 *   K-2  `onCrash` is called once, and only for a thread that ended without an answer to a stop.
 *   K-3  `stop` settles after the thread has ended. It may be called again and returns the same
 *        promise.
 *   K-4  Messages keep their order in both directions. A handler that returns no promise is
 *        answered in its own turn.
 *   K-5  Buffers in a move list change hands. If a message cannot be cloned, they stay, and its
 *        call rejects.
 *
 * The kit queues nothing: clients bound their open calls. The parse pool is Piscina's.
 */
import { type Transferable, Worker } from 'node:worker_threads'
import { must } from './assert.ts'
import { fromWire, type WireError } from './errors.ts'

/** The value that a function of a protocol takes. */
export type ValueOf<F> = F extends (...values: infer V) => unknown ? V[0] : never
export type ResultOf<F> = F extends (...values: never[]) => infer R ? R : never

/** To the thread. `id` 0 asks for no answer. */
export interface CallMessage {
  readonly id: number
  readonly name: string
  readonly value: unknown
}

/** From the thread. `id` 0 is an event, which has a name. */
export interface AnswerMessage {
  readonly id: number
  readonly name?: string
  readonly value?: unknown
  readonly error?: WireError
}

/** The call that ends a thread. No protocol may use its name. */
export const STOP = 'stop'

/** workerData of every thread. */
export interface ThreadStart {
  readonly name: string
  readonly nice: number | undefined
  readonly crashAt: string | undefined
  readonly data: unknown
}

/** Functions that hear the thread's events. */
export type Listeners<Events> = { readonly [N in keyof Events]: (value: ValueOf<Events[N]>) => void }

interface ThreadOptions<Events> {
  /** Names the file in `workers/`, and the thread in `top -H` as `weir-<name>`. */
  readonly name: string
  readonly data: unknown
  /** Added to the thread's nice value. */
  readonly nice?: number
  /** Hidden option of tests; see util/fault-injection.ts. */
  readonly crashAt?: string
  /** Default: workers/<name>.js. */
  readonly file?: URL
  readonly on?: Listeners<Events>
  /** The error of each call that the thread did not answer. Default: the thread's own error. */
  readonly lost?: (error: Error) => Error
  /** See K-2. Open calls are rejected already. */
  readonly onCrash?: (error: Error) => void
}

interface OpenCall {
  readonly resolve: (value: never) => void
  readonly reject: (error: Error) => void
}

/**
 * `Calls`: the functions that the thread serves, each of at most one value. `Events`: the functions
 * that hear its events.
 */
export function startThread<Calls, Events = object>(options: ThreadOptions<Events>): Thread<Calls, Events> {
  return new Thread(options)
}

export class Thread<Calls, Events = object> {
  /** Resolves when the thread has ended for any reason and all its answers were delivered. */
  readonly exited: Promise<void>
  readonly #options: ThreadOptions<Events>
  #on: Listeners<Events> | undefined
  #onCrash: ((error: Error) => void) | undefined
  readonly #worker: Worker
  readonly #open = new Map<number, OpenCall>()
  #nextId = 1
  /** Why calls are refused; undefined while the thread serves. */
  #refusal: Error | undefined
  /** True when the thread has ended. Its crash, if it was one, has been reported. */
  #isGone = false
  #stopId: number | undefined
  #stopping: Promise<void> | undefined

  constructor(options: ThreadOptions<Events>) {
    this.#options = options
    this.#on = options.on
    this.#onCrash = options.onCrash
    const { name, nice, crashAt, data } = options
    const file = options.file ?? new URL(`../../workers/${name}.js`, import.meta.url)
    const start: ThreadStart = { name, nice, crashAt, data }
    this.#worker = new Worker(file, { workerData: start })
    this.#worker.on('message', (message: AnswerMessage) => this.#take(message))
    this.#worker.on('messageerror', error => {
      this.#crashed(error)
      this.#post({ id: this.#nextId, name: STOP, value: undefined }) // it runs on otherwise
    })
    this.#worker.on('error', error =>
      this.#crashed(error instanceof Error ? error : new Error(String(error))),
    )
    this.exited = new Promise(resolve => {
      this.#worker.once('exit', code => {
        this.#crashed(new Error(`the ${name} thread ended with code ${code}`))
        resolve()
      })
    })
  }

  /**
   * Resolves with the thread's answer. Rejects with the handler's error, or with `lost(error)` once
   * the thread is gone.
   * @param move buffers of `value` that change hands
   */
  call<N extends keyof Calls & string>(
    name: N,
    value: ValueOf<Calls[N]>,
    move?: readonly Transferable[],
  ): Promise<ResultOf<Calls[N]>> {
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal)
    return this.#ask(name, value, move)
  }

  /** Sends a call that has no answer. Does nothing when the thread has ended or must stop. */
  tell<N extends keyof Calls & string>(
    name: N,
    value: ValueOf<Calls[N]>,
    move?: readonly Transferable[],
  ): void {
    if (this.#refusal === undefined) this.#post({ id: 0, name, value }, move)
  }

  /** Sets the listeners of a thread that was started before they existed. */
  listen(on: Listeners<Events>, onCrash: (error: Error) => void): void {
    this.#on = on
    this.#onCrash = onCrash
  }

  /**
   * Lets the thread end its open calls, close, and end. Resolves then, and also when it crashed
   * before. Rejects when it crashes meanwhile or cannot close.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#isGone ? this.exited : this.#stop()
    return this.#stopping
  }

  /** Rejects every open call with `error` now. Their answers are ignored; the thread works on. */
  giveUp(error: Error): void {
    const calls = [...this.#open].filter(([id]) => id !== this.#stopId)
    for (const [id, call] of calls) {
      this.#open.delete(id)
      call.reject(error)
    }
  }

  /**
   * Ends the thread in the middle of its work. NOTE: this aborts the process if the thread is
   * inside DuckDB.
   */
  async terminate(): Promise<void> {
    this.#leave(new Error(`the ${this.#options.name} thread was ended`))
    await this.#worker.terminate()
  }

  /** The process does not wait for this thread any more. */
  unref(): void {
    this.#worker.unref()
  }

  async #stop(): Promise<void> {
    this.#stopId = this.#nextId
    const answer = this.#ask(STOP, undefined)
    this.#refusal ??= this.#lost(new Error(`the ${this.#options.name} thread is stopping`))
    try {
      await answer
    } finally {
      await this.exited
    }
  }

  #ask<R>(name: string, value: unknown, move?: readonly Transferable[]): Promise<R> {
    return new Promise((resolve, reject) => {
      const id = this.#nextId++
      // Where this throws, the promise rejects and no call stays open.
      this.#post({ id, name, value }, move)
      this.#open.set(id, { resolve, reject })
    })
  }

  /** A message without a move list is the cheap one: the log posts one for each group. */
  #post(message: CallMessage, move?: readonly Transferable[]): void {
    if (move === undefined) this.#worker.postMessage(message)
    else this.#worker.postMessage(message, move)
  }

  #take({ id, name, value, error }: AnswerMessage): void {
    if (id === 0) {
      const listeners = this.#on as Record<string, (value: unknown) => void> | undefined
      must(listeners?.[name ?? ''], 'a listener of the event')(value)
      return
    }
    const call = this.#open.get(id)
    this.#open.delete(id)
    // The exit may come in the turn of this answer, and is no crash then.
    if (id === this.#stopId) this.#leave(new Error(`the ${this.#options.name} thread has ended`))
    if (error === undefined) call?.resolve(value as never)
    else call?.reject(fromWire(error))
  }

  #crashed(error: Error): void {
    if (this.#isGone) return
    this.#leave(error)
    this.#onCrash?.(error)
  }

  /** No answer is awaited from now on. */
  #leave(error: Error): void {
    this.#isGone = true
    const refusal = this.#lost(error)
    this.#refusal = refusal
    this.#stopId = undefined
    for (const { reject } of this.#open.values()) reject(refusal)
    this.#open.clear()
  }

  #lost(error: Error): Error {
    return this.#options.lost?.(error) ?? error
  }
}
