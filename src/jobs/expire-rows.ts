/**
 * Retention in a cluster: records that are older than the days of their pool are deleted by a job,
 * which the node that leads creates. (A data folder drops them when it merges segments.) Other days
 * of the pool end the job, whether it has begun or not (catalog/change/change-pool.ts).
 *
 * A rule of ClickHouse's own (TTL) could drop the newest row of a record before an older one, which
 * would then be shown again.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Catalog } from '../catalog/catalog.ts'
import { unchanged } from '../catalog/change/change.ts'
import { isUnfinished, SYSTEM } from '../catalog/change/change-job.ts'
import { createRewriteJob } from '../catalog/change/change-rewrite.ts'
import type { Pool, StoredFilter } from '../catalog/documents/model.ts'
import { RECEIVED_AT } from '../format/schema.ts'
import type { QuestionDeps } from '../query/ask.ts'
import { isBadQuery } from '../query/expression/values.ts'
import type { Filter } from '../query/plan/where.ts'
import { cutoffUs } from '../store/compaction/pick-compaction.ts'
import { wallMs } from '../util/clock.ts'
import { Unavailable } from '../util/errors.ts'
import { errorText, fail, warn } from '../util/say.ts'
import { countRows } from './ask-pool.ts'

const LOOK_MS = 5_000

export interface ExpiryDeps {
  /** Refuses changes when another node does it. */
  readonly catalog: Pick<Catalog, 'change' | 'read'>
  readonly reading: QuestionDeps
  boundary(): Promise<number>
}

/**
 * Looks at each pool once a day and when its days change, until the signal. Events that come when
 * they are too old already stay until the next day.
 */
export async function expireRows(deps: ExpiryDeps, ended: AbortSignal): Promise<void> {
  /** Up to when the rows of a pool were looked at, in us. */
  const looked = new Map<string, number>()
  while (!ended.aborted) {
    for (const pool of deps.catalog.read.pools.all()) {
      if (ended.aborted) return
      try {
        const cutoff = cutoffUs(pool.retentionDays, wallMs())
        if (cutoff === undefined || looked.get(pool.id) === cutoff) continue
        if (await expirePool(pool, cutoff, deps)) looked.set(pool.id, cutoff)
      } catch (error) {
        const what = `retention of the Data Pool ${pool.id} waits for the next look`
        if (error instanceof Unavailable) warn(`${what}: ${error.message}`)
        // A bug. It would end each node that leads, one after the other.
        else fail(`${what}: ${errorText(error as Error)}`)
      }
    }
    await sleep(LOOK_MS, undefined, { signal: ended, ref: false }).catch(() => {}) // it ends
  }
}

/** False where the pool has a job, which ends first. */
async function expirePool(
  pool: Pool,
  cutoff: number,
  { catalog, reading, boundary }: ExpiryDeps,
): Promise<boolean> {
  if (catalog.read.jobs.of(pool.id).some(isUnfinished)) return false
  const old: StoredFilter & Filter = {
    column: pool.timestamp ?? RECEIVED_AT,
    operator: 'LESS_THAN',
    value: new Date(cutoff / 1000).toISOString(),
    and: [],
    or: [],
  }
  const count = await countRows(pool, { filters: [old], filterSql: null }, SYSTEM, { catalog, reading })
  // The timestamp of a pool never changes.
  if (isBadQuery(count)) throw new Error(count.badRequest)
  if (count === 0) return true
  const asked = {
    kind: 'DELETE_RECORDS',
    dataPool: pool.id,
    filters: [old],
    filterSql: null,
    set: [],
  } as const
  const create = createRewriteJob({ ...asked, beforeSequence: await boundary() }, SYSTEM)
  // The days may be others by now: counting takes its time.
  await catalog.change((memory, nowMs) =>
    memory.pools.get(pool.id)?.retentionDays === pool.retentionDays ? create(memory, nowMs) : unchanged(null),
  )
  return true
}
