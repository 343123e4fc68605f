/** The end of a server: by a signal, in order, and within STOP_MS_MAX. */
import type { Api } from '../api/api-types.ts'
import { monotonicMs, resolvesWithin } from '../util/clock.ts'
import { endNow, STOP_SIGNALS, withoutEchoes } from '../util/end-process.ts'
import { fail, inform, warn } from '../util/say.ts'
import { endNice } from '../util/this-thread.ts'
import type { Running, Server } from './start.ts'

/** Time from SIGTERM, or from the end of --stop-delay, to exit. */
const STOP_MS_MAX = 10_000

/**
 * The first SIGTERM or SIGINT stops in order, the second ends the process. Resolves when the server
 * has stopped.
 */
export function stopOnSignal(server: Running, delayMs: number): Promise<void> {
  let asked = false
  return new Promise(resolve => {
    const stop = async (signal: NodeJS.Signals) => {
      if (asked) {
        warn(`a second ${signal} ends Weir at once; the next start recovers what is left`)
        endNow()
      }
      asked = true
      inform(`stopping, because of ${signal}: requests under way are answered, events are flushed`)
      setTimeout(
        () => {
          fail('stopping takes too long; the next start recovers what is left')
          endNow()
        },
        delayMs + STOP_MS_MAX - 500,
      ).unref()
      const whole = await server.stop()
      if (whole) inform('stopped: everything is answered, synced and flushed')
      else warn('stopped before everything was flushed; the next start recovers it from the log')
      resolve()
    }
    const stopOrEnd = withoutEchoes(signal => {
      stop(signal).catch(error => {
        fail(`stopping failed; the next start recovers: ${(error as Error).stack}`)
        endNow()
      })
    })
    for (const signal of STOP_SIGNALS) process.on(signal, stopOrEnd)
  })
}

/** Stops from front to back: answers, then the store. */
export async function stopServer(
  { store, jobs, exportThread, tracing }: Server,
  api: Api,
  delayMs = 0,
): Promise<boolean> {
  if (delayMs > 0) await api.leave(delayMs)
  const begin = monotonicMs()
  // Merges hear that they must end between two steps, and the flush is one of these threads. At
  // their nice values a busy machine let neither end in time.
  endNice()
  const quiet = store.quiet()
  const [answered] = await Promise.all([
    api.stop(STOP_MS_MAX / 2),
    resolvesWithin(STOP_MS_MAX / 2, quiet),
    resolvesWithin(STOP_MS_MAX / 2, jobs.stop()),
  ])
  const [whole] = await Promise.all([
    store.stop(Math.max(0, STOP_MS_MAX * 0.8 - (monotonicMs() - begin))),
    exportThread.stop(),
    tracing?.stop(),
  ])
  await quiet // an exit inside DuckDB may hang or crash
  return answered && whole
}
