/**
 * Runs statements in ClickHouse: turns (plan/query-turns.ts) before its HTTP interface (W-9).
 *
 *   run ─────► its turn ──► tables of the pools ──► statement over them ──►
 *              HTTP ──► RowBinary ──► printed in turns (W-11)
 *   stream ──► the same, in another format, as the caller takes it
 *
 *   W-8  ClickHouse sends the answer of `run` when it is whole (wait_end_of_query). A failure is an
 *        error, never a short answer. The caller of `stream` notes by the format what is whole.
 */
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Propeller } from '../../catalog/documents/model.ts'
import { monotonicMs } from '../../util/clock.ts'
import { CLIENT_GONE, must, Unavailable } from '../../util/errors.ts'
import {
  ANSWER_CHARACTERS_MAX,
  MiB,
  QUERIES_RUNNING_MIN,
  QUERIES_WAITING_BYTES_MAX,
  QUERY_MS_MAX,
} from '../../util/limits.ts'
import { warn } from '../../util/say.ts'
import { Shares } from '../../util/shares.ts'
import { LARGEST_PROPELLER, memoryBytesOf, RESOURCES } from '../duckdb/duckdb-limits.ts'
import { type Bound, Refused } from '../expression/values.ts'
import type { Asker, QueryDone, QueryEngine, QueryTask } from '../plan/query-task.ts'
import { QUEUE_FULL, QueryTurns, type TurnTaker, waitingBytes } from '../plan/query-turns.ts'
import { type ClickHouseAnswer, ClickHouseError, type ClickHouseHttp, unavailable } from './http.ts'
import { answerReader } from './row-binary.ts'
import { type PoolTable, type TableRows, withRows } from './rows.ts'
import { clickhouse } from './write-statement.ts'
import { parameterText } from './write-values.ts'

export interface ClickHouseEngineOptions {
  /** Where a query runs, when everything acknowledged before is there. */
  readonly placeOf: (pools: TableRows['pools'], gone: AbortSignal | undefined) => Promise<QueryPlace>
  /** DuckDB's parser reads users' SQL for every store. */
  readonly parser: Pick<QueryEngine, 'parse' | 'parseStatement'>
  /** Absent: all queries have the resources of the largest. */
  readonly propellerOf?: (fairKey: string) => Propeller
  readonly onWaited?: (fairKey: string, ms: number) => void
  readonly runningMax?: number
  readonly shortMs?: number
  readonly queryMsMax?: number
}

/** A server, and the tables of a query's pools as it reads them. */
export interface QueryPlace {
  readonly http: ClickHouseHttp
  readonly tables: readonly PoolTable[]
}

interface Written {
  readonly http: ClickHouseHttp
  readonly sql: string
  /** The parameters of the statement. */
  readonly values: Readonly<Record<string, string>>
}

type TableTask = QueryTask<TableRows>
type StreamTask = Pick<TableTask, 'source' | 'statement' | 'isOfJob'>

interface Turn extends TurnTaker {
  readonly start: () => void
  /** Aborted where it takes too long for the short slot. */
  readonly interrupted: AbortController
}

export class ClickHouseEngine implements QueryEngine<TableTask> {
  readonly dialect = clickhouse
  readonly runningMax: number
  readonly parse: QueryEngine['parse']
  readonly parseStatement: QueryEngine['parseStatement']
  readonly #options: ClickHouseEngineOptions
  readonly #turns: QueryTurns<Turn>
  /** Of bytes, for what waits for its turn. */
  readonly #shares = new Shares(QUERIES_WAITING_BYTES_MAX)
  readonly #stop = new AbortController()

  constructor(options: ClickHouseEngineOptions) {
    this.#options = options
    const { runningMax = QUERIES_RUNNING_MIN, queryMsMax = QUERY_MS_MAX } = options
    this.runningMax = runningMax
    this.#turns = new QueryTurns({
      runningMax,
      hasShortSlot: true,
      shortMs: options.shortMs,
      waitMsMax: queryMsMax + 2 * TIMEOUT_SLACK_MS,
      queriesMaxOf: fairKey => RESOURCES[this.#propellerOf(fairKey)].queriesMax,
      isOpen: () => true,
      start: turn => turn.start(),
      interrupt: ({ interrupted }) => interrupted.abort(),
      onWaited: (fairKey, ms) => options.onWaited?.(fairKey, ms),
    })
    this.parse = (text, fairKey) => options.parser.parse(text, fairKey)
    this.parseStatement = (text, fairKey) => options.parser.parseStatement(text, fairKey)
  }

  async run(task: TableTask, fairKey: string, verify = () => {}, gone?: AbortSignal): Promise<QueryDone> {
    for (let isSlow = false; ; isSlow = true) {
      const turn = await this.#turn(task, fairKey, gone, isSlow)
      const interrupted = turn.interrupted.signal
      try {
        throwIfEnded(gone, this.#stop.signal)
        verify()
        return await this.#run(task, fairKey, gone, interrupted)
      } catch (error) {
        if (!isInterrupt(error, interrupted)) throw error
      } finally {
        this.#endTurn(turn)
      }
    }
  }

  /**
   * The answer in a format of ClickHouse, as the caller takes it. Rejects as `run` does. A stream
   * begins in a turn, which ends with its first bytes, or with the time of a query. One without
   * bytes that takes too long for the short slot begins again, as a query does.
   * @param settings of the format
   */
  async *stream(
    task: StreamTask,
    format: string,
    settings: Readonly<Record<string, string>>,
    { fairKey, verify = () => {}, gone }: Asker,
  ): AsyncGenerator<Buffer, void, void> {
    for (let isSlow = false; ; isSlow = true) {
      const turn = await this.#turn(task, fairKey, gone, isSlow)
      let endTurn = () => {
        endTurn = () => {}
        clearTimeout(timer)
        this.#endTurn(turn)
      }
      const timer = setTimeout(() => endTurn(), this.#msMaxOf(fairKey))
      const interrupted = turn.interrupted.signal
      const id = randomUUID()
      const signal = AbortSignal.any([this.#stop.signal, interrupted, ...(gone === undefined ? [] : [gone])])
      let written: Written | undefined
      let isWhole = false
      try {
        throwIfEnded(gone, this.#stop.signal)
        verify()
        const parameters = { ...STREAM_SETTINGS, ...settings, query_id: id }
        written = await this.#written(task, format, signal)
        const all = { ...parameters, ...written.values }
        const chunks = written.http.stream(written.sql, all, STREAM_WAIT_MS_MAX, signal)
        for await (const chunk of chunks) {
          endTurn()
          yield chunk
        }
        isWhole = true
        return
      } catch (error) {
        throwIfEnded(gone, this.#stop.signal)
        if (!isInterrupt(error, interrupted)) throw typedError(error, 0)
      } finally {
        endTurn()
        if (!isWhole && written !== undefined) void this.#kill(id, written.http)
      }
    }
  }

  stats(): { readonly running: number; readonly waiting: number } {
    return { running: this.#turns.running, waiting: this.#turns.waiting }
  }

  waiting(): readonly (readonly [string, number])[] {
    return [...this.#turns.waitingOf()]
  }

  penalised(): readonly (readonly [string, number])[] {
    return []
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    this.#turns.stop(STOPPING())
  }

  // ── turns ─────────────────────────────────────────────────────────────────────────────────────

  #turn(task: StreamTask, fairKey: string, gone: AbortSignal | undefined, isSlow = false): Promise<Turn> {
    throwIfEnded(gone, this.#stop.signal)
    const bytes = waitingBytes(task.statement)
    if (!this.#shares.tryTake(fairKey, bytes)) throw QUEUE_FULL()
    let cancel = () => {}
    return new Promise<Turn>((resolve, reject) => {
      const start = () => resolve(turn)
      const interrupted = new AbortController()
      const turn: Turn = { task, fairKey, isSlow, state: 'out', wait: undefined, interrupted, start, reject }
      cancel = () => this.#turns.giveUp(turn, CLIENT_GONE())
      gone?.addEventListener('abort', cancel)
      this.#turns.add(turn)
    }).finally(() => {
      gone?.removeEventListener('abort', cancel)
      this.#shares.give(fairKey, bytes)
    })
  }

  #endTurn(turn: Turn): void {
    this.#turns.end(turn)
    this.#turns.startWaiting()
  }

  #propellerOf(fairKey: string): Propeller {
    return this.#options.propellerOf?.(fairKey) ?? LARGEST_PROPELLER
  }

  // ── one query ─────────────────────────────────────────────────────────────────────────────────

  async #run(
    task: TableTask,
    fairKey: string,
    gone: AbortSignal | undefined,
    interrupted: AbortSignal,
  ): Promise<QueryDone> {
    const beganMs = monotonicMs()
    const msMax = this.#msMaxOf(fairKey)
    const timeout = AbortSignal.timeout(msMax + TIMEOUT_SLACK_MS)
    const signals = [this.#stop.signal, timeout, interrupted, ...(gone === undefined ? [] : [gone])]
    const signal = AbortSignal.any(signals)
    const id = randomUUID()
    let written: Written | undefined
    try {
      written = await this.#written(task, 'RowBinaryWithNamesAndTypes', signal)
      const parameters = {
        ...SETTINGS,
        max_memory_usage: String(memoryBytesOf(this.#propellerOf(fairKey))),
        wait_end_of_query: '1',
        query_id: id,
        max_execution_time: String(msMax / 1000),
        max_result_rows: String(task.rowsMax),
        ...written.values,
      }
      const answer = await written.http.run(written.sql, parameters, ANSWER_BYTES_MAX, signal)
      return await printed(answer, beganMs)
    } catch (error) {
      // An answer that ends within a row is no answer (W-8).
      if (error instanceof RangeError)
        throw new Unavailable('cluster', 'the answer of ClickHouse was cut off')
      if (signal.aborted && written !== undefined) void this.#kill(id, written.http)
      throwIfEnded(gone, this.#stop.signal)
      if (timeout.aborted) throw TOOK_TOO_LONG()
      throw typedError(error, task.rowsMax)
    }
  }

  /** The statement over the tables of its pools. */
  async #written({ statement, source }: StreamTask, format: string, signal: AbortSignal): Promise<Written> {
    const { pools, versions } = source
    const { http, tables } = await this.#options.placeOf(pools, signal)
    const read = pools.map(({ schema }, index) => {
      const table = must(tables[index], 'the table of a pool')
      return { schema, table, versions: index === 0 ? versions : undefined }
    })
    const sql = `${withRows(read, statement)} FORMAT ${format}`
    return { http, sql, values: parametersOf(statement.bounds) }
  }

  #msMaxOf(fairKey: string): number {
    const { queryMsMax = QUERY_MS_MAX } = this.#options
    return Math.min(queryMsMax, RESOURCES[this.#propellerOf(fairKey)].queryMsMax)
  }

  /** ClickHouse ends a query whose connection is closed, but not while it sends no progress. */
  async #kill(id: string, http: ClickHouseHttp): Promise<void> {
    const sql = 'KILL QUERY WHERE query_id = {id:String} ASYNC'
    await http.run(sql, { param_id: id }, ANSWER_BYTES_MAX, this.#stop.signal).catch(() => undefined)
  }
}

/** ClickHouse ends a query itself at its time limit. */
const TIMEOUT_SLACK_MS = 2_000
const ANSWER_BYTES_MAX = 4 * ANSWER_CHARACTERS_MAX
/** Time in which ClickHouse sends the next bytes of a stream. A condition may select few rows. */
const STREAM_WAIT_MS_MAX = 120_000
/** Of ClickHouse: the length of one parameter, and that of all with the address. */
const [PARAMETER_BYTES_MAX, PARAMETERS_BYTES_MAX] = [131_072, 1_000_000]

const LIMITED = ['read', 'group_by', 'sort', 'result', 'distinct', 'set', 'join', 'transfer', 'timeout']

/** A limit in the profile of Weir's user makes an error, never a short answer that looks whole. */
export const WHOLE: Readonly<Record<string, string>> = Object.fromEntries(
  LIMITED.map(what => [`${what}_overflow_mode`, 'throw']),
)

export const SETTINGS: Readonly<Record<string, string>> = {
  ...WHOLE,
  read_overflow_mode_leaf: 'throw',
  timeout_overflow_mode_leaf: 'throw',
  limit: '0',
  offset: '0',
  skip_unavailable_shards: '0',
  use_query_cache: '0',
  // Replicas that were not synced would answer, too.
  allow_experimental_parallel_reading_from_replicas: '0',
  // Not always correct, as its own text says.
  optimize_move_to_prewhere_if_final: '0',
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: '1',
  join_use_nulls: '1',
  // With it a key that holds a lambda is null in sets without a column that it reads (26.9).
  group_by_use_nulls: '0',
  transform_null_in: '0',
  enable_positional_arguments: '1',
  prefer_column_name_to_alias: '0',
  precise_float_parsing: '1',
  max_query_size: '16777216',
  max_ast_depth: '100000',
  max_ast_elements: '1000000',
  max_expanded_ast_elements: '5000000',
  max_parser_depth: '10000',
}

/**
 * Streams run beside queries, so each takes one core. Clients decide how long they take. FINAL
 * holds a granule of each part, of up to 10 MiB: no propeller's memory is enough for 60 of them.
 */
const STREAM_SETTINGS = {
  ...SETTINGS,
  max_threads: '1',
  max_memory_usage: String(1024 * MiB),
  max_execution_time: '0',
}

export function parametersOf(bounds: readonly Bound[]): Record<string, string> {
  const parameters: Record<string, string> = {}
  let bytes = 0
  for (const [index, bound] of bounds.entries()) {
    const name = `param_p${index + 1}`
    const text = parameterText(bound)
    bytes += new URLSearchParams({ [name]: text }).toString().length
    if (Buffer.byteLength(text) > PARAMETER_BYTES_MAX || bytes > PARAMETERS_BYTES_MAX)
      throw new Unavailable('too_much_work', 'the values of the question are too long for a cluster')
    parameters[name] = text
  }
  return parameters
}

/** Bytes of an answer that are printed in one turn. */
const TURN_BYTES = 1_048_576
/** What a value counts at least: JSON writes `null`. */
const VALUE_CHARACTERS_MIN = 4

async function printed({ body, readRows, readBytes }: ClickHouseAnswer, beganMs: number): Promise<QueryDone> {
  const { columns, next, position } = answerReader(body)
  const rows: (readonly (string | null)[])[] = []
  let characters = 0
  let turn = TURN_BYTES
  for (let row = next(); row !== undefined; row = next()) {
    for (const text of row) characters += Math.max(VALUE_CHARACTERS_MIN, text?.length ?? 0)
    if (characters > ANSWER_CHARACTERS_MAX)
      throw new Unavailable(
        'answer_too_large',
        `the answer has more than ${ANSWER_CHARACTERS_MAX} characters`,
      )
    rows.push(row)
    if (position() < turn) continue
    turn += TURN_BYTES
    await setImmediate()
  }
  const durationMs = monotonicMs() - beganMs
  return { columns, rows, recordsProcessed: readRows, bytesProcessed: readBytes, durationMs }
}

// ── errors ──────────────────────────────────────────────────────────────────────────────────────

/** True where the interrupt is what ended a query: what failed by itself would fail again. */
function isInterrupt(error: unknown, interrupted: AbortSignal): boolean {
  return interrupted.aborted && error === interrupted.reason
}

const STOPPING = () => new Unavailable('stopping', 'Weir is stopping')
const TOOK_TOO_LONG = () => new Unavailable('timeout', 'the query took too long')

function throwIfEnded(gone: AbortSignal | undefined, stop: AbortSignal): void {
  if (gone?.aborted === true) throw CLIENT_GONE()
  if (stop.aborted) throw STOPPING()
}

/** Errors of ClickHouse by their numbers. */
const CODES: Readonly<Record<number, (rowsMax: number) => Unavailable>> = {
  158: tooManyRows,
  159: TOOK_TOO_LONG,
  160: TOOK_TOO_LONG,
  202: () => new Unavailable('queue_full', 'ClickHouse runs too many queries'),
  241: () =>
    new Unavailable(
      'query_memory',
      'the query needs more memory than it may have: ask for fewer rows, groups or columns',
    ),
  243: () => new Unavailable('query_disk', 'the disk of a ClickHouse server has no room for the query'),
  307: tooManyRows,
  394: TOOK_TOO_LONG,
  396: tooManyRows,
}

function tooManyRows(rowsMax: number): Unavailable {
  return new Unavailable('too_many_rows', `the answer has more than ${rowsMax} rows`)
}

/** Errors that a statement of ours causes: any other is one of the cluster. */
const OWN: ReadonlySet<number> = new Set([10, 36, 42, 43, 44, 46, 47, 53, 62, 70, 153, 184, 207, 215, 386])

/** ClickHouse finds no key for one join of some statements (INVALID_JOIN_ON_EXPRESSION). */
const NO_JOIN = 403

/** @param rowsMax of the answer */
export function typedError(error: unknown, rowsMax: number): unknown {
  if (error instanceof Unavailable && error.code === 'cluster_unreachable')
    return unavailable(error.code, 'ClickHouse did not answer', error.message)
  if (!(error instanceof ClickHouseError)) return error
  if (error.code === NO_JOIN) return new Refused('a join of this statement is not possible in a cluster')
  const known = CODES[error.code]?.(rowsMax)
  if (known !== undefined || OWN.has(error.code)) return known ?? error
  warn(`ClickHouse: ${error.message}`)
  return new Unavailable('cluster', `ClickHouse could not answer the query (its code ${error.code})`)
}
