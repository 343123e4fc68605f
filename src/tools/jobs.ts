/**
 * `weir jobs`: lists, follows and cancels jobs. With --url it asks a running server. Without it a
 * stopped folder or a backup is read, and only --cancel changes it.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type * as CliProgress from 'cli-progress'
import { JOB_KINDS } from '../catalog/documents/model.ts'
import { CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import { monotonicMs } from '../util/clock.ts'
import { CannotRun, must } from '../util/errors.ts'
import { JOBS_LISTED_MAX } from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import { note, printable, say } from '../util/say.ts'
import { askCatalog, checked } from './ask-catalog.ts'
import { whenInterrupted } from './interrupts.ts'
import { JOBS, type JobsPage, type ListRequest, listJobs, type ShownJob } from './manage-jobs.ts'
import { askServer, NoAnswer } from './running-server.ts'
import { openStopped, readCatalog } from './stopped-folder.ts'
import { tableLines } from './text-tables.ts'

/** Time for an answer to `weir jobs --follow`; then the server is asked again. */
const FOLLOW_ANSWER_MS_MAX = 30_000
/** Interval at which `weir jobs --follow` asks. A job's progress changes as often. */
const FOLLOW_POLL_MS = 1_000
/** Time for which `weir jobs --follow` waits for a server that does not answer. */
const FOLLOW_LOST_MS_MAX = 600_000
/** Bars that `weir jobs --follow` draws. Further jobs are counted. */
const FOLLOW_BARS_MAX = 10

/** Runs `weir jobs`. The exit code is 1 where a followed job FAILED. */
export async function jobs(input: CommandInput): Promise<number> {
  const { flags } = input
  checkFlags(input)
  if (flags.has('cancel')) return await cancelOne(input)
  const request = readListFlags(input)
  const ask = await asker(input)
  if (flags.has('follow')) return await follow(input, ask, request)
  const all = await allJobs(ask, request)
  if (flags.has('json')) sayJson(all)
  else if (all.length === 0) say('no jobs')
  else for (const line of jobTable(all)) say(line)
  return CLEAN
}

/** @throws CannotRun where flags do not go together */
function checkFlags({ positionals, flags }: CommandInput): void {
  const others = ['follow', 'status'].find(flag => flags.has(flag))
  if (flags.has('cancel') && (positionals.length > 0 || others !== undefined))
    throw new CannotRun('--cancel takes the id of a job, and goes with no pool, --follow or --status')
  if (!flags.has('follow')) return
  if (flags.has('status')) throw new CannotRun('--follow shows all unfinished jobs, and takes no --status')
  if (!flags.has('url'))
    throw new CannotRun(
      'jobs of a stopped folder stand still: --follow needs --url, the address of its running server',
    )
}

function readListFlags({ positionals, flags }: CommandInput): ListRequest {
  const status = (flags.get('status') ?? '').split(',').filter(one => one !== '')
  const given = { pool: positionals[0] ?? '', status: status.map(one => one.toUpperCase()) }
  return checked(JOBS.read({ action: 'list', ...given, jobs: [], before: '' })) as ListRequest
}

/** Asks the server at --url, or the catalog of the stopped folder. */
async function asker({ config, flags }: CommandInput): Promise<AskJobs> {
  const url = flags.get('url')
  if (url !== undefined)
    return async request => {
      const page = await askServer<JobsPage>(config, url, JOBS.path, request, FOLLOW_ANSWER_MS_MAX)
      if (!Array.isArray(page.jobs)) throw new CannotRun(`${url} did not answer as Weir does`)
      return page
    }
  const folder = openStopped(config, { takesBackup: true })
  const memory = await readCatalog(folder)
  return async request => checked(listJobs(memory, request))
}

async function follow({ flags }: CommandInput, ask: AskJobs, { pool }: ListRequest): Promise<number> {
  const isTerminal = process.stdout.isTTY === true && !flags.has('json')
  const view = isTerminal ? barsView() : linesView(flags.has('json'))
  try {
    const { followed, failed } = await followJobs({ ask, pool, view })
    if (followed === 0 && !flags.has('json')) say('no unfinished jobs')
    return failed === 0 ? CLEAN : DAMAGED
  } finally {
    view.end()
  }
}

async function cancelOne(input: CommandInput): Promise<number> {
  const id = must(input.flags.get('cancel'), 'the id of the job')
  const request = checked(JOBS.read({ action: 'cancel', job: id }))
  const job = (await askCatalog(input, JOBS, request)) as ShownJob
  if (input.flags.has('json')) sayJson(job)
  else say(job.isCancelled ? `${jobText(job)}: it ends after its current step` : jobText(job))
  return CLEAN
}

/** Names in JSON may hold characters that a terminal obeys, so they are written as escapes. */
function sayJson(value: object): void {
  for (const line of JSON.stringify(value, null, 2).split('\n')) say(printable(line))
}

// ── Jobs as people read them. Names and errors are texts of users, so each is made printable ─────

function jobTable(jobs: readonly ShownJob[]): string[] {
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

function jobText(job: ShownJob): string {
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

function linesView(isJson: boolean): JobsView {
  return {
    changed: job => say(isJson ? printable(JSON.stringify(job)) : jobText(job)),
    unfinished: () => undefined,
    note: text => note(printable(text)),
    end: () => undefined,
  }
}

/** Redraws a bar for each unfinished job, and prints a line for each that has ended. */
function barsView(): JobsView {
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

// ── Following jobs ──────────────────────────────────────────────────────────────────────────────

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
 * Follows unfinished jobs until none is left, by asking at an interval. Returns how many were
 * followed, and how many of them FAILED.
 *
 * Jobs are on the server's disk, so a restart of the server changes nothing but the time: the
 * follower waits until the server answers again, for a limited time. A job that ended between two
 * answers is asked for by its id. Rejects with CannotRun where the server refuses, or does not
 * answer for too long.
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
function percentOf({ progress }: ShownJob): number {
  return Math.floor(100 * Math.min(1, Math.max(0, progress)))
}
