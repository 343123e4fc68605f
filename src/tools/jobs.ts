/**
 * `weir jobs`: lists, follows and cancels jobs. With --url it asks a running server. Without it a
 * stopped folder or a backup is read, and only --cancel changes it.
 */
import { CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import { must } from '../util/assert.ts'
import { CannotRun } from '../util/errors.ts'
import { printable, say } from '../util/say.ts'
import { askCatalog, checked } from './ask-catalog.ts'
import { type AskJobs, allJobs, followJobs } from './follow-jobs.ts'
import { barsView, jobTable, jobText, linesView } from './job-view.ts'
import { JOBS, type JobsPage, type ListRequest, listJobs, type ShownJob } from './manage-jobs.ts'
import { askServer } from './running-server.ts'
import { openStopped, readCatalog } from './stopped-folder.ts'

/** Time for an answer to `weir jobs --follow`; then the server is asked again. */
const FOLLOW_ANSWER_MS_MAX = 30_000

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
