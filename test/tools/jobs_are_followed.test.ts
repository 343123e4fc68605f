/** Pages of jobs, and the follower's view of a server that is slow, away or gone. */
import { expect, test } from 'vitest'
import { keys, Memory } from '../../src/catalog/documents/memory.ts'
import type { Job } from '../../src/catalog/documents/model.ts'
import { type AskJobs, allJobs, followJobs, type JobsView } from '../../src/tools/jobs.ts'
import { type ListRequest, listJobs, type ShownJob } from '../../src/tools/manage-jobs.ts'
import { NoAnswer } from '../../src/tools/running-server.ts'
import { CannotRun, must } from '../../src/util/errors.ts'
import { JOBS_LISTED_MAX } from '../../src/util/limits.ts'

const ALL: ListRequest = { action: 'list', pool: '', status: [], jobs: [], before: '' }

function job(index: number, more: Partial<Job> = {}): Job {
  const at = new Date(Date.UTC(2026, 0, 1, 0, 0, index >> 1)).toISOString() // two share a time
  return {
    id: `DPJ${String(index).padStart(6, '0')}`,
    poolId: `DPO${index % 3}`,
    kind: 'ADD_COLUMN',
    status: 'CREATED',
    progress: 0,
    error: null,
    input: { columnName: 'c', columnType: 'STRING', columnClickHouseType: null, jsonProperty: null },
    cutOverSequence: null,
    createdAt: at,
    createdBy: 'APP',
    modifiedAt: at,
    modifiedBy: 'APP',
    startedAt: null,
    succeededAt: null,
    failedAt: null,
    ...more,
  } as Job
}

function memoryOf(jobs: readonly Job[]): Memory {
  const memory = new Memory()
  memory.apply({ puts: jobs.map(one => [keys.job(one.id), one]), removes: [] })
  return memory
}

const askOf =
  (memory: Memory): AskJobs =>
  async request => {
    const page = listJobs(memory, request)
    if ('badRequest' in page) throw new CannotRun(page.badRequest)
    expect(page.jobs.length).toBeLessThanOrEqual(JOBS_LISTED_MAX)
    return page
  }

test.each([0, 1, JOBS_LISTED_MAX - 1, JOBS_LISTED_MAX, JOBS_LISTED_MAX + 1, 3 * JOBS_LISTED_MAX])(
  'the pages of %i jobs have each job once, the newest last',
  async count => {
    const jobs = Array.from({ length: count }, (_, index) => job(index))
    const memory = memoryOf([...jobs].reverse())
    const ids = async (request: Partial<ListRequest>) =>
      (await allJobs(askOf(memory), { ...ALL, ...request })).map(({ id }) => id)
    expect(await ids({})).toEqual(jobs.map(({ id }) => id))
    const ofOne = jobs.filter(({ poolId }) => poolId === 'DPO1').map(({ id }) => id)
    if (count > 1) expect(await ids({ pool: 'DPO1' })).toEqual(ofOne)
    const asked = ['DPJ000000', 'DPJ000399', 'DPJ', 'constructor']
    expect(await ids({ jobs: asked })).toEqual(asked.slice(0, 2).filter(id => memory.jobs.get(id)))
    expect(await ids({ status: ['FAILED'] })).toEqual([])
  },
)

test('a page ends where the oldest job of the next one was removed', async () => {
  const jobs = Array.from({ length: JOBS_LISTED_MAX + 10 }, (_, index) => job(index))
  const memory = memoryOf(jobs)
  const ask: AskJobs = async request => {
    const page = await askOf(memory)(request)
    if (request.before === '') memory.apply({ puts: [], removes: [keys.job(page.jobs[0]!.id)] })
    return page
  }
  expect((await allJobs(ask, ALL)).map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
})

/** A view that writes everything down. */
function recorded() {
  const seen: string[] = []
  const view: JobsView = {
    changed: ({ id, status, progress }) => void seen.push(`${id} ${status} ${progress}`),
    unfinished: jobs => void seen.push(`left ${jobs.length}`),
    note: text => void seen.push(text),
    end: () => undefined,
  }
  return { seen, view }
}

/** Follows a memory that `steps` change before each look; a step may throw for the server. */
async function follow(memory: Memory, steps: readonly (() => void)[], options = {}) {
  const { seen, view } = recorded()
  let next = 0
  const ask: AskJobs = async request => {
    if (request.jobs.length === 0 && request.before === '') steps[next++]?.()
    return await askOf(memory)(request)
  }
  const followed = await followJobs({ ask, pool: '', view, pollMs: 0, ...options }).catch(
    error => error as Error,
  )
  return { seen, followed }
}

const put = (memory: Memory, one: Job) => () => memory.apply({ puts: [[keys.job(one.id), one]], removes: [] })
const away = () => {
  throw new NoAnswer('http://x cannot be reached')
}

test('each change is told once, and percents that people do not see are none', async () => {
  const memory = memoryOf([job(1), job(2)])
  const running = (progress: number) => job(1, { status: 'IN_PROGRESS', progress })
  const { seen, followed } = await follow(memory, [
    () => {},
    () => {},
    put(memory, running(0.101)),
    put(memory, running(0.102)),
    away,
    away,
    put(memory, running(0.5)),
    put(memory, job(1, { status: 'SUCCEEDED', progress: 1 })),
    put(memory, job(2, { status: 'FAILED', error: 'no' })),
  ])
  expect(followed).toEqual({ followed: 2, failed: 1 })
  expect(seen.filter(text => !text.startsWith('left'))).toEqual([
    'DPJ000001 CREATED 0',
    'DPJ000002 CREATED 0',
    'DPJ000001 IN_PROGRESS 0.101',
    expect.stringContaining('cannot be reached; its jobs go on'),
    'the server answers again',
    'DPJ000001 IN_PROGRESS 0.5',
    'DPJ000001 SUCCEEDED 1',
    'DPJ000002 FAILED 0',
  ])
  expect(seen.at(-1)).toBe('left 0')
})

test('more jobs than a page holds are followed to their end', async () => {
  const jobs = Array.from({ length: 2 * JOBS_LISTED_MAX + 5 }, (_, index) => job(index))
  const memory = memoryOf(jobs)
  const endAll = () => {
    for (const one of jobs) put(memory, { ...one, status: 'SUCCEEDED', progress: 1 })()
  }
  const { seen, followed } = await follow(memory, [() => {}, endAll])
  expect(followed).toEqual({ followed: jobs.length, failed: 0 })
  expect(new Set(seen.filter(text => text.includes(' SUCCEEDED '))).size).toBe(jobs.length)
})

test('a server that is away at first, or for too long, ends the follower; so does a refusal', async () => {
  const memory = memoryOf([job(1)])
  expect((await follow(memory, [away])).followed).toBeInstanceOf(NoAnswer)
  const forever = Array.from({ length: 50 }, (_, index) => (index === 0 ? () => {} : away))
  const lost = (await follow(memory, forever, { lostMsMax: 0 })).followed as Error
  expect([lost.name, lost.message]).toEqual(['CannotRun', expect.stringMatching(/^no answer for 0 s: /)])
  const refuses = () => {
    throw new CannotRun('status 401')
  }
  expect((await follow(memory, [() => {}, refuses])).followed).toMatchObject({ message: 'status 401' })
})

test('a job that was removed from the catalog meanwhile is not waited for', async () => {
  const memory = memoryOf([job(1), job(2)])
  const { followed } = await follow(memory, [
    () => {},
    () => memory.apply({ puts: [], removes: [keys.job('DPJ000001')] }),
    put(memory, job(2, { status: 'SUCCEEDED' })),
  ])
  expect(followed).toEqual({ followed: 1, failed: 0 })
})

test('a pool that is deleted meanwhile is followed by its id', async () => {
  const memory = memoryOf([job(1)])
  const asked: string[] = []
  const { view } = recorded()
  const shown = must((await askOf(memory)(ALL)).jobs[0], 'the job') as ShownJob
  const answers = [[shown], [], [{ ...shown, status: 'FAILED', error: 'deleted' } as ShownJob]]
  const ask: AskJobs = async ({ pool }) => {
    asked.push(pool)
    return { jobs: answers.shift() ?? [], before: null }
  }
  expect(await followJobs({ ask, pool: 'orders', view, pollMs: 0 })).toEqual({ followed: 1, failed: 1 })
  expect(asked).toEqual(['orders', shown.poolId, ''])
})
