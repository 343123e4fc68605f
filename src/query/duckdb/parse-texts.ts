/**
 * SQL texts on their way to the parser, on the main thread: each is checked, looked up in a cache,
 * and parsed when it is its turn.
 *
 *   W-9  The texts that wait have a limit, which applications share. Cached texts have a limit of
 *        characters in all; the least recently used go first. Their trees are bounded by
 *        EXPRESSION_NODES_MAX and by the texts themselves.
 */
import { Unavailable } from '../../util/errors.ts'
import { FairQueue } from '../../util/fair-queue.ts'
import { EXPRESSIONS_CACHED_CHARACTERS, EXPRESSIONS_PARSING_MAX } from '../../util/limits.ts'
import { Shares } from '../../util/shares.ts'
import { type SqlForm, sqlTextProblem } from '../expression/text-problem.ts'
import type { BadQuery } from '../expression/values.ts'

type Answer<Tree> = Promise<Tree | BadQuery>

/** The tree of a text, or BadQuery. Rejects with Unavailable (`queue_full`), or as `parse` does. */
export function textParser<Tree>(
  form: SqlForm,
  parse: (text: string) => Answer<Tree>,
): (text: string, fairKey: string) => Answer<Tree> {
  const queue = new ParseQueue(parse)
  const cache = new ParseCache<Tree>((text, fairKey) => queue.run(text, fairKey))
  return async (text, fairKey) => {
    const problem = sqlTextProblem(text, form)
    return problem === undefined ? await cache.get(text, fairKey) : { badRequest: problem }
  }
}

interface Waiter<T> {
  readonly text: string
  readonly fairKey: string
  readonly resolve: (answer: Promise<T>) => void
}

/** One text is parsed at a time, and applications take turns. */
export class ParseQueue<T> {
  readonly #parse: (text: string) => Promise<T>
  readonly #waiting = new FairQueue<Waiter<T>>()
  readonly #shares = new Shares(EXPRESSIONS_PARSING_MAX)
  #isBusy = false

  constructor(parse: (text: string) => Promise<T>) {
    this.#parse = parse
  }

  run(text: string, fairKey: string): Promise<T> {
    return new Promise(resolve => {
      if (!this.#shares.tryTake(fairKey))
        throw new Unavailable('queue_full', 'too many SQL texts are waiting')
      this.#waiting.push(fairKey, { text, fairKey, resolve })
      if (!this.#isBusy) void this.#work()
    })
  }

  async #work(): Promise<void> {
    this.#isBusy = true
    for (let next = this.#waiting.tryShift(); next !== undefined; next = this.#waiting.tryShift()) {
      this.#shares.give(next.fairKey)
      const answer = this.#parse(next.text)
      next.resolve(answer)
      await answer.catch(() => undefined) // the waiter gets the failure
    }
    this.#isBusy = false
  }
}

/** Parsed texts: the dashboards of a wall send the same few texts again and again. */
export class ParseCache<Tree> {
  readonly #parse: (text: string, fairKey: string) => Answer<Tree>
  /** The least recently used first. */
  readonly #answers = new Map<string, Answer<Tree>>()
  #characters = 0

  constructor(parse: (text: string, fairKey: string) => Answer<Tree>) {
    this.#parse = parse
  }

  /** The tree of a text, or BadQuery. A failure is not kept. `fairKey`: the application. */
  get(text: string, fairKey: string): Answer<Tree> {
    const known = this.#answers.get(text)
    if (known !== undefined) {
      this.#answers.delete(text)
      this.#answers.set(text, known)
      return known
    }
    const answer = this.#parse(text, fairKey)
    this.#answers.set(text, answer)
    this.#characters += chargeOf(text)
    answer.catch(() => this.#forget(text, answer))
    for (const [old, kept] of this.#answers) {
      if (this.#characters <= EXPRESSIONS_CACHED_CHARACTERS || old === text) break
      this.#forget(old, kept)
    }
    return answer
  }

  #forget(text: string, answer: Answer<Tree>): void {
    if (this.#answers.get(text) !== answer) return
    this.#answers.delete(text)
    this.#characters -= chargeOf(text)
  }
}

/** Without a charge for the entry itself, 80,000 texts of three characters would take 50 MB. */
function chargeOf(text: string): number {
  return text.length + ENTRY_CHARACTERS
}

const ENTRY_CHARACTERS = 64
