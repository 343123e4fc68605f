/** How fast a backup may go, and when it stops. Every piece of work asks here first. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../util/clock.ts'
import { Unavailable } from '../../util/errors.ts'

export class Pace {
  readonly #bytesPerSecond: number
  #cancelled = false
  /** When everything taken so far may be done, monotonic ms. */
  #dueMs = monotonicMs()

  /** @param bytesPerSecond 0: as fast as it goes */
  constructor(bytesPerSecond: number) {
    this.#bytesPerSecond = bytesPerSecond
  }

  /** Every later `take` throws. */
  cancel(): void {
    this.#cancelled = true
  }

  /** Waits until `bytes` more may be copied. Messages are heard meanwhile. @throws Unavailable `backup_cancelled` */
  async take(bytes: number): Promise<void> {
    const nowMs = monotonicMs()
    if (this.#bytesPerSecond > 0)
      this.#dueMs = Math.max(this.#dueMs, nowMs) + (bytes * 1000) / this.#bytesPerSecond
    await delay(Math.max(0, Math.min(WAIT_MS_MAX, this.#dueMs - nowMs)))
    if (this.#cancelled) throw new Unavailable('backup_cancelled', 'the backup was given up')
  }
}

/** A large record is no reason to be deaf for longer. */
const WAIT_MS_MAX = 1_000
