/**
 * Wires the server: the store, jobs, the front end. shutdown.ts stops them.
 *
 *   store opened (local-store.ts or cluster-store.ts) → HTTP → ready
 */

import { fileURLToPath } from 'node:url'
import type { Api, Health } from '../api/api-types.ts'
import { createApi } from '../api/create-api.ts'
import { QUERY_STAGE } from '../api/graphql/context.ts'
import { createGraphql } from '../api/graphql/endpoint.ts'
import { makeSchema } from '../api/graphql/graphql-schema.ts'
import type { StateOfServer } from '../api/graphql/parents.ts'
import { isLoopback, metricsAccess, stoppingHealth } from '../api/probes.ts'
import { refuse } from '../api/problem.ts'
import { Sessions } from '../api/sessions.ts'
import { createTokens, type Tokens } from '../catalog/access/token.ts'
import type { Catalog, CatalogListener } from '../catalog/catalog.ts'
import { keepHandedSecret } from '../catalog/change/change-source.ts'
import { Activity } from '../database/activity.ts'
import { tracesEndpoint } from '../database/config.ts'
import type { Metrics } from '../database/metrics.ts'
import { endImports, importRunner } from '../jobs/end-imports.ts'
import { replayRunner } from '../jobs/replay-rejected.ts'
import { Jobs } from '../jobs/run-jobs.ts'
import { ExportClient } from '../query/arrow/export-client.ts'
import { localUrl } from '../util/addresses.ts'
import { DIST } from '../util/build-files.ts'
import { AccessEnded, Unavailable } from '../util/errors.ts'
import { BODY_BYTES_MAX, QUERY_NICE } from '../util/limits.ts'
import { checkInstalled } from '../util/load-package.ts'
import { announce, sayAudit } from '../util/say.ts'
import { nicePool } from '../util/this-thread.ts'
import type { Tracing } from '../util/tracing.ts'
import { WEIR_VERSION } from '../util/version.ts'
import { apiRoutes } from './api-routes.ts'
import { wireIngest } from './ingest-wiring.ts'
import { keptReading } from './machine.ts'
import { applicationName, createMeter, watchServer } from './server-metrics.ts'
import { stopServer } from './shutdown.ts'
import type { Running, Server, ServerStart } from './start.ts'
import type { Store } from './store.ts'

/** Where set-up builds the console (src/setup/console.mjs). */
const CONSOLE_FOLDER = fileURLToPath(new URL('console/', DIST))

/**
 * Opens the store, wires it and listens. Rejects with CannotRun or Damaged; the caller runs the
 * closers then.
 */
export async function openServer(
  start: ServerStart,
  openStore: (listener: CatalogListener) => Promise<Store>,
): Promise<Running> {
  const { config } = start
  checkInstalled(['apache-arrow', 'parquet-wasm', 'temporal-polyfill', 'zstddec/stream'])
  await nicePool(QUERY_NICE)
  let ingest: ReturnType<typeof wireIngest> | undefined
  let jobs: Jobs | undefined
  const activity = new Activity()
  const store = await openStore({
    poolDeleted: pool => {
      ingest?.forget(pool)
      activity.forget(pool.id)
    },
    poolModified: pool => ingest?.modified(pool),
    jobCreated: job => jobs?.created(job),
  })
  const { opened, received, rows } = store
  const { catalog } = opened
  let { publicUrl } = config
  const webhookUrl = (webhookId: string) => `${publicUrl}/v1/${webhookId}`
  ingest = wireIngest({ catalog, rows, received, webhookUrl })
  const tokens = createTokens(catalog)
  const applicationNameOf = (id: string) => applicationName(catalog, id)
  const sessions = new Sessions({ tokens, applicationName: applicationNameOf, publicUrl: () => publicUrl })
  let api: Api | undefined
  const allJobs = makeJobs(start, store, ingest.cutOver, () => api)
  jobs = allJobs
  await endImports({ catalog })
  store.lead(led => allJobs.start(led)) // before a request can create one
  const tracing = await tracingOf(start, store.metrics)
  const server: Server = { store, jobs: allJobs, exportThread: new ExportClient(), tracing }
  const health = () => (api?.state() === 'stopping' ? stoppingHealth() : store.health())
  const listening = await listen(start, server, { ingest, health, activity, tokens, sessions, webhookUrl })
  api = listening
  const url = localUrl(config.host, listening.port, start.http.tls === undefined ? 'http' : 'https')
  if (publicUrl === '') publicUrl = url
  watchServer(server, listening, {
    startedAtMs: activity.startedAtMs,
    isReady: () => listening.state() === 'serving' && health().ready,
  })
  store.watch(activity)
  store.ready()
  return {
    url,
    opened,
    adminFile: store.adminFile,
    notes: store.notes,
    consoleCode: applicationId => (isLocalConsole(config) ? sessions.newCode(applicationId) : undefined),
    stop: () => stopServer(server, listening, config.stopDelaySeconds * 1000),
  }
}

/** Loads the libraries of traces where the environment names a collector for them. */
async function tracingOf({ config, http }: ServerStart, metrics: Metrics): Promise<Tracing | undefined> {
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

/** The jobs of the catalog. */
function makeJobs(
  { onFatal }: ServerStart,
  store: Store,
  cutOver: ReturnType<typeof wireIngest>['cutOver'],
  apiNow: () => Pick<Api, 'replay'> | undefined,
): Jobs {
  const { catalog } = store.opened
  // Jobs that go on begin before the server listens.
  const port = () => {
    const api = apiNow()
    if (api === undefined) throw new Unavailable('starting', 'the server does not listen yet')
    return api.replay
  }
  const runners = {
    ...store.runners({ cutOver }),
    IMPORT: importRunner({ catalog }),
    REPLAY_REJECTED: replayRunner({ catalog: store.leaderCatalog, reading: store.reading, port }),
  }
  return new Jobs({ memory: catalog.read, runners, onFatal })
}

/** What the front end needs besides the store. */
interface Wired {
  readonly ingest: ReturnType<typeof wireIngest>
  readonly activity: Activity
  readonly tokens: Tokens
  readonly sessions: Sessions
  health(): Health
  webhookUrl(webhookId: string): string
}

/**
 * Refuses callers while the store cannot know who was deleted, also those whose answers began
 * before.
 */
function currentVerify(store: Pick<Store, 'refusal'>, tokens: Tokens): Tokens['verify'] {
  return async (authorization, address) => {
    const caller = store.refusal() ?? (await tokens.verify(authorization, address))
    if ('status' in caller) return caller
    return {
      ...caller,
      verifyAgain(...anyOf) {
        const lost = store.refusal()
        if (lost !== undefined) throw new Unavailable(lost.code, lost.message)
        caller.verifyAgain(...anyOf)
      },
    }
  }
}

/** Wires the front end and listens. */
async function listen(
  { config, http }: ServerStart,
  { store, jobs, exportThread, tracing }: Server,
  { ingest, health, activity, tokens, sessions, webhookUrl }: Wired,
): Promise<Api> {
  const { metrics, parse, reading, temporaryFolder } = store
  const { catalog } = store.opened
  const { token } = tokens
  const verify = currentVerify(store, tokens)
  const schema = makeSchema()
  const graphql = createGraphql(
    {
      catalog,
      jobs,
      boundary: () => store.rows.boundary(),
      sizeOf: pool => store.sizeOf(pool),
      query: QUERY_STAGE,
      reading,
      verify,
      activity,
      serverStatus: stateReader(store, activity, health),
      webhookUrl,
      audit: sayAudit,
    },
    schema,
  )
  const exports = store.exports(exportThread)
  const exported = { ...reading, catalog, exportThread, verify, temporaryFolder, exports }
  const { backups, adminFile } = store
  const routes = apiRoutes({
    admin: { catalog, verify, backups, adminFile, config, webhookUrl },
    query: { graphql, exportThread, copyStatement: store.copyStatement },
    exported,
    tail: { catalog, verify, openTail: store.openTail },
    schema,
    console: config.console === 'on' ? { sessions, folder: CONSOLE_FOLDER } : undefined,
  })
  return await createApi(
    {
      ...ingest,
      storeSecret: (webhookId, secret) => keepSecret(catalog, webhookId, secret),
      health,
      room: () => store.room(BODY_BYTES_MAX),
      onRoom: listener => store.onRoom(listener),
      parse: task => parse.parse(task),
      parseHere: task => parse.parseHere(task),
      parseRoom: () => parse.room(),
      onParseRoom: parse.onRoom,
      graphql,
      token,
      ...routes,
      imports: { verify, catalog, jobs, temporaryFolder },
      metricsAccess: metricsAccess(config.host, config.metricsToken),
      metricsText: () => metrics.text(),
      meter: createMeter(metrics, activity, catalog),
      trace: tracing?.begin,
    },
    {
      host: config.host,
      port: config.port,
      waitMsMax: store.waitMsMax,
      rateLimit: config.rateLimit,
      transport: http.transport,
      tls: http.tls,
      chunked: config.chunked === 'on',
      connectionsMax: config.connections,
      idleMsMax: config.keepAliveSeconds * 1000,
    },
  )
}

/** Sums over all pools take a few milliseconds of 20,000 pools, and ten people may look. */
const STATE_MS = 1_000

/** The state at one moment, for people. It is read at most once a second. */
function stateReader(store: Store, activity: Activity, health: () => Health): () => Promise<StateOfServer> {
  return keptReading(async () => {
    const state = await store.state()
    const { ready, why } = health()
    const { accepted, rejected } = activity.seconds()
    return {
      version: WEIR_VERSION,
      startedAt: new Date(activity.startedAtMs).toISOString(),
      isReady: ready,
      reason: why ?? null,
      accepted: String(activity.accepted),
      rejected: String(activity.rejected),
      acceptedBySecond: accepted,
      rejectedBySecond: rejected,
      syncMs: activity.syncMs() ?? null,
      ...state,
      memoryBytes: process.memoryUsage.rss(),
    }
  }, STATE_MS)
}

const TAKEN = refuse(
  401,
  'signature_missing',
  'another request has handed over the secret of this data source',
)

/**
 * Makes a secret that a sender hands over, as Asana does, one of its source's, in the time that
 * `weir sources handshake` gave. Resolves when it is synced. Rejects with Unavailable, and with
 * AccessEnded where another node took one meanwhile: the window ends with the first.
 * @param secret null where the handshake brings none
 */
export async function keepSecret(catalog: Catalog, webhookId: string, secret: string | null): Promise<void> {
  const source = catalog.byWebhookId(webhookId)?.source
  if (source === undefined || secret === null) return
  const entry = { mutation: 'keepHandedSecret', applicationId: 'system', object: source.id }
  try {
    const kept = await catalog.takeHandshake(source.id, keepHandedSecret(source.id, secret, 'system'))
    if (kept === undefined) throw new AccessEnded(TAKEN)
    sayAudit({ ...entry, outcome: kept === null ? 'absent' : 'done' })
  } catch (error) {
    sayAudit({ ...entry, outcome: error instanceof AccessEnded ? TAKEN.code : 'UNAVAILABLE' })
    throw error
  }
}
