/** The client of the merge thread. A server that has nothing to merge keeps no second DuckDB. */
import type { PoolSchema } from '../../format/schema.ts'
import type { ResultOf, ValueOf } from '../../util/callee.ts'
import { assert, SegmentDamaged, Unavailable } from '../../util/errors.ts'
import { ThreadOnDemand } from '../../util/thread-on-demand.ts'
import type {
  MergeCalls,
  MergeChanges,
  MergeDone,
  Merger,
  MergeSpeed,
  MergeTask,
  MergeThreadData,
} from './compaction-types.ts'

/** See Merger. */
export class MergerClient implements Merger {
  readonly #thread: ThreadOnDemand<MergeCalls>
  #speed: MergeSpeed

  /**
   * @param onCrash called once when a thread has crashed: no merge can run any more
   * @param idleMs a thread without a merge ends after this
   */
  constructor(data: MergeThreadData, onCrash: (error: Error) => void, idleMs?: number) {
    this.#speed = data.speed
    const { crashAt, nice } = data
    const dataNow = () => ({ ...data, speed: this.#speed })
    this.#thread = new ThreadOnDemand({ name: 'merge', crashAt, nice, data: dataNow, onCrash, idleMs })
  }

  merge(task: MergeTask): Promise<MergeDone> {
    return this.#call('merge', task)
  }

  problemOf(changes: MergeChanges, schema: PoolSchema): Promise<string | undefined> {
    return this.#call('problemOf', { changes, schema })
  }

  setSpeed(speed: MergeSpeed): void {
    if (speed === this.#speed) return
    this.#speed = speed
    this.#thread.tell('speed', speed)
  }

  /** See ThreadOnDemand. */
  ended(): Promise<void> {
    return this.#thread.ended()
  }

  stop(): Promise<void> {
    return this.#thread.stop()
  }

  async #call<N extends keyof MergeCalls>(
    name: N,
    value: ValueOf<MergeCalls[N]>,
  ): Promise<ResultOf<MergeCalls[N]>> {
    assert(this.#thread.isIdle, 'one merge at a time')
    try {
      return await this.#thread.call(name, value)
    } catch (error) {
      throw refused(error as Error)
    }
  }
}

/** An error of the file system becomes Unavailable. */
function refused(error: Error): Error {
  if (error instanceof Unavailable || error instanceof SegmentDamaged) return error
  return Object.assign(new Unavailable('merge_io', error.message), { cause: error })
}
