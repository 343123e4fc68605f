/**
 * The store of one machine: a data folder with log, key index and segments, which DuckDB reads.
 *
 *   W-10  A start after a crash runs the same code as after a clean stop. Its cost does not grow
 *         with rows; orphans are removed after ready.
 */
import { availableParallelism } from 'node:os'
import { healthOf } from '../api/probes.ts'
import type { CatalogListener } from '../catalog/catalog.ts'
import { notesOfCatalog, type OpenedCatalog } from '../catalog/open-catalog.ts'
import type { Activity } from '../database/activity.ts'
import { sweepThenCompact } from '../database/compaction.ts'
import type { Config } from '../database/config.ts'
import type { Pools } from '../database/pools.ts'
import { openStages, rebuiltNotes, type Stages } from '../database/stages.ts'
import type { StartedThreads } from '../database/start-threads.ts'
import type { OpenedIndex } from '../index/index-client.ts'
import { addColumnRunner } from '../jobs/add-column.ts'
import { reservationsOf, rewriteRunner } from '../jobs/rewrite-rows.ts'
import type { LogState } from '../log/log-types.ts'
import { AnswerCache } from '../query/answer-cache.ts'
import type { KeptOfQuestions } from '../query/ask.ts'
import { sweepCopies } from '../query/copy-rows.ts'
import { EngineClient } from '../query/duckdb/engine-client.ts'
import { segmentPins } from '../query/pin-segments.ts'
import type { QueryDone } from '../query/plan/query-task.ts'
import { RepeatedQuestions } from '../query/repeated-questions.ts'
import { segmentExports } from '../query/row-exports.ts'
import { SharedRuns } from '../query/shared-runs.ts'
import { statementCopies } from '../query/statement-copies.ts'
import { segmentTails } from '../query/tail.ts'
import { Backups } from '../tools/backup/backup-client.ts'
import {
  FLUSHES_MAX,
  FLUSHES_SMALL,
  LOG_QUEUED_BYTES_MAX,
  MEMTABLE_BYTES_MAX,
  MiB,
  RECENT_FLUSH_BYTES_MAX,
  WAIT_MS_MAX,
} from '../util/limits.ts'
import { kernelNote } from '../util/native.ts'
import { warn } from '../util/say.ts'
import { commitToLog } from './commit-to-log.ts'
import { flushLagMs, watchAnswers, watchLocalStore } from './local-store-metrics.ts'
import { diskSpace } from './machine.ts'
import { applicationName } from './server-metrics.ts'
import type { ServerStart } from './start.ts'
import type { RunnerDeps, Store } from './store.ts'

/** Time after ready at which the query process starts if no query came: the start goes first. */
const ENGINE_WARM_MS = 5_000

/** Opens the stages over their threads. Rejects with CannotRun or Damaged. */
export async function openLocalStore(
  start: ServerStart,
  threads: StartedThreads,
  listener: CatalogListener,
): Promise<Store> {
  const { config, paths } = start
  const stages = await openStages(threads, { ...start, ...listener })
  const { opened, catalog, index, parse, pools, log, received, metrics } = stages
  const { commit } = log
  const engine = makeEngine(start, stages)
  pools.onFilesFree = files => engine.forget(files)
  const backups = new Backups({ catalog, pools, commit })
  let logState: LogState = commit.stats().state
  commit.onState = state => {
    logState = state
  }
  const health = { catalogRefusal: () => catalog.refusal(), poolsFailing: () => pools.flusher.failing }
  const out = rowsOut(start, stages, engine)
  return {
    ...out,
    opened,
    metrics,
    parse,
    received,
    backups,
    rows: commitToLog({ catalog, commit, append: pools.append.bind(pools) }),
    temporaryFolder: paths.temporary,
    adminFile: paths.admin,
    notes: [
      `${kernelNote(start.kernel, config.kernel)}, durability ${config.durability}`,
      start.http.note,
      ...notesOf(opened, index, log.summary),
    ],
    health: () => healthOf({ ...health, log: logState }),
    refusal: () => undefined,
    room: bytes => pools.flusher.roomFor(bytes),
    waitMsMax: WAIT_MS_MAX,
    onRoom: room => {
      pools.flusher.onRoom = room
    },
    state: () => stateOf(stages, config.dataDir),
    runners: deps => runnersOf(start, stages, engine, deps),
    leaderCatalog: catalog,
    lead: act => {
      reserveAgain(stages)
      act()
    },
    queues: () => queuesOf(stages),
    watch: activity => watch(start, stages, activity, out.reading),
    ready: () => {
      void sweep(start, stages)
      setTimeout(() => engine.warm(), ENGINE_WARM_MS).unref()
    },
    quiet: async () => {
      await Promise.all([pools.compaction.stop(), backups.stop()])
    },
    stop: msMax => stop(stages, engine, msMax),
  }
}

function rowsOut(
  { config, paths }: ServerStart,
  { pools, metrics }: Stages,
  engine: EngineClient,
): Pick<Store, 'reading' | 'exports' | 'copyStatement' | 'openTail' | 'sizeOf'> {
  const pins = {
    makeVisible: (pool: number) => pools.makeVisible(pool),
    snapshot: (pool: number) => pools.manifest.snapshot(pool),
  }
  const answers = answersOf(pools, config)
  const runs = new SharedRuns<QueryDone>()
  const repeated = config.answerCacheMib === 0 ? undefined : new RepeatedQuestions()
  const reading = { pin: segmentPins(pins), engine, runs, answers, repeated, onQuery: metrics.query }
  const { temporary: temporaryFolder } = paths
  return {
    reading,
    exports: exportThread => segmentExports({ ...pins, engine, exportThread, temporaryFolder }),
    copyStatement: statementCopies({ ...reading, temporaryFolder }),
    openTail: segmentTails({
      ...pins,
      engine,
      isFlushed: pool => pools.flusher.isFlushed(pool),
      flushedSequence: pool => pools.manifest.flushedSequence(pool),
    }),
    sizeOf: ({ number }) => pools.sizeOf(number),
  }
}

/** Undefined where the operator wants none. */
function answersOf(pools: Pools, { answerCacheMib }: Config): AnswerCache | undefined {
  if (answerCacheMib === 0) return undefined
  const answers = new AnswerCache({
    bytesMax: answerCacheMib * MiB,
    versionOf: pool => (pools.flusher.isFlushed(pool) ? pools.manifest.version(pool) : undefined),
  })
  pools.onLost = pool => answers.forget(pool)
  return answers
}

/** Stops from front to back: syncs, flushes, then ends the threads. */
async function stop(
  { pools, log, index, parse, opened, metrics }: Stages,
  engine: EngineClient,
  msMax: number,
): Promise<boolean> {
  const flushed = await pools.stop(msMax)
  await log.commit.stop()
  await Promise.all([index.index.stop(), engine.stop(), parse.stop()])
  await opened.catalog.stop()
  metrics.stop()
  return flushed
}

function makeEngine(
  { config, kernel, paths }: ServerStart,
  { catalog, metrics, pools }: Stages,
): EngineClient {
  return new EngineClient({
    segmentFolder: paths.segment,
    temporaryFolder: paths.temporary,
    kernel,
    threads: config.queryThreads || availableParallelism(),
    partialsBytesMax: config.answerCacheMib * MiB,
    crashAt: config.crashAt,
    ensureWhole: pools.checks.ensureWhole,
    propellerOf: id => catalog.propellerOf(id),
    onWaited: (id, ms) => metrics.queryWaited(applicationName(catalog, id), ms),
    onCrash: () => metrics.queryProcessFailed(),
  })
}

/** Segments that an earlier process left to a job are reserved again. */
function reserveAgain({ catalog, pools }: Stages): void {
  for (const { poolId, below } of reservationsOf(catalog.read.jobs.all())) {
    const pool = catalog.pool(poolId)
    if (pool !== undefined) pools.reserveAgain(pool.number, below)
  }
}

function runnersOf(
  { paths }: ServerStart,
  { catalog, pools, metrics }: Stages,
  engine: EngineClient,
  { cutOver }: RunnerDeps,
): ReturnType<Store['runners']> {
  const rewrite = rewriteRunner({
    catalog,
    pools: {
      schemaOf: pool => catalog.read.currentSchema(pool),
      reserveSegments: pool => pools.reserveSegments(pool),
      releaseSegments: pool => pools.compaction.release(pool),
      snapshot: pool => pools.manifest.snapshot(pool),
      rewrite: (pool, of) => pools.compaction.rewrite(pool, of),
    },
    engine,
    temporaryFolder: paths.temporary,
    onRows: metrics.jobRows,
  })
  return {
    ADD_COLUMN: addColumnRunner({ catalog, cutOver }),
    DELETE_RECORDS: rewrite,
    UPDATE_RECORDS: rewrite,
  }
}

function queuesOf({ pools, log }: Stages): ReturnType<Store['queues']> {
  const store = pools.flusher.stats()
  return [
    ['log_bytes', log.commit.stats().queuedBytes, LOG_QUEUED_BYTES_MAX],
    ['memtable_bytes', store.memtableBytes, MEMTABLE_BYTES_MAX],
    ['recent_flush_bytes', store.recentFlushBytes, RECENT_FLUSH_BYTES_MAX],
    ['flushes', store.flushesUnderWay, FLUSHES_MAX * FLUSHES_SMALL],
  ]
}

function watch(
  { config }: ServerStart,
  { metrics, pools, log }: Stages,
  activity: Activity,
  reading: KeptOfQuestions,
): void {
  const { commit } = log
  const { onSync } = commit
  commit.onSync = (ms, bytes) => {
    onSync(ms, bytes)
    activity.sync(ms)
  }
  watchLocalStore(metrics, pools, commit, config.dataDir)
  watchAnswers(metrics, reading)
}

async function stateOf({ pools }: Stages, dataDir: string): ReturnType<Store['state']> {
  const disk = await diskSpace(dataDir)
  const { segments, bytes } = pools.sizeOfAll()
  const { memtableRows, oldestMs } = pools.flusher.stats()
  return {
    unflushedRecords: String(memtableRows),
    flushLagMs: flushLagMs(oldestMs),
    segments,
    segmentBytes: bytes,
    diskBytes: disk.bytes,
    diskFreeBytes: disk.freeBytes,
  }
}

/**
 * Runs after ready: removes copies that exports left, then orphans of the index and of the segment
 * folders. Then the scrub may begin.
 */
async function sweep({ paths }: ServerStart, { catalog, index, pools }: Stages): Promise<void> {
  await sweepCopies(paths.temporary).catch(error =>
    warn(`copies of earlier exports stay in ${paths.temporary}: ${(error as Error).message}`),
  )
  await sweepThenCompact(catalog, index, pools)
  pools.scrub.start()
}

function notesOf(opened: OpenedCatalog, index: OpenedIndex, log: Stages['log']['summary']): string[] {
  const notes: string[] = []
  if (!opened.isNewFolder) notes.push(...rebuiltNotes(index))
  notes.push(...notesOfCatalog(opened))
  if (log.replayed > 0) notes.push(`replayed ${log.replayed} requests from the log`)
  if (log.torn !== undefined)
    notes.push(`an unfinished write was removed from ${log.torn.file} at byte ${log.torn.offset}`)
  return notes
}
