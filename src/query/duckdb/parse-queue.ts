/**
 * SQL texts on their way to the parser: one at a time, applications in turn.
 *
 *   W-9  The texts that wait have a limit, and those of one application half of it.
 */
import { Unavailable } from '../../util/errors.ts'
import { FairQueue } from '../../util/fair-queue.ts'
import { EXPRESSIONS_PARSING_MAX } from '../../util/limits.ts'

interface Waiter<T> {
  readonly text: string
  readonly fairKey: string
  readonly resolve: (answer: Promise<T>) => void
}

export class ParseQueue<T> {
  readonly #parse: (text: string) => Promise<T>
  readonly #waiting = new FairQueue<Waiter<T>>(EXPRESSIONS_PARSING_MAX)
  readonly #waitingOf = new Map<string, number>()
  #isBusy = false

  constructor(parse: (text: string) => Promise<T>) {
    this.#parse = parse
  }

  /** The parser's answer. Rejects with its error, or Unavailable (`queue_full`). */
  run(text: string, fairKey: string): Promise<T> {
    return new Promise(resolve => {
      const isFull = (this.#waitingOf.get(fairKey) ?? 0) >= EXPRESSIONS_PARSING_MAX / 2
      if (isFull || !this.#waiting.tryPush(fairKey, { text, fairKey, resolve }))
        throw new Unavailable('queue_full', 'too many SQL texts are waiting')
      this.#count(fairKey, 1)
      if (!this.#isBusy) void this.#work()
    })
  }

  async #work(): Promise<void> {
    this.#isBusy = true
    for (let next = this.#waiting.tryShift(); next !== undefined; next = this.#waiting.tryShift()) {
      this.#count(next.fairKey, -1)
      const answer = this.#parse(next.text)
      next.resolve(answer)
      await answer.catch(() => undefined) // the waiter gets the failure
    }
    this.#isBusy = false
  }

  #count(fairKey: string, change: 1 | -1): void {
    const count = (this.#waitingOf.get(fairKey) ?? 0) + change
    if (count === 0) this.#waitingOf.delete(fairKey)
    else this.#waitingOf.set(fairKey, count)
  }
}
