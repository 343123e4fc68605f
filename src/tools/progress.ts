/**
 * Progress of a command: a bar where standard error is a terminal, and a line every few seconds
 * where it is not. A bar hides the cursor and turns line wrapping off, so an interrupt must restore
 * the terminal.
 */
import type * as CliProgress from 'cli-progress'
import { monotonicMs } from '../util/clock.ts'
import { MiB } from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import { note, printable } from '../util/say.ts'
import type { CopyProgress } from './backup/copy-file.ts'
import { whenInterrupted } from './interrupts.ts'

/** Interval of a command's progress lines where standard error is no terminal. */
const PROGRESS_LINE_MS = 5_000

export interface Progress {
  /** Shows `done` of `of` units; `of` may grow. `what` names the unit or the current one. */
  step(done: number, of: number, what?: string): void
  /** Ends the display. A bar leaves the screen. */
  end(): void
}

/**
 * Shows progress while `work` runs. Texts are made printable.
 * @param task what the command does, such as `checking segments`
 */
export async function withProgress<T>(task: string, work: (progress: Progress) => Promise<T>): Promise<T> {
  const progress = createProgress(task)
  try {
    return await work(progress)
  } finally {
    progress.end()
  }
}

/** Progress that the caller ends. */
export function createProgress(task: string): Progress {
  const shown = printable(task)
  const { step, end } = process.stderr.isTTY === true ? progressBar(shown) : progressLines(shown)
  return { step: (done, of, what) => step(done, of, what === undefined ? what : printable(what)), end }
}

function progressBar(task: string): Progress {
  const { SingleBar } = loadPackage('cli-progress') as typeof CliProgress
  const bar = new SingleBar({
    format: `${task} [{bar}] {value}/{total} {what}`,
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
    linewrap: false,
  })
  let forget: (() => void) | undefined
  const end = () => {
    bar.stop()
    forget?.()
  }
  return {
    step: (done, of, what = '') => {
      if (forget !== undefined) bar.setTotal(of)
      else {
        forget = whenInterrupted(end)
        bar.start(of, done, { what })
      }
      bar.update(done, { what })
    },
    end,
  }
}

/** A task that ends before the first line is due prints nothing. */
function progressLines(task: string): Progress {
  let printedMs = monotonicMs()
  return {
    step: (done, of, what = '') => {
      if (monotonicMs() - printedMs < PROGRESS_LINE_MS) return
      printedMs = monotonicMs()
      note(`${task}: ${done} of ${of}${what === '' ? '' : ` (${what})`}`)
    },
    end: () => undefined,
  }
}

/**
 * Shows the progress of a backup or restore while `work` runs, in whole MiB. Each phase has a bar
 * of its own.
 * @param task `backup`, `restore` or `checking`
 */
export async function withCopyProgress<T>(
  task: string,
  work: (onProgress: (now: CopyProgress) => void) => Promise<T>,
): Promise<T> {
  let phase = ''
  let progress: Progress | undefined
  const onProgress = (now: CopyProgress): void => {
    if (now.phase !== phase) {
      progress?.end()
      progress = createProgress(`${task}, ${now.phase}`)
      phase = now.phase
    }
    progress?.step(Math.ceil(now.bytesDone / MiB), Math.ceil(now.bytesTotal / MiB), 'MiB')
  }
  try {
    return await work(onProgress)
  } finally {
    progress?.end()
  }
}
