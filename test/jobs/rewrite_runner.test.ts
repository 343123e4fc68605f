/** The runner of jobs that rewrite segments: what it asks for, in which order, and how it ends. */
import { readdirSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import type { Decide } from '../../src/catalog/change/change.ts'
import { cancelJob, failJob, progressJob, succeedJob } from '../../src/catalog/change/change-job.ts'
import { deletePool } from '../../src/catalog/change/change-pool.ts'
import { createRewriteJob, startRewrite } from '../../src/catalog/change/change-rewrite.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import type { Job, Pool, RewriteJob } from '../../src/catalog/documents/model.ts'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { reservationsOf, rewriteRunner } from '../../src/jobs/rewrite-rows.ts'
import { JOB_ENGINE_TRIES_MAX, JOB_PROGRESS_MS } from '../../src/jobs/tried-rewrites.ts'
import { segmentsOf } from '../../src/query/duckdb/sent-segments.ts'
import { duckdb } from '../../src/query/duckdb/write-statement.ts'
import type { SegmentTask } from '../../src/query/plan/segment-task.ts'
import type { Rewrite, RewriteOutcome } from '../../src/store/compaction/compaction-types.ts'
import { SegmentDamaged, SegmentsDisagree, Unavailable } from '../../src/util/errors.ts'
import { type Folder, makeFolder } from '../catalog/folder.ts'
import { segment as metaOf } from '../store/compaction/random-manifests.ts'
import { recordLog } from '../util/log-lines.ts'

let folder: Folder
let catalog: Catalog
let pool: Pool
let pools: FakePools
beforeEach(async () => {
  folder = makeFolder()
  catalog = (await folder.open()).catalog
  const made = await catalog.change(createWebhookSource({}, 'maker'))
  if ('badRequest' in made) throw new Error(made.badRequest)
  pool = made.pool
  pools = new FakePools()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await folder.remove()
})

/** A pool of segments, an engine that finds rows in them, and a compaction that rewrites them. */
class FakePools {
  segments: QuerySegment[] = [1, 2, 3].map(number => segmentOf(number))
  readonly below = 10
  next = 10
  /** Segments by number that the engine looked at, and that were rewritten. */
  readonly looked: number[] = []
  readonly rewritten: Rewrite[] = []
  readonly rows: number[] = []
  reserved = 0
  released = 0
  pins = 0
  /** Changes that a rewrite found in data/tmp. */
  readonly files: string[][] = []
  found = 1
  /** Runs at each rewrite. */
  before: () => Promise<unknown> | unknown = () => undefined
  refuse: { engine?: Error; rewrite?: Error; reserve?: Error } = {}
  outcome: RewriteOutcome = 'done'

  runner() {
    return rewriteRunner({
      catalog,
      pools: {
        schemaOf: ({ number }) =>
          ({ pool: number, version: 4, columns: [], key: null, timestamp: -1, tenant: -1 }) as never,
        reserveSegments: async () => {
          if (this.refuse.reserve !== undefined) throw this.refuse.reserve
          this.reserved += 1
          return this.below
        },
        releaseSegments: () => {
          this.released += 1
        },
        snapshot: async () => {
          this.pins += 1
          const release = () => {
            this.pins -= 1
          }
          return { segments: this.segments, release }
        },
        rewrite: async (_, rewrite) => {
          this.files.push(readdirSync(folder.root))
          await this.before()
          if (this.refuse.rewrite !== undefined) throw this.refuse.rewrite
          this.rewritten.push(rewrite)
          const at = this.segments.findIndex(({ meta }) => meta.segment === rewrite.segment)
          const old = this.segments[at]
          if (this.outcome === 'done' && old !== undefined)
            this.segments.splice(at, 1, { ...old, meta: { ...old.meta, segment: this.next++ } })
          return this.outcome
        },
      },
      engine: {
        run: async (task: SegmentTask) => {
          if (this.refuse.engine !== undefined) throw this.refuse.engine
          this.looked.push(...segmentsOf(task.source).map(({ meta }) => meta.segment))
          writeFileSync(task.copyTo!.file, 'rows')
          return { columns: ['Count'], rows: [[String(this.found)]] } as never
        },
        parse: () => Promise.reject(new Error('no text is parsed')),
        dialect: duckdb,
      },
      temporaryFolder: folder.root,
      onRows: (_, rows) => this.rows.push(rows),
    })
  }
}

/** A segment with these sequences. */
function segmentOf(number: number, sequenceFrom = number * 100): QuerySegment {
  const meta = metaOf(number, 10, { sequenceFrom, sequenceTo: sequenceFrom + 9 })
  return { file: `${number}`, deletionVectors: [], meta }
}

const filter = { column: '_service_received_at', operator: 'IS_NOT_NULL', value: null, and: [], or: [] }

async function create(beforeSequence = 1000): Promise<RewriteJob> {
  const input = {
    filters: [filter],
    filterSql: null,
    set: [],
    kind: 'DELETE_RECORDS',
    beforeSequence,
  } as const
  const job = await catalog.change(createRewriteJob({ ...input, dataPool: pool.id }, 'app'))
  if (job === null || 'badRequest' in job) throw new Error('the job was refused')
  return job
}

const jobNow = ({ id }: RewriteJob) => catalog.read.jobs.get(id) as RewriteJob
const run = (job: RewriteJob, runner = pools.runner()) => runner(jobNow(job), new AbortController().signal)
const left = () => readdirSync(folder.root).filter(name => name.startsWith('changes-'))
const unavailable = () => new Unavailable('query_process', 'it ended')

test('reserves, rewrites the newest segment first, releases, and leaves no file', async () => {
  const job = await create()
  await run(job)
  expect(jobNow(job)).toMatchObject({ status: 'SUCCEEDED', progress: 1, error: null })
  expect(jobNow(job).work).toEqual({ segmentsBelow: 10, rows: 30 })
  expect(pools.rewritten.map(({ segment, schemaVersion }) => [segment, schemaVersion])).toEqual([
    [3, 4],
    [2, 4],
    [1, 4],
  ])
  expect([pools.reserved, pools.released, pools.pins, pools.rows, left()]).toEqual([1, 1, 0, [1, 1, 1], []])
  for (const files of pools.files) expect(files.filter(name => name.startsWith('changes-')).length).toBe(1)
})

test('looks at reserved segments alone, and at none whose rows are all later', async () => {
  pools.segments = [segmentOf(1), segmentOf(2, 999), segmentOf(3, 1000), segmentOf(9, 5), segmentOf(10, 6)]
  await run(await create(1000))
  expect(pools.looked).toEqual([2, 1, 9])
})

test('rewrites no segment without a row to change', async () => {
  pools.found = 0
  const job = await create()
  await run(job)
  expect([jobNow(job).status, pools.looked, pools.rewritten, left()]).toEqual([
    'SUCCEEDED',
    [3, 2, 1],
    [],
    [],
  ])
})

test('goes on after a restart with the segments that it has not rewritten', async () => {
  const job = await create()
  pools.before = () => {
    if (pools.rewritten.length === 2) throw new Unavailable('stopping', 'Weir is stopping')
  }
  await expect(run(job)).rejects.toThrow('stopping')
  expect([jobNow(job).status, pools.released, left()]).toEqual(['IN_PROGRESS', 0, []])
  expect(reservationsOf(catalog.read.jobs.all())).toEqual([{ poolId: pool.id, below: 10 }])
  pools.before = () => undefined
  await run(job)
  expect(pools.rewritten.map(({ segment }) => segment)).toEqual([3, 2, 1])
  expect([jobNow(job).status, pools.reserved, pools.released]).toEqual(['SUCCEEDED', 1, 1])
  expect(reservationsOf(catalog.read.jobs.all())).toEqual([])
})

test('tells how far it is, at most once in JOB_PROGRESS_MS', async () => {
  let nowMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  const job = await create()
  const seen: number[] = []
  const stepMs = [0, JOB_PROGRESS_MS - 1, 1]
  pools.segments.push(segmentOf(4))
  pools.before = () => {
    seen.push(jobNow(job).progress)
    nowMs += stepMs.shift() ?? 0
  }
  await run(job)
  expect(seen).toEqual([0, 0, 0, 0.75])
  expect(jobNow(job).progress).toBe(1)
})

test('is cancelled after the segment that it is at', async () => {
  const job = await create()
  pools.before = () => catalog.change(cancelJob(job.id, 'other'))
  await run(job)
  expect(jobNow(job)).toMatchObject({
    status: 'FAILED',
    progress: expect.closeTo(1 / 3),
    error: 'The job was cancelled. What it has changed stays changed.',
    modifiedBy: 'other',
  })
  expect([pools.rewritten.length, pools.released]).toEqual([1, 1])
})

test('is cancelled between two tries, and tells what the earlier ones did', async () => {
  const job = await create()
  pools.before = () => {
    if (pools.rewritten.length === 2) throw new Unavailable('disk_full', 'no room')
  }
  const runner = pools.runner()
  await expect(run(job, runner)).rejects.toThrow('no room')
  await catalog.change(cancelJob(job.id, 'other'))
  await run(job, runner)
  expect(jobNow(job)).toMatchObject({ status: 'FAILED', progress: expect.closeTo(2 / 3) })
})

test('that was cancelled while it waited does nothing', async () => {
  const job = await create()
  await catalog.change(cancelJob(job.id, 'other'))
  await run(job)
  expect([jobNow(job).status, pools.reserved, pools.looked, pools.released]).toEqual(['FAILED', 0, [], 1])
})

test('that has ended stays as it ended, whatever its runner says later', async () => {
  const job = await create()
  await catalog.change(cancelJob(job.id, 'other'))
  const ended = jobNow(job)
  const late: readonly Decide<Job>[] = [
    startRewrite(job.id, { segmentsBelow: 1, rows: 1 }),
    progressJob(job.id, 0.5),
    succeedJob(job.id),
    failJob(job.id, 'late'),
  ]
  for (const change of late) await catalog.change(change)
  expect(jobNow(job)).toEqual(ended)
})

test.each(['before it starts', 'while it runs'])('FAILED where its pool is deleted %s', async when => {
  const job = await create()
  const drop = () => catalog.change(deletePool({ id: pool.id }))
  if (when === 'while it runs') pools.before = drop
  else await drop()
  await run(job)
  expect(jobNow(job)).toMatchObject({
    status: 'FAILED',
    error: 'The Data Pool was deleted before the job ended.',
  })
  expect([pools.rewritten.length, pools.pins, left()]).toEqual([when === 'while it runs' ? 1 : 0, 0, []])
})

test('a pool that is deleted while its segments are reserved is tried again, and FAILED then', async () => {
  const job = await create()
  pools.refuse = { reserve: new Unavailable('pool_deleted', 'it is deleted') }
  const runner = pools.runner()
  await expect(run(job, runner)).rejects.toThrow('it is deleted')
  await catalog.change(deletePool({ id: pool.id }))
  await run(job, runner)
  expect(jobNow(job).error).toBe('The Data Pool was deleted before the job ended.')
})

test.each([
  ['a query process that ends', unavailable()],
  ['an error that nobody explains', new Error('it ended')],
])('%s each time fails the job, one that works again does not', async (_, error) => {
  const lines = recordLog()
  const job = await create()
  pools.refuse = { engine: error }
  const runner = pools.runner()
  for (let tries = 1; tries < JOB_ENGINE_TRIES_MAX; tries++)
    await expect(run(job, runner)).rejects.toMatchObject({ name: 'Unavailable', message: 'it ended' })
  await run(job, runner)
  expect(jobNow(job)).toMatchObject({
    status: 'FAILED',
    error: `The records of a segment could not be read: ${JOB_ENGINE_TRIES_MAX} tries failed, the last one with: it ended.`,
  })
  expect([pools.released, pools.pins]).toEqual([1, 0])
  const isOurs = !(error instanceof Unavailable)
  expect(lines.filter(({ level }) => level === 'error').length).toBe(isOurs ? JOB_ENGINE_TRIES_MAX : 0)
})

test('what the disk refuses is tried again for ever', async () => {
  const job = await create()
  pools.refuse = { rewrite: new Unavailable('disk_full', 'no room') }
  const runner = pools.runner()
  for (let tries = 0; tries < 2 * JOB_ENGINE_TRIES_MAX; tries++)
    await expect(run(job, runner)).rejects.toThrow('no room')
  expect([jobNow(job).status, pools.released, left()]).toEqual(['IN_PROGRESS', 0, []])
})

test.each([
  ['a damaged segment', new SegmentDamaged('0000000003.parquet', 'no footer'), /no footer.*weir verify/],
  ['an index that disagrees', new SegmentsDisagree([3], 'a key is lost'), /weir verify/],
])('%s fails the job with a reason', async (_, error, message) => {
  const job = await create()
  pools.refuse = { rewrite: error }
  await run(job)
  expect([jobNow(job).status, pools.released, left()]).toEqual(['FAILED', 1, []])
  expect(jobNow(job)).toMatchObject({ error: expect.stringMatching(message), progress: 0 })
  const next = await create()
  pools.refuse = {}
  pools.before = () => {
    if (pools.rewritten.length === 1) throw error
  }
  await run(next)
  expect(jobNow(next)).toMatchObject({ status: 'FAILED', progress: expect.closeTo(1 / 3) })
})

test('a value that its column does not take fails the job with the reason', async () => {
  const job = await create()
  pools.outcome = { refused: 'it is null' }
  await run(job)
  expect([jobNow(job).error, pools.rewritten.length, pools.released]).toEqual(['it is null', 1, 1])
})

test('a segment that compaction leaves alone fails the job; one that is gone does not', async () => {
  const job = await create()
  pools.outcome = 'gone'
  await run(job)
  expect(jobNow(job).error).toMatch(/compaction leaves it alone/)
  const next = await create()
  pools.before = () => {
    pools.segments = []
  }
  await run(next)
  expect([jobNow(next).status, pools.rows]).toEqual(['SUCCEEDED', []])
})

test('any other error is a bug', async () => {
  const job = await create()
  pools.refuse = { rewrite: new TypeError('a bug') }
  await expect(run(job)).rejects.toThrow(TypeError)
})
