/**
 * Equal questions that wait at the same moment share one run.
 *
 *   ask ──► fewer than RUNS_MAX are under way ──► a run begins with it
 *      └──► waits for the next run, with all that come until one has ended
 *
 *   W-8  A run begins, its flush first, after all its askers have come: nothing is stale.
 *   W-9  The askers that wait have a limit of bytes, which applications share. A question is known
 *        as long as it has an asker.
 *
 * A run is aborted when all its askers have gone. An asker that may not ask any more is refused
 * before the run, and by itself after it (ask.ts). The others get their answer.
 */
import { setMaxListeners } from 'node:events'
import { CLIENT_GONE } from '../util/errors.ts'
import { getOrMake } from '../util/get-or-make.ts'
import { QUERIES_WAITING_BYTES_MAX } from '../util/limits.ts'
import { Shares } from '../util/shares.ts'
import { QUEUE_FULL } from './plan/query-turns.ts'

/** Runs of one question under way. A second one begins without a wait. */
const RUNS_MAX = 2

/** One of those that share a run. */
export interface Sharer {
  readonly applicationId: string
  /** Bytes of what it keeps while it waits. */
  readonly bytes: number
  readonly gone: AbortSignal | undefined
  /** Throws where it may not have the answer. */
  verify(): void
  /** A stage of its run, or its waiting for that, has ended. */
  onStage(name: string, attributes?: Readonly<Record<string, string>>): void
}

/** A run as the work of it sees its askers. */
export type RunAskers = Pick<Sharer, 'verify' | 'onStage'> & { readonly gone: AbortSignal }

interface Question<Done> {
  running: number
  /** It begins when one of those has ended. */
  next: Run<Done> | undefined
}

export class SharedRuns<Done> {
  readonly #questions = new Map<string, Question<Done>>()
  readonly #waiting = new Shares(QUERIES_WAITING_BYTES_MAX)
  #begun = 0

  /** Runs of questions that may share one, since the start. */
  get begun(): number {
    return this.#begun
  }

  /**
   * Resolves with the answer of a run that began after the call. Rejects as the run does, or as
   * `verify` throws; with Unavailable (`client_gone`, `queue_full`).
   * @param key equal for equal questions. Undefined: the question has a run of its own
   * @param work a run's work, of one of its askers
   */
  async ask(
    key: string | undefined,
    sharer: Sharer,
    work: (askers: RunAskers) => Promise<Done>,
  ): Promise<Done> {
    if (sharer.gone?.aborted === true) throw CLIENT_GONE()
    if (key === undefined) return await alone(sharer, work)
    const question = getOrMake(this.#questions, key, () => ({ running: 0, next: undefined }))
    if (question.running < RUNS_MAX) {
      question.next = new Run(work)
      const answer = question.next.join(sharer)
      this.#begin(key, question)
      return await answer
    }
    const { applicationId, bytes } = sharer
    if (!this.#waiting.tryTake(applicationId, bytes)) throw QUEUE_FULL()
    try {
      if (question.next?.isLeft !== false) question.next = new Run(work)
      return await question.next.join(sharer)
    } finally {
      this.#waiting.give(applicationId, bytes)
    }
  }

  #begin(key: string, question: Question<Done>): void {
    const { next } = question
    question.next = undefined
    if (next === undefined || next.isLeft) {
      if (question.running === 0) this.#questions.delete(key)
      return
    }
    question.running += 1
    this.#begun += 1
    void next.begin().then(() => {
      question.running -= 1
      this.#begin(key, question)
    })
  }
}

async function alone<Done>(sharer: Sharer, work: (askers: RunAskers) => Promise<Done>): Promise<Done> {
  const run = new Run(work)
  const answer = run.join(sharer)
  void run.begin()
  return await answer
}

interface Waiting<Done> {
  settle(answer: { readonly done: Done } | { readonly error: unknown }): void
}

class Run<Done> {
  readonly #work: (askers: RunAskers) => Promise<Done>
  readonly #sharers = new Map<Sharer, Waiting<Done>>()
  readonly #gone = new AbortController()

  constructor(work: (askers: RunAskers) => Promise<Done>) {
    this.#work = work
  }

  get isLeft(): boolean {
    return this.#sharers.size === 0
  }

  join(sharer: Sharer): Promise<Done> {
    const { gone } = sharer
    return new Promise((resolve, reject) => {
      const leave = () => {
        settle({ error: CLIENT_GONE() })
        if (this.isLeft) this.#gone.abort()
      }
      const settle: Waiting<Done>['settle'] = answer => {
        this.#sharers.delete(sharer)
        gone?.removeEventListener('abort', leave)
        if ('done' in answer) resolve(answer.done)
        else reject(answer.error as Error)
      }
      this.#sharers.set(sharer, { settle })
      if (gone === undefined) return
      // A document asks hundreds of questions, and Node takes more than ten listeners for a leak.
      setMaxListeners(0, gone)
      gone.addEventListener('abort', leave)
    })
  }

  /** Resolves when the work has ended, well or not. */
  async begin(): Promise<void> {
    const askers = {
      gone: this.#gone.signal,
      verify: () => this.#verify(),
      onStage: (...stage: Parameters<Sharer['onStage']>) => {
        for (const sharer of this.#sharers.keys()) sharer.onStage(...stage)
      },
    }
    const answer = await this.#work(askers).then(
      done => ({ done }),
      (error: unknown) => ({ error }),
    )
    for (const { settle } of [...this.#sharers.values()]) settle(answer)
  }

  /** Refuses the sharers that may not ask any more. Throws where none is left. */
  #verify(): void {
    let refusal: unknown
    for (const [sharer, { settle }] of [...this.#sharers])
      try {
        sharer.verify()
      } catch (error) {
        refusal = error
        settle({ error })
      }
    if (this.isLeft) throw refusal
  }
}
