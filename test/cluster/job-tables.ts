/**
 * A pool's tables in a ClickHouse, with jobs that change them and a model of their rows. Versions
 * are a counter, and the catalog is that of a folder. Each statement may fail, before or after the
 * server did it, as where a node is killed.
 */
import { expect, onTestFinished } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { createRewriteJob } from '../../src/catalog/change/change-rewrite.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import type { Pool, RewriteJob } from '../../src/catalog/documents/model.ts'
import type { InsertOptions } from '../../src/cluster/clickhouse/insert-rows.ts'
import { insertRows } from '../../src/cluster/clickhouse/insert-rows.ts'
import { syncedReplica } from '../../src/cluster/clickhouse/synced-replicas.ts'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import type { Replica, Topology } from '../../src/cluster/clickhouse/topology.ts'
import { deleteSchema, type PoolSchema, type RequestKind } from '../../src/format/schema.ts'
import { tableRewriteRunner } from '../../src/jobs/rewrite-tables.ts'
import { clickhouse } from '../../src/query/clickhouse/write-statement.ts'
import { openQueryEngine } from '../../src/query/duckdb/engine-client.ts'
import type { QueryEngine } from '../../src/query/plan/query-task.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { created, makeFolder } from '../catalog/folder.ts'
import { makeBatch } from '../util/make-batch.ts'

export interface ModelRow {
  readonly id: string
  readonly n: number
  readonly word: string | null
}

const AT = 1_700_000_000_000_000n
const column = (name: string, type: string, nullable: boolean) => ({
  name,
  type,
  jsonProperty: name,
  nullable,
})
const COLUMNS = [
  column('at', 'TIMESTAMP', false),
  column('id', 'STRING', false),
  column('n', 'INT32', false),
  column('word', 'STRING', true),
]

export interface JobInput {
  readonly kind: RewriteJob['kind']
  readonly filterSql: string
  readonly set?: RewriteJob['input']['set']
}

/** What happens at the statements of a run of a job. */
export interface Statements {
  /** May reject: the server does not get the statement. */
  before?(sql: string, count: number): Promise<void> | void
  /** May reject: the server did it, and nobody heard of it. */
  after?(sql: string, count: number, again: () => Promise<unknown>): Promise<void> | void
}

export const killed = () => new Unavailable('killed', 'the node was killed')

export class JobTables {
  readonly catalog: Catalog
  readonly pool: Pool
  readonly schema: PoolSchema
  /** A test may set what a node has seen later. */
  topology: Topology
  readonly #parser: QueryEngine
  readonly #isReplicated: boolean
  #zxid = 1_000n
  /** Rows by id, or by a number of their own in a pool without a unique id. */
  readonly model = new Map<string, ModelRow>()
  #arrivals = 0
  /** Rows that jobs say they changed. */
  changed = 0

  private constructor(
    catalog: Catalog,
    pool: Pool,
    topology: Topology,
    parser: QueryEngine,
    isReplicated: boolean,
  ) {
    this.catalog = catalog
    this.pool = pool
    this.topology = topology
    this.schema = catalog.read.currentSchema(pool)
    this.#parser = parser
    this.#isReplicated = isReplicated
  }

  static async make(
    topology: Topology,
    uniqueId: string | null,
    path: string | undefined,
  ): Promise<JobTables> {
    const folder = makeFolder()
    onTestFinished(() => folder.remove())
    const { catalog } = await folder.open()
    const { pool } = created(
      await catalog.change(createWebhookSource({ columns: COLUMNS, timestamp: 'at', uniqueId }, 'maker')),
    )
    const parser = await openQueryEngine({
      segmentFolder: folder.root,
      temporaryFolder: folder.root,
      threads: 1,
      crashAt: '',
      ensureWhole: () => undefined,
    })
    onTestFinished(() => parser.stop())
    const tables = new JobTables(catalog, pool, topology, parser, path !== undefined)
    const sql = createTable(pool.id, tables.schema, path)
    for (const { http } of topology.shards.flat()) await http.run(sql, {}, 10_000)
    return tables
  }

  get isKeyed(): boolean {
    return this.schema.key !== null
  }

  /** Versions as nodes take them. */
  takeVersion(): bigint {
    return this.#zxid++ << 16n
  }

  /** The model has the rows at once: what is posted beside this has another version. */
  async post(rows: readonly ModelRow[]): Promise<void> {
    for (const row of rows) this.model.set(this.isKeyed ? row.id : String(this.#arrivals++), row)
    await this.insert('post', rows, this.takeVersion())
  }

  async delete(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.model.delete(id)
    const rows = ids.map(id => ({ id, n: 0, word: null }))
    await this.insert('delete', rows, this.takeVersion())
  }

  async insert(kind: RequestKind, rows: readonly ModelRow[], version: bigint): Promise<void> {
    const { batch, requests, schema } = this.request(kind, rows)
    const own = kind === 'delete' ? deleteSchema(schema) : schema
    const entry = { batch, requests, versions: BigInt64Array.of(version) }
    await insertRows({ table: this.pool.id, kind, schema: own, entries: [entry] }, this.options())
  }

  /** A request as the parser leaves it. */
  request(kind: RequestKind, rows: readonly ModelRow[]) {
    const { schema } = this
    const batch = makeBatch(
      kind === 'delete' ? deleteSchema(schema) : schema,
      rows.map(({ id, n, word }) => ({
        payload: JSON.stringify({ word }),
        ...(this.isKeyed ? { key: id } : {}),
        values: kind === 'delete' ? [AT, id] : [AT, id, n, word],
      })),
    )
    return { batch, requests: Float64Array.of(0, 1_000_000, rows.length, 1), schema }
  }

  options(statements: Statements = {}): InsertOptions {
    let count = 0
    const watched = (replica: Replica): Replica => {
      const run: Replica['http']['run'] = async (body, ...rest) => {
        const sql = String(body)
        count += 1
        const number = count
        await statements.before?.(sql, number)
        const answer = await replica.http.run(body, ...rest)
        await statements.after?.(sql, number, () => replica.http.run(body, withoutId(rest[0]), 10_000))
        return answer
      }
      const http = Object.create(replica.http) as Replica['http'] // its execute calls this run
      return { ...replica, http: Object.assign(http, { run }) }
    }
    const shards = this.topology.shards.map(replicas => replicas.map(watched))
    return {
      topology: { ...this.topology, shards },
      quorum: { replicas: shards.map(({ length }) => length) },
    }
  }

  boundary(): number {
    return Number(this.#zxid++)
  }

  /** Creates a job. */
  async create({ kind, filterSql, set = [] }: JobInput): Promise<RewriteJob> {
    const beforeSequence = this.boundary()
    const input = { filters: [], filterSql, set, kind, beforeSequence, dataPool: this.pool.id }
    const job = await this.catalog.change(createRewriteJob(input, 'app'))
    if (job === null || 'badRequest' in job) throw new Error('the job was refused')
    return job
  }

  now({ id }: RewriteJob): RewriteJob {
    return this.catalog.read.jobs.get(id) as RewriteJob
  }

  /** Runs a job as a node does that has just started. */
  async run(job: RewriteJob, statements: Statements = {}, rangeRows = 10): Promise<void> {
    const options = this.options(statements)
    const runner = tableRewriteRunner({
      catalog: this.catalog,
      engine: { parse: (text, key) => this.#parser.parse(text, key), dialect: clickhouse },
      schemaOf: pool => this.catalog.read.currentSchema(pool),
      options: () => options,
      replicaOf: (table, shard, topology, gone) =>
        this.#isReplicated
          ? syncedReplica([table], shard, topology, gone)
          : Promise.resolve(topology.shards[shard]![0]!),
      propellerOf: () => 'P1_X_LARGE',
      onRows: (_, rows) => {
        this.changed += rows
      },
      rangeRows,
    })
    await runner(this.now(job), new AbortController().signal)
  }

  /** Runs it again after each failure. */
  async runToEnd(job: RewriteJob, statements: Statements = {}): Promise<void> {
    for (let tries = 0; tries < 1_000; tries += 1)
      try {
        return await this.run(job, statements)
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error
      }
    throw new Error('the job does not end')
  }

  /** The records of all shards, as the replica of that index has them. */
  async records(replica: number): Promise<ModelRow[]> {
    const rows: ModelRow[] = []
    for (const replicas of this.topology.shards) {
      const { http } = replicas[replica % replicas.length]!
      const run = async (sql: string) => (await http.run(sql, {}, 1e8)).body.toString()
      if (replicas.length > 1) await run(`SYSTEM SYNC REPLICA ${this.pool.id}`)
      const printed = await run(
        `SELECT id, n, word FROM ${this.pool.id}${this.isKeyed ? ' FINAL WHERE _deleted = 0' : ''} FORMAT JSONCompact`,
      )
      for (const [id = '', n, word = null] of (
        JSON.parse(printed) as { data: [string, number, string | null][] }
      ).data)
        rows.push({ id, n: Number(n), word })
    }
    return sorted(rows)
  }

  async check(what: string): Promise<void> {
    for (const replica of [0, 1])
      expect(await this.records(replica), `${what}, replica ${replica}`).toEqual(sorted(this.model.values()))
  }
}

function sorted(rows: Iterable<ModelRow>): ModelRow[] {
  const textOf = ({ id, n, word }: ModelRow) => JSON.stringify([id, n, word])
  return [...rows].sort((a, b) => (textOf(a) < textOf(b) ? -1 : 1))
}

/** A server runs no second statement with the same id beside the first. */
function withoutId({ query_id: _, ...parameters }: Readonly<Record<string, string>>): Record<string, string> {
  return parameters
}
