/**
 * Wires the server: opens the stages in order and passes functions between them. shutdown.ts stops
 * them.
 *
 *   catalog → index → log, replayed into memtables → HTTP → ready → orphans removed, query engine
 *
 *   W-10  A start after a crash runs the same code as after a clean stop. Its cost does not grow
 *         with rows; orphans are removed after ready.
 */
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Api } from '../api/api-types.ts'
import { createApi } from '../api/create-api.ts'
import { QUERY_STAGE } from '../api/graphql/context.ts'
import { createGraphql } from '../api/graphql/endpoint.ts'
import { makeSchema } from '../api/graphql/graphql-schema.ts'
import { type HealthState, healthOf, isLoopback, metricsAccess } from '../api/probes.ts'
import { Sessions } from '../api/sessions.ts'
import { createTokens, type Tokens } from '../catalog/access/token.ts'
import { PROPELLERS } from '../catalog/documents/model.ts'
import type { OpenedCatalog } from '../catalog/open-catalog.ts'
import { REJECTED_EVENTS } from '../catalog/rejected-pool.ts'
import { Activity } from '../database/activity.ts'
import { sweepThenCompact } from '../database/compaction.ts'
import { tracesEndpoint } from '../database/config.ts'
import { openStages, rebuiltNotes, type Stages } from '../database/stages.ts'
import type { OpenedIndex } from '../index/index-client.ts'
import { addColumnRunner } from '../jobs/add-column.ts'
import { endImports, importRunner } from '../jobs/end-imports.ts'
import { replayRunner } from '../jobs/replay-rejected.ts'
import { reservationsOf, rewriteRunner } from '../jobs/rewrite-rows.ts'
import { Jobs } from '../jobs/run-jobs.ts'
import type { Commit } from '../log/commit-log.ts'
import { ExportClient } from '../query/arrow/export-client.ts'
import type { QuestionDeps } from '../query/ask.ts'
import { sweepCopies } from '../query/copy-rows.ts'
import { EngineClient } from '../query/duckdb/engine-client.ts'
import { Backups } from '../tools/backup/backup-client.ts'
import { localUrl } from '../util/addresses.ts'
import { Unavailable } from '../util/errors.ts'
import { BODY_BYTES_MAX, CLIENT_SECRET_CHARACTERS_MIN, QUERY_NICE } from '../util/limits.ts'
import { checkInstalled } from '../util/load-package.ts'
import { kernelNote } from '../util/native.ts'
import type { Paths } from '../util/paths.ts'
import { announce, printable, sayAudit, warn } from '../util/say.ts'
import { nicePool } from '../util/this-thread.ts'
import type { Tracing } from '../util/tracing.ts'
import { apiRoutes } from './api-routes.ts'
import { keepSecret } from './handed-secret.ts'
import { wireIngest } from './ingest-wiring.ts'
import { applicationName, createMeter, watchServer } from './server-metrics.ts'
import { stateReader } from './server-state.ts'
import { stopServer } from './shutdown.ts'
import type { Running, ServerStart } from './start.ts'

/** Time after ready at which the query process starts if no query came: the start goes first. */
const ENGINE_WARM_MS = 5_000

/** Where set-up builds the console (src/setup/console.mjs). */
const CONSOLE_FOLDER = fileURLToPath(new URL('../../console/', import.meta.url))

/** Everything that runs. */
export interface Server extends Stages {
  readonly engine: EngineClient
  readonly commit: Commit
  readonly backups: Backups
  readonly jobs: Jobs
  readonly exportThread: ExportClient
  readonly paths: Paths
  readonly tracing: Tracing | undefined
}

/**
 * Opens the stages, wires them and listens. Rejects with CannotRun or Damaged; the caller runs the
 * closers then.
 */
export async function openServer(start: ServerStart): Promise<Running> {
  const { config, kernel, paths } = start
  checkInstalled(['apache-arrow', 'parquet-wasm', 'temporal-polyfill', 'zstddec/stream'])
  await nicePool(QUERY_NICE)
  let ingest: ReturnType<typeof wireIngest> | undefined
  const activity = new Activity()
  const stages = await openStages(start.threads, {
    ...start,
    onPoolDeleted: pool => {
      ingest?.forget(pool)
      activity.forget(pool.id)
    },
  })
  const engine = makeEngine(start, stages)
  const { opened, catalog, index, pools, log } = stages
  const { commit } = log
  const { onSync } = commit
  commit.onSync = (ms, bytes) => {
    onSync(ms, bytes)
    activity.sync(ms)
  }
  pools.onFilesFree = files => engine.forget(files)
  const backups = new Backups({ catalog, pools, commit })
  const exportThread = new ExportClient()
  let { publicUrl } = config
  const webhookUrl = (webhookId: string) => `${publicUrl}/v1/${webhookId}`
  const append = pools.append.bind(pools)
  ingest = wireIngest({ catalog, commit, received: stages.received, append, webhookUrl })
  const tokens = createTokens(catalog)
  const applicationNameOf = (id: string) => applicationName(catalog, id)
  const sessions = new Sessions({ tokens, applicationName: applicationNameOf, publicUrl: () => publicUrl })
  let api: Api | undefined
  const jobs = makeJobs(start, stages, engine, ingest.cutOver, () => api)
  await endImports(stages)
  jobs.start() // before a request can create one
  const tracing = await tracingOf(start, stages)
  const server: Server = { ...stages, commit, backups, jobs, engine, exportThread, paths, tracing }
  const health: HealthState = {
    stopping: false,
    log: commit.stats().state,
    catalogRefusal: () => catalog.refusal(),
    poolsFailing: () => pools.flusher.failing,
  }
  commit.onState = state => {
    health.log = state
  }
  const wired = { ingest, health, activity, tokens, sessions, webhookUrl }
  const listening = await listen(start, server, wired)
  api = listening
  const url = localUrl(config.host, listening.port, start.http.tls === undefined ? 'http' : 'https')
  if (publicUrl === '') publicUrl = url
  const { startedAtMs } = activity
  const isReady = () => healthOf(health).ready
  watchServer(server, listening, { dataDir: config.dataDir, startedAtMs, isReady })
  void sweep(server)
  setTimeout(() => engine.warm(), ENGINE_WARM_MS).unref()
  return {
    url,
    opened,
    notes: [
      `${kernelNote(kernel, config.kernel)}, durability ${config.durability}`,
      start.http.note,
      ...notesOf(opened, index, log.summary),
    ],
    consoleCode: applicationId => (isLocalConsole(config) ? sessions.newCode(applicationId) : undefined),
    stop: () => stopServer(server, listening, health),
  }
}

/** Loads the libraries of traces where the environment names a collector for them. */
async function tracingOf({ config, http }: ServerStart, { metrics }: Stages): Promise<Tracing | undefined> {
  const collector = tracesEndpoint()
  if (collector === undefined) return undefined
  const { startTracing } = await import('../util/tracing.ts')
  // Some collectors want a secret in the path.
  announce(`traces are sent to ${collector.origin}`)
  const port = config.port > 0 && { 'server.port': config.port }
  const server = { 'server.address': config.host, 'url.scheme': http.tls === undefined ? 'http' : 'https' }
  return startTracing({ ...server, ...port }, metrics.spans)
}

/** Where others reach the server, a link that signs in would be theirs too. */
function isLocalConsole({ console, host }: ServerStart['config']): boolean {
  return console === 'on' && isLoopback(host)
}

/** The jobs of the catalog. Segments that an earlier process left to a job are reserved again. */
function makeJobs(
  { paths, onFatal }: ServerStart,
  { catalog, pools, metrics }: Stages,
  engine: EngineClient,
  cutOver: ReturnType<typeof wireIngest>['cutOver'],
  apiNow: () => Pick<Api, 'replay'> | undefined,
): Jobs {
  for (const { poolId, below } of reservationsOf(catalog.read.jobs.all())) {
    const pool = catalog.pool(poolId)
    if (pool !== undefined) pools.reserveAgain(pool.number, below)
  }
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
  const runners = {
    ADD_COLUMN: addColumnRunner({ catalog, cutOver }),
    DELETE_RECORDS: rewrite,
    UPDATE_RECORDS: rewrite,
    IMPORT: importRunner({ catalog }),
    REPLAY_REJECTED: replayRunner({
      catalog,
      reading: readingOf(pools, engine, metrics),
      // Jobs that go on begin before the server listens.
      port: () => {
        const api = apiNow()
        if (api === undefined) throw new Unavailable('starting', 'the server does not listen yet')
        return api.replay
      },
    }),
  }
  return new Jobs({ memory: catalog.read, runners, onFatal })
}

function readingOf(pools: Stages['pools'], engine: EngineClient, metrics: Stages['metrics']): QuestionDeps {
  return {
    makeVisible: pool => pools.makeVisible(pool),
    snapshot: pool => pools.manifest.snapshot(pool),
    engine,
    onQuery: metrics.query,
  }
}

function makeEngine(
  { config, kernel, paths }: ServerStart,
  { catalog, metrics, pools }: Stages,
): EngineClient {
  return new EngineClient({
    segmentFolder: paths.segment,
    temporaryFolder: paths.temporary,
    kernel,
    threads: availableParallelism(),
    crashAt: config.crashAt,
    ensureWhole: pools.checks.ensureWhole,
    // An application that was deleted while its query waited has the smallest.
    propellerOf: id => catalog.application(id)?.propeller ?? PROPELLERS[0],
    onWaited: (id, ms) => metrics.queryWaited(applicationName(catalog, id), ms),
    onCrash: () => metrics.queryProcessFailed(),
  })
}

/** What the front end needs besides the stages. */
interface Wired {
  readonly ingest: ReturnType<typeof wireIngest>
  readonly health: HealthState
  readonly activity: Activity
  readonly tokens: Tokens
  readonly sessions: Sessions
  webhookUrl(webhookId: string): string
}

/** Wires the front end and listens. */
async function listen(
  { config, http }: ServerStart,
  server: Server,
  { ingest, health, activity, tokens: { verify, token }, sessions, webhookUrl }: Wired,
): Promise<Api> {
  const { catalog, pools, parse, engine, metrics, exportThread, jobs, paths } = server
  const reading = readingOf(pools, engine, metrics)
  const schema = makeSchema()
  const graphql = createGraphql(
    {
      catalog,
      jobs,
      commit: server.commit,
      pools,
      query: QUERY_STAGE,
      reading,
      verify,
      activity,
      serverStatus: stateReader({ pools, activity, health, dataDir: config.dataDir }),
      webhookUrl,
      audit: sayAudit,
    },
    schema,
  )
  const exported = { ...reading, catalog, exportThread, verify, temporaryFolder: paths.temporary }
  const routes = apiRoutes({
    admin: { catalog, verify, backups: server.backups, config, paths, webhookUrl },
    query: { graphql, arrow: table => exportThread.table(table) },
    exported,
    tail: {
      ...exported,
      isFlushed: pool => pools.flusher.isFlushed(pool),
      flushedSequence: pool => pools.manifest.flushedSequence(pool),
    },
    schema,
    console: config.console === 'on' ? { sessions, folder: CONSOLE_FOLDER } : undefined,
  })
  return await createApi(
    {
      ...ingest,
      storeSecret: (webhookId, secret) => keepSecret(catalog, webhookId, secret),
      health: () => healthOf(health),
      room: () => pools.flusher.roomFor(BODY_BYTES_MAX),
      onRoom: listener => {
        pools.flusher.onRoom = listener
      },
      parse: task => parse.parse(task),
      parseHere: task => parse.parseHere(task),
      parseRoom: () => parse.room(),
      onParseRoom: parse.onRoom,
      graphql,
      token,
      ...routes,
      imports: { verify, catalog, jobs, temporaryFolder: paths.temporary },
      metricsAccess: metricsAccess(config.host, config.metricsToken),
      metricsText: () => metrics.text(),
      meter: createMeter(metrics, activity, catalog),
      trace: server.tracing?.begin,
    },
    {
      host: config.host,
      port: config.port,
      rateLimit: config.rateLimit,
      transport: http.transport,
      tls: http.tls,
      chunked: config.chunked === 'on',
      connectionsMax: config.connections,
    },
  )
}

/**
 * Runs after ready: removes copies that exports left, then orphans of the index and of the segment
 * folders. Then the scrub may begin.
 */
async function sweep({ catalog, index, pools, paths }: Server): Promise<void> {
  await sweepCopies(paths.temporary).catch(error =>
    warn(`copies of earlier exports stay in ${paths.temporary}: ${(error as Error).message}`),
  )
  await sweepThenCompact(catalog, index, pools)
  pools.scrub.start()
}

function notesOf(opened: OpenedCatalog, index: OpenedIndex, log: Stages['log']['summary']): string[] {
  const notes: string[] = []
  if (!opened.isNewFolder) notes.push(...rebuiltNotes(index))
  if ((opened.admin?.clientSecret.length ?? CLIENT_SECRET_CHARACTERS_MIN) < CLIENT_SECRET_CHARACTERS_MIN)
    notes.push(
      `the secret of the first application has fewer than ${CLIENT_SECRET_CHARACTERS_MIN} characters: set WEIR_CLIENT_ID and a longer WEIR_CLIENT_SECRET`,
    )
  if (opened.unapplied !== undefined) notes.push(opened.unapplied)
  if (opened.removedSources.length > 0)
    notes.push(
      `webhook sources whose Data Pool an earlier version had deleted are removed: ${opened.removedSources.map(name => printable(name)).join(', ')}`,
    )
  if (opened.rejectedEventsAre !== undefined)
    notes.push(
      `the Data Pool of rejected events is named ${printable(opened.rejectedEventsAre)}: another Data Pool or Data Source has the name ${REJECTED_EVENTS}`,
    )
  if (log.replayed > 0) notes.push(`replayed ${log.replayed} requests from the log`)
  if (log.torn !== undefined)
    notes.push(`an unfinished write was removed from ${log.torn.file} at byte ${log.torn.offset}`)
  return notes
}
