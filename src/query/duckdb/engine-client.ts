/**
 * The query stage on the main thread: two lanes of queries (engine-lane.ts), each with a process.
 *
 *   run ──► files checked ──► the lane of its application ──► answer
 *                                 │ main: all applications
 *                                 └ penalty: one query at a time, half the memory
 *
 * An application whose query was ended goes to the penalty lane for a time (penalties.ts). A query
 * is ended when its time limit stops it, or when its process is replaced because it did not end.
 * Queries whose process ended without their fault, or perhaps without it, run again
 * (docs/decisions/0060).
 */
import { setMaxListeners } from 'node:events'
import type { Propeller } from '../../catalog/documents/model.ts'
import type { EnsureWhole } from '../../store/check/segment-checks.ts'
import { PROCESS_MEMORY } from '../../util/duckdb-errors.ts'
import { CLIENT_GONE, Unavailable } from '../../util/errors.ts'
import {
  MiB,
  PENALTY_MS,
  PENALTY_RUNNING_MAX,
  QUERIES_WAITING_BYTES_MAX,
  QUERY_END_MS_MAX,
  QUERY_MEMORY_BYTES,
  QUERY_MS_MAX,
} from '../../util/limits.ts'
import { checkDuckDb } from '../../util/load-package.ts'
import type { QueryProcessName } from '../../util/paths.ts'
import { warn } from '../../util/say.ts'
import { Shares } from '../../util/shares.ts'
import type { Expression, SqlStatement } from '../expression/ast.ts'
import type { BadQuery } from '../expression/values.ts'
import type { QueryDone } from '../plan/query-task.ts'
import { isLongCopy, QUEUE_FULL, waitingBytes } from '../plan/query-turns.ts'
import type { SegmentEngine, SegmentTask } from '../plan/segment-task.ts'
import type { NativeStatement, SqlDialect } from '../statement/guard-statement.ts'
import { placesOf, RESOURCES } from './duckdb-limits.ts'
import type { EngineSettings } from './engine-calls.ts'
import { codeOf, EngineLane, type EngineQuery, type RunEnd, throwIfGone } from './engine-lane.ts'
import { type EngineCallee, LOST } from './engine-process.ts'
import { textParser } from './parse-texts.ts'
import { Penalties } from './penalties.ts'
import { segmentsOf } from './sent-segments.ts'
import { duckdb } from './write-statement.ts'

/** Part of the query process's memory that the penalty process has: both fit into P-7. */
const PENALTY_MEMORY_SHARE = 1 / 2
/** The penalty process ends when it had no query for this long: idle it takes 30 MB of its own. */
const PENALTY_IDLE_MS = 60_000
/**
 * Bytes of deletion vectors that the query process keeps: 8M deleted rows. Those that do not fit
 * are sent with each query. The native module keeps as many bytes of its own sets; a pool with more
 * is read by joins.
 */
const DELETION_VECTORS_BYTES_MAX = 32 * MiB

type SettingWithDefault = 'memoryBytes' | 'deletionVectorBytesMax' | 'queryMsMax'

/** The options of an engine. Only tests set those that have a default in limits.ts. */
export interface EngineOptions
  extends Omit<EngineSettings, 'process' | SettingWithDefault>,
    Partial<Pick<EngineSettings, SettingWithDefault>> {
  readonly crashAt: string
  /** Every statement waits until the files that it reads are known to be whole (W-8). */
  readonly ensureWhole: EnsureWhole
  /** The propeller of an application. Absent: all queries have the resources of the largest. */
  readonly propellerOf?: (fairKey: string) => Propeller
  /** A query of an application has waited this long for its turn, or in vain. */
  readonly onWaited?: (fairKey: string, ms: number) => void
  /** The query process has ended by itself, and another one starts. */
  readonly onCrash?: () => void
  readonly queryEndMsMax?: number
  readonly penaltyMs?: number
  readonly penaltyIdleMs?: number
  readonly runningMax?: number
  readonly waitingBytesMax?: number
  readonly shortMs?: number
}

/** Starts the process. Resolves when it can run queries. Both folders must exist. */
export async function openQueryEngine(options: EngineOptions): Promise<SegmentEngine> {
  const engine = new EngineClient(options)
  await engine.open()
  return engine
}

/** An engine whose process is started by the first query, or by `warm`. */
export class EngineClient implements SegmentEngine {
  readonly dialect = duckdb
  readonly runningMax: number
  readonly #options: EngineOptions
  readonly #queryMsMax: number
  readonly #main: EngineLane
  readonly #penalty: EngineLane
  readonly #penalties: Penalties
  /** Applications whose long copy was in a crash, or whose statement took too long, once. */
  readonly #suspects: Penalties
  /** Of bytes, for queries that wait for checksums or for their turn, or run. */
  readonly #shares: Shares
  /** Queries so far: the id of the last one. */
  #queries = 0
  readonly parse = textParser<Expression>('expression', text =>
    this.#twice(process => process.call('parse', text)),
  )
  readonly parseStatement = textParser<SqlStatement>('statement', text =>
    this.#twice(process => process.call('parseStatement', text)),
  )
  readonly #guards = { POSTGRESQL: this.#guard('POSTGRESQL'), CLICKHOUSE: this.#guard('CLICKHOUSE') }

  /**
   * Both folders must exist.
   * @throws CannotRun if DuckDB cannot be loaded: the start ends then, and not the first query
   */
  constructor(options: EngineOptions) {
    checkDuckDb()
    this.#options = options
    this.#queryMsMax = options.queryMsMax ?? QUERY_MS_MAX
    this.runningMax = options.runningMax ?? placesOf(options.threads)
    this.#shares = new Shares(options.waitingBytesMax ?? QUERIES_WAITING_BYTES_MAX)
    this.#penalties = new Penalties(options.penaltyMs ?? PENALTY_MS)
    this.#suspects = new Penalties(options.penaltyMs ?? PENALTY_MS)
    const endMsMax = options.queryEndMsMax ?? QUERY_END_MS_MAX
    const common = {
      crashAt: options.crashAt,
      // Queries that do not end hold slots until their process is replaced. Others wait longer.
      waitMsMax: this.#queryMsMax + 2 * endMsMax,
      endMsMax,
      onEnd: (query: EngineQuery, end: RunEnd, lane: QueryProcessName) =>
        'done' in end ? query.resolve(end.done) : this.#failed(query, end, lane),
      onWaited: (fairKey: string, ms: number) => options.onWaited?.(fairKey, ms),
      onCrash: () => options.onCrash?.(),
    }
    this.#main = new EngineLane({
      ...common,
      name: 'query',
      settings: settingsOf(options),
      runningMax: this.runningMax,
      hasShortSlot: true,
      shortMs: options.shortMs,
      limited: query => this.#limited(query),
      queriesMaxOf: fairKey => this.#resourcesOf(fairKey)?.queriesMax ?? Number.POSITIVE_INFINITY,
    })
    this.#penalty = new EngineLane({
      ...common,
      name: 'penalty',
      settings: penaltySettingsOf(options),
      runningMax: PENALTY_RUNNING_MAX,
      hasShortSlot: false,
      idleMs: options.penaltyIdleMs ?? PENALTY_IDLE_MS,
      limited: ({ task, fairKey }) => ({ ...task, msMax: this.#msMaxOf(fairKey) }),
      queriesMaxOf: () => PENALTY_RUNNING_MAX,
    })
  }

  #guard(dialect: SqlDialect) {
    return textParser<NativeStatement>('native', text =>
      this.#twice(process => process.call('guard', { text, dialect })),
    )
  }

  guard(text: string, dialect: SqlDialect, fairKey: string): Promise<NativeStatement | BadQuery> {
    return this.#guards[dialect](text, fairKey)
  }

  async open(): Promise<void> {
    try {
      await this.#main.opened()
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  /** Starts the process if no query has started it. */
  warm(): void {
    this.#main.warm()
  }

  async run(task: SegmentTask, fairKey: string, verify = () => {}, gone?: AbortSignal): Promise<QueryDone> {
    throwIfGone(gone)
    const segments = segmentsOf(task.source)
    const bytes = waitingBytes(task.statement, segments.length)
    if (!this.#shares.tryTake(fairKey, bytes)) throw QUEUE_FULL()
    let leave = () => {}
    try {
      const msMax = task.copyTo?.msMax ?? this.#msMaxOf(fairKey)
      const checked = this.#options.ensureWhole(segments, { fairKey, msMax, gone })
      if (checked !== undefined) {
        await checked
        throwIfGone(gone)
      }
      const own = { ...task, id: ++this.#queries }
      return await new Promise<QueryDone>((resolve, reject) => {
        const state = {
          state: 'out' as const,
          wait: undefined,
          isSlow: false,
          wasBesideCulprit: false,
          crashedIn: undefined,
        }
        const query: EngineQuery = { task: own, fairKey, verify, gone, resolve, reject, ...state }
        this.#laneOf(query).add(query)
        leave = this.#listen(query)
      })
    } finally {
      leave()
      this.#shares.give(fairKey, bytes)
    }
  }

  /** Ends the query when its client disconnects. Returns the end of that. */
  #listen(query: EngineQuery): () => void {
    const { gone } = query
    if (gone === undefined) return () => {}
    const cancel = () => {
      if (!this.#main.cancel(query)) this.#penalty.cancel(query)
    }
    // A document asks hundreds of questions, and Node takes more than ten listeners for a leak.
    setMaxListeners(0, gone)
    gone.addEventListener('abort', cancel)
    return () => gone.removeEventListener('abort', cancel)
  }

  /** Drops the deleted rows of these files, which no manifest and no snapshot names any more. */
  forget(files: readonly string[]): void {
    for (const lane of [this.#main, this.#penalty]) lane.forget(files)
  }

  stats(): { readonly running: number; readonly waiting: number } {
    const [main, penalty] = [this.#main.turns, this.#penalty.turns]
    return { running: main.running + penalty.running, waiting: main.waiting + penalty.waiting }
  }

  waiting(): readonly (readonly [string, number])[] {
    const all = this.#main.turns.waitingOf()
    for (const [fairKey, queries] of this.#penalty.turns.waitingOf())
      all.set(fairKey, (all.get(fairKey) ?? 0) + queries)
    return [...all]
  }

  penalised(): readonly (readonly [string, number])[] {
    return this.#penalties.all()
  }

  async stop(): Promise<void> {
    const why = new Unavailable('stopping', 'Weir is stopping')
    await Promise.all([this.#main.stop(why), this.#penalty.stop(why)])
  }

  /** Calls the main process, and the next one if a query beside this call has ended it. */
  async #twice<R>(call: (process: EngineCallee) => Promise<R>): Promise<R> {
    const process = await this.#main.opened()
    try {
      return await call(process)
    } catch (error) {
      if (codeOf(error as Error) !== 'query_process') throw error
    }
    return await call(await this.#main.opened())
  }

  #propellerOf(fairKey: string): Propeller | undefined {
    return this.#options.propellerOf?.(fairKey)
  }

  #resourcesOf(fairKey: string) {
    const propeller = this.#propellerOf(fairKey)
    return propeller && RESOURCES[propeller]
  }

  #msMaxOf(fairKey: string): number {
    return Math.min(this.#queryMsMax, this.#resourcesOf(fairKey)?.queryMsMax ?? Number.POSITIVE_INFINITY)
  }

  /** The task of a query in the main lane. */
  #limited({ task, fairKey }: EngineQuery): SegmentTask & { readonly msMax: number } {
    const propeller = this.#propellerOf(fairKey)
    const limited = { ...task, msMax: task.copyTo?.msMax ?? this.#msMaxOf(fairKey) }
    return propeller === undefined ? limited : { ...limited, propeller }
  }

  #laneOf({ task, fairKey }: EngineQuery): EngineLane {
    return task.isOfJob !== true && this.#penalties.has(fairKey) ? this.#penalty : this.#main
  }

  /** Answers a query that did not run to its end, or lets it run again. */
  #failed(query: EngineQuery, end: Extract<RunEnd, { readonly error: Error }>, lane: QueryProcessName): void {
    if (end.lost === 'own') this.#penalise(query, 'a query did not end after its interrupt')
    if (query.gone?.aborted === true) query.reject(CLIENT_GONE())
    else if (end.isTooSlow === true) this.#laneOf(query).add(query)
    else if (end.lost === 'own') query.reject(TOOK_TOO_LONG())
    else if (end.lost === 'other') this.#runBesideNoCulprit(query, end.error)
    else if (end.lost === 'crash') this.#runAlone(query, end.error, lane)
    else if (codeOf(end.error) === PROCESS_MEMORY) this.#findMemory(query, end.error, lane)
    else if (query.crashedIn === 'query' && isOfSmallLane(end.error)) query.reject(LOST())
    else {
      if (codeOf(end.error) === 'timeout' && !this.#isFirstOfStatements(query))
        this.#penalise(query, 'a query took too long')
      query.reject(end.error)
    }
  }

  /**
   * True for a user's statement that took too long, where it is the first of its application for a
   * time: who tries a heavy statement once does not slow the others of the application for minutes.
   */
  #isFirstOfStatements(query: EngineQuery): boolean {
    const isStatement = query.task.statement.native !== undefined && this.#isOfApplication(query)
    return isStatement && this.#suspects.add(query.fairKey)
  }

  /** A query that ran beside one that did not end runs again, once. */
  #runBesideNoCulprit(query: EngineQuery, error: Error): void {
    if (query.wasBesideCulprit) query.reject(error)
    else {
      query.wasBesideCulprit = true
      this.#laneOf(query).addAgain(query)
    }
  }

  /**
   * A query whose process ended by itself runs again, once and alone: the one that ends that
   * process too is the cause. A long copy does not: it would keep the others of the penalty lane
   * waiting. Its second crash counts as its fault.
   */
  #runAlone(query: EngineQuery, error: Error, lane: QueryProcessName): void {
    if (isLongCopy(query)) {
      if (this.#isOfApplication(query) && !this.#suspects.add(query.fairKey))
        this.#penalise(query, 'the query process ended twice during a copy')
      query.reject(error)
    } else if (query.crashedIn === undefined) {
      query.crashedIn = lane
      this.#penalty.addAgain(query)
    } else {
      this.#penalise(query, 'a query ended two processes')
      query.reject(error)
    }
  }

  /**
   * The query to which the system refuses memory need not be the one that took it: it runs again
   * alone. A long copy runs once.
   */
  #findMemory(query: EngineQuery, error: Error, lane: QueryProcessName): void {
    if (lane === 'query' && query.crashedIn === undefined && !isLongCopy(query)) {
      query.crashedIn = lane
      this.#penalty.addAgain(query)
      return
    }
    if (lane === 'penalty') this.#penalise(query, 'a query took all memory of its process')
    query.reject(new Unavailable('query_memory', error.message))
  }

  /** Lets the application's queries run in the penalty lane from now on, those that wait too. */
  #penalise(query: EngineQuery, why: string): void {
    const { fairKey } = query
    if (!this.#isOfApplication(query)) return
    if (this.#penalties.add(fairKey))
      warn(`the queries of application ${fairKey} run one by one in the penalty process for a time: ${why}`)
    for (const waiting of this.#main.turns.takeWaiting(other => other.fairKey === fairKey))
      this.#laneOf(waiting).add(waiting)
  }

  /** Returns false for the query of a job or of a command. */
  #isOfApplication({ task }: EngineQuery): boolean {
    return task.isOfJob !== true && this.#options.propellerOf !== undefined
  }
}

const TOOK_TOO_LONG = () => new Unavailable('timeout', 'the query took too long')

/** The penalty lane has less memory and fewer threads: such an error may be only its own. */
function isOfSmallLane(error: Error): boolean {
  return ['timeout', 'query_memory'].includes(codeOf(error) ?? '')
}

function settingsOf(options: EngineOptions): EngineSettings {
  return {
    segmentFolder: options.segmentFolder,
    temporaryFolder: options.temporaryFolder,
    outputFolder: options.outputFolder,
    kernel: options.kernel,
    threads: options.threads,
    partialsBytesMax: options.partialsBytesMax,
    partialsRowsMin: options.partialsRowsMin,
    memoryBytes: options.memoryBytes ?? QUERY_MEMORY_BYTES,
    deletionVectorBytesMax: options.deletionVectorBytesMax ?? DELETION_VECTORS_BYTES_MAX,
    queryMsMax: options.queryMsMax ?? QUERY_MS_MAX,
  }
}

/** All queries of the penalty process share one instance of DuckDB, since they run one by one. */
function penaltySettingsOf(options: EngineOptions): EngineSettings {
  const settings = settingsOf(options)
  return {
    ...settings,
    process: 'penalty',
    partialsBytesMax: 0,
    threads: 1,
    memoryBytes: settings.memoryBytes * PENALTY_MEMORY_SHARE,
    deletionVectorBytesMax: settings.deletionVectorBytesMax * PENALTY_MEMORY_SHARE,
  }
}
