/**
 * Jobs as people read them: a table, lines, and bars on a terminal. Names and errors are texts of
 * users, so each is made printable.
 */
import type * as CliProgress from 'cli-progress'
import { JOB_KINDS } from '../catalog/documents/model.ts'
import { loadPackage } from '../util/load-package.ts'
import { note, printable, say } from '../util/say.ts'
import { type JobsView, percentOf } from './follow-jobs.ts'
import { whenInterrupted } from './interrupts.ts'
import type { ShownJob } from './manage-jobs.ts'
import { tableLines } from './text-tables.ts'

/** Bars that `weir jobs --follow` draws. Further jobs are counted. */
const FOLLOW_BARS_MAX = 10

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
  const { MultiBar } = loadPackage('cli-progress') as typeof CliProgress
  let bars: CliProgress.SingleBar[] = []
  let drawn = ''
  let clear = () => {}
  const draw = (labels: readonly string[]) => {
    const multi = new MultiBar({
      format: '{label} [{bar}] {percentage} % {note}',
      stream: process.stdout as unknown as NodeJS.WritableStream,
      hideCursor: true,
      clearOnComplete: true,
      linewrap: false,
      gracefulExit: false, // ours is below
    })
    const stop = () => multi.stop()
    const forget = whenInterrupted(stop)
    bars = labels.map(label => multi.create(100, 0, { label, note: '' }))
    clear = () => {
      stop()
      forget()
      drawn = ''
      clear = () => {}
    }
  }
  return {
    changed: job => {
      if (job.status !== 'SUCCEEDED' && job.status !== 'FAILED') return
      clear() // so that a line can be printed
      say(jobText(job))
    },
    unfinished: jobs => {
      const isRunning = ({ status }: ShownJob) => status === 'IN_PROGRESS'
      const all = [...jobs.filter(isRunning), ...jobs.filter(job => !isRunning(job))]
      const shown = all.slice(0, FOLLOW_BARS_MAX)
      const labels = shown.map(job => printable(`${job.id} ${kindOf(job)} ${poolOf(job)}`))
      if (labels.join('\n') !== drawn) {
        clear()
        if (labels.length > 0) draw(labels)
        drawn = labels.join('\n')
      }
      const more = all.length - shown.length
      for (const [index, job] of shown.entries()) {
        const others = more > 0 && index === shown.length - 1 ? `, and ${more} more` : ''
        bars[index]?.update(percentOf(job), { note: `${statusOf(job)}${others}` })
      }
    },
    note: text => {
      clear()
      note(printable(text))
    },
    end: () => clear(),
  }
}
