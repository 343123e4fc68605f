/**
 * The runner of jobs that add a column. Existing rows are null in the column, so no row is written
 * again: the job is the cut-over, beside which ingest goes on.
 *
 *   CREATED      in a cluster the tables get the column. Then the cut-over: ONE change of the
 *                catalog adds the column with a schema version, and makes the job IN_PROGRESS with
 *                the sequence of the cut-over
 *   IN_PROGRESS  the column is there: the job SUCCEEDED
 */
import type { Catalog } from '../catalog/catalog.ts'
import { poolWithColumn, startAddColumn } from '../catalog/change/change-add-column.ts'
import { failJob, succeedJob } from '../catalog/change/change-job.ts'
import type { AddColumnJob, Pool } from '../catalog/documents/model.ts'
import { assert, TABLES_REFUSED, Unavailable } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import type { JobRunner } from './run-jobs.ts'

/** Times that the tables may refuse a column, once a second. A server may be short of something. */
const TRIES_MAX = 30

interface AddColumnDeps {
  readonly catalog: Pick<Catalog, 'change' | 'pool'>
  /**
   * Runs `change` at a sequence from which the catalog's schema of then counts. @throws Unavailable
   */
  cutOver<T>(pool: Pool, change: (sequence: number) => Promise<T>): Promise<T>
  /** Gives the tables the columns of a pool; absent where it has none. @throws Unavailable */
  addToTables?(pool: Pool): Promise<void>
}

export function addColumnRunner({ catalog, cutOver, addToTables }: AddColumnDeps): JobRunner {
  const refusals = new Map<string, number>()
  /** True where the tables have refused the column too often. */
  const isRefused = async (job: AddColumnJob, pool: Pool): Promise<boolean> => {
    const widened = poolWithColumn(pool, job)
    if ('badRequest' in widened) return false // the cut-over says so
    try {
      await addToTables?.(widened)
      return false
    } catch (error) {
      if (!(error instanceof Unavailable && error.code === TABLES_REFUSED)) throw error
      const tries = (refusals.get(job.id) ?? 0) + 1
      refusals.set(job.id, tries)
      if (tries < TRIES_MAX) throw error
      refusals.delete(job.id)
      return true
    }
  }
  return async job => {
    assert(job.kind === 'ADD_COLUMN', 'the job adds a column')
    if (job.status === 'CREATED') {
      const pool = catalog.pool(job.poolId)
      const start = (sequence: number) => catalog.change(startAddColumn(job.id, sequence))
      const started =
        pool !== undefined && (await isRefused(job, pool))
          ? { badRequest: `The tables refused the column ${TRIES_MAX} times: the log of the node says why.` }
          : // The job of a deleted pool FAILED, whatever the sequence.
            await (pool === undefined ? start(0) : cutOver(pool, start))
      if ('badRequest' in started) await catalog.change(failJob(job.id, started.badRequest))
      crashPoint('job.started')
    }
    await catalog.change(succeedJob(job.id))
    crashPoint('job.succeeded')
  }
}
