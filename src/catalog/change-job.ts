/**
 * Changes of jobs, and the one change that adds a column to a pool.
 *
 *   CREATED → IN_PROGRESS → SUCCEEDED, or FAILED from either of the first two
 *
 * Each function may be run again after a crash: a step that a job has taken already changes
 * nothing.
 */

import { must } from '../util/assert.ts'
import { newId } from '../util/ids.ts'
import { JOBS_ENDED_MAX, JOBS_UNFINISHED_MAX } from '../util/limits.ts'
import type { ColumnInput } from './catalog-types.ts'
import { type Decide, type Decision, unchanged } from './change.ts'
import { keys, type Memory } from './memory.ts'
import { type AddColumnInput, type Job, type JobStatus, type Pool, versionOf } from './model.ts'
import { columnsProblem, givenColumn, orNull, storedColumn } from './rules.ts'

/** CreateAddColumnToDataPoolJobInput of the schema. */
export interface NewAddColumnJob {
  /** The pool's id. */
  readonly dataPool: string
  readonly columnName: string
  readonly columnType: string
  readonly columnClickHouseType?: string | null | undefined
  readonly jsonProperty?: string | null | undefined
}

/** True for a job that still has work to do. */
export function isUnfinished({ status }: { readonly status: JobStatus }): boolean {
  return status === 'CREATED' || status === 'IN_PROGRESS'
}

/** Makes a job that adds a column. The result is null where there is no such pool. */
export function createAddColumnJob(input: NewAddColumnJob, by: string): Decide<Job | null> {
  return (memory, nowMs) => {
    const pool = memory.pools.get(input.dataPool)
    if (pool === undefined) return unchanged(null)
    const given: AddColumnInput = {
      columnName: input.columnName,
      columnType: input.columnType,
      columnClickHouseType: input.columnClickHouseType ?? null,
      jsonProperty: input.jsonProperty ?? null,
    }
    const jobs = memory.jobs.all()
    const unfinished = jobs.filter(isUnfinished)
    const awaited = unfinished
      .filter(({ poolId, status }) => poolId === pool.id && status === 'CREATED')
      .map(one => columnOf(pool, one.input))
    const problem = additionProblem(pool, awaited, given) ?? tooManyProblem(unfinished.length)
    if (problem !== undefined) return { badRequest: problem }
    const at = new Date(nowMs).toISOString()
    const job: Job = {
      id: newId('DPJ', nowMs),
      kind: 'ADD_COLUMN',
      poolId: pool.id,
      status: 'CREATED',
      progress: 0,
      error: null,
      createdAt: at,
      createdBy: by,
      modifiedAt: at,
      modifiedBy: by,
      startedAt: null,
      succeededAt: null,
      failedAt: null,
      input: given,
      cutOverSequence: null,
    }
    const removes = surplusOf(jobs).map(({ id }) => keys.job(id))
    return { puts: [[keys.job(job.id), job]], removes, result: job }
  }
}

/**
 * Adds the column of a CREATED job to its pool: columns, schema version and job change together.
 * The result is the job, which FAILED where the pool is gone or has such a column by now.
 * @param sequence the first one that is parsed with the new schema (src/app/cut-over.ts)
 */
export function startAddColumn(jobId: string, sequence: number): Decide<Job> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId)
    if (job.status !== 'CREATED') return unchanged(job)
    const pool = memory.pools.get(job.poolId)
    if (pool === undefined) return failed(job, DELETED, nowMs)
    const problem = additionProblem(pool, [], job.input)
    if (problem !== undefined) return failed(job, problem, nowMs)
    const at = new Date(nowMs).toISOString()
    const changed: Pool = {
      ...pool,
      columns: [...pool.columns, storedColumn(columnOf(pool, job.input))],
      planVersion: pool.planVersion + 1,
      modifiedAt: at,
      modifiedBy: job.createdBy,
    }
    const started: Job = {
      ...job,
      status: 'IN_PROGRESS',
      progress: 0.5,
      modifiedAt: at,
      startedAt: at,
      cutOverSequence: sequence,
    }
    return {
      puts: [
        [keys.pool(pool.id), changed],
        [keys.schema(pool.number, changed.planVersion), versionOf(changed)],
        [keys.job(job.id), started],
      ],
      removes: [],
      result: started,
    }
  }
}

/** Ends a job that is IN_PROGRESS. The result is the job, which FAILED where its pool is gone. */
export function succeedJob(jobId: string): Decide<Job> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId)
    if (job.status !== 'IN_PROGRESS') return unchanged(job)
    if (memory.pools.get(job.poolId) === undefined) return failed(job, DELETED, nowMs)
    const at = new Date(nowMs).toISOString()
    return ended({ ...job, status: 'SUCCEEDED', progress: 1, modifiedAt: at, succeededAt: at })
  }
}

const DELETED = 'The Data Pool was deleted before the job ended.'

function failed(job: Job, error: string, nowMs: number): Decision<Job> {
  const at = new Date(nowMs).toISOString()
  return ended({ ...job, status: 'FAILED', error, modifiedAt: at, failedAt: at })
}

function ended(job: Job): Decision<Job> {
  return { puts: [[keys.job(job.id), job]], removes: [], result: job }
}

/** A job is removed from the catalog only after it ended, so a running job finds its document. */
function theJob(memory: Memory, jobId: string): Job {
  return must(memory.jobs.get(jobId), `job ${jobId}`)
}

/**
 * Columns of generic pools read the property of their name. A column that is added is nullable,
 * also where its ClickHouse type is not: clients send the two apart.
 */
function columnOf(pool: Pool, input: AddColumnInput): ColumnInput {
  const jsonProperty = isGeneric(pool) ? orNull(input.jsonProperty) : input.jsonProperty
  return {
    name: input.columnName,
    jsonProperty: jsonProperty ?? input.columnName,
    type: input.columnType,
    clickHouseType: input.columnClickHouseType,
    nullable: true,
  }
}

function isGeneric({ webhookId }: Pool): boolean {
  return webhookId !== null
}

/**
 * The problem with a column that a pool is to get.
 * @param awaited columns that waiting jobs add before it
 */
function additionProblem(
  pool: Pool,
  awaited: readonly ColumnInput[],
  input: AddColumnInput,
): string | undefined {
  if (!isGeneric(pool)) {
    if (input.jsonProperty === null) return `The column "${input.columnName}" needs a jsonProperty.`
    if (input.columnType === 'CLICKHOUSE')
      return `The column "${input.columnName}" has the type CLICKHOUSE, which a webhook's column cannot have.`
  }
  return columnsProblem([...pool.columns.map(givenColumn), ...awaited, columnOf(pool, input)])
}

function tooManyProblem(unfinished: number): string | undefined {
  if (unfinished < JOBS_UNFINISHED_MAX) return undefined
  return `${unfinished} jobs are not finished, which is the limit: try again when some have ended.`
}

/** The oldest ended jobs beyond the number that stays, with room for one more. */
function surplusOf(jobs: readonly Job[]): readonly Job[] {
  const ended = jobs.filter(job => !isUnfinished(job))
  return ended.slice(0, Math.max(0, ended.length + 1 - JOBS_ENDED_MAX))
}
