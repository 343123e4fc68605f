/**
 * The jobs of a single-thread server, one after the other: the product's runners over its catalog,
 * its merges, and a query engine in this thread.
 */

import type { Catalog } from '../../src/catalog/catalog.ts'
import { createAddColumnJob } from '../../src/catalog/change/change-add-column.ts'
import { isUnfinished } from '../../src/catalog/change/change-job.ts'
import { createRewriteJob, isRewrite } from '../../src/catalog/change/change-rewrite.ts'
import type { Job, Pool } from '../../src/catalog/documents/model.ts'
import { addColumnRunner } from '../../src/jobs/add-column.ts'
import { rewriteRunner } from '../../src/jobs/rewrite-rows.ts'
import type { JobRunner } from '../../src/jobs/run-jobs.ts'
import { Engine } from '../../src/query/duckdb/engine.ts'
import { duckdb } from '../../src/query/duckdb/write-statement.ts'
import { must } from '../../src/util/errors.ts'
import { below, type Random } from '../util/random.ts'
import type { Merging } from './merging.ts'
import { expressionOf, filterOf } from './model.ts'
import { ADDED } from './pools.ts'
import type { SingleThreadServer } from './single-thread-server.ts'

const BY = 'APP'
const ENGINE_BYTES = 256 * 1024 * 1024
const QUERY_MS_MAX = 120_000
const ADDED_COLUMNS_MAX = 4

export class JobLife {
  readonly #server: SingleThreadServer
  readonly #catalog: Catalog
  readonly #runners: Partial<Record<Job['kind'], JobRunner>>
  #engine: Engine | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(server: SingleThreadServer, catalog: Catalog, merging: Merging) {
    this.#server = server
    this.#catalog = catalog
    const rewrite = rewriteRunner({
      catalog,
      pools: {
        schemaOf: pool => must(catalog.schema(pool.number, pool.planVersion), 'a schema'),
        reserveSegments: pool => merging.reserve(pool),
        releaseSegments: pool => merging.release(pool),
        snapshot: pool => server.manifest.snapshot(pool),
        rewrite: (pool, of) => merging.rewrite(pool, of),
      },
      engine: {
        run: async task => (await this.#opened()).run(task),
        parse: async text => (await this.#opened()).parser.parse(text),
        dialect: duckdb,
      },
      temporaryFolder: server.paths.temporary,
      onRows: () => undefined,
    })
    this.#runners = {
      ADD_COLUMN: addColumnRunner({ catalog, cutOver: (pool, change) => server.cutOver(pool, change) }),
      DELETE_RECORDS: rewrite,
      UPDATE_RECORDS: rewrite,
    }
    for (const job of catalog.read.jobs.all()) {
      const pool = catalog.pool(job.poolId)
      if (pool !== undefined && isRewrite(job) && job.status === 'IN_PROGRESS' && job.work !== null)
        merging.reserveAgain(pool.number, job.work.segmentsBelow)
    }
  }

  /** Runs the jobs that earlier servers left, those that had begun first. */
  async resume(): Promise<void> {
    const unfinished = this.#catalog.read.jobs.all().filter(isUnfinished)
    const begun = unfinished.filter(({ status }) => status === 'IN_PROGRESS')
    const waiting = unfinished.filter(({ status }) => status === 'CREATED')
    await Promise.all([...begun, ...waiting].map(job => this.#run(job)))
  }

  /**
   * Creates a random job of a pool, and runs it after the earlier ones.
   * @param onCreated called with the id when the job's creation is answered
   */
  async create(pool: Pool, random: Random, onCreated: (id: string) => void): Promise<void> {
    const job = random() < 0.3 ? await this.#addColumn(pool) : await this.#rewrite(pool, random)
    if (job === null || 'badRequest' in job) return // the pool is deleted, or has enough columns
    onCreated(job.id)
    await this.#run(job)
  }

  /** Waits for the last job. */
  async end(): Promise<void> {
    await this.#last
    await this.#engine?.close()
  }

  #addColumn({ id, number }: Pool) {
    const count = this.#catalog.poolByNumber(number)?.columns.filter(({ name }) => ADDED.test(name)).length
    const name = `added_${(count ?? 0) + 1}`
    if (count === ADDED_COLUMNS_MAX) return null
    return this.#catalog.change(
      createAddColumnJob({ dataPool: id, columnName: name, columnType: 'INT64', jsonProperty: 'stamp' }, BY),
    )
  }

  async #rewrite({ id }: Pool, random: Random) {
    const beforeSequence = await this.#server.boundary()
    const divisor = 2 + below(random, 6)
    const isUpdate = random() < 0.7
    const set = isUpdate ? [{ column: 'tag', expression: expressionOf(1 + below(random, 9)) }] : []
    return this.#catalog.change(
      createRewriteJob(
        {
          kind: isUpdate ? 'UPDATE_RECORDS' : 'DELETE_RECORDS',
          dataPool: id,
          beforeSequence,
          filters: [],
          filterSql: filterOf(divisor, below(random, divisor)),
          set,
        },
        BY,
      ),
    )
  }

  #run({ id }: Job): Promise<void> {
    const done = this.#last.then(async () => {
      const now = () => must(this.#catalog.read.jobs.get(id), 'a job')
      const run = must(this.#runners[now().kind], 'a runner')
      const { signal } = new AbortController()
      try {
        await run(now(), signal)
      } catch (error) {
        if (this.#catalog.pool(now().poolId) !== undefined) throw error
        await run(now(), signal) // which fails the job: its pool was deleted meanwhile
      }
    })
    this.#last = done.catch(() => undefined)
    return done
  }

  async #opened(): Promise<Engine> {
    const { segment, temporary } = this.#server.paths
    this.#engine ??= await Engine.open({
      segmentFolder: segment,
      temporaryFolder: temporary,
      threads: 1,
      memoryBytes: ENGINE_BYTES,
      deletionVectorBytesMax: ENGINE_BYTES,
      queryMsMax: QUERY_MS_MAX,
    })
    return this.#engine
  }
}
