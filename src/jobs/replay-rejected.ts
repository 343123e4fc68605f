/**
 * The runner of jobs that take rejected events in again, page by page in the order in which they
 * were refused.
 *
 *   1. Read the next rejected events that match.
 *   2. Post them to their pool, by the ordinary way. What is refused again stays as it is.
 *   3. Write the counts, the position, and the ids of those that were accepted.
 *   4. Delete these from the pool of rejected events.
 *
 * After a kill the job goes on at the position, and first repeats step 4, which changes nothing
 * where it was done. So counts are exact. A kill between 2 and 3 posts a page again: it changes
 * nothing in a pool whose key identifies its records. In another pool up to PAGE_ROWS events are
 * stored twice.
 *
 *   W-9  One page is in memory. At most JOBS_RUNNING_MAX jobs run at once.
 */
import type { Catalog } from '../catalog/catalog.ts'
import { DELETED, endCancelled, failJob, succeedJob } from '../catalog/change/change-job.ts'
import { progressReplay, startReplay } from '../catalog/change/change-replay.ts'
import type { Pool, ReplayJob, ReplayProgress } from '../catalog/documents/model.ts'
import { rejectedPool } from '../catalog/rejected-pool.ts'
import type { QuestionDeps } from '../query/ask.ts'
import { type BadQuery, isBadQuery } from '../query/expression/values.ts'
import { dataGrid } from '../query/plan/data-grid.ts'
import type { PoolReference } from '../query/plan/question.ts'
import type { Filter } from '../query/plan/where.ts'
import { assert, must } from '../util/assert.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { askPool, countRows } from './ask-pool.ts'
import type { JobRunner } from './run-jobs.ts'

/** Rejected events of a page: 13 MB where each has the longest text that is kept. */
const PAGE_ROWS = 200
const COLUMNS = ['id', 'text', 'content_type', 'element_index', 'is_truncated', 'context']

/** A rejected event on its way into its pool again. */
export interface Replayed {
  readonly text: string
  readonly contentType: string | null
  /** It was refused as a whole request: all of its events are stored, or none. */
  readonly isRequest: boolean
  /** What columns read of the request, as JSON; null where they read nothing. */
  readonly context: string | null
}

/** Why an event was refused again. */
export interface RefusedAgain {
  readonly code: string
  readonly message: string
}

/** The way into pools. Rejects with Unavailable where the machine refuses for now. */
export interface ReplayPort {
  /** Posts events in order. Resolves when they are durable: an error or undefined for each. */
  post(pool: Pool, events: readonly Replayed[]): Promise<readonly (RefusedAgain | undefined)[]>
  /** Deletes rows of the pool of rejected events. */
  remove(ids: readonly string[]): Promise<void>
}

interface ReplayDeps {
  readonly catalog: Pick<Catalog, 'change' | 'pool' | 'read'>
  readonly reading: QuestionDeps
  /** Throws Unavailable before the server listens. */
  port(): ReplayPort
}

export function replayRunner(deps: ReplayDeps): JobRunner {
  return async (created, stopping) => {
    assert(created.kind === 'REPLAY_REJECTED', 'the job takes rejected events in again')
    const { catalog } = deps
    const pool = catalog.pool(created.poolId)
    let job: ReplayJob | undefined = created
    if (job.status === 'CREATED') job = pool && (await start(job, deps))
    if (job?.status === 'IN_PROGRESS' && pool !== undefined) await deps.port().remove(job.done.removing)
    while (job?.status === 'IN_PROGRESS' && !stopping.aborted) {
      if (job.isCancelled) {
        await catalog.change(endCancelled(job.id, job.progress))
        return
      }
      job = pool === undefined ? undefined : await replayPage(job, pool, deps)
    }
    if (pool === undefined || catalog.pool(pool.id) === undefined)
      await catalog.change(failJob(created.id, DELETED))
  }
}

/** Undefined where the job has FAILED. */
async function start(job: ReplayJob, deps: ReplayDeps): Promise<ReplayJob | undefined> {
  const last = await readPage(job, deps, 'DESC', 1)
  if (isBadQuery(last)) return fail(job, last, deps)
  const total = await count(job, deps)
  if (isBadQuery(total)) return fail(job, total, deps)
  const lastId = last[0]?.[0] ?? ''
  return (await deps.catalog.change(startReplay(job.id, lastId, total))) as ReplayJob
}

async function fail(job: ReplayJob, { badRequest }: BadQuery, { catalog }: ReplayDeps): Promise<undefined> {
  await catalog.change(failJob(job.id, badRequest))
}

/** One page. Returns the job after it; undefined where it has ended. */
async function replayPage(job: ReplayJob, pool: Pool, deps: ReplayDeps): Promise<ReplayJob | undefined> {
  const { catalog } = deps
  const rows = job.lastId === '' ? [] : await readPage(job, deps, 'ASC', PAGE_ROWS)
  if (isBadQuery(rows)) return fail(job, rows, deps)
  const last = rows.at(-1)
  if (last === undefined) {
    // It SUCCEEDED although some events may be refused again: `done` counts them.
    await catalog.change(succeedJob(job.id))
    return undefined
  }
  const whole = rows.filter(([, text, , , isTruncated]) => text !== null && isTruncated !== 'true')
  const outcomes = await deps.port().post(pool, whole.map(eventOf))
  crashPoint('replay.posted')
  const ids = whole.map(([id]) => must(id, 'the id of a rejected event'))
  const removing = ids.filter((_, index) => outcomes[index] === undefined)
  const refused = outcomes.filter(outcome => outcome !== undefined)
  const { done } = job
  const now: ReplayProgress = {
    ...done,
    accepted: done.accepted + removing.length,
    refused: done.refused + refused.length,
    truncated: done.truncated + rows.length - whole.length,
    firstRefusal: done.firstRefusal ?? refused[0] ?? null,
    position: must(last[0], 'the id of a rejected event'),
    removing,
  }
  const told = await catalog.change(progressReplay(job.id, now))
  crashPoint('replay.counted')
  await deps.port().remove(removing)
  return told as ReplayJob
}

type Row = readonly (string | null)[]

function eventOf([, text, contentType, index, , context]: Row): Replayed {
  return {
    text: text ?? '',
    contentType: contentType ?? null,
    isRequest: index === null,
    context: context ?? null,
  }
}

/** Rejected events behind the position, at most `first`. */
async function readPage(
  job: ReplayJob,
  deps: ReplayDeps,
  sort: 'ASC' | 'DESC',
  first: number,
): Promise<readonly Row[] | BadQuery> {
  const page = { columns: COLUMNS, orderByColumn: 1, sort, first, ...selectionOf(job) }
  const inputOf = (dataPool: PoolReference) => ({ ...page, dataPool })
  const answer = await askPool(dataGrid, rejectedOf(deps), inputOf, job.createdBy, deps)
  return isBadQuery(answer) ? answer : answer.rows
}

/** Jobs ask as the application that made them, and wait in its line. */
function count(job: ReplayJob, deps: ReplayDeps): Promise<number | BadQuery> {
  return countRows(rejectedOf(deps), selectionOf(job), job.createdBy, deps)
}

function rejectedOf({ catalog }: ReplayDeps): Pool {
  return must(rejectedPool(catalog.read), 'the pool of rejected events')
}

/** The rejected events of the pool that the job asks for and has not looked at. */
function selectionOf({ input, lastId, done }: ReplayJob) {
  const own = [
    condition('data_pool_id', 'EQUALS', input.rejectedBy),
    condition('id', 'GREATER_THAN', done.position),
    ...(lastId === '' ? [] : [condition('id', 'LESS_THAN_OR_EQUAL_TO', lastId)]),
  ]
  return { filters: [...own, ...(input.filters as readonly Filter[])], filterSql: input.filterSql }
}

function condition(column: string, operator: Filter['operator'], value: string): Filter {
  return { column, operator, value, and: [], or: [] }
}
