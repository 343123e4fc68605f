/**
 * The server, joined: opens the stages in order, passes them each other's functions, stops them in the reverse order.
 *
 *   catalog → index → log replayed into the tails → HTTP → ready → sweep, query engine
 *
 *   W-10  The same code after a crash as after a clean stop; nothing here grows with rows. The sweep runs after ready.
 */
import { availableParallelism } from 'node:os'
import { backupRoute, joinBackups } from './admin.ts'
import type { Api, Health } from './api/protocol.ts'
import { createApi } from './api/server.ts'
import type { Backups } from './backup/client.ts'
import type { OpenedCatalog } from './catalog/open.ts'
import { createTokens } from './catalog/token.ts'
import type { Commit } from './commit/protocol.ts'
import { MergerClient } from './compact/merger-client.ts'
import { sweepThenCompact } from './compaction.ts'
import type { Config } from './config.ts'
import { ExportClient } from './export/client.ts'
import { arrowRoute, sweepCopies } from './exporter.ts'
import { createGraphql } from './graphql/endpoint.ts'
import { type HealthState, healthOf } from './health.ts'
import { joinIngest } from './ingest.ts'
import type { OpenedIndex } from './keys/index-client.ts'
import { ENGINE_WARM_MS, MERGE_NICE, STOP_MS_MAX } from './limits.ts'
import { createMeter, watchQueues } from './meter.ts'
import type { Paths } from './paths.ts'
import { planCounter } from './query/counter.ts'
import { createQueryEngine, type LazyEngine } from './query/engine-client.ts'
import { prune } from './query/prune.ts'
import { planSelection } from './query/select.ts'
import { readCounter } from './reader.ts'
import { openStages, rebuiltNotes, type Stages } from './stages.ts'
import type { Running, ServerStart } from './start.ts'
import { monotonicMs } from './util/clock.ts'
import { localUrl } from './util/local-url.ts'
import { warn } from './util/say.ts'

/** Everything that runs. */
interface Server extends Stages {
  readonly engine: LazyEngine
  readonly commit: Commit
  readonly backups: Backups
  readonly exportThread: ExportClient
  readonly paths: Paths
}

/** Opens the stages, joins them and listens. Rejects with CannotRun or Damaged; the caller runs the closers then. */
export async function openServer(start: ServerStart): Promise<Running> {
  const { config, kernel, paths, onFault } = start
  const engine = createQueryEngine({
    segmentFolder: paths.segment,
    temporaryFolder: paths.temporary,
    kernel,
    threads: availableParallelism(),
    crashAt: config.crashAt,
    onFault,
  })
  let ingest: ReturnType<typeof joinIngest> | undefined
  let parseRoom = () => {}
  const stages = await openStages({
    ...start,
    merger: () =>
      new MergerClient(
        { crashAt: config.crashAt, nice: MERGE_NICE, pace: 'beside', temporary: paths.merge },
        onFault,
      ),
    onPoolDeleted: pool => ingest?.forget(pool),
    onParseRoom: () => parseRoom(),
  })
  const { opened, catalog, index, metrics, pools, log } = stages
  const { commit } = log
  const backups = joinBackups({ catalog, pools, commit })
  const exportThread = new ExportClient()
  const server: Server = { ...stages, commit, backups, engine, exportThread, paths }
  const health: HealthState = {
    stopping: false,
    log: commit.stats().state,
    catalogRefusal: () => catalog.refusal(),
  }
  commit.onState = state => {
    health.log = state
  }
  ingest = joinIngest({ catalog, commit, append: pools.append.bind(pools) })
  let url = ''
  const api = await listen(config, server, {
    ingest,
    health: () => healthOf(health),
    publicUrl: () => (config.publicUrl === '' ? url : config.publicUrl),
    onParseRoom: listener => {
      parseRoom = listener
    },
  })
  url = localUrl(config.host, api.port)
  watchQueues(metrics, server, api)
  void sweep(server)
  setTimeout(() => engine.warm(), ENGINE_WARM_MS).unref()
  return {
    url,
    opened,
    notes: [`kernel ${kernel}, durability ${config.durability}`, ...notesOf(opened, index, log.summary)],
    stop: () => stop(server, api, health),
  }
}

interface FrontEnd {
  readonly ingest: ReturnType<typeof joinIngest>
  readonly health: () => Health
  readonly publicUrl: () => string
  readonly onParseRoom: (listener: () => void) => void
}

/** Joins the front end to everything else and listens. */
function listen(config: Config, server: Server, front: FrontEnd): Promise<Api> {
  const { catalog, pools, parse, engine, metrics, exportThread, paths } = server
  const tokens = createTokens(catalog)
  const reader = {
    sealNow: (pool: number) => pools.sealNow(pool),
    snapshot: (pool: number) => pools.snapshot(pool),
    planCounter,
    prune,
    engine,
    onQuery: metrics.query,
    nowMs: monotonicMs,
  }
  const graphql = createGraphql({
    catalog,
    verify: tokens.verify,
    webhookUrl: webhookId => `${front.publicUrl()}/v1/${webhookId}`,
    counter: (pool, query, applicationId) => readCounter(pools.planOf(pool), query, applicationId, reader),
  })
  return createApi(
    {
      ...front.ingest,
      health: front.health,
      room: () => pools.hasRoom(),
      onRoom: listener => pools.onRoom(listener),
      parse: job => parse.parse(job),
      parseRoom: () => parse.room(),
      onParseRoom: front.onParseRoom,
      graphql: request => graphql.handle(request),
      token: request => tokens.token(request),
      routes: [
        backupRoute(server.backups, tokens.verify, config),
        arrowRoute({
          ...reader,
          catalog,
          pools,
          exportThread,
          verify: tokens.verify,
          planSelection,
          temporaryFolder: paths.temporary,
        }),
      ],
      metricsText: () => metrics.text(),
      meter: createMeter(metrics, catalog),
    },
    { host: config.host, port: config.port, rateLimit: config.rateLimit },
  )
}

/** After ready: copies that exports left, then what the index and the segments' folders have too much. */
async function sweep({ catalog, index, pools, paths }: Server): Promise<void> {
  await sweepCopies(paths.temporary).catch(error =>
    warn(`copies of former exports stay in ${paths.temporary}: ${(error as Error).message}`),
  )
  await sweepThenCompact(catalog, index, pools)
}

function notesOf(opened: OpenedCatalog, index: OpenedIndex, log: Stages['log']['summary']): string[] {
  const notes: string[] = []
  if (!opened.isNewFolder) notes.push(...rebuiltNotes(index))
  if (log.replayed > 0) notes.push(`replayed ${log.replayed} requests from the log`)
  if (log.torn !== undefined)
    notes.push(`an unfinished write was cut from ${log.torn.file} at byte ${log.torn.offset}`)
  return notes
}

/** Front to back: what is answered is synced, what is synced is sealed, then the threads end. */
async function stop(server: Server, api: Api, health: HealthState): Promise<boolean> {
  const { catalog, index, pools, parse, engine, commit, metrics, exportThread } = server
  const begin = monotonicMs()
  health.stopping = true
  const [answered] = await Promise.all([
    api.stop(STOP_MS_MAX / 2),
    pools.compaction.stop(),
    server.backups.stop(),
  ])
  const sealed = await pools.stop(Math.max(0, STOP_MS_MAX * 0.8 - (monotonicMs() - begin)))
  await commit.stop()
  await Promise.all([index.index.stop(), engine.stop(), parse.stop(), exportThread.stop()])
  await catalog.stop()
  metrics.stop()
  return answered && sealed
}
