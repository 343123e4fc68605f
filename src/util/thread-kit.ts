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
 * callee.ts has the rules K-1 to K-5 of calls, crashes and stops. process-kit.ts does the same for
 * a process. The parse pool is Piscina's.
 */

import { Worker } from 'node:worker_threads'
import { workerFile } from './build-files.ts'
import { type AnswerMessage, Callee, type CalleeOptions, type Carrier, type Reports, STOP } from './callee.ts'
import { type LogSettings, logSettings } from './say.ts'

/** workerData of every thread. */
export interface ThreadStart {
  readonly name: string
  readonly nice: number | undefined
  readonly crashAt: string | undefined
  readonly log: LogSettings
  readonly data: unknown
}

interface ThreadOptions {
  /** Names the file in `workers/`, and the thread in `top -H` as `weir-<name>`. */
  readonly name: string
  readonly data: unknown
  /** Added to the thread's nice value. */
  readonly nice?: number
  /** Hidden option of tests; see util/fault-injection.ts. */
  readonly crashAt?: string
  /** Default: the file of its name. */
  readonly file?: URL
}

export type Thread<Calls, Events = object> = Callee<Calls, Events>

/** See Callee for `Calls` and `Events`. */
export function startThread<Calls, Events = object>(
  options: ThreadOptions & CalleeOptions<Events>,
): Thread<Calls, Events> {
  return new Callee(`the ${options.name} thread`, options, reports => carry(options, reports))
}

function carry({ name, nice, crashAt, data, file }: ThreadOptions, reports: Reports): Carrier {
  const start: ThreadStart = { name, nice, crashAt, log: logSettings(), data }
  const worker = new Worker(file ?? workerFile(name), {
    workerData: start,
  })
  worker.on('message', (message: AnswerMessage) => reports.message(message))
  worker.on('messageerror', error => {
    reports.crash(error)
    worker.postMessage({ id: 1, name: STOP, value: undefined }) // it runs on otherwise
  })
  worker.on('error', error => reports.crash(error instanceof Error ? error : new Error(String(error))))
  worker.once('exit', code => reports.exit(new Error(`the ${name} thread ended with code ${code}`)))
  return {
    // A message without a move list is the cheap one: the log posts one for each group.
    post: (message, move) =>
      move === undefined ? worker.postMessage(message) : worker.postMessage(message, move),
    terminate: () => worker.terminate(),
  }
}
