/**
 * Parsed expressions by their text, on the main thread: the dashboards of a wall send the same few
 * texts again and again.
 *
 *   W-9  Texts have a limit of characters in all; the least recently used go first. Their trees are
 *        bounded by EXPRESSION_NODES_MAX and by the texts themselves.
 */
import { EXPRESSIONS_CACHED_CHARACTERS } from '../../util/limits.ts'
import type { Expression } from '../expression/ast.ts'
import type { BadQuery } from '../expression/values.ts'

type Answer<Tree> = Promise<Tree | BadQuery>

export class ExpressionCache<Tree = Expression> {
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
