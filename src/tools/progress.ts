/**
 * Progress of a long command: a bar where standard error is a terminal, a line now and then where it is not.
 *
 * A bar hides the cursor and turns line wrapping off; an interrupt (interrupt.ts) gives the terminal back as it was.
 */
import type * as CliProgress from 'cli-progress'
import { monotonicMs } from '../util/clock.ts'
import { PROGRESS_LINE_MS } from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import { note } from '../util/say.ts'
import { whenInterrupted } from './interrupt.ts'

export interface Progress {
  /** `done` of `of` units are done; `of` may grow. `what` names the one under way. */
  step(done: number, of: number, what?: string): void
  /** Takes the bar away. */
  end(): void
}

/** @param task what is done, e.g. `checking segments` */
export function createProgress(task: string): Progress {
  return process.stderr.isTTY === true ? bar(task) : lines(task)
}

function bar(task: string): Progress {
  const { SingleBar } = loadPackage('cli-progress') as typeof CliProgress
  const shown = new SingleBar({
    format: `${task} [{bar}] {value}/{total} {what}`,
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
    linewrap: false,
  })
  let forget: (() => void) | undefined
  const end = () => {
    shown.stop()
    forget?.()
  }
  return {
    step: (done, of, what = '') => {
      if (forget !== undefined) shown.setTotal(of)
      else {
        forget = whenInterrupted(end)
        shown.start(of, done, { what })
      }
      shown.update(done, { what })
    },
    end,
  }
}

/** Nothing for a task that is done before the first line is due. */
function lines(task: string): Progress {
  let told = monotonicMs()
  return {
    step: (done, of, what = '') => {
      if (monotonicMs() - told < PROGRESS_LINE_MS) return
      told = monotonicMs()
      note(`${task}: ${done} of ${of}${what === '' ? '' : ` (${what})`}`)
    },
    end: () => undefined,
  }
}
