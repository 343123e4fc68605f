/**
 * The runner of jobs that add a column. Existing rows are null in the column, so no row is written
 * again: the job is the cut-over, beside which ingest goes on.
 *
 *   CREATED      cut-over: ONE change of the catalog adds the column with a schema version, and
 *                makes the job IN_PROGRESS with the sequence of the cut-over
 *   IN_PROGRESS  the column is there: the job SUCCEEDED
 */
import type { Catalog } from '../catalog/catalog.ts'
import { startAddColumn } from '../catalog/change/change-add-column.ts'
import { succeedJob } from '../catalog/change/change-job.ts'
import type { Pool } from '../catalog/documents/model.ts'
import { crashPoint } from '../util/fault-injection.ts'
import type { JobRunner } from './run-jobs.ts'

interface AddColumnDeps {
  readonly catalog: Pick<Catalog, 'change' | 'pool'>
  /**
   * Runs `change` at a sequence from which the catalog's schema of then counts. @throws Unavailable
   */
  cutOver<T>(pool: Pool, change: (sequence: number) => Promise<T>): Promise<T>
}

export function addColumnRunner({ catalog, cutOver }: AddColumnDeps): JobRunner {
  return async job => {
    if (job.status === 'CREATED') {
      const pool = catalog.pool(job.poolId)
      const start = (sequence: number) => catalog.change(startAddColumn(job.id, sequence))
      // The job of a deleted pool FAILED, whatever the sequence.
      await (pool === undefined ? start(0) : cutOver(pool, start))
      crashPoint('job.started')
    }
    await catalog.change(succeedJob(job.id))
    crashPoint('job.succeeded')
  }
}
