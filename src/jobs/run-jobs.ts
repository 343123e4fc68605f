/**
 * Runs the jobs of the catalog: a job found CREATED or IN_PROGRESS at the start continues, and a
 * new one begins at once.
 *
 * The jobs of one pool run one after another, in the order of their creation. Each kind of job has
 * a runner, which moves a job from its present state to its end. The catalog says what is done
 * already, so a runner may be called again after a crash or a failure.
 *
 * In a cluster the node that leads runs them, until its signal; the next one goes on.
 *
 *   W-9  At most JOBS_RUNNING_MAX jobs run at once, in shares of applications: one with many long
 *        jobs leaves room for others. The catalog limits those that wait.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isUnfinished } from '../catalog/change/change-job.ts'
import type { Memory } from '../catalog/documents/memory.ts'
import type { Job } from '../catalog/documents/model.ts'
import { must, Unavailable } from '../util/errors.ts'
import { JOBS_RUNNING_MAX } from '../util/limits.ts'
import { warn } from '../util/say.ts'
import { mayTake } from '../util/shares.ts'

/** Time after which a job tries again that the log, the disk or the catalog refused. */
const JOB_RETRY_MS = 1_000

/**
 * Runs a job until it has SUCCEEDED or FAILED. Rejects with Unavailable where the machine refuses
 * for now: the job is tried again. Any other error is a bug. `stopping` is aborted when the server
 * stops, or leads no more: the job then goes on after the next start.
 */
export type JobRunner = (job: Job, stopping: AbortSignal) => Promise<void>

interface JobsDeps {
  readonly memory: Pick<Memory, 'jobs' | 'pools'>
  readonly runners: Readonly<Record<Job['kind'], JobRunner>>
  readonly onFatal: (error: Error) => void
  /** Default JOB_RETRY_MS; tests set less. */
  readonly retryMs?: number
}

export class Jobs {
  readonly #deps: JobsDeps
  #waiting: string[] = []
  /** The running jobs by pool; imports that only end by their own id. */
  readonly #running = new Map<string, { readonly job: Job; readonly ended: Promise<void> }>()
  readonly #stopping = new AbortController()
  /** Jobs are begun until then; aborted before the start, and while another node runs them. */
  #until = AbortSignal.abort()

  constructor(deps: JobsDeps) {
    this.#deps = deps
  }

  /**
   * @param led of a cluster: this node leads until then. It may lead again later. Absent where
   * there is no other node
   */
  start(led?: AbortSignal): void {
    const unfinished = this.#deps.memory.jobs.all().filter(isUnfinished)
    // An import has lost its connection: it only ends, and its client waits for that.
    if (led === undefined)
      for (const job of unfinished) if (job.kind === 'IMPORT') this.end(job, this.#deps.runners.IMPORT)
    this.#until = led === undefined ? this.#stopping.signal : AbortSignal.any([led, this.#stopping.signal])
    const others = unfinished.filter(({ kind }) => kind !== 'IMPORT')
    // One that had begun comes first: it has reserved segments.
    const begun = others.filter(({ status }) => status === 'IN_PROGRESS')
    const created = others.filter(({ status }) => status === 'CREATED')
    this.#waiting = [...begun, ...created].map(({ id }) => id)
    this.#pump()
  }

  /** Told by who made the job, and by the catalog, which knows of those of other nodes too. */
  created({ id, kind }: Job): void {
    const isKnown = this.#waiting.includes(id) || [...this.#running.values()].some(({ job }) => job.id === id)
    if (kind === 'IMPORT' || isKnown || this.#until.aborted) return
    this.#waiting.push(id)
    this.#pump()
  }

  /** Ends an import whose request or server is gone, beside other jobs of the pool. */
  end(job: Job, runner: JobRunner): void {
    this.#start(job, job.id, runner, this.#stopping.signal)
  }

  /** Begins no further job. Resolves when the running ones have ended or were refused. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
  }

  stats(): { readonly waiting: number; readonly running: number } {
    return { waiting: this.#waiting.length, running: this.#running.size }
  }

  #pump(): void {
    while (!this.#until.aborted && this.#running.size < JOBS_RUNNING_MAX) {
      const job = this.#takeNext()
      if (job === undefined) return
      this.#start(job, job.poolId, this.#deps.runners[job.kind], this.#until)
    }
  }

  #start(job: Job, key: string, runner: JobRunner, until: AbortSignal): void {
    const ended = this.#run(job, runner, until).finally(() => {
      this.#running.delete(key)
      this.#pump()
    })
    this.#running.set(key, { job, ended })
  }

  #takeNext(): Job | undefined {
    const { jobs } = this.#deps.memory
    // One that was cancelled while it waited has ended, and may have been removed with others.
    this.#waiting = this.#waiting.filter(id => {
      const job = jobs.get(id)
      return job !== undefined && isUnfinished(job)
    })
    const at = this.#waiting.findIndex(id => this.#mayRun(must(jobs.get(id), 'an unfinished job')))
    const [id] = at < 0 ? [] : this.#waiting.splice(at, 1)
    return id === undefined ? undefined : jobs.get(id)
  }

  #mayRun({ poolId, createdBy }: Job): boolean {
    if (this.#running.has(poolId)) return false
    const own = [...this.#running.values()].filter(({ job }) => job.createdBy === createdBy)
    return mayTake(own.length, JOBS_RUNNING_MAX - this.#running.size)
  }

  /** Never rejects. */
  async #run(job: Job, runner: JobRunner, until: AbortSignal): Promise<void> {
    let said = ''
    let wasPoolGone = false
    while (!until.aborted) {
      try {
        const now = this.#deps.memory.jobs.get(job.id)
        // It was cancelled, and removed with other ended ones.
        if (now === undefined) return
        return await runner(now, until)
      } catch (error) {
        // An await that the end broke rejects with the signal's reason, or with Node's own error.
        if (until.aborted && (error === until.reason || (error as Error).name === 'AbortError')) return
        if (!(error instanceof Unavailable)) return this.#deps.onFatal(error as Error)
        if (until.aborted) return
        const isPoolGone = this.#deps.memory.pools.get(job.poolId) === undefined
        // The next try fails the job at once, and says why.
        if (isPoolGone && !wasPoolGone) {
          wasPoolGone = true
          continue
        }
        if (said !== error.message)
          warn(`job ${job.id} of pool ${job.poolId} waits and is tried again: ${error.message}`)
        said = error.message
      }
      await sleep(this.#deps.retryMs ?? JOB_RETRY_MS, undefined, { signal: until }).catch(() => {}) // it stops
    }
  }
}
