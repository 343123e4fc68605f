import { expect, test, vi } from 'vitest'
import { Collection } from '../../src/catalog/documents/collection.ts'
import type { Job, Pool } from '../../src/catalog/documents/model.ts'
import { type JobRunner, Jobs } from '../../src/jobs/run-jobs.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { JOBS_RUNNING_MAX } from '../../src/util/limits.ts'

let jobsMade = 0

function job(poolId: string, status: Job['status'] = 'CREATED', createdBy = 'APP1'): Job {
  jobsMade += 1
  const at = new Date(Date.UTC(2026, 0, 1) + jobsMade).toISOString()
  return {
    id: `DPJ${jobsMade}`,
    kind: 'ADD_COLUMN',
    poolId,
    status,
    progress: 0,
    error: null,
    createdAt: at,
    createdBy,
    modifiedAt: at,
    modifiedBy: 'APP1',
    startedAt: null,
    succeededAt: null,
    failedAt: null,
    input: { columnName: 'c', columnType: 'INT64', columnClickHouseType: null, jsonProperty: 'c' },
    cutOverSequence: null,
  }
}

/** A runner whose jobs end when the test says so. */
function harness({ found = [], retryMs = 1 }: { found?: readonly Job[]; retryMs?: number } = {}) {
  const collection = new Collection<Job>({ ownerOf: ({ poolId }) => poolId })
  for (const one of found) collection.set(one)
  const pools = new Collection<Pool>({})
  for (const id of ['A', 'B', 'C', 'D']) pools.set({ id, createdAt: '' } as Pool)
  const begun: string[] = []
  const fatal: Error[] = []
  const open = new Map<string, { readonly end: () => void; readonly fail: (error: Error) => void }>()
  const run: JobRunner = ({ id }) => {
    begun.push(id)
    return new Promise((resolve, reject) => {
      open.set(id, { end: resolve, fail: reject })
    })
  }
  const jobs = new Jobs({
    memory: { jobs: collection, pools },
    runners: { ADD_COLUMN: run, DELETE_RECORDS: run, UPDATE_RECORDS: run, IMPORT: run, REPLAY_REJECTED: run },
    onFatal: error => void fatal.push(error),
    retryMs,
  })
  if (found.length === 0) jobs.start()
  const change = (one: Job) => collection.set(one)
  const create = (one: Job) => {
    change(one)
    jobs.created(one)
  }
  const turn = () => new Promise(resolve => setImmediate(resolve))
  const settle = async (id: string, error?: Error) => {
    if (error === undefined) open.get(id)?.end()
    else open.get(id)?.fail(error)
    await turn()
  }
  const remove = (id: string) => collection.delete(id)
  return { jobs, pools, begun, fatal, change, create, settle, turn, remove }
}

test('the jobs of one pool run one after another, those of others beside them', async () => {
  const { jobs, begun, create, settle } = harness()
  const [first, second, other] = [job('A'), job('A'), job('B')]
  for (const one of [first, second, other]) create(one)
  expect(begun).toEqual([first.id, other.id])
  expect(jobs.stats()).toEqual({ waiting: 1, running: 2 })
  await settle(other.id)
  expect(begun.length).toBe(2)
  await settle(first.id)
  expect(begun).toEqual([first.id, other.id, second.id])
  await settle(second.id)
  expect(jobs.stats()).toEqual({ waiting: 0, running: 0 })
})

test('no more than the limit run at once', async () => {
  const { jobs, begun, create, settle } = harness()
  const all = Array.from({ length: JOBS_RUNNING_MAX + 3 }, (_, i) => job(`pool ${i}`, 'CREATED', `APP${i}`))
  for (const one of all) create(one)
  expect(jobs.stats()).toEqual({ waiting: 3, running: JOBS_RUNNING_MAX })
  for (const { id } of all) await settle(id)
  expect(begun).toEqual(all.map(({ id }) => id))
})

test('an application with many jobs leaves room to those of others', async () => {
  const { begun, create, settle } = harness()
  const many = Array.from({ length: 6 }, (_, i) => job(`pool ${i}`))
  for (const one of many) create(one)
  expect(begun).toEqual(many.slice(0, 2).map(({ id }) => id))
  const [second, third] = [job('B', 'CREATED', 'APP2'), job('C', 'CREATED', 'APP3')]
  create(second)
  create(third)
  expect(begun.slice(2)).toEqual([second.id, third.id])
  await settle(third.id)
  expect(begun.length).toBe(4) // the free place is for another application
  await settle(second.id)
  await settle(many[0]!.id)
  expect(begun.slice(4)).toEqual([many[2]!.id])
})

test('a start continues unfinished jobs, oldest first, and leaves the others alone', async () => {
  const found = [job('A', 'SUCCEEDED'), job('B', 'IN_PROGRESS'), job('C', 'FAILED'), job('D')]
  const { jobs, begun } = harness({ found })
  jobs.start()
  expect(begun).toEqual([found[1]!.id, found[3]!.id])
})

test('a job that the machine refuses is tried again before the next one of its pool', async () => {
  const { begun, create, settle, turn, fatal } = harness()
  const [first, second] = [job('A'), job('A')]
  create(first)
  create(second)
  await settle(first.id, new Unavailable('disk_full', 'no room'))
  while (begun.length < 2) await turn()
  expect(begun).toEqual([first.id, first.id])
  await settle(first.id)
  expect(begun).toEqual([first.id, first.id, second.id])
  expect(fatal).toEqual([])
})

test('a job that was cancelled and removed while it waits for its next try is done', async () => {
  const { jobs, begun, create, settle, turn, remove } = harness()
  const [first, second] = [job('A'), job('A')]
  create(first)
  create(second)
  remove(first.id)
  await settle(first.id, new Unavailable('disk_full', 'no room'))
  while (begun.length < 2) await turn()
  expect(begun).toEqual([first.id, second.id])
  expect(jobs.stats()).toEqual({ waiting: 0, running: 1 })
})

test('a job of a deleted pool is tried at once and in silence, and later ones like any other', async () => {
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const { pools, begun, create, settle, turn } = harness({ retryMs: 60_000 })
  const one = job('A')
  create(one)
  pools.delete('A')
  await settle(one.id, new Unavailable('pool_deleted', 'the Data Pool was deleted'))
  expect([begun, written.mock.calls]).toEqual([[one.id, one.id], []])
  await settle(one.id, new Unavailable('disk_full', 'no room'))
  await turn()
  expect(begun.length).toBe(2)
  const lines = written.mock.calls.map(([line]) => line)
  expect(lines).toEqual([expect.stringMatching(/waits and is tried again: no room\n$/)])
  written.mockRestore()
})

test('any other error is fatal', async () => {
  const { create, settle, fatal } = harness()
  const one = job('A')
  create(one)
  await settle(one.id, new TypeError('a bug'))
  expect(fatal.map(({ message }) => message)).toEqual(['a bug'])
})

test('a job that was cancelled while it waited is not begun', async () => {
  const { jobs, begun, change, create, settle } = harness()
  const [first, second] = [job('A'), job('A')]
  create(first)
  create(second)
  change({ ...second, status: 'FAILED' })
  await settle(first.id)
  expect(begun).toEqual([first.id])
  expect(jobs.stats()).toEqual({ waiting: 0, running: 0 })
})

test('a node runs jobs while it leads, each once whoever tells of it, and again when it leads anew', async () => {
  const importing = { ...job('C', 'IN_PROGRESS'), kind: 'IMPORT' } as unknown as Job
  const { jobs, begun, create, change, settle, turn, fatal } = harness({ found: [importing] })
  const [first, second, third] = [job('A'), job('A'), job('B')]
  create(first)
  expect(begun).toEqual([])
  const [term, next] = [new AbortController(), new AbortController()]
  jobs.start(term.signal)
  // The import has its connection on some node.
  expect(begun).toEqual([first.id])
  create(second)
  for (const one of [first, second]) jobs.created(one)
  create({ ...importing, id: 'DPJ-other' })
  expect(jobs.stats()).toEqual({ waiting: 1, running: 1 })
  term.abort()
  create(third)
  await turn()
  expect(begun).toEqual([first.id])
  // It leads anew before the runner of the first term has come to its end.
  jobs.start(next.signal)
  expect(begun).toEqual([first.id, third.id])
  await settle(first.id, new Unavailable('not_leader', 'another node leads'))
  expect(begun).toEqual([first.id, third.id, first.id])
  change({ ...first, status: 'SUCCEEDED' })
  await settle(first.id)
  // It was told late.
  jobs.created(first)
  await settle(second.id)
  await settle(third.id)
  expect(begun).toEqual([first.id, third.id, first.id, second.id])
  expect([jobs.stats(), fatal]).toEqual([{ waiting: 0, running: 0 }, []])
})

test('an end that the catalog refused is written by a node that does not lead', async () => {
  const one = job('A', 'IN_PROGRESS')
  const { jobs, turn, fatal } = harness({ found: [one] })
  let tries = 0
  const ends = new Promise<void>(resolve => {
    jobs.end(one, async () => {
      tries += 1
      if (tries < 3) throw new Unavailable('keeper_lost', 'no connection')
      resolve()
    })
  })
  await ends
  await turn()
  expect([tries, jobs.stats().running, fatal]).toEqual([3, 0, []])
})

test('a stop waits for running jobs, begins no other and tries none again', async () => {
  const { jobs, begun, create, settle, turn } = harness()
  const [first, second, refused] = [job('A'), job('A'), job('B')]
  for (const one of [first, second, refused]) create(one)
  let hasStopped = false
  const stopped = jobs.stop().then(() => {
    hasStopped = true
  })
  await settle(refused.id, new Unavailable('disk_full', 'no room'))
  await turn()
  expect(hasStopped).toBe(false)
  await settle(first.id)
  await stopped
  expect(begun).toEqual([first.id, refused.id])
})

test('an await that the end of the lead broke is no bug, and another error then still is', async () => {
  for (const error of [undefined, new Error('ours')]) {
    const { jobs, create, settle, fatal, begun } = harness({ found: [job('D', 'FAILED')] })
    const led = new AbortController()
    jobs.start(led.signal)
    const one = job('A')
    create(one)
    led.abort()
    await settle(one.id, error ?? led.signal.reason)
    expect(fatal).toEqual(error === undefined ? [] : [error])
    // This node leads again, and the job goes on.
    jobs.start(new AbortController().signal)
    expect(begun).toEqual([one.id, one.id])
  }
})
