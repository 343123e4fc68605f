/**
 * Rounds of cut-overs: each adds a column to a pool under load, some of them with a kill. After the
 * last one every row is read, and must be parsed with the schema of its sequence.
 */
import { expect } from 'vitest'
import type { Job } from '../../src/catalog/documents/model.ts'
import { readCatalog } from '../../src/tools/stopped-folder.ts'
import { pathsOf } from '../../src/util/paths.ts'
import { OFTEN } from '../path/compaction.ts'
import { crossRead } from '../util/cross-read.ts'
import { below, type Random, randomFrom } from '../util/random.ts'
import { type StartOptions, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { verifyFolder } from '../util/verify.ts'
import { CutOverLoad, columnName, KEYED } from './cut-over-load.ts'

/** Where a round kills the server; `stop` ends it by SIGTERM instead. */
type Kill = 'none' | 'moment' | 'stop' | (typeof POINTS)[number]

/** The crash points of a cut-over, and of the change of the catalog inside it. */
export const POINTS = [
  'cutover.held',
  'catalog.before-commit:2', // the first change makes the job
  'catalog.committed:2',
  'job.started',
  'catalog.before-commit:3', // the third one ends the job
  'job.succeeded',
] as const

const CLIENTS = 12
const CREATE = `mutation ($input: CreateAddColumnToDataPoolJobInput!) {
  createAddColumnToDataPoolJob(input: $input) { job { id status } } }`
const OF_POOL = `query ($id: ID!) { dataPool(id: $id) {
  addColumnToDataPoolJobs { nodes { id columnName status error { message } } } } }`

/** A pool under load, whose server is killed and started again. */
export class CutOverRounds {
  readonly random: Random
  readonly load: CutOverLoad
  readonly pool: TestPool
  server: TestServer
  /** Cut-overs during which the server was killed or stopped. */
  kills = 0
  #added = 0

  private constructor(server: TestServer, pool: TestPool, seed: number, columns: number) {
    this.server = server
    this.pool = pool
    this.random = randomFrom(seed)
    this.load = new CutOverLoad(server, pool, randomFrom(seed + 1), columns)
    this.load.start(CLIENTS)
  }

  /** @param columns the number of cut-overs to come */
  static async begin(seed: number, columns: number): Promise<CutOverRounds> {
    const server = await startServer({ env: OFTEN })
    return new CutOverRounds(server, await server.createPool(KEYED), seed, columns)
  }

  /** Adds the next column at a random moment, and resolves when its job has SUCCEEDED. */
  async cutOver(kill: Kill): Promise<void> {
    if (POINTS.some(point => point === kill)) await this.#restart({ args: ['--crash-at', kill] })
    await this.load.more(1 + below(this.random, 80))
    const name = columnName(this.#added + 1)
    const created = this.#create(name)
    if (kill === 'moment' || kill === 'stop') {
      await this.load.more(below(this.random, 12))
      if (kill === 'stop') await this.#stop()
      await this.#restart()
    } else if (kill !== 'none') {
      await this.server.ended
      await this.#restart()
    }
    await created
    await this.#succeeded(name)
    this.#added += 1
    if (kill !== 'none') this.kills += 1
  }

  /** Stops load and server, and checks every row. Returns the sequences of the cut-overs. */
  async finish(): Promise<readonly number[]> {
    await this.load.more(50)
    await this.load.stop()
    expect(this.load.refused).toEqual([])
    expect((await this.server.stop()).code).toBe(0)
    const cutOvers = await cutOversOf(this.server.dataDir, this.pool.poolId)
    expect(cutOvers.length).toBe(this.#added)
    await verifyFolder(this.server.dataDir)
    const rows = (await crossRead(this.server.dataDir)).get(this.pool.poolId) ?? []
    expect(this.load.check(rows, cutOvers)).toBeUndefined()
    return cutOvers
  }

  /** Ends the server in order: requests and cut-over under way are finished. */
  async #stop(): Promise<void> {
    this.load.serverGone()
    expect((await this.server.stop()).code).toBe(0)
  }

  /** Kills the server where it still runs, and starts it again. */
  async #restart(options: StartOptions = {}): Promise<void> {
    this.load.serverGone()
    await this.server.kill()
    this.server = await startServer({ dataDir: this.server.dataDir, env: OFTEN, ...options })
    this.load.serverBack(this.server)
  }

  /** The answer may be lost in a kill. */
  async #create(columnName: string): Promise<void> {
    const input = {
      dataPool: this.pool.poolId,
      columnName,
      columnType: 'INT64',
      jsonProperty: columnName,
    }
    const answer = await this.server.graphql(CREATE, { input }).catch(() => undefined)
    expect(answer?.errors).toBeUndefined()
  }

  async #succeeded(columnName: string): Promise<void> {
    for (;;) {
      const { data, errors } = await this.server.graphql<JobsOfPool>(OF_POOL, { id: this.pool.poolId })
      expect(errors).toBeUndefined()
      const job = data.dataPool.addColumnToDataPoolJobs.nodes.find(one => one.columnName === columnName)
      if (job === undefined) await this.#create(columnName)
      else if (job.status === 'SUCCEEDED') return
      else expect(job.status, job.error?.message).not.toBe('FAILED')
    }
  }
}

interface JobsOfPool {
  readonly dataPool: {
    readonly addColumnToDataPoolJobs: {
      readonly nodes: readonly {
        readonly columnName: string
        readonly status: Job['status']
        readonly error: { readonly message: string } | null
      }[]
    }
  }
}

/** The sequences of a pool's cut-overs, in their order, from the catalog of a stopped folder. */
export async function cutOversOf(dataDir: string, poolId: string): Promise<readonly number[]> {
  const memory = await readCatalog({ paths: pathsOf(dataDir), kernel: 'native', isBackup: false })
  return memory.jobs.of(poolId).map(job => {
    expect([job.status, job.progress]).toEqual(['SUCCEEDED', 1])
    return (job.kind === 'ADD_COLUMN' ? job.cutOverSequence : null) ?? Number.NaN
  })
}
