/**
 * A command at a terminal: tables of text, progress, and an orderly end on Ctrl-C.
 *
 * Progress is a bar where standard error is a terminal, and a line every few seconds where it is
 * not. A bar hides the cursor and turns line wrapping off, so an interrupt must restore the
 * terminal.
 *
 * On SIGINT or SIGTERM the registered clean-ups run: they restore the terminal and remove
 * unfinished files. Then the process dies of that signal, so that a shell sees 130 or 143 and ends
 * its loop too. A second signal does not wait. The server handles signals itself (app/commands.ts).
 */
import type * as CliProgress from 'cli-progress'
import { monotonicMs, resolvesWithin } from '../util/clock.ts'
import { dieOf, STOP_SIGNALS, withoutEchoes } from '../util/end-process.ts'
import { INTERRUPT_MS_MAX, POOLS_NAMED_MAX, PROGRESS_LINE_MS } from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import { note, printable } from '../util/say.ts'
import type { CopyProgress } from './backup/copy-file.ts'

type CleanUp = () => unknown

const cleanUps = new Set<CleanUp>()
let isDying = false

/**
 * Registers a clean-up for an interrupt. The last one registered runs first.
 * @returns removes the clean-up again; may be called twice
 */
export function whenInterrupted(cleanUp: CleanUp): () => void {
  if (cleanUps.size === 0) for (const signal of STOP_SIGNALS) process.on(signal, onSignal)
  cleanUps.add(cleanUp)
  return () => {
    cleanUps.delete(cleanUp)
    if (cleanUps.size === 0 && !isDying) for (const signal of STOP_SIGNALS) process.off(signal, onSignal)
  }
}

/** True while a signal is ending the process. The exit code of the command no longer counts. */
export function isInterrupted(): boolean {
  return isDying
}

/**
 * Runs the synchronous part of all clean-ups, for a process that is about to end in another way.
 */
export function cleanUpNow(): void {
  for (const cleanUp of [...cleanUps].reverse()) void tryCleanUp(cleanUp)
}

const onSignal = withoutEchoes(signal => {
  if (isDying) dieOf(signal)
  isDying = true
  const done = Promise.all([...cleanUps].reverse().map(tryCleanUp))
  void resolvesWithin(INTERRUPT_MS_MAX, done).finally(() => dieOf(signal))
})

/** Runs one clean-up. If it fails, a file stays, and the next run of the command finds it. */
async function tryCleanUp(cleanUp: CleanUp): Promise<void> {
  try {
    await cleanUp()
  } catch {
    // The process ends, so nobody can use the error.
  }
}

export interface Progress {
  /** Shows `done` of `of` units; `of` may grow. `what` names the unit or the current one. */
  step(done: number, of: number, what?: string): void
  /** Ends the display. A bar leaves the screen. */
  end(): void
}

/**
 * Texts are made printable.
 * @param task what the command does, such as `checking segments`
 */
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

/** A row of `Bars`. */
interface BarRow {
  /** Printable; names the row. */
  readonly label: string
  /** 0 to 1. */
  readonly progress: number
  /** Printable; stands behind the bar. */
  readonly note: string
}

/** Bars below one another on standard output, which is a terminal. */
export interface Bars {
  /** Replaces the bars on the screen. */
  show(rows: readonly BarRow[]): void
  /** Removes the bars from the screen, so that lines can be printed. */
  clear(): void
}

/** Draws nothing before the first `show`. */
export function createBars(): Bars {
  const { MultiBar } = loadPackage('cli-progress') as typeof CliProgress
  let drawn: { readonly labels: string; readonly bars: readonly CliProgress.SingleBar[] } | undefined
  let clear = () => {}
  const percent = ({ progress }: BarRow) => Math.floor(100 * Math.min(1, Math.max(0, progress)))
  return {
    show: rows => {
      const labels = rows.map(({ label }) => label).join('\n')
      if (drawn?.labels !== labels) {
        clear()
        if (rows.length === 0) return
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
        clear = () => {
          stop()
          forget()
          drawn = undefined
          clear = () => {}
        }
        const bars = rows.map(row => multi.create(100, percent(row), { label: row.label, note: row.note }))
        drawn = { labels, bars }
      }
      for (const [index, row] of rows.entries()) drawn?.bars[index]?.update(percent(row), { note: row.note })
    },
    clear: () => clear(),
  }
}

const MiB = 1024 * 1024

/**
 * Progress of a backup or restore, in whole MiB. Each phase has a bar of its own.
 * @param task `backup`, `restore` or `checking`
 */
export function createCopyProgress(task: string) {
  let phase = ''
  let progress: Progress | undefined
  return {
    step: (now: CopyProgress): void => {
      if (now.phase !== phase) {
        progress?.end()
        progress = createProgress(`${task}, ${now.phase}`)
        phase = now.phase
      }
      progress?.step(Math.ceil(now.bytesDone / MiB), Math.ceil(now.bytesTotal / MiB), 'MiB')
    },
    end: (): void => progress?.end(),
  }
}

/** A cell of a table. Numbers are aligned right. */
type Cell = string | number

/**
 * Lines of a table with aligned columns, `head` first. A table without rows has no lines. Texts
 * are made printable.
 */
export function tableLines(head: readonly string[], rows: readonly (readonly Cell[])[]): string[] {
  if (rows.length === 0) return []
  const textOf = (cell: Cell | undefined) =>
    typeof cell === 'number' ? countText(cell) : printable(cell ?? '')
  const widths = head.map((title, index) =>
    rows.reduce((width, row) => Math.max(width, textOf(row[index]).length), title.length),
  )
  const isRight = head.map((_, index) =>
    rows.every(row => typeof row[index] !== 'string' || row[index] === '-'),
  )
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, index) => (isRight[index] ? cell.padStart(widths[index]!) : cell.padEnd(widths[index]!)))
      .join('  ')
      .trimEnd()
  return [line(head), ...rows.map(row => line(head.map((_, index) => textOf(row[index]))))]
}

/** `label  value` lines with the values in one column. Values are made printable. */
export function pairLines(pairs: readonly (readonly [label: string, value: string])[]): string[] {
  const width = pairs.reduce((most, [label]) => Math.max(most, label.length), 0)
  return pairs.map(([label, value]) => `${label.padEnd(width)}  ${printable(value)}`)
}

/**
 * Says that there is no pool `name`, and names the pools that there are. `lists`: what names all.
 */
export function unknownPool(
  name: string,
  pools: readonly { readonly uniqueName: string }[],
  lists = 'weir inspect lists them',
): string {
  const names = pools.map(({ uniqueName }) => uniqueName).sort()
  const named = names.slice(0, POOLS_NAMED_MAX).join(', ')
  const more = names.length > POOLS_NAMED_MAX ? `, … (${names.length} in all, ${lists})` : ''
  const others = names.length === 0 ? 'there are no pools' : `there are ${named}${more}`
  return `there is no pool "${name}"; ${others}`
}

/** 1,234,567 */
export function countText(count: number): string {
  return count.toLocaleString('en-US')
}

/** 12.3 MB: three digits, powers of 1000, as disks are sold and `ls --si` prints. */
export function bytesText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let value = bytes
  let unit = 0
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000
    unit += 1
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2
  return `${value.toFixed(digits)} ${units[unit]}`
}

/** A time in UTC, to the second. */
export function timeText(us: number): string {
  return `${new Date(us / 1000).toISOString().slice(0, 19)}Z`
}
