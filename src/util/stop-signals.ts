/** SIGINT and SIGTERM: the two signals that ask a process to stop. */
import { SIGNAL_ECHO_MS } from '../limits.ts'
import { monotonicMs } from './clock.ts'

export const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const

/**
 * `listener` without echoes: a terminal sends Ctrl-C to every process in front, and npm passes on what it gets, so that
 * what `npm start` runs hears of one key twice. Use one for both signals.
 */
export function withoutEchoes(listener: (signal: NodeJS.Signals) => void): (signal: NodeJS.Signals) => void {
  let lastMs = Number.NEGATIVE_INFINITY
  return signal => {
    const nowMs = monotonicMs()
    if (nowMs - lastMs < SIGNAL_ECHO_MS) return
    lastMs = nowMs
    listener(signal)
  }
}
