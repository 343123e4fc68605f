/**
 * The runner of jobs that delete rows or set columns of them in a cluster, beside ingest.
 *
 *   CREATED      the first change of the catalog is answered when every node knows the job. From
 *                then on no node confirms a row that is older than the job and that the job may not
 *                see (cluster/inserts.ts).
 *   IN_PROGRESS  shards beside each other, each in ranges of the key: one statement finds the rows
 *                of a range, another one changes them. A pool without a unique id has a mutation.
 *   SUCCEEDED    every range was looked at, or every replica has done the mutation
 *
 * A statement changes no row that the job has changed (cluster/clickhouse/rewrite-table.ts). So the
 * catalog's memory of the ranges saves work, and a kill at any moment changes no row twice.
 *
 *   W-9  One statement for each shard is under way.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { failJob, succeedJob } from '../catalog/change/change-job.ts'
import { isRewrite, progressOf, reachRewrite } from '../catalog/change/change-rewrite.ts'
import type { Job, Pool, Propeller, RewriteJob, ShardWork } from '../catalog/documents/model.ts'
import type { InsertOptions } from '../cluster/clickhouse/insert-rows.ts'
import { RANGE_ROWS, TableRewrite } from '../cluster/clickhouse/rewrite-table.ts'
import type { Replica, Topology } from '../cluster/clickhouse/topology.ts'
import type { PoolSchema } from '../format/schema.ts'
import { isBadQuery, refusable } from '../query/expression/values.ts'
import type { QueryEngine } from '../query/plan/query-task.ts'
import { monotonicMs } from '../util/clock.ts'
import { must, Unavailable } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import type { JobRunner } from './run-jobs.ts'
import {
  endsHere,
  JOB_PROGRESS_MS,
  type JobCatalog,
  planJob,
  rejectTyped,
  triedRunner,
} from './tried-rewrites.ts'

/** Between two looks at a mutation. */
const LOOK_MS = 200

export interface TableRewriteDeps {
  readonly catalog: JobCatalog
  readonly engine: Pick<QueryEngine, 'parse' | 'dialect'>
  schemaOf(pool: Pool): PoolSchema
  /** The servers as they are now, and how many of them must have a row. */
  options(): InsertOptions
  /** A replica of the shard with all acknowledged rows. Rejects with Unavailable. */
  replicaOf(table: string, shard: number, topology: Topology, gone: AbortSignal): Promise<Replica>
  propellerOf(applicationId: string): Propeller
  readonly onRows: (kind: Job['kind'], rows: number) => void
  /** Default RANGE_ROWS; tests set less. */
  readonly rangeRows?: number
}

export function tableRewriteRunner(deps: TableRewriteDeps): JobRunner {
  return triedRunner(deps.catalog, 'a range of keys', async (job, stopping, onStep) => {
    const started = await deps.catalog.change(reachRewrite(job.id, job.shards ?? []))
    crashPoint('job.started')
    if (isBadQuery(started) || (await endsHere(started, started.progress, deps.catalog))) return
    const pool = must(deps.catalog.pool(job.poolId), 'the pool of a job that goes on')
    const schema = deps.schemaOf(pool)
    const planned = await planJob(job, schema, deps.engine)
    const begun = deps.options()
    const rewrite = isBadQuery(planned)
      ? planned
      : refusable(() => new TableRewrite(job, schema, planned, begun, deps.propellerOf(job.createdBy)))
    if (isBadQuery(rewrite)) {
      await deps.catalog.change(failJob(job.id, rewrite.badRequest, started.progress))
      return
    }
    const steps = new Steps({ ...deps, job: started, rewrite, begun, stopping, onStep })
    await steps.run(schema.key === null).catch(rejectTyped)
  })
}

interface RewriteRun extends TableRewriteDeps {
  readonly job: RewriteJob
  readonly rewrite: TableRewrite
  /** Those with which it began. */
  readonly begun: InsertOptions
  readonly stopping: AbortSignal
  readonly onStep: (progress: number) => void
}

class Steps {
  readonly #deps: RewriteRun
  #shards: readonly ShardWork[]
  #toldMs = monotonicMs()
  /** A shard has failed, or the job has ended: the others do no further step. */
  #isOver = false

  constructor(run: RewriteRun) {
    this.#deps = run
    this.#shards = run.job.shards ?? []
  }

  async run(isMutation: boolean): Promise<void> {
    const shards = this.#deps.begun.topology.shards.map((_, shard) => shard)
    if (this.#shards.length === 0)
      this.#shards = await Promise.all(
        shards.map(async shard => ({
          rows: isMutation
            ? 1
            : await this.#deps.rewrite.count(await this.#replica(shard), this.#deps.stopping),
          done: 0,
          reached: null,
        })),
      )
    const step = isMutation
      ? (shard: number) => this.#mutate(shard)
      : (shard: number) => this.#rewriteRange(shard)
    const settled = await Promise.allSettled(
      shards.map(async shard => {
        try {
          while (!(this.#isOver || this.#isDone(shard))) await step(shard)
        } finally {
          if (!this.#isDone(shard)) this.#isOver = true
        }
      }),
    )
    for (const each of settled) if (each.status === 'rejected') throw each.reason
    if (this.#isOver) return
    await this.#deps.catalog.change(succeedJob(this.#deps.job.id))
    crashPoint('job.succeeded')
  }

  async #rewriteRange(shard: number): Promise<void> {
    if (await this.#ends()) return
    const { reached, rows, done } = must(this.#shards[shard], 'a shard')
    const { rangeRows = RANGE_ROWS } = this.#deps
    const replica = await this.#replica(shard)
    const range = await this.#deps.rewrite.rangeAfter(replica, reached, rangeRows, this.#deps.stopping)
    const looked = await this.#deps.rewrite.look(replica, range, this.#deps.stopping)
    if (looked.refused !== undefined) return this.#fail(looked.refused)
    if (looked.rows > 0) {
      crashPoint('rewrite.found')
      await this.#deps.rewrite.change(replica, shard, range, this.#deps.stopping)
      crashPoint('rewrite.done')
      this.#deps.onRows(this.#deps.job.kind, looked.rows)
    }
    // More rows may have come since the start.
    const now = range.to === null ? rows : Math.min(done + rangeRows, rows - 1)
    await this.#reached(shard, { rows, done: now, reached: range.to })
  }

  /** Starts the mutation of a shard, or looks how far it is. */
  async #mutate(shard: number): Promise<void> {
    const { topology } = this.#deps.options()
    const replicas = must(topology.shards[shard], 'a shard')
    const now = this.#deps.catalog.read.jobs.get(this.#deps.job.id)
    if (now !== undefined && isRewrite(now) && now.isCancelled)
      await this.#deps.rewrite.endMutation(must(replicas[0], 'a replica'), this.#deps.stopping)
    if (await this.#ends()) return
    const states = await Promise.all(
      replicas.map(each => this.#deps.rewrite.mutation(each, this.#deps.stopping)),
    )
    if (states.every(state => state === undefined)) {
      const replica = await this.#replica(shard)
      const looked = await this.#deps.rewrite.look(replica, { after: null, to: null }, this.#deps.stopping)
      if (looked.refused !== undefined) return this.#fail(looked.refused)
      if (looked.rows === 0) return await this.#reached(shard, { rows: 1, done: 1, reached: null })
      crashPoint('rewrite.found')
      await this.#deps.rewrite.mutate(replica, this.#deps.stopping)
      crashPoint('rewrite.done')
      this.#deps.onRows(this.#deps.job.kind, looked.rows)
    }
    // One that is down has older rows, which it would show when it returns.
    if (replicas.length < must(topology.replicas[shard], 'a count'))
      throw new Unavailable(
        'cluster_mutation',
        `a replica of shard ${topology.names[shard]} does not answer: the job ends when each has changed its rows`,
      )
    if (states.every(state => state?.isDone === true))
      return await this.#reached(shard, { rows: 1, done: 1, reached: null })
    const problem = states.find(state => (state?.problem ?? '') !== '')?.problem
    if (problem !== undefined) throw new Unavailable('cluster_mutation', `a replica cannot go on: ${problem}`)
    await sleep(LOOK_MS, undefined, { signal: this.#deps.stopping }).catch(() => {}) // it stops
    if (this.#deps.stopping.aborted) throw new Unavailable('stopping', 'Weir is stopping')
  }

  #isDone(shard: number): boolean {
    const { rows, done } = must(this.#shards[shard], 'a shard')
    return done >= rows
  }

  #replica(shard: number): Promise<Replica> {
    return this.#deps.replicaOf(this.#deps.job.poolId, shard, this.#deps.begun.topology, this.#deps.stopping)
  }

  /** True where the job has ended. */
  async #ends(): Promise<boolean> {
    const ends = await endsHere(this.#deps.job, progressOf(this.#shards), this.#deps.catalog)
    if (ends) this.#isOver = true
    return ends
  }

  async #fail(reason: string): Promise<void> {
    this.#isOver = true
    await this.#deps.catalog.change(failJob(this.#deps.job.id, reason, progressOf(this.#shards)))
  }

  async #reached(shard: number, work: ShardWork): Promise<void> {
    this.#shards = this.#shards.map((each, index) => (index === shard ? work : each))
    this.#deps.onStep(progressOf(this.#shards))
    if (monotonicMs() - this.#toldMs < JOB_PROGRESS_MS) return
    this.#toldMs = monotonicMs()
    await this.#deps.catalog.change(reachRewrite(this.#deps.job.id, this.#shards))
  }
}
