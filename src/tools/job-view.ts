/**
 * Jobs as people read them: a table, lines, and bars on a terminal. Names and errors are texts of
 * users, so each is made printable.
 */
import { JOB_KINDS } from '../catalog/documents/model.ts'
import { note, printable, say } from '../util/say.ts'
import { type JobsView, percentOf } from './follow-jobs.ts'
import type { ShownJob } from './manage-jobs.ts'
import { createBars } from './progress.ts'
import { tableLines } from './text-tables.ts'

/** Bars that `weir jobs --follow` draws. Further jobs are counted. */
const FOLLOW_BARS_MAX = 10

/** Lines of a table, one for each job. */
export function jobTable(jobs: readonly ShownJob[]): string[] {
  return tableLines(jobs, [
    ['job', job => job.id],
    ['kind', kindOf],
    ['pool', poolOf],
    ['status', statusOf],
    ['progress', job => `${percentOf(job)} %`],
    ['created', job => job.createdAt],
    ['error', job => job.error ?? ''],
  ])
}

/** One job in one line. */
export function jobText(job: ShownJob): string {
  const error = job.error === null ? '' : `: ${job.error}`
  return printable(`${job.id} ${kindOf(job)} ${poolOf(job)} ${statusOf(job)} ${percentOf(job)} %${error}`)
}

/** A server of a later version may have kinds that this one does not know. */
function kindOf({ kind }: ShownJob): string {
  return Object.hasOwn(JOB_KINDS, kind) ? JOB_KINDS[kind as keyof typeof JOB_KINDS] : kind
}

function poolOf({ pool, poolId }: ShownJob): string {
  return pool ?? `${poolId} (deleted)`
}

function statusOf({ status, isCancelled }: ShownJob): string {
  return isCancelled ? `${status} (cancelled)` : status
}

/** Prints a line at each change. */
export function linesView(isJson: boolean): JobsView {
  return {
    changed: job => say(isJson ? printable(JSON.stringify(job)) : jobText(job)),
    unfinished: () => undefined,
    note: text => note(printable(text)),
    end: () => undefined,
  }
}

/** Redraws a bar for each unfinished job, and prints a line for each that has ended. */
export function barsView(): JobsView {
  const bars = createBars()
  return {
    changed: job => {
      if (job.status !== 'SUCCEEDED' && job.status !== 'FAILED') return
      bars.clear()
      say(jobText(job))
    },
    unfinished: jobs => {
      const isRunning = ({ status }: ShownJob) => status === 'IN_PROGRESS'
      const all = [...jobs.filter(isRunning), ...jobs.filter(job => !isRunning(job))]
      const shown = all.slice(0, FOLLOW_BARS_MAX)
      const more = all.length - shown.length
      bars.show(
        shown.map((job, index) => ({
          label: printable(`${job.id} ${kindOf(job)} ${poolOf(job)}`),
          progress: job.progress,
          note: more > 0 && index === shown.length - 1 ? `${statusOf(job)}, and ${more} more` : statusOf(job),
        })),
      )
    },
    note: text => {
      bars.clear()
      note(printable(text))
    },
    end: () => bars.clear(),
  }
}
