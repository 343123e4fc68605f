/**
 * Turns for answers with many faulty events: putting 500 of them into words takes about as long as 500 other requests.
 *
 *   W-11  In one turn of the event loop at most FAULTS_PER_TURN_MAX faults are put into words, and one answer's more.
 */
import { FAULTS_PER_TURN_MAX } from '../limits.ts'

export class Turns {
  #spent = 0
  #waiting = 0
  #last: Promise<void> = Promise.resolve()

  /** undefined: go on at once. Else wait for it, and look again at what may have changed. First in, first out. */
  take(faults: number): Promise<void> | undefined {
    if (faults === 0) return undefined
    if (this.#waiting === 0 && this.#spent < FAULTS_PER_TURN_MAX) {
      if (this.#spent === 0) setImmediate(() => this.#endTurn())
      this.#spent += faults
      return undefined
    }
    this.#waiting += 1
    // Each of those that wait has a turn of its own.
    this.#last = this.#last.then(nextTurn).then(() => {
      this.#waiting -= 1
    })
    return this.#last
  }

  #endTurn(): void {
    this.#spent = 0
  }
}

function nextTurn(): Promise<void> {
  return new Promise(resolve => {
    setImmediate(resolve)
  })
}
