/**
 * Follows the unfinished jobs of a server until none is left, by asking at an interval.
 *
 * Jobs are on the server's disk, so a restart of the server changes nothing but the time: the
 * follower waits until the server answers again, for a limited time. A job that ended between two
 * answers is asked for by its id.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { monotonicMs } from '../util/clock.ts'
import { CannotRun } from '../util/errors.ts'
import { JOBS_LISTED_MAX } from '../util/limits.ts'
import type { JobsPage, ListRequest, ShownJob } from './manage-jobs.ts'
import { NoAnswer } from './running-server.ts'

/** Interval at which `weir jobs --follow` asks. A job's progress changes as often. */
const FOLLOW_POLL_MS = 1_000
/** Time for which `weir jobs --follow` waits for a server that does not answer. */
const FOLLOW_LOST_MS_MAX = 600_000

/** Gets one page of jobs. Rejects with NoAnswer where the server may answer later. */
export type AskJobs = (request: ListRequest) => Promise<JobsPage>

export interface JobsView {
  /** A job is new to the follower, or is not as it was. */
  changed(job: ShownJob): void
  /** Called after each answer, with all unfinished jobs. */
  unfinished(jobs: readonly ShownJob[]): void
  /** A sentence about the server. */
  note(text: string): void
  end(): void
}

interface Follow {
  readonly ask: AskJobs
  /** Id or unique name; "": all pools. */
  readonly pool: string
  readonly view: JobsView
  /** Default FOLLOW_POLL_MS; tests set less. */
  readonly pollMs?: number
  /** Default FOLLOW_LOST_MS_MAX; tests set less. */
  readonly lostMsMax?: number
}

/** All jobs that a request asks for, page by page; the newest is the last. */
export async function allJobs(ask: AskJobs, request: ListRequest): Promise<readonly ShownJob[]> {
  let all: readonly ShownJob[] = []
  for (let before: string | null = ''; before !== null; ) {
    const page: JobsPage = await ask({ ...request, before })
    all = [...page.jobs, ...all]
    before = page.before
  }
  return all
}

/**
 * Returns how many jobs were followed to their end, and how many of them FAILED. Rejects with
 * CannotRun where the server refuses, or does not answer for too long.
 */
export async function followJobs({ ask, pool, view, ...options }: Follow) {
  const { pollMs = FOLLOW_POLL_MS, lostMsMax = FOLLOW_LOST_MS_MAX } = options
  /** When the server stopped to answer; undefined while it answers. */
  let lostAtMs: number | undefined
  let known: ReadonlyMap<string, ShownJob> = new Map()
  let followed = 0
  let failed = 0
  for (let name = pool, isFirst = true; ; isFirst = false) {
    const answer = await look(ask, name, known).catch(error => {
      if (isFirst || !(error instanceof NoAnswer)) throw error
      const nowMs = monotonicMs()
      if (lostAtMs === undefined)
        view.note(`${error.message}; its jobs go on when it runs again, and so does this command`)
      lostAtMs ??= nowMs
      if (nowMs - lostAtMs <= lostMsMax) return undefined
      throw new CannotRun(`no answer for ${Math.round(lostMsMax / 1000)} s: ${error.message}`)
    })
    if (answer !== undefined) {
      if (lostAtMs !== undefined) view.note('the server answers again')
      lostAtMs = undefined
      const { unfinished, ended } = answer
      for (const job of [...ended, ...unfinished]) if (isNews(known.get(job.id), job)) view.changed(job)
      followed += ended.length
      failed += ended.filter(({ status }) => status === 'FAILED').length
      view.unfinished(unfinished)
      if (unfinished.length === 0) return { followed, failed }
      // By its id the pool is found also after its deletion.
      if (pool !== '') name = unfinished[0]!.poolId
      known = new Map(unfinished.map(job => [job.id, job]))
    }
    await sleep(pollMs)
  }
}

/** The unfinished jobs of a pool, and those of `known` that have ended since. */
async function look(ask: AskJobs, pool: string, known: ReadonlyMap<string, ShownJob>) {
  const list = { action: 'list', before: '' } as const
  const unfinished = await allJobs(ask, { ...list, pool, status: ['CREATED', 'IN_PROGRESS'], jobs: [] })
  const listed = new Set(unfinished.map(({ id }) => id))
  const left = [...known.keys()].filter(id => !listed.has(id))
  const ended: ShownJob[] = []
  for (let from = 0; from < left.length; from += JOBS_LISTED_MAX) {
    const ids = left.slice(from, from + JOBS_LISTED_MAX)
    ended.push(...(await allJobs(ask, { ...list, pool: '', status: [], jobs: ids })))
  }
  return { unfinished, ended }
}

/** True where people see a difference. */
function isNews(before: ShownJob | undefined, now: ShownJob): boolean {
  if (before === undefined || percentOf(before) !== percentOf(now)) return true
  return (['status', 'pool', 'isCancelled', 'error'] as const).some(field => before[field] !== now[field])
}

/** Whole percents; 100 only at the end. */
export function percentOf({ progress }: ShownJob): number {
  return Math.floor(100 * Math.min(1, Math.max(0, progress)))
}
