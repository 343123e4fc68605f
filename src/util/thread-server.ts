/**
 * The thread's side of the kit (thread-kit.ts): `beginThread` sets the thread up, `serve` answers
 * its calls by K-4 and K-5 of callee.ts. If an answer cannot be cloned, its call rejects.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type AnswerMessage, type CallMessage, type ResultOf, STOP, type ValueOf } from './callee.ts'
import { assert, must, toWire } from './errors.ts'
import { armCrash } from './fault-injection.ts'
import { setLog } from './say.ts'
import { nameThread, niceThread } from './this-thread.ts'
import type { ThreadStart } from './thread-kit.ts'

/** An answer whose buffers change hands. */
class Moved<R> {
  readonly value: R
  readonly move: readonly ArrayBuffer[]

  constructor(value: R, move: readonly ArrayBuffer[]) {
    this.value = value
    this.move = move
  }
}

/** The result of a handler that answers with `value` and moves `buffers` of it. */
export function moved<R>(value: R, buffers: readonly ArrayBuffer[]): Moved<R> {
  return new Moved(value, buffers)
}

type Answer<R> = R | Moved<R> | Promise<R | Moved<R>>

/** One function for each call of the protocol. An error that it throws rejects the call. */
export type Handlers<Calls> = {
  readonly [N in keyof Calls]: (value: ValueOf<Calls[N]>) => Answer<ResultOf<Calls[N]>>
}

interface ServeOptions {
  /** Returns false where the thread ends with the error: a bug, or an unknown state. */
  readonly mayAnswer?: (error: unknown, call: string) => boolean
  /** Called right after an answer is posted. */
  readonly answered?: (call: string) => void
  /** A stop has come: open calls should end soon. */
  readonly interrupt?: () => void
  /** No call is open any more, and none comes. An error that it throws rejects the stop. */
  readonly close?: () => void | Promise<void>
}

/** Posts an event. */
export type TellEvent<Events> = <N extends keyof Events & string>(name: N, value: ValueOf<Events[N]>) => void

/** The first step in `workers/`: names the thread, sets its nice value, arms crash points. */
export function beginThread<Data>(): { readonly port: MessagePort; readonly data: Data } {
  const { name, nice, crashAt, log, data } = workerData as ThreadStart
  nameThread(name)
  if (nice !== undefined) niceThread(nice)
  if (crashAt !== undefined) armCrash(crashAt)
  setLog(log)
  return { port: must(parentPort, 'the port of a worker thread'), data: data as Data }
}

/** What calls come through: the port of a thread, or that of a process (process-server.ts). */
export type CallPort = Pick<MessagePort, 'postMessage' | 'on' | 'close'>

/** Answers calls until the stop, which closes the port and so ends the thread. */
export function serve<Calls, Events = object>(
  port: CallPort,
  handlers: Handlers<Calls>,
  options: ServeOptions = {},
): TellEvent<Events> {
  const running = new Set<Promise<void>>()

  function refuse({ id, name }: CallMessage, error: unknown): void {
    if (id === 0 || options.mayAnswer?.(error, name) === false) throw error
    port.postMessage({ id, error: toWire(error) } satisfies AnswerMessage)
  }

  function answer(call: CallMessage, result: unknown): void {
    if (call.id !== 0) {
      const { value, move } = result instanceof Moved ? result : { value: result, move: [] }
      try {
        port.postMessage({ id: call.id, value } satisfies AnswerMessage, move)
      } catch (error) {
        refuse(call, error) // it cannot be cloned
        return
      }
    }
    options.answered?.(call.name)
  }

  async function stop(call: CallMessage): Promise<void> {
    options.interrupt?.()
    await Promise.all(running)
    try {
      await options.close?.()
      answer(call, undefined)
    } catch (error) {
      refuse(call, error)
    }
    port.close()
  }

  // Nobody knows which call it was, and its caller waits.
  port.on('messageerror', error => {
    throw error
  })
  port.on('message', (call: CallMessage) => {
    if (call.name === STOP) {
      void stop(call) // what it throws ends the thread
      return
    }
    let result: unknown
    try {
      const handler = (handlers as Record<string, (value: never) => unknown>)[call.name]
      assert(handler !== undefined, `the thread serves ${call.name}`)
      result = handler(call.value as never)
    } catch (error) {
      refuse(call, error)
      return
    }
    if (!(result instanceof Promise)) return answer(call, result)
    const run = result
      .then(
        done => answer(call, done),
        error => refuse(call, error),
      )
      .finally(() => running.delete(run))
    running.add(run)
  })
  return (name, value) => port.postMessage({ id: 0, name, value })
}
