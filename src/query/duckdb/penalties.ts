/**
 * Applications whose queries were ended: for a time their queries run in the penalty process, one
 * by one, so that they can stop no others (docs/decisions/0060).
 *
 *   W-9  An application has one entry. Those that have expired go with the next penalty, so there
 *        are never more than applications.
 */
import { monotonicMs } from '../../util/clock.ts'

export class Penalties {
  readonly #msMax: number
  /** When the penalty of an application ends. The first one ends first. */
  readonly #untilMs = new Map<string, number>()
  /** Applications whose long copy was in a crash, and until when that counts. */
  readonly #suspectedMs = new Map<string, number>()

  constructor(msMax: number) {
    this.#msMax = msMax
  }

  has(fairKey: string): boolean {
    return isLater(this.#untilMs.get(fairKey))
  }

  /** Begins a penalty, or begins it again. Returns true where the application had none. */
  add(fairKey: string): boolean {
    const isNew = !this.has(fairKey)
    remember(this.#untilMs, fairKey, this.#msMax)
    return isNew
  }

  /**
   * A long copy was in a crash, and is not run again to find out whether it is the cause. Returns
   * true for the second time, which is no accident.
   */
  suspect(fairKey: string): boolean {
    if (isLater(this.#suspectedMs.get(fairKey))) return true
    remember(this.#suspectedMs, fairKey, this.#msMax)
    return false
  }

  /** The applications that have a penalty, and its time that is left. */
  all(): [fairKey: string, ms: number][] {
    dropExpired(this.#untilMs)
    return [...this.#untilMs].map(([fairKey, untilMs]) => [fairKey, untilMs - monotonicMs()])
  }
}

function isLater(untilMs: number | undefined): boolean {
  return untilMs !== undefined && untilMs > monotonicMs()
}

function remember(times: Map<string, number>, fairKey: string, ms: number): void {
  times.delete(fairKey)
  dropExpired(times)
  times.set(fairKey, monotonicMs() + ms)
}

/** The times are in order, because each entry stays for the same time. */
function dropExpired(times: Map<string, number>): void {
  for (const [fairKey, untilMs] of times) {
    if (isLater(untilMs)) return
    times.delete(fairKey)
  }
}
