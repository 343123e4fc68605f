/**
 * The newest job of each pool that changes its rows, as this node's catalog knows it. Jobs that
 * ended count too: rows that were on their way when a job was made may come after its end.
 */
import { isRewrite } from '../catalog/change/change-rewrite.ts'
import type { Entry } from '../catalog/documents/catalog-types.ts'
import type { Job } from '../catalog/documents/model.ts'
import { versionOfJob } from './keeper/versions.ts'

export class JobVersions {
  readonly #boundaries = new Map<string, number>()

  /** Takes what the catalog has, and what is put into it later. */
  take(entries: readonly Entry[]): void {
    for (const [key, value] of entries) {
      if (!key.startsWith('job/')) continue
      const job = value as Job
      if (!isRewrite(job)) continue
      const known = this.#boundaries.get(job.poolId) ?? 0
      this.#boundaries.set(job.poolId, Math.max(known, job.beforeSequence))
    }
  }

  /** The version of the rows that the job changes; 0n where there was none. */
  of(poolId: string): bigint {
    const boundary = this.#boundaries.get(poolId)
    return boundary === undefined ? 0n : versionOfJob(boundary)
  }
}
