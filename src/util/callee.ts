/**
 * The called side of a protocol, as the main thread sees it: a thread (thread-kit.ts) or a process
 * (process-kit.ts). It calls by name, hears events, notices a crash, and stops.
 *
 *   K-1  Every call settles: with its answer, or with an error once the callee is gone.
 *   K-2  `onCrash` is called once, and only for a callee that ended without an answer to a stop.
 *   K-3  `stop` settles after the callee has ended. It may be called again and returns the same
 *        promise.
 *   K-4  Messages keep their order in both directions. A handler that returns no promise is
 *        answered in its own turn.
 *   K-5  Buffers in a move list change hands. If a message cannot be cloned, they stay, and its
 *        call rejects.
 *
 * The kit queues nothing: clients bound their open calls.
 */
import type { Transferable } from 'node:worker_threads'
import { fromWire, must, type WireError } from './errors.ts'

/** The value that a function of a protocol takes. */
export type ValueOf<F> = F extends (...values: infer V) => unknown ? V[0] : never
export type ResultOf<F> = F extends (...values: never[]) => infer R ? R : never

/** To the callee. `id` 0 asks for no answer. */
export interface CallMessage {
  readonly id: number
  readonly name: string
  readonly value: unknown
}

/** From the callee. `id` 0 is an event, which has a name. */
export interface AnswerMessage {
  readonly id: number
  readonly name?: string
  readonly value?: unknown
  readonly error?: WireError
}

/** The call that ends a callee. No protocol may use its name. */
export const STOP = 'stop'

/** Functions that hear the callee's events. */
export type Listeners<Events> = { readonly [N in keyof Events]: (value: ValueOf<Events[N]>) => void }

/** What brings messages to a callee. */
export interface Carrier {
  post(message: CallMessage, move?: readonly Transferable[]): void
  /** Ends the callee in the middle of its work. Resolves when it has ended. */
  terminate(): Promise<unknown>
}

/** What a carrier reports. */
export interface Reports {
  message(answer: AnswerMessage): void
  /** The callee failed. Only the first report counts. */
  crash(error: Error): void
  /** The callee has ended, and all its answers were reported. `error`: if it was not to end. */
  exit(error: Error): void
}

export interface CalleeOptions<Events> {
  readonly on?: Listeners<Events>
  /** The error of each call that the callee did not answer. Default: the callee's own error. */
  readonly lost?: (error: Error) => Error
  /** See K-2. Open calls are rejected already. */
  readonly onCrash?: (error: Error) => void
}

interface OpenCall {
  readonly resolve: (value: never) => void
  readonly reject: (error: Error) => void
}

/** `Calls`: the functions that are called, of one value each. `Events`: those that hear events. */
export class Callee<Calls, Events = object> {
  /** Resolves when the callee has ended for any reason and all its answers were delivered. */
  readonly exited: Promise<void>
  readonly #what: string
  readonly #options: CalleeOptions<Events>
  #on: Listeners<Events> | undefined
  #onCrash: ((error: Error) => void) | undefined
  readonly #carrier: Carrier
  readonly #open = new Map<number, OpenCall>()
  #nextId = 1
  /** Why calls are refused; undefined while the callee serves. */
  #refusal: Error | undefined
  /** True when the callee has ended. Its crash, if it was one, has been reported. */
  #isGone = false
  #stopId: number | undefined
  #stopping: Promise<void> | undefined

  /** `what`: as in `the log thread`. `carry` starts the callee and reports nothing meanwhile. */
  constructor(what: string, options: CalleeOptions<Events>, carry: (reports: Reports) => Carrier) {
    this.#what = what
    this.#options = options
    this.#on = options.on
    this.#onCrash = options.onCrash
    let exited = () => {}
    this.exited = new Promise(resolve => {
      exited = resolve
    })
    this.#carrier = carry({
      message: answer => this.#take(answer),
      crash: error => this.#crashed(error),
      exit: error => {
        this.#crashed(error)
        exited()
      },
    })
  }

  /**
   * Resolves with the callee's answer. Rejects with the handler's error, or with `lost(error)` once
   * the callee is gone.
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

  /** Sends a call that has no answer. Does nothing when the callee has ended or must stop. */
  tell<N extends keyof Calls & string>(name: N, value: ValueOf<Calls[N]>): void {
    if (this.#refusal === undefined) this.#carrier.post({ id: 0, name, value })
  }

  /** Sets the listeners of a callee that was started before they existed. */
  listen(on: Listeners<Events>, onCrash: (error: Error) => void): void {
    this.#on = on
    this.#onCrash = onCrash
  }

  /**
   * Lets the callee end its open calls, close, and end. Resolves then, and also when it crashed
   * before. Rejects when it crashes meanwhile or cannot close.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#isGone ? this.exited : this.#stop()
    return this.#stopping
  }

  /** Rejects every open call with `error` now. Their answers are ignored; the callee works on. */
  giveUp(error: Error): void {
    const calls = [...this.#open].filter(([id]) => id !== this.#stopId)
    for (const [id, call] of calls) {
      this.#open.delete(id)
      call.reject(error)
    }
  }

  /** Ends the callee in its work. NOTE: ending a thread inside DuckDB aborts the process. */
  async terminate(): Promise<void> {
    this.#leave(new Error(`${this.#what} was ended`))
    await this.#carrier.terminate()
  }

  async #stop(): Promise<void> {
    this.#stopId = this.#nextId
    const answer = this.#ask(STOP, undefined)
    this.#refusal ??= this.#lost(new Error(`${this.#what} is stopping`))
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
      this.#carrier.post({ id, name, value }, move)
      this.#open.set(id, { resolve, reject })
    })
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
    if (id === this.#stopId) this.#leave(new Error(`${this.#what} has ended`))
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
