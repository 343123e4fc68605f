/** The process's side of process-kit.ts. `serve` of thread-server.ts answers calls. */
import { closeSync, fstatSync, readdirSync } from 'node:fs'
import type { AnswerMessage } from './callee.ts'
import { endNow, STOP_SIGNALS } from './end-process.ts'
import { must } from './errors.ts'
import { armCrash, setFaults } from './fault-injection.ts'
import type { ProcessStart } from './process-kit.ts'
import { setLog } from './say.ts'
import { dieWithParent, nameThread, niceProcess, offerToOutOfMemoryKiller } from './this-thread.ts'
import type { CallPort } from './thread-server.ts'

/**
 * The first step of the process's file in `workers/`.
 *
 *   K-6  The kernel kills the process when its parent has ended. Where the native module is
 *        missing, the end of the channel does, which the process hears between two tasks.
 *
 * A terminal and a service manager send their signals to every process of a service. The parent
 * decides when this one stops, so it ignores them.
 */
export function beginProcess<Data>(): { readonly port: CallPort; readonly data: Data } {
  for (const signal of [...STOP_SIGNALS, 'SIGHUP'] as const) process.on(signal, () => undefined)
  process.once('disconnect', endNow)
  dieWithParent()
  closeInheritedFiles()
  if (!process.connected) endNow() // the parent ended before
  const { name, nice, crashAt, faults, log, data } = JSON.parse(
    must(process.argv[2], 'the argument of a process'),
  ) as ProcessStart
  nameThread(name)
  niceProcess(nice)
  offerToOutOfMemoryKiller()
  setFaults(faults)
  setLog(log)
  armCrash(crashAt)
  return { port: channel(), data: data as Data }
}

/** Closes the files that lmdb-js opened in the parent without O_CLOEXEC. Node keeps none open. */
function closeInheritedFiles(): void {
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      if (Number(name) > 2 && fstatSync(Number(name)).isFile()) closeSync(Number(name))
    } catch {} // the descriptor of the listing itself is closed
  }
}

/** The channel to the parent in the form of a thread's port. */
function channel(): CallPort {
  /** Resolves when the last message is written. */
  let sent = Promise.resolve()
  return {
    postMessage: (message: AnswerMessage) => {
      let resolve = () => {}
      const written = new Promise<void>(done => {
        resolve = done
      })
      // It throws where the message cannot be cloned. The channel's own errors end the process.
      process.send?.(message, () => resolve())
      sent = written
    },
    on: ((event: string, listener: (value: unknown) => void) =>
      event === 'message' ? process.on('message', listener) : undefined) as unknown as CallPort['on'],
    // The stop is answered, so how the process ends does not matter.
    close: () => void sent.then(endNow),
  }
}
