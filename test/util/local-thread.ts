/**
 * A thread of the kit whose code runs in the test's own thread, so that it can work on a disk of
 * the test.
 */
import type { MessagePort } from 'node:worker_threads'
import {
  type AnswerMessage,
  type Callee,
  type CallMessage,
  type Listeners,
  STOP,
} from '../../src/util/callee.ts'
import { fromWire } from '../../src/util/errors.ts'

type LocalThread<Calls, Events> = Pick<
  Callee<Calls, Events>,
  'call' | 'tell' | 'listen' | 'stop' | 'terminate'
>

/** Messages arrive later and in order, as between threads. They are not cloned. */
export function localThread<Calls, Events>(serveOn: (port: MessagePort) => void): LocalThread<Calls, Events> {
  const open = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>()
  let on: Record<string, (value: unknown) => void> = {}
  let handle: (call: CallMessage) => void = () => {}
  let nextId = 1
  let isEnded = false
  const later = (work: () => void) => void setImmediate(() => isEnded || work())

  function take({ id, name, value, error }: AnswerMessage): void {
    if (id === 0) on[name!]!(value)
    else if (error === undefined) open.get(id)!.resolve(value as never)
    else open.get(id)!.reject(fromWire(error))
  }

  function ask<R>(name: string, value: unknown): Promise<R> {
    return new Promise((resolve, reject) => {
      const id = nextId++
      open.set(id, { resolve, reject })
      later(() => handle({ id, name, value }))
    })
  }

  const port = {
    on: (event: string, listener: (call: CallMessage) => void) => {
      if (event === 'message') handle = listener
    },
    postMessage: (answer: AnswerMessage) => later(() => take(answer)),
    close: () => {},
  }
  serveOn(port as unknown as MessagePort)
  return {
    call: (name, value) => ask(name, value),
    tell: (name, value) => later(() => handle({ id: 0, name, value })),
    listen: (listeners: Listeners<Events>) => {
      on = listeners as typeof on
    },
    stop: () => ask(STOP, undefined),
    terminate: async () => {
      isEnded = true
    },
  }
}
