/**
 * Ctrl-C and SIGTERM while a command works: what it must put away (a terminal as it was, a file that is not whole) is put
 * away, then the process dies of that very signal, so that a shell sees 130 or 143 and its loop ends too.
 *
 * A second signal does not wait. The server has a stop of its own (start.ts).
 */

import { resolvesWithin } from '../util/clock.ts'
import { dieOf, STOP_SIGNALS, withoutEchoes } from '../util/end-process.ts'
import { INTERRUPT_MS_MAX } from '../util/limits.ts'

type PutAway = () => unknown

const putAways = new Set<PutAway>()
let isDying = false

/**
 * Registers what an interrupt has to put away; the last one registered goes first.
 * @returns takes it back, when it is done; may be called twice
 */
export function whenInterrupted(putAway: PutAway): () => void {
  if (putAways.size === 0) for (const signal of STOP_SIGNALS) process.on(signal, onSignal)
  putAways.add(putAway)
  return () => {
    putAways.delete(putAway)
    if (putAways.size === 0 && !isDying) for (const signal of STOP_SIGNALS) process.off(signal, onSignal)
  }
}

/** Is the process dying of a signal? Then that is how it ends, whatever the command still says. */
export function isInterrupted(): boolean {
  return isDying
}

/** Before the process ends in another way: what can be put away at once. */
export function putAwayNow(): void {
  for (const putAway of [...putAways].reverse()) void begin(putAway)
}

const onSignal = withoutEchoes(signal => {
  if (isDying) dieOf(signal)
  isDying = true
  const done = Promise.all([...putAways].reverse().map(begin))
  void resolvesWithin(INTERRUPT_MS_MAX, done).finally(() => dieOf(signal))
})

/** Whatever cannot be put away stays: the next run of the command finds it. */
async function begin(putAway: PutAway): Promise<void> {
  try {
    await putAway()
  } catch {
    // The process ends; there is nobody to tell.
  }
}
