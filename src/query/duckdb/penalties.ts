/**
 * Applications whose queries were ended, for a time: their queries run in the penalty process, one
 * by one, so that they can stop no others (docs/decisions/0060).
 *
 *   W-9  An application has one entry. Those that have expired go with the next one, so there are
 *        never more than applications.
 */
import { monotonicMs } from '../../util/clock.ts'

export class Penalties {
  readonly #msMax: number
  /** When the penalty of an application ends. The first one ends first. */
  readonly #untilMs = new Map<string, number>()

  constructor(msMax: number) {
    this.#msMax = msMax
  }

  has(fairKey: string): boolean {
    return isLater(this.#untilMs.get(fairKey))
  }

  /** Begins a penalty, or begins it again. Returns true where the application had none. */
  add(fairKey: string): boolean {
    const isNew = !this.has(fairKey)
    this.#untilMs.delete(fairKey)
    this.#dropExpired()
    this.#untilMs.set(fairKey, monotonicMs() + this.#msMax)
    return isNew
  }

  /** The applications that have a penalty, and its time that is left. */
  all(): [fairKey: string, ms: number][] {
    this.#dropExpired()
    return [...this.#untilMs].map(([fairKey, untilMs]) => [fairKey, untilMs - monotonicMs()])
  }

  /** The times are in order, because each entry stays for the same time. */
  #dropExpired(): void {
    for (const [fairKey, untilMs] of this.#untilMs) {
      if (isLater(untilMs)) return
      this.#untilMs.delete(fairKey)
    }
  }
}

function isLater(untilMs: number | undefined): boolean {
  return untilMs !== undefined && untilMs > monotonicMs()
}
