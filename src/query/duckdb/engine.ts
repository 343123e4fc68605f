/**
 * Runs statements in DuckDB, in the query process.
 *
 *   W-8   A statement over a damaged or missing segment rejects with SegmentDamaged, which names
 *         the segment. A count is never short.
 *   W-11  Values become strings here, chunk by chunk, not on the main thread.
 *
 *   run(task)   deletion vectors → views or a table · `WITH rows AS (…) statement` · read chunks ·
 *   print
 */
import { dirname } from 'node:path'
import type {
  DuckDBConnection,
  DuckDBDataChunk,
  DuckDBInstance,
  DuckDBPreparedStatement,
  DuckDBResult,
} from '@duckdb/node-api'
import type { Propeller } from '../../catalog/documents/model.ts'
import type { QuerySegment } from '../../index/index-types.ts'
import { monotonicMs } from '../../util/clock.ts'
import { DuckDBTypeId, StatementType } from '../../util/duckdb.ts'
import { typedError, withoutDetails } from '../../util/duckdb-errors.ts'
import { assert, Unavailable } from '../../util/errors.ts'
import { ANSWER_CHARACTERS_MAX, EXPORT_BATCH_BYTES } from '../../util/limits.ts'
import { tryNative } from '../../util/native.ts'
import { quoteText } from '../../util/sql.ts'
import { rawColumn, textBytes, wholeTexts } from '../arrow/duckdb-vectors.ts'
import { copyBatches } from '../arrow/record-batches.ts'
import type { PartialStatements } from '../plan/partials.ts'
import type { Statement } from '../plan/plan.ts'
import type { QueryDone } from '../plan/query-task.ts'
import type {
  CopyTarget,
  ParquetTarget,
  PoolSegments,
  RowRange,
  SegmentRows,
  SegmentTask,
} from '../plan/segment-task.ts'
import { ChunkWork } from './chunk-work.ts'
import { DeletedRowSets, makeDeletedTable, type NativeLiveRows } from './deleted-rows.ts'
import { DuckdbInstances, spillFolderOf } from './duckdb-instances.ts'
import { LARGEST_PROPELLER } from './duckdb-limits.ts'
import { boundType, columnTypeOf, duckdbValue, printValue } from './duckdb-values.ts'
import type { EngineSettings } from './engine-calls.ts'
import { withoutModule } from './exact-sums.ts'
import { addGroups, KeptPartials } from './kept-partials.ts'
import {
  countDeletedRows,
  countLiveRows,
  countLiveRowsIn,
  deletedName,
  isLimited,
  type PoolSources,
  type SegmentSource,
  withRows,
} from './live-rows.ts'
import { noRowOf, parquetColumns } from './parquet-columns.ts'
import { SqlParser } from './parse-sql.ts'
import { holdsFiles, RoomGuard } from './room-guard.ts'
import { shownName, shownPlan, statementError } from './statement-error.ts'

/** Cached column lists, one per pool and schema version. */
const SCHEMAS_CACHED_MAX = 4_096

/** An interrupt has no effect while no statement runs, so it is repeated at this interval. */
const INTERRUPT_AGAIN_MS = 50

type WhyStopped = 'timeout' | 'stopping' | 'client_gone' | 'query_disk'

const STOPPED: Readonly<Record<WhyStopped, string>> = {
  timeout: 'the query took too long',
  stopping: 'Weir is stopping',
  client_gone: 'the client has disconnected',
  query_disk:
    'the disk of the server has no room for the rows that the query keeps aside: ask for fewer rows, groups or columns, or try again when there is room',
}

interface Running {
  readonly id: number | undefined
  readonly duckdb: DuckDBInstance
  readonly connection: DuckDBConnection
  /** Undefined where the instance lacks the native function; tables tell deleted rows then. */
  readonly sets: DeletedRowSets | undefined
  /** Views of `sets`, which end with the query. */
  readonly views: number[]
  stopped: WhyStopped | undefined
}

type Row = readonly (string | null)[]

export class Engine {
  readonly #instances: DuckdbInstances
  readonly #sets: DeletedRowSets | undefined
  /** Of users' SQL. */
  readonly parser: SqlParser
  readonly #settings: EngineSettings
  readonly #running = new Set<Running>()
  /** By id of a query that is about to run: true where it was cancelled meanwhile. */
  readonly #beginning = new Map<number, boolean>()
  #stopping = false
  readonly #room: RoomGuard
  readonly #chunkWork = new ChunkWork()
  readonly #kept: KeptPartials
  /** The columns of segments, by pool and schema version. */
  readonly #columns = new Map<string, ReadonlySet<string>>()

  private constructor(instances: DuckdbInstances, parser: SqlParser, settings: EngineSettings) {
    this.#instances = instances
    const native = tryNative<NativeLiveRows>(settings.kernel)
    this.#sets = native && new DeletedRowSets(native, settings.deletionVectorBytesMax)
    this.parser = parser
    this.#settings = settings
    this.#room = new RoomGuard(settings.temporaryFolder)
    this.#kept = new KeptPartials(settings.partialsBytesMax ?? 0, settings.partialsRowsMin)
  }

  /** Opens an engine. Its DuckDB instances are locked. */
  static async open(settings: EngineSettings): Promise<Engine> {
    const instances = new DuckdbInstances(settings)
    // An engine that cannot open fails here, not at its first query.
    const { duckdb } = await instances.of(LARGEST_PROPELLER)
    return new Engine(instances, await SqlParser.open(duckdb), settings)
  }

  /**
   * Rejects with Unavailable (`timeout`, `stopping`, `client_gone`, `query_memory`,
   * `query_disk`, `too_much_work`, `too_many_rows`, `answer_too_large`) or SegmentDamaged.
   */
  async run(task: SegmentTask): Promise<QueryDone> {
    const began = monotonicMs()
    const propeller = task.propeller ?? LARGEST_PROPELLER
    const running = await this.#begin(task.id, propeller)
    const msMax = task.msMax ?? this.#settings.queryMsMax
    const timer = setTimeout(() => interrupt(running, 'timeout'), msMax)
    const again = setInterval(() => {
      if (running.stopped !== undefined) running.connection.interrupt()
    }, INTERRUPT_AGAIN_MS)
    const unwatch = this.#room.watch({
      writes: () => this.#writes(propeller, task.copyTo),
      end: () => interrupt(running, 'query_disk'),
    })
    const pools = task.source.pools.map(withoutEmpty)
    const segments = pools.flatMap(pool => pool.segments)
    try {
      const answer = await this.#answer(running, task, pools)
      const costs = cost(segments, task.source.rowRange)
      return { ...answer, ...costs, durationMs: monotonicMs() - began, partialsBytes: this.#kept.bytes }
    } catch (error) {
      const own = task.statement.native && statementError(error)
      const typed = stoppedError(running) ?? own ?? (await this.#typedError(running, error, segments))
      throw isLimited(task.statement) ? withoutDetails(typed) : typed
    } finally {
      clearTimeout(timer)
      clearInterval(again)
      unwatch()
      this.#running.delete(running)
      for (const view of running.views) running.sets?.end(view)
      running.connection.closeSync()
    }
  }

  /** Connects. The query may be cancelled, and the engine stopped, while the connection is made. */
  async #begin(id: number | undefined, propeller: Propeller): Promise<Running> {
    if (id !== undefined) this.#beginning.set(id, false)
    try {
      const { duckdb, hasIsLive } = await this.#instances.of(propeller)
      const connection = await duckdb.connect()
      const sets = hasIsLive ? this.#sets : undefined
      const running: Running = { id, duckdb, connection, sets, views: [], stopped: undefined }
      if (id !== undefined && this.#beginning.get(id) === true) running.stopped = 'client_gone'
      if (this.#stopping) running.stopped = 'stopping'
      this.#running.add(running)
      return running
    } finally {
      if (id !== undefined) this.#beginning.delete(id)
    }
  }

  /** True while a query writes to the disk of the data folder: DuckDB does, or it copies rows. */
  #writes(propeller: Propeller, copyTo: CopyTarget | undefined): boolean {
    const { temporaryFolder } = this.#settings
    const copies = copyTo !== undefined && dirname(copyTo.file) === temporaryFolder
    return copies || holdsFiles(spillFolderOf(this.#settings, propeller))
  }

  /** Interrupts the query of this id, if it runs. It rejects with Unavailable (`client_gone`). */
  cancel(id: number): void {
    if (this.#beginning.has(id)) this.#beginning.set(id, true)
    for (const running of this.#running) if (running.id === id) interrupt(running, 'client_gone')
  }

  forget(files: readonly string[]): void {
    this.#kept.forget(files)
    this.#sets?.forget(files)
  }

  /** Interrupts all queries, later ones included. Each rejects with Unavailable (`stopping`). */
  interruptAll(): void {
    this.#stopping = true
    for (const running of this.#running) interrupt(running, 'stopping')
  }

  /** No query may run any more. */
  async close(): Promise<void> {
    assert(this.#running.size === 0, 'no query runs when the engine closes')
    this.parser.close()
    await this.#instances.close()
  }

  async #typedError(running: Running, error: unknown, segments: readonly QuerySegment[]): Promise<unknown> {
    const read = async (sql: string) => await (await running.connection.run(sql)).getRows()
    const found = await typedError(error, 'query', segments, read)
    return stoppedError(running) ?? found
  }

  async #answer(running: Running, task: SegmentTask, pools: readonly PoolSegments[]) {
    const { statement, partials } = task
    const [pool] = pools
    const groups = partials && pool && (await this.#keptGroups(running, task, partials, pool))
    if (groups === undefined || partials === undefined || pool === undefined)
      return await this.#read(running, task, statement, pools)
    const { merged } = partials
    const segments = groups.others
    try {
      const commons = `${groups.sql}, ${merged.commons}`
      const answer = await this.#read(running, task, { ...merged, commons }, [{ ...pool, segments }])
      return { ...answer, segmentsKept: pool.segments.length - segments.length }
    } finally {
      groups.end()
    }
  }

  /** Exact sums need the native module. */
  async #keptGroups(running: Running, task: SegmentTask, partials: PartialStatements, pool: PoolSegments) {
    if (running.sets === undefined) return undefined
    const { propeller = LARGEST_PROPELLER } = task
    const { key, fairKey, columns, partial } = partials
    const asked = { key: `${propeller} ${key}`, fairKey, columns, duckdb: running.duckdb }
    // Such as too little memory for the groups beside the table. If the question itself cannot be
    // answered, the run that reads all rows says why.
    const unlessFailed = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
      try {
        return await work()
      } catch {
        throwIfStopped(running)
        return undefined
      }
    }
    const { connection } = running
    return await this.#kept.begin(asked, pool.segments, {
      run: async sql => (await unlessFailed(() => connection.run(sql))) !== undefined,
      add: async (segments, to) =>
        await unlessFailed(async () => {
          const own = { source: {}, statement: partial }
          const read = await this.#sourcesOfAll(running, own, [{ ...pool, segments }])
          await this.#checkWork(running, partial, read)
          return await addGroups(connection, withRows(read, partial), to, prepared => {
            bind(prepared, partial)
            throwIfStopped(running)
          })
        }),
    })
  }

  async #read(running: Running, task: SegmentTask, statement: Statement, pools: readonly PoolSegments[]) {
    const read = await this.#sourcesOfAll(running, { ...task, statement }, pools)
    const sql = withRows(read, statement)
    const isOwn = statement.native === undefined
    const select = running.sets === undefined && isOwn ? withoutModule(sql) : sql
    return await this.#execute(running, { ...task, statement }, select, read)
  }

  /** What the statement reads as `rows`, `rows_1` and so on. */
  async #sourcesOfAll(
    running: Running,
    { statement, source }: { readonly statement: Statement; readonly source: Omit<SegmentRows, 'pools'> },
    pools: readonly PoolSegments[],
  ): Promise<readonly PoolSources[]> {
    const { rowRange, sequenceAfter } = source
    const restrictions = [statement.restriction, ...(statement.otherRestrictions ?? [])]
    const read: PoolSources[] = []
    const hasPositions = statement.hasPositions === true
    for (const [index, pool] of pools.entries()) {
      const sources = await this.#sourcesOf(running, pool, index)
      const own = index === 0 ? { rowRange, sequenceAfter } : {}
      read.push({ ...sources, restriction: restrictions[index], ...own, hasPositions })
    }
    return read
  }

  async #checkWork(running: Running, { work = [] }: Statement, read: readonly PoolSources[]): Promise<void> {
    throwIfStopped(running)
    await this.#chunkWork.check(running.connection, work, read, () => throwIfStopped(running))
  }

  /** The segments of one pool. Their deleted rows are in a view or in a table from here on. */
  async #sourcesOf(
    running: Running,
    { schema, segments }: PoolSegments,
    index: number,
  ): Promise<PoolSources> {
    const whole: SegmentSource[] = []
    const reduced: SegmentSource[] = []
    const withDeleted: QuerySegment[] = []
    for (const segment of segments) {
      const { file, meta, deletionVectors } = segment
      const columns = await this.#columnsOf(running, `${schema.pool} ${meta.schemaVersion}`, file)
      const hasDeleted = countDeletedRows(deletionVectors) > 0
      if (hasDeleted) withDeleted.push(segment)
      ;(hasDeleted ? reduced : whole).push({ file, columns })
    }
    if (reduced.length === 0) return { schema, whole, reduced: undefined }
    const view = running.sets?.begin(withDeleted)
    if (view !== undefined) {
      running.views.push(view)
      return { schema, whole, reduced: { sources: reduced, skipping: { by: 'view', view } } }
    }
    const table = deletedName(index)
    await makeDeletedTable(running.connection, table, withDeleted)
    return { schema, whole, reduced: { sources: reduced, skipping: { by: 'table', table } } }
  }

  /** The columns of a file. Segments of one pool and schema version share one set. */
  async #columnsOf(running: Running, key: string, file: string): Promise<ReadonlySet<string>> {
    const known = this.#columns.get(key)
    if (known !== undefined) return known
    throwIfStopped(running)
    // Not DESCRIBE, whose names are values: the package removes U+FEFF from the beginning of a text
    // value.
    const sql = `SELECT * FROM read_parquet([${quoteText(file)}]) LIMIT 0`
    const columns = new Set((await running.connection.run(sql)).columnNames())
    if (this.#columns.size >= SCHEMAS_CACHED_MAX) this.#columns.clear()
    this.#columns.set(key, columns)
    return columns
  }

  async #execute(running: Running, task: SegmentTask, select: string, read: readonly PoolSources[]) {
    await this.#checkWork(running, task.statement, read)
    const { copyTo } = task
    const { temporaryFolder, outputFolder } = this.#settings
    if (copyTo !== undefined)
      assert(
        [temporaryFolder, outputFolder].includes(dirname(copyTo.file)),
        'copies go to the folders for them',
      )
    const isCopy = copyTo?.format === 'parquet'
    const columns = isCopy ? await this.#parquetColumns(running, task.statement, select, copyTo) : undefined
    const rows = columns === undefined ? select : columns.sql
    const { native } = task.statement
    const isExplain = native?.form === 'explain'
    const sql = isCopy ? parquetCopySql(rows, copyTo) : isExplain ? `EXPLAIN ${select}` : select
    const prepared = await running.connection.prepare(sql)
    try {
      const type = isCopy ? StatementType.COPY : isExplain ? StatementType.EXPLAIN : StatementType.SELECT
      assert(prepared.statementType === type, 'the planner makes SELECT statements only')
      bind(prepared, task.statement)
      if (native?.form === 'columns') return describe(prepared)
      throwIfStopped(running)
      const result = await prepared.stream()
      if (copyTo?.format === 'arrow') {
        const check = () => throwIfStopped(running)
        const rows = await copyBatches(result, copyTo.types, copyTo.file, this.#settings.kernel, check)
        return { columns: ['Count'], rows: [[String(rows)]] }
      }
      const written = columns?.names ?? result.columnNames()
      const names = native === undefined ? written : written.map(shownName)
      const types = native && { types: result.columnTypes().map(columnTypeOf) }
      const answered = await readRows(running, result, task.rowsMax)
      const shown = isExplain ? answered.map(row => row.map(text => text && shownPlan(text))) : answered
      return { columns: names, ...types, rows: shown }
    } finally {
      prepared.destroySync()
    }
  }

  /** The columns of a copy that may have any; undefined where the planner made them. */
  async #parquetColumns(running: Running, statement: Statement, select: string, { rowsMax }: ParquetTarget) {
    if (rowsMax === undefined) return undefined
    const prepared = await running.connection.prepare(noRowOf(select))
    try {
      bind(prepared, statement)
      const result = await prepared.stream()
      return parquetColumns(select, result.columnNames(), result.columnTypes(), rowsMax)
    } finally {
      prepared.destroySync()
    }
  }
}

function bind(prepared: DuckDBPreparedStatement, { bounds }: Statement): void {
  bounds.forEach((bound, index) => {
    prepared.bindValue(index + 1, duckdbValue(bound), boundType(bound))
  })
}

/** The columns of a statement, which has not run. */
function describe(prepared: DuckDBPreparedStatement) {
  const places = Array.from({ length: prepared.columnCount }, (_, at) => at)
  const types = places.map(at => columnTypeOf(prepared.columnType(at)))
  return { columns: places.map(at => shownName(prepared.columnName(at))), types, rows: [] }
}

function parquetCopySql(sql: string, target: ParquetTarget): string {
  const options = [
    'FORMAT parquet',
    `COMPRESSION ${target.compression}`,
    // Level 1 takes half the CPU of DuckDB's level 3, and the files are as large.
    ...(target.compression === 'zstd' ? ['COMPRESSION_LEVEL 1'] : []),
    `ROW_GROUP_SIZE ${Math.trunc(target.rowGroupRows)}`,
    'USE_TMP_FILE false', // the caller renames the file when it is complete
    ...(target.hasDictionaries ? [] : ['DICTIONARY_SIZE_LIMIT 0']),
    ...(target.rowsMax === undefined ? [] : [`ROW_GROUP_SIZE_BYTES ${EXPORT_BATCH_BYTES}`]),
  ]
  return `COPY (${sql}) TO ${quoteText(target.file)} (${options.join(', ')})`
}

async function readRows(running: Running, result: DuckDBResult, rowsMax: number): Promise<Row[]> {
  const rows: Row[] = []
  let characters = 0
  for (;;) {
    throwIfStopped(running)
    const chunk = await result.fetchChunk()
    if (chunk === null || chunk.rowCount === 0) return rows
    if (rows.length + chunk.rowCount > rowsMax)
      throw new Unavailable('too_many_rows', `the answer has more than ${rowsMax} rows`)
    // A chunk may name one long text in each of its rows: as many JavaScript strings.
    if (characters + charactersMin(chunk) > ANSWER_CHARACTERS_MAX) throw answerTooLarge()
    const columns = Array.from({ length: chunk.columnCount }, (_, column) => printColumn(chunk, column))
    for (const column of columns)
      for (const text of column) characters += Math.max(VALUE_CHARACTERS_MIN, text?.length ?? 0)
    if (characters > ANSWER_CHARACTERS_MAX) throw answerTooLarge()
    for (let row = 0; row < chunk.rowCount; row++) rows.push(columns.map(column => column[row] ?? null))
  }
}

/** What a value counts at least: JSON writes `null`. */
const VALUE_CHARACTERS_MIN = 4
/** UTF-8 takes up to this many bytes for a unit of a JavaScript string. */
const UNIT_BYTES_MAX = 3

/** Characters that a chunk has at least, from the lengths of its texts in bytes. */
function charactersMin(chunk: DuckDBDataChunk): number {
  let characters = 0
  for (let index = 0; index < chunk.columnCount; index++) {
    const isText = chunk.getColumnVector(index).type.typeId === DuckDBTypeId.VARCHAR
    characters += isText
      ? textBytes(rawColumn(chunk, index, 'STRING'), 0, chunk.rowCount) / UNIT_BYTES_MAX
      : chunk.rowCount * VALUE_CHARACTERS_MIN
  }
  return characters
}

function answerTooLarge(): Unavailable {
  return new Unavailable('answer_too_large', `the answer has more than ${ANSWER_CHARACTERS_MAX} characters`)
}

function printColumn(chunk: DuckDBDataChunk, column: number): readonly (string | null)[] {
  const { type } = chunk.getColumnVector(column)
  return type.typeId === DuckDBTypeId.VARCHAR
    ? wholeTexts(chunk, column)
    : chunk.getColumnValues(column).map(value => printValue(value, type))
}

/** Segments without rows have no file. */
function withoutEmpty({ schema, segments }: PoolSegments): PoolSegments {
  return { schema, segments: segments.filter(({ meta }) => meta.rows > 0) }
}

function cost(segments: readonly QuerySegment[], rowRange: RowRange | undefined) {
  const [first] = segments
  const isPart = rowRange !== undefined && first !== undefined
  return {
    recordsProcessed: isPart ? countLiveRowsIn(first, rowRange) : countLiveRows(segments),
    bytesProcessed: segments.reduce((sum, { meta }) => sum + meta.bytes, 0),
  }
}

function interrupt(running: Running, why: WhyStopped): void {
  running.stopped ??= why
  running.connection.interrupt()
}

function stoppedError(running: Running): Unavailable | undefined {
  if (running.stopped === undefined) return undefined
  return new Unavailable(running.stopped, STOPPED[running.stopped])
}

function throwIfStopped(running: Running): void {
  const error = stoppedError(running)
  if (error !== undefined) throw error
}
