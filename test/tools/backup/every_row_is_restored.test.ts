/**
 * Backups of a server under load, one of them in a bucket, with updates, deletes, jobs, an added
 * column and compactions, and one of its folder after a kill. Each is restored, and every row of
 * every pool (payload and columns) is compared with a model at the backup's sequence.
 */
import { basename, join } from 'node:path'
import { tableFromIPC } from 'apache-arrow'
import { expect, onTestFinished, test } from 'vitest'
import { say } from '../../../src/util/say.ts'
import { addColumn } from '../../jobs/add-column.ts'
import { type CreatedJob, createJob, ended } from '../../jobs/rewrite-jobs.ts'
import { AT, merges, until } from '../../path/compaction.ts'
import { below, newSeed, type Random, randomFrom } from '../../util/random.ts'
import {
  fetchToken,
  type PoolSpec,
  send,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../../util/server.ts'
import { verifyFolder } from '../../util/verify.ts'
import { FakeS3 } from '../bucket/fake-s3.ts'
import { weir } from '../folder.ts'
import { backUp, restoreAndStart } from './backups.ts'

const seed = newSeed()
const BACKUPS = 3
const IDS = 400
/** Requests of each writer between two backups, at least. */
const REQUESTS = 12

const column = (name: string, type: string, nullable = false) => ({
  name,
  type,
  jsonProperty: name,
  nullable,
})
const columns = [
  column('at', 'TIMESTAMP'),
  column('id', 'STRING'),
  column('n', 'INT64'),
  column('word', 'STRING', true),
]
const POOLS: Readonly<Record<string, PoolSpec>> = {
  keyed: { columns, timestamp: 'at', uniqueId: 'id' },
  tenants: { columns, timestamp: 'at', uniqueId: 'id', tenant: 'word' },
  plain: { columns, timestamp: 'at' },
}
/** The column that is added on the way. */
const LATE = 'late'

interface Event {
  readonly at: string
  readonly id: string
  readonly n: number
  readonly word: string | null
  readonly late: number
}

interface Row {
  readonly event: Event
  readonly n: number
  readonly late: number | null
}

type Rows = ReadonlyMap<string, Row>

/** An operation in the order of its pool's writer. A request takes one sequence of the log. */
type Operation =
  | { readonly what: 'post'; readonly events: readonly Event[] }
  | { readonly what: 'delete'; readonly ids: readonly string[] }
  | { readonly what: 'job'; readonly job: CreatedJob; readonly divisor: number }
  | { readonly what: 'column' }

/** One writer of a pool. It sends one operation after the other. */
class PoolWriter {
  readonly pool: TestPool
  readonly operations: Operation[] = []
  /** Requests that were answered. */
  requests = 0
  #isStopped = false
  #running: Promise<void> = Promise.resolve()
  readonly #server: TestServer
  readonly #isKeyed: boolean
  readonly #random: Random

  constructor(server: TestServer, pool: TestPool, spec: PoolSpec, random: Random) {
    this.#server = server
    this.pool = pool
    this.#isKeyed = spec.uniqueId !== undefined
    this.#random = random
  }

  start(): void {
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
  }

  jobs(): CreatedJob[] {
    return this.operations.flatMap(one => (one.what === 'job' ? [one.job] : []))
  }

  async #run(): Promise<void> {
    for (let step = 0; !this.#isStopped; step++) {
      if (step === 7) await this.#addColumn()
      else if (step % 9 === 5) await this.#startJob()
      else if (this.#isKeyed && this.#random() < 0.25) await this.#delete()
      else await this.#post()
    }
  }

  async #post(): Promise<void> {
    const random = this.#random
    const events = Array.from({ length: 1 + below(random, random() < 0.3 ? 400 : 40) }, (): Event => {
      const word = below(random, 5)
      const id = `e${below(random, IDS)}`
      const [n, late] = [below(random, 1000), below(random, 1000)]
      return { at: AT, id, n, word: word === 4 ? null : `wörd ${word}`, late }
    })
    await this.#send(events, 'POST')
    this.operations.push({ what: 'post', events })
  }

  async #delete(): Promise<void> {
    const ids = Array.from({ length: 1 + below(this.#random, 30) }, () => `e${below(this.#random, IDS)}`)
    await this.#send(
      ids.map(id => ({ at: AT, id })),
      'DELETE',
    )
    this.operations.push({ what: 'delete', ids })
  }

  async #send(body: readonly object[], method: 'POST' | 'DELETE'): Promise<void> {
    expect((await send(this.pool.url, body, method)).status).toBe(200)
    this.requests += 1
  }

  async #startJob(): Promise<void> {
    const divisor = 2 + below(this.#random, 5)
    const filterSql = `n % ${divisor} = 0`
    const dataPool = this.pool.poolId
    const isUpdate = this.#random() < 0.7
    const set = [{ column: 'n', expression: 'n + 1' }]
    const job = isUpdate
      ? await createJob(this.#server, 'update', { dataPool, filterSql, set })
      : await createJob(this.#server, 'deletion', { dataPool, filterSql })
    this.operations.push({ what: 'job', job, divisor })
  }

  async #addColumn(): Promise<void> {
    await addColumn(this.#server, this.pool.poolId, LATE, 'INT64')
    this.operations.push({ what: 'column' })
  }

  /**
   * The rows after each number of requests, and after those jobs that were created. It is the same
   * map each time.
   * @param hasColumn the added column is there
   */
  *moments(jobs: ReadonlySet<string>, hasColumn: boolean): Generator<[number, Rows]> {
    const rows = new Map<string, Row>()
    let [sent, hasLate, plain] = [0, false, 0]
    for (const one of this.operations) {
      if (one.what === 'column') hasLate = hasColumn
      else if (one.what === 'job') {
        if (jobs.has(one.job.id)) applyJob(rows, one)
      } else {
        yield [sent, rows]
        sent += 1
        if (one.what === 'delete') for (const id of one.ids) rows.delete(id)
        else
          for (const event of one.events) {
            plain += 1
            const late = hasLate ? event.late : null
            rows.set(this.#isKeyed ? event.id : String(plain), { event, n: event.n, late })
          }
      }
    }
    yield [sent, rows]
  }
}

function sumOf(rows: Rows): number {
  let sum = 0
  for (const { n } of rows.values()) sum += n
  return sum
}

function textsOf(rows: Rows, hasColumn: boolean): string[] {
  return [...rows.values()]
    .map(({ event, n, late }) => {
      const values = [event.id, n, event.word, ...(hasColumn ? [late] : [])]
      return textOf([...values, JSON.stringify(event)])
    })
    .sort()
}

function applyJob(rows: Map<string, Row>, { job, divisor }: Operation & { readonly what: 'job' }): void {
  for (const [key, row] of rows) {
    if (row.n % divisor !== 0) continue
    if (job.kind === 'deletion') rows.delete(key)
    else rows.set(key, { ...row, n: row.n + 1 })
  }
}

function textOf(values: readonly (string | number | bigint | null)[]): string {
  return JSON.stringify(values.map(value => (value === null ? null : String(value))))
}

const COLUMNS = 'query ($id: ID!) { dataPool(id: $id) { columns(first: 20) { nodes { columnName } } } }'
const JOB = {
  update: 'query ($id: ID!) { job: updateDataPoolRecordsJob(id: $id) { id } }',
  deletion: 'query ($id: ID!) { job: deletionJob(id: $id) { id } }',
}

async function hasColumn({ graphql }: TestServer, { poolId }: TestPool): Promise<boolean> {
  const { data } = await graphql<{ dataPool: { columns: { nodes: { columnName: string }[] } } }>(COLUMNS, {
    id: poolId,
  })
  return data.dataPool.columns.nodes.some(({ columnName }) => columnName === LATE)
}

/** The jobs of a writer that a restored server has, each at its end. */
async function jobsOf(server: TestServer, writer: PoolWriter): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  for (const job of writer.jobs()) {
    const { data } = await server.graphql<{ job: { id: string } | null } | null>(JOB[job.kind], {
      id: job.id,
    })
    if (!data?.job) continue
    found.add(job.id)
    expect((await ended(server, job)).status).toBe('SUCCEEDED')
  }
  return found
}

/** These columns of every row. */
async function rowsOf(server: TestServer, { poolId }: TestPool, names: readonly string[]) {
  const answer = await fetch(`${server.base}/v1/pools/${poolId}/arrow?columns=${names.join()}`, {
    headers: { authorization: `Bearer ${await fetchToken(server.base, server.dataDir)}` },
  })
  const table = tableFromIPC(new Uint8Array(await answer.arrayBuffer()))
  return Array.from(table, row => names.map(name => row[name] as string | bigint | null))
}

/**
 * Compares all rows of a restored server. Returns the lowest and the highest sequence that they may
 * be of, and their number.
 */
async function compare(server: TestServer, writers: readonly PoolWriter[]) {
  let [from, to, rows] = [0, 0, 0]
  for (const writer of writers) {
    const jobs = await jobsOf(server, writer)
    const isAdded = await hasColumn(server, writer.pool)
    const names = ['id', 'n', 'word', ...(isAdded ? [LATE] : []), '_service_payload']
    const values = await rowsOf(server, writer.pool, names)
    const found = values.map(textOf).sort()
    const sum = values.reduce((all, [, n]) => all + Number(n), 0)
    // A delete of records that are not there changes nothing: several moments may be equal.
    const equal: number[] = []
    let last: string[] = []
    for (const [requests, rows] of writer.moments(jobs, isAdded)) {
      const isLast = requests === writer.requests
      // The texts of all rows at all moments would take a minute.
      if (isLast || (rows.size === found.length && sumOf(rows) === sum)) last = textsOf(rows, isAdded)
      else continue
      if (JSON.stringify(last) === JSON.stringify(found)) equal.push(requests)
    }
    const first = equal[0]
    if (first === undefined) expect(found).toEqual(last)
    from += first ?? 0
    to += equal.at(-1) ?? 0
    rows += found.length
  }
  return { from, to, rows }
}

test(`W-6, W-12 every row of every restored pool is that of the backup's sequence (seed ${seed})`, async () => {
  const root = temporaryFolder('weir-rows-')
  const bucket = await FakeS3.start()
  onTestFinished(() => bucket.stop())
  Object.assign(process.env, bucket.environment)
  const random = randomFrom(seed)
  const args = ['--compact-tick-ms', '40', '--log-file-bytes', String(4 * 1024 * 1024)]
  const server = await startServer({ dataDir: join(root, 'data'), args, env: bucket.environment })
  const writers: PoolWriter[] = []
  for (const [name, spec] of Object.entries(POOLS)) {
    const pool = await server.createPool({ ...spec, uniqueName: name })
    writers.push(new PoolWriter(server, pool, spec, randomFrom(below(random, 2 ** 31))))
  }
  for (const writer of writers) writer.start()
  const made: { folder: string; sequence: number }[] = []
  for (let index = 0; index < BACKUPS; index++) {
    const least = writers.map(({ requests }) => requests + REQUESTS)
    await until('each writer goes on', async () => {
      for (const { pool } of writers) await server.count(pool.poolId)
      return writers.every(({ requests }, w) => requests >= (least[w] ?? 0))
    })
    const folder = index === 1 ? 's3://bucket/rows' : join(root, `backup ${index}`)
    made.push({ folder, sequence: (await backUp(server, folder)).sequence })
  }
  await Promise.all(writers.map(writer => writer.stop()))
  const merged = await merges(server)
  await server.kill()
  const offline = join(root, 'of the killed folder')
  expect(await weir(['backup', offline, '--data-dir', server.dataDir])).toMatchObject({ code: 0 })
  const requests = writers.reduce((sum, writer) => sum + writer.requests, 0)
  made.push({ folder: offline, sequence: requests })

  let compared = 0
  for (const { folder, sequence } of made) {
    const to = join(root, `restored ${basename(folder)}`)
    const restored = await restoreAndStart(folder, to)
    const found = await compare(restored, writers)
    expect([found.from <= sequence, sequence <= found.to], folder).toEqual([true, true])
    compared += found.rows
    expect((await restored.stop()).code).toBe(0)
    await verifyFolder(to)
  }
  const jobs = writers.reduce((sum, writer) => sum + writer.jobs().length, 0)
  say(
    `seed ${seed}: ${made.length} backups, ${compared} rows compared, ${requests} requests, ${jobs} jobs, ${merged} merges`,
  )
  expect(compared).toBeGreaterThan(0)
}, 300_000)
