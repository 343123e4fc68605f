/**
 * An orderly end of a command on Ctrl-C.
 *
 * On SIGINT or SIGTERM the registered clean-ups run: they restore the terminal and remove
 * unfinished files. Then the process dies of that signal, so that a shell sees 130 or 143 and ends
 * its loop too. A second signal does not wait. The server handles signals itself (app/shutdown.ts).
 */
import { resolvesWithin } from '../util/clock.ts'
import { dieOf, STOP_SIGNALS, withoutEchoes } from '../util/end-process.ts'

/** Time for a command to clean up after Ctrl-C; then it ends as a crash would. */
const INTERRUPT_MS_MAX = 5_000

type CleanUp = () => unknown

const cleanUps = new Set<CleanUp>()
let isDying = false

/**
 * Registers a clean-up for an interrupt. The last one registered runs first.
 * @returns removes the clean-up again; may be called twice
 */
export function whenInterrupted(cleanUp: CleanUp): () => void {
  if (cleanUps.size === 0) for (const signal of STOP_SIGNALS) process.on(signal, onSignal)
  cleanUps.add(cleanUp)
  return () => {
    cleanUps.delete(cleanUp)
    if (cleanUps.size === 0 && !isDying) for (const signal of STOP_SIGNALS) process.off(signal, onSignal)
  }
}

/** True while a signal is ending the process. The exit code of the command no longer counts. */
export function isInterrupted(): boolean {
  return isDying
}

/**
 * Runs the synchronous part of all clean-ups, for a process that is about to end in another way.
 */
export function cleanUpNow(): void {
  for (const cleanUp of [...cleanUps].reverse()) void tryCleanUp(cleanUp)
}

const onSignal = withoutEchoes(signal => {
  if (isDying) dieOf(signal)
  isDying = true
  const done = Promise.all([...cleanUps].reverse().map(tryCleanUp))
  void resolvesWithin(INTERRUPT_MS_MAX, done).finally(() => dieOf(signal))
})

/** Runs one clean-up. If it fails, a file stays, and the next run of the command finds it. */
async function tryCleanUp(cleanUp: CleanUp): Promise<void> {
  try {
    await cleanUp()
  } catch {
    // The process ends, so nobody can use the error.
  }
}
