/**
 * Which questions are asked again: the engine may keep partial groups of them (plan/partials.ts). A
 * question that is asked once costs nothing for it.
 */
import { getOrMake } from '../util/get-or-make.ts'
import { type PartialStatements, partialPlans } from './plan/partials.ts'
import type { Dialect, QueryPlan } from './plan/plan.ts'
import type { QueryDone } from './plan/query-task.ts'

/**
 * Questions that are known: some 100 bytes each. Beyond it the application with the most of them
 * loses the one that was not asked for longest.
 */
const QUESTIONS_MAX = 10_000
/** A question over fewer rows is computed in a few ms. */
const ROWS_MIN = 100_000

export class RepeatedQuestions {
  /** By application, the least recently asked first. */
  readonly #keys = new Map<string, Set<string>>()
  #known = 0
  #bytes = 0
  #segments = 0

  /** The memory of what is kept, by the newest answer, and the segments that were not read. */
  stats(): { readonly bytes: number; readonly segments: number } {
    return { bytes: this.#bytes, segments: this.#segments }
  }

  /** Hears of each answer of the engine. */
  note({ partialsBytes = this.#bytes, segmentsKept = 0 }: QueryDone): void {
    this.#bytes = partialsBytes
    this.#segments += segmentsKept
  }

  /** Notes a question. True where it was noted before. */
  #isRepeated(key: string, fairKey: string): boolean {
    const keys = getOrMake(this.#keys, fairKey, () => new Set())
    const isKnown = keys.delete(key)
    keys.add(key)
    if (!isKnown && ++this.#known > QUESTIONS_MAX) this.#forgetOne()
    return isKnown
  }

  #forgetOne(): void {
    let [most, name] = [new Set<string>(), '']
    for (const [each, keys] of this.#keys) if (keys.size > most.size) [most, name] = [keys, each]
    for (const oldest of most) {
      most.delete(oldest)
      break
    }
    this.#known -= 1
    if (most.size === 0) this.#keys.delete(name)
  }

  /**
   * The statements of a question that is asked again and can be split.
   * @param rows of the segments that it reads
   */
  statementsOf(
    key: string,
    fairKey: string,
    rows: number,
    plan: QueryPlan,
    dialect: Dialect,
  ): PartialStatements | undefined {
    if (rows < ROWS_MIN || !this.#isRepeated(key, fairKey)) return undefined
    const plans = partialPlans(plan)
    if (plans === undefined) return undefined
    const { partial, merged } = plans
    const columns = partial.select.outputs.length
    return { key, fairKey, columns, partial: dialect.write(partial), merged: dialect.write(merged) }
  }
}
