/** Pools for the query tests: real Parquet files, written by DuckDB as a flush would write them. */

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { COLUMN_TYPE, type ColumnType, type PoolSchema } from '../../src/format/schema.ts'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { parseTexts } from '../../src/query/ask.ts'
import type { EngineSettings } from '../../src/query/duckdb/engine-calls.ts'
import { type EngineOptions, openQueryEngine } from '../../src/query/duckdb/engine-client.ts'
import { queryColumns } from '../../src/query/expression/operand.ts'
import { type BadQuery, badQueryOf } from '../../src/query/expression/values.ts'
import { type CounterQuery, counter } from '../../src/query/plan/counter.ts'
import type { PartialStatements } from '../../src/query/plan/partials.ts'
import type { QueryPlan, Statement } from '../../src/query/plan/plan.ts'
import { planFor, type RowPolicy } from '../../src/query/plan/policy.ts'
import { prune } from '../../src/query/plan/prune-segments.ts'
import type { Askable } from '../../src/query/plan/question.ts'
import { rowsOfPool, type SegmentEngine } from '../../src/query/plan/segment-task.ts'
import { RepeatedQuestions } from '../../src/query/repeated-questions.ts'
import { fileChecksum } from '../../src/util/crc32.ts'
import { disk } from '../../src/util/disk.ts'
import { quoteName, quoteText } from '../../src/util/sql.ts'
import { ClusterTables } from '../cluster/cluster-tables.ts'

/** TIMESTAMP as bigint microseconds, DATE as days, other types as JavaScript has them. */
export type Cell = string | number | bigint | boolean | null
export type Row = Readonly<Record<string, Cell>>

/** Who asks, and when. */
interface Asker {
  readonly fairKey?: string
  readonly policy?: RowPolicy | null
  readonly nowMs?: number
  /**
   * The question's partial groups are kept. `onKept` hears how many segments were not read, and the
   * bytes of all that is kept.
   */
  readonly partials?: { onKept(segments: number, bytes: number): void }
  /** Absent: that of the store that is tested. */
  readonly engine?: SegmentEngine
}

let pools = 0

/** A schema of columns given as [name, type], for a pool of its own. */
export function schemaOf(
  columns: readonly (readonly [string, ColumnType])[],
  more: Partial<Pick<PoolSchema, 'timestamp' | 'tenant' | 'version' | 'pool'>> = {},
): PoolSchema {
  return {
    pool: ++pools,
    version: 1,
    timestamp: -1,
    tenant: -1,
    key: null,
    ...more,
    columns: columns.map(([name, type]) => ({ name, type, jsonProperty: name, required: false })),
  }
}

function literal(type: ColumnType, value: Cell): string {
  if (value === null) return 'NULL'
  switch (type) {
    case 'STRING':
    case 'JSON':
      return String(value).split('\0').map(quoteText).join(' || chr(0) || ')
    case 'TIMESTAMP':
      return `make_timestamp(${value}::BIGINT)`
    case 'DATE':
      return `(DATE '1970-01-01' + ${value}::INTEGER)`
    default:
      return quoteText(String(value))
  }
}

/** A folder of segments and an engine over it. */
export class TestPool {
  readonly root = mkdtempSync(join(tmpdir(), "weir-query-[1]*'-"))
  readonly segmentFolder = join(this.root, 'segment')
  readonly temporaryFolder = join(this.root, 'tmp')
  #instance: DuckDBInstance | undefined
  #local: SegmentEngine | undefined
  #engine: SegmentEngine | undefined
  #cluster: ClusterTables | undefined
  #next = 1

  constructor() {
    mkdirSync(this.segmentFolder)
    mkdirSync(this.temporaryFolder)
  }

  async open(options: Partial<EngineOptions> = {}): Promise<SegmentEngine> {
    this.#local = await openQueryEngine({
      segmentFolder: this.segmentFolder,
      temporaryFolder: this.temporaryFolder,
      threads: 2,
      crashAt: '',
      ensureWhole: () => undefined,
      ...options,
    })
    this.#engine = this.#local
    if (process.env['WEIR_TEST_STORE'] === 'clickhouse') this.#engine = (await this.cluster()).engine
    return this.#engine
  }

  /** Of an engine over these files in the process of the test, with the native module. */
  get nativeSettings(): EngineSettings {
    return {
      segmentFolder: this.segmentFolder,
      temporaryFolder: this.temporaryFolder,
      kernel: 'native',
      threads: 2,
      memoryBytes: 256 * 1024 * 1024,
      deletionVectorBytesMax: 4 * 1024 * 1024,
      queryMsMax: 60_000,
    }
  }

  /** The engine, opened at the first use. */
  async engine(): Promise<SegmentEngine> {
    return this.#engine ?? this.open()
  }

  /** DuckDB, whichever store is tested. */
  get local(): SegmentEngine {
    return this.#local!
  }

  /** The same rows in a ClickHouse, which is started at the first use. */
  async cluster(): Promise<ClusterTables> {
    this.#cluster ??= await ClusterTables.start(this.#local!)
    return this.#cluster
  }

  /** Writes the rows of `select`, which must name all columns. DuckDB counts them for `rows`. */
  async write(select: string, meta: Partial<QuerySegment['meta']> = {}): Promise<QuerySegment> {
    this.#instance ??= await DuckDBInstance.create(':memory:')
    const number = this.#next++
    const file = join(this.segmentFolder, `${String(number).padStart(10, '0')}.parquet`)
    const connection = await this.#instance.connect()
    await connection.run("SET TimeZone = 'UTC'")
    const done = await connection.run(
      `COPY (${select}) TO ${quoteText(file)} (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 65536)`,
    )
    const rows = Number((await done.getRows())[0]![0])
    connection.closeSync()
    return {
      file,
      deletionVectors: [],
      meta: { ...META, segment: number, rows, checksum: fileChecksum(disk, file), ...meta },
    }
  }

  /** A segment of rows; missing cells are null. If `zoned`, timestamps carry UTC in the file. */
  async segment(schema: PoolSchema, rows: readonly Row[], zoned = true): Promise<QuerySegment> {
    const columns = queryColumns(schema)
    const line = (row: Row) =>
      `(${columns.map(({ name, type }) => literal(type, row[name] ?? null)).join(', ')}, 0)`
    const names = [...columns.map(({ name }) => quoteName(name)), '_service_sequence'].join(', ')
    const casts = columns.map(({ name, type }) => {
      const zone = type === 'TIMESTAMP' && zoned ? " AT TIME ZONE 'UTC'" : ''
      return `(${quoteName(name)}::${COLUMN_TYPE[type].duckdb})${zone} AS ${quoteName(name)}`
    })
    const select = `SELECT ${casts.join(', ')}, _service_sequence::BIGINT AS _service_sequence
      FROM (VALUES ${rows.map(line).join(', ')}) t(${names})`
    return this.write(select, { schemaVersion: schema.version })
  }

  /** The counter's value, as the API answers it. */
  async counter(
    schema: PoolSchema,
    query: CounterQuery,
    segments: readonly QuerySegment[],
    fairKey = 'APP1',
  ): Promise<string | null> {
    const answer = await this.ask(schema, query, segments, { fairKey })
    if (typeof answer === 'object' && answer !== null) throw new Error(answer.badRequest)
    return answer
  }

  /** The counter's value for one reader at one time, or the refusal. */
  async ask(
    schema: PoolSchema,
    query: CounterQuery,
    segments: readonly QuerySegment[],
    asker: Asker = {},
  ): Promise<string | null | BadQuery> {
    const answer = await this.answer(counter, schema, query, segments, asker)
    return 'badRequest' in answer ? answer : answer.value
  }

  /** The answer of any kind of question for one reader at one time, or the refusal. */
  async answer<Query, Answer extends object>(
    question: Askable<Query, Answer>,
    schema: PoolSchema,
    query: Query,
    segments: readonly QuerySegment[],
    { fairKey = 'APP1', policy = null, nowMs = 0, engine: asked, partials }: Asker = {},
  ): Promise<Answer | BadQuery> {
    try {
      const engine = asked ?? (await this.engine())
      await question.prepare?.(query, async work => work())
      const planned = await planFor(
        [{ schema, policy }],
        question.texts(query),
        texts => parseTexts(texts, engine, 'APP'),
        nowMs,
        (view, context) => question.plan(view, query, context),
      )
      const statement = engine.dialect.write(planned)
      const task = {
        source: rowsOfPool(schema, { segments: prune(schema, planned, segments) }),
        statement,
        rowsMax: question.rowsMax,
        ...(partials && { partials: partialsOf(schema, planned, statement, fairKey, engine) }),
      }
      const { rows, segmentsKept = 0, partialsBytes = 0 } = await engine.run(task, fairKey)
      partials?.onKept(segmentsKept, partialsBytes)
      return planned.answer(rows)
    } catch (error) {
      return badQueryOf(error)
    }
  }

  async close(): Promise<void> {
    await this.#cluster?.stop()
    await this.#local?.stop()
    this.#instance?.closeSync()
    rmSync(this.root, { recursive: true, force: true })
  }
}

/** As of a question that was asked before. */
function partialsOf(
  { pool, version }: PoolSchema,
  plan: QueryPlan,
  statement: Statement,
  fairKey: string,
  { dialect }: SegmentEngine,
): PartialStatements | undefined {
  const key = JSON.stringify([fairKey, pool, version, statement])
  const repeated = new RepeatedQuestions()
  repeated.statementsOf(key, fairKey, Number.POSITIVE_INFINITY, plan, dialect)
  return repeated.statementsOf(key, fairKey, Number.POSITIVE_INFINITY, plan, dialect)
}

const META = {
  bytes: 1000,
  schemaVersion: 1,
  sequenceFrom: 1,
  sequenceTo: 1,
  receivedFromUs: 0,
  receivedToUs: 0,
  timestampFromUs: null,
  timestampToUs: null,
  tenant: null,
  deletes: 0,
}

/** The segment with these rows deleted, by a deletion vector of two parts. */
export function withDeletionVectors(segment: QuerySegment, rows: readonly number[]): QuerySegment {
  const sorted = [...rows].sort((a, b) => a - b)
  const parts = [sorted.filter((_, index) => index % 3 === 0), sorted.filter((_, index) => index % 3 !== 0)]
  const number = segment.meta.segment
  return {
    ...segment,
    deletionVectors: parts.map(part => ({ segment: number, rows: Uint32Array.from(part) })),
  }
}
