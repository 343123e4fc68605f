/**
 * The job that adds a column to a pool, and the one change that adds it: columns, schema version
 * and job change together.
 */
import type { BadRequest, ColumnInput } from '../documents/catalog-types.ts'
import { keys } from '../documents/memory.ts'
import { type AddColumnInput, type AddColumnJob, type Pool, versionOf } from '../documents/model.ts'
import { type Decide, unchanged } from './change.ts'
import { creatingJob, DELETED, failed, theJob } from './change-job.ts'
import { columnsProblem, orNull, storedColumn } from './rules.ts'

/** CreateAddColumnToDataPoolJobInput of the schema. */
export interface NewAddColumnJob {
  readonly dataPool: string
  readonly columnName: string
  readonly columnType: string
  readonly columnClickHouseType?: string | null | undefined
  readonly jsonProperty?: string | null | undefined
  readonly coerce?: boolean | null | undefined
}

export function createAddColumnJob(input: NewAddColumnJob, by: string): Decide<AddColumnJob | null> {
  return creatingJob<AddColumnJob>(input.dataPool, by, (pool, common, _, unfinished) => {
    const given: AddColumnInput = {
      columnName: input.columnName,
      columnType: input.columnType,
      columnClickHouseType: input.columnClickHouseType ?? null,
      jsonProperty: input.jsonProperty ?? null,
      ...(input.coerce === true ? { coerce: input.coerce } : {}),
    }
    const awaited = unfinished
      .filter(job => job.kind === 'ADD_COLUMN' && job.poolId === pool.id && job.status === 'CREATED')
      .map(one => columnOf(pool, (one as AddColumnJob).input))
    const badRequest = additionProblem(pool, awaited, given)
    if (badRequest !== undefined) return { badRequest }
    return { ...common, kind: 'ADD_COLUMN', input: given, cutOverSequence: null }
  })
}

/**
 * The result FAILED where the pool is gone or has the column by now. @param sequence the first one
 * that is parsed with the new schema (src/app/cut-over.ts)
 */
export function startAddColumn(jobId: string, sequence: number): Decide<AddColumnJob> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId, 'ADD_COLUMN')
    if (job.status !== 'CREATED') return unchanged(job)
    const pool = memory.pools.get(job.poolId)
    if (pool === undefined) return failed(job, DELETED, nowMs)
    const widened = poolWithColumn(pool, job)
    if ('badRequest' in widened) return failed(job, widened.badRequest, nowMs)
    const at = new Date(nowMs).toISOString()
    const changed: Pool = { ...widened, modifiedAt: at, modifiedBy: job.createdBy }
    const started: AddColumnJob = {
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

/** The pool as it is with the column of a job; BadRequest where it cannot have it. */
export function poolWithColumn(pool: Pool, { input }: AddColumnJob): Pool | BadRequest {
  const badRequest = additionProblem(pool, [], input)
  if (badRequest !== undefined) return { badRequest }
  const columns = [...pool.columns, storedColumn(columnOf(pool, input))]
  return { ...pool, columns, planVersion: pool.planVersion + 1 }
}

/** Generic pools read the property of the column's name. An added column is always nullable. */
function columnOf(pool: Pool, input: AddColumnInput): ColumnInput {
  const jsonProperty = isGeneric(pool) ? orNull(input.jsonProperty) : input.jsonProperty
  return {
    name: input.columnName,
    jsonProperty: jsonProperty ?? input.columnName,
    type: input.columnType,
    clickHouseType: input.columnClickHouseType,
    nullable: true,
    coerce: input.coerce,
  }
}

function isGeneric({ webhookId }: Pool): boolean {
  return webhookId !== null
}

/** @param awaited columns that waiting jobs add before it */
function additionProblem(
  pool: Pool,
  awaited: readonly ColumnInput[],
  input: AddColumnInput,
): string | undefined {
  // A column that takes none of the server's values would refuse its rows.
  if (pool.builtIn !== undefined)
    return 'The Data Pool of rejected events has the columns of its server alone.'
  if (!isGeneric(pool)) {
    if (input.jsonProperty === null) return `The column "${input.columnName}" needs a jsonProperty.`
    if (input.columnType === 'CLICKHOUSE')
      return `The column "${input.columnName}" has the type CLICKHOUSE, which a webhook's column cannot have.`
  }
  return columnsProblem([columnOf(pool, input)], [...pool.columns, ...awaited], pool.eventsPath)
}
