/**
 * What a job changes in the table of a pool, as statements for one shard.
 *
 *   a pool with a unique id   INSERT … SELECT … FINAL of changed rows or tombstones, in ranges of
 *                             the key. They have the version of the job: above those of all rows
 *                             that it may change, below those of all later events.
 *   a pool without one        one mutation of the rows with lower versions, which an UPDATE gives
 *                             the version of the job
 *
 * In both a changed row is none that the job may change. So each statement may be done twice, in
 * part, late, or beside itself, and every row is changed once. docs/decisions/0086.
 */
import { randomUUID } from 'node:crypto'
import type { Propeller, RewriteJob } from '../../catalog/documents/model.ts'
import { PAYLOAD, type PoolSchema, RECEIVED_AT } from '../../format/schema.ts'
import { parametersOf, SETTINGS, typedError } from '../../query/clickhouse/engine.ts'
import { ClickHouseError } from '../../query/clickhouse/http.ts'
import { VERSION } from '../../query/clickhouse/rows.ts'
import { type WrittenChanges, writeRowChanges } from '../../query/clickhouse/write-row-changes.ts'
import { memoryBytesOf } from '../../query/duckdb/duckdb-limits.ts'
import type { PlannedChanges } from '../../query/plan-row-changes.ts'
import { problemOf } from '../../store/compaction/merge-changes.ts'
import { must, Unavailable } from '../../util/errors.ts'
import { EXPORT_COPY_MS_MAX } from '../../util/limits.ts'
import { quoteClickHouseName, quoteClickHouseText } from '../../util/sql.ts'
import { versionOfJob } from '../keeper/versions.ts'
import { byQuorum, type InsertOptions, insertSettings } from './insert-rows.ts'
import { type KeyRange, KeyRanges } from './key-ranges.ts'
import { isRetryable, readRows } from './statements.ts'
import { DELETED, isNullable, sortedBy } from './table.ts'
import type { Replica } from './topology.ts'

/** Rows of a range, with those that others have replaced. */
export const RANGE_ROWS = 65_536
/** ClickHouse ends a statement itself at its time limit. */
const TIMEOUT_SLACK_MS = 2_000
const ANSWER_BYTES_MAX = 4 * 1_048_576

/** What the rows of a range that match would become. */
interface Looked {
  readonly rows: number
  /** A sentence: the job cannot go on. */
  readonly refused: string | undefined
}

/** A mutation as one replica has it. */
interface Mutation {
  readonly isDone: boolean
  /** Why it does not go on; '' where it does, or the server does not say. */
  readonly problem: string
}

export class TableRewrite {
  readonly #job: RewriteJob
  readonly #schema: PoolSchema
  readonly #table: string
  readonly #options: InsertOptions
  readonly #propeller: Propeller
  /** Indexes of the columns that are set. */
  readonly #set: readonly number[]
  readonly #written: WrittenChanges
  readonly #ranges: KeyRanges

  /** Throws Refused where ClickHouse has no equal expression. */
  constructor(
    job: RewriteJob,
    schema: PoolSchema,
    { where, values }: PlannedChanges,
    options: InsertOptions,
    propeller: Propeller,
  ) {
    this.#job = job
    this.#schema = schema
    this.#table = job.poolId
    this.#options = options
    this.#propeller = propeller
    this.#set = job.input.set.map(({ column }) => schema.columns.findIndex(({ name }) => name === column))
    const types = this.#set.map(index => must(schema.columns[index], 'a column').type)
    this.#written = writeRowChanges(this.#table, where, values, types)
    this.#ranges = new KeyRanges(schema)
  }

  /** The rows of the table on one replica, with those that others have replaced. */
  async count(replica: Replica, stopping: AbortSignal): Promise<number> {
    const [row] = await this.#rows(replica, `SELECT count() FROM ${this.#name}`, stopping)
    return countOf(row)
  }

  /** The range behind a key. */
  async rangeAfter(
    replica: Replica,
    after: readonly string[] | null,
    rows: number,
    stopping: AbortSignal,
  ): Promise<KeyRange> {
    const sql = this.#ranges.selectEnd(this.#table, after, rows)
    const [to = null] = await this.#rows(replica, sql, stopping)
    return { after, to }
  }

  async look(replica: Replica, range: KeyRange, stopping: AbortSignal): Promise<Looked> {
    const checks = this.#written.values.map((value, index) => {
      const { type } = this.#columnOf(index)
      const isText = type === 'STRING' || type === 'JSON'
      return `, countIf(isNull(${value})), ${isText ? `max(length(${value}))` : '0'}`
    })
    const sql = `SELECT count()${checks.join('')} FROM ${this.#name}${this.#schema.key === null ? '' : ' FINAL'} WHERE ${this.#condition(range)}`
    const [row = []] = await this.#rows(replica, sql, stopping)
    const [, ...checked] = row
    return { rows: countOf(row), refused: problemOf({ set: this.#set }, this.#schema, checked, 'range') }
  }

  /** Changes the rows of a range. Resolves when a quorum of the shard has them. */
  async change(replica: Replica, shard: number, range: KeyRange, stopping: AbortSignal): Promise<void> {
    const { quorum } = this.#options
    const key = sortedBy(this.#schema)
    const all = [RECEIVED_AT, PAYLOAD, ...this.#schema.columns.map(({ name }) => name)]
    const isDelete = this.#job.kind === 'DELETE_RECORDS'
    const names = isDelete ? key : all
    const values = names.map(name => {
      const index = this.#set.findIndex(at => this.#schema.columns[at]?.name === name)
      return index < 0 ? `${this.#name}.${quoteClickHouseName(name)}` : this.#written.values[index]
    })
    const columns = [...names, VERSION, DELETED].map(quoteClickHouseName).join(', ')
    const select = [...values, `toUInt64(${this.#version})`, `toUInt8(${isDelete ? 1 : 0})`].join(', ')
    const sql = `INSERT INTO ${this.#name} (${columns}) SELECT ${select} FROM ${this.#name} FINAL WHERE ${this.#condition(range)}`
    await byQuorum(quorum, shard, async count => this.#execute(replica, sql, insertSettings(count), stopping))
  }

  /** The job's mutation as a replica has it; undefined where it has none. */
  async mutation(replica: Replica, stopping: AbortSignal): Promise<Mutation | undefined> {
    const sql = `SELECT toString(is_done), latest_fail_reason FROM system.mutations WHERE ${this.#ownMutations}`
    const rows = await this.#rows(replica, sql, stopping)
    if (rows.length === 0) return undefined
    return {
      isDone: rows.every(([isDone]) => isDone === '1'),
      problem: rows.find(each => each[1] !== '')?.[1] ?? '',
    }
  }

  /** Starts the mutation, which the replicas of the shard then do by themselves. */
  async mutate(replica: Replica, stopping: AbortSignal): Promise<void> {
    const set = this.#written.values.map((value, index) => {
      const { name } = this.#columnOf(index)
      const column = `${this.#name}.${quoteClickHouseName(name)}`
      // A null would stop the mutation for ever. What is refused is found before.
      const kept = isNullable(this.#schema, must(this.#set[index], 'a column that is set'))
        ? value
        : `ifNull(${value}, ${column})`
      return `${quoteClickHouseName(name)} = ${kept}`
    })
    const isDelete = this.#job.kind === 'DELETE_RECORDS'
    const what = isDelete
      ? 'DELETE'
      : `UPDATE ${[...set, `${VERSION} = toUInt64(${this.#version})`].join(', ')}`
    const where = `${this.#condition({ after: null, to: null })} AND (${this.#mark} != '')`
    await this.#execute(replica, `ALTER TABLE ${this.#name} ${what} WHERE ${where}`, {}, stopping)
  }

  /** Ends the mutation of a job that was cancelled. What it has done stays. */
  async endMutation(replica: Replica, stopping: AbortSignal): Promise<void> {
    await this.#run(replica, `KILL MUTATION WHERE ${this.#ownMutations}`, {}, stopping)
  }

  get #name(): string {
    // Ids need no quotes, and a short name is written once where a value is used twice.
    return this.#table
  }

  get #version(): bigint {
    return versionOfJob(this.#job.beforeSequence)
  }

  /** In the text of the mutation. */
  get #mark(): string {
    return quoteClickHouseText(this.#job.id)
  }

  get #ownMutations(): string {
    return `database = currentDatabase() AND table = ${quoteClickHouseText(this.#table)} AND position(command, ${this.#mark}) > 0`
  }

  #columnOf(index: number) {
    return must(this.#schema.columns[must(this.#set[index], 'a column that is set')], 'a column')
  }

  /** The rows of the range that the job changes. */
  #condition(range: KeyRange): string {
    const own = this.#ranges.condition(range)
    return [
      `${VERSION} < toUInt64(${this.#version})`,
      ...(this.#schema.key === null ? [] : [`${DELETED} = 0`]),
      ...(own === '' ? [] : [own]),
      ...(this.#written.where === '' ? [] : [`(${this.#written.where})`]),
    ].join(' AND ')
  }

  async #rows(replica: Replica, sql: string, stopping: AbortSignal): Promise<readonly (readonly string[])[]> {
    return readRows(await this.#run(replica, `${sql} FORMAT JSONCompact`, {}, stopping))
  }

  /** A statement that has no answer: one tells what failed after status 200. */
  async #execute(
    replica: Replica,
    sql: string,
    settings: Readonly<Record<string, string>>,
    stopping: AbortSignal,
  ): Promise<void> {
    const { length } = await this.#run(replica, sql, settings, stopping)
    if (length > 0) throw new Unavailable('cluster_unreachable', 'an answer to a statement that has none')
  }

  #late(stopping: AbortSignal): AbortSignal {
    return AbortSignal.any([stopping, AbortSignal.timeout(EXPORT_COPY_MS_MAX + TIMEOUT_SLACK_MS)])
  }

  async #run(
    replica: Replica,
    sql: string,
    settings: Readonly<Record<string, string>>,
    stopping: AbortSignal,
  ): Promise<Buffer> {
    const late = this.#late(stopping)
    const id = randomUUID()
    const limits = {
      ...settings,
      query_id: id,
      max_execution_time: String(EXPORT_COPY_MS_MAX / 1_000),
      max_memory_usage: String(memoryBytesOf(this.#propeller)),
    }
    const { readonly: _, ...more } = SETTINGS
    const { bounds } = this.#written
    const parameters = { ...more, ...limits, ...parametersOf(bounds) }
    try {
      return (await replica.http.run(sql, parameters, ANSWER_BYTES_MAX, late)).body
    } catch (error) {
      // It may be done yet, which changes nothing.
      const kill = `KILL QUERY WHERE query_id = ${quoteClickHouseText(id)} ASYNC`
      if (late.aborted) replica.http.run(kill, {}, ANSWER_BYTES_MAX).catch(() => undefined)
      throw errorOf(error, late, stopping)
    }
  }
}

/** The count in the row of an answer, which always has one. */
function countOf(row: readonly string[] | undefined): number {
  const count = Number(row?.[0] ?? Number.NaN)
  if (Number.isFinite(count)) return count
  throw new Unavailable('cluster_unreachable', 'an answer to a count that has none')
}

const TIMED_OUT = 159

/** A failure of the statement's own is one of the engine. Others are the cluster's. */
function errorOf(error: unknown, late: AbortSignal, stopping: AbortSignal): unknown {
  if (stopping.aborted) return new Unavailable('stopping', 'Weir is stopping')
  if (late.aborted) return new Unavailable('timeout', 'the statement took too long')
  if (error instanceof ClickHouseError && error.code !== TIMED_OUT && isRetryable(error))
    return Object.assign(new Unavailable('cluster_insert', error.message), { cause: error })
  const typed = typedError(error, 1)
  // A statement of ours that is wrong fails the job.
  return typed instanceof ClickHouseError ? new Error(typed.message) : typed
}
