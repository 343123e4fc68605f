/**
 * Starts the server: the folder and its lock, then the threads that read it, then the rest of the
 * program.
 *
 *   folder and lock → threads of catalog, index and log read → server.ts and the rest are loaded
 *
 * Loading the program takes as long as reading the folder, a quarter of a second on an idle core.
 * So this file imports only what both need.
 *
 *   W-10  A start after a crash runs the same code as after a clean stop. Its cost does not grow
 *         with rows.
 */
import { type ChosenTransport, chooseTransport } from '../api/http/choose-transport.ts'
import { readPair, type Tls } from '../api/http/tls.ts'
import type { OpenedCatalog } from '../catalog/open-catalog.ts'
import { type Config, checkNode } from '../database/config.ts'
import { type Closers, type StartOptions, startThreads } from '../database/start-threads.ts'
import type { Jobs } from '../jobs/run-jobs.ts'
import type { ExportClient } from '../query/arrow/export-client.ts'
import { monotonicMs } from '../util/clock.ts'
import { openFolder } from '../util/data-folder.ts'
import { HTTP_IDLE_MS_MAX } from '../util/limits.ts'
import { chooseNative } from '../util/native.ts'
import { pathsOf } from '../util/paths.ts'
import { inform, warn } from '../util/say.ts'
import type { Tracing } from '../util/tracing.ts'
import type { Store } from './store.ts'

/** Everything that runs. */
export interface Server {
  readonly store: Store
  readonly jobs: Jobs
  readonly exportThread: ExportClient
  readonly tracing: Tracing | undefined
}

/** A running server. */
export interface Running {
  /** `http://host:port` or `https://host:port`, as bound. */
  readonly url: string
  readonly opened: OpenedCatalog
  /** See Store. */
  readonly adminFile: string | undefined
  /** Lines for the operator: what runs, and what the start found. */
  readonly notes: readonly string[]
  /** A code that signs in to the console once; undefined where the console is off or not local. */
  readonly consoleCode: (applicationId: string) => string | undefined
  /** Resolves true when everything was answered, synced, flushed and closed in time. */
  stop(): Promise<boolean>
}

/** The options of a server, and the parts of it that were started before. */
export interface ServerStart extends StartOptions {
  readonly http: ChosenTransport & { readonly tls: Tls | undefined }
}

/**
 * Starts everything and resolves when ready. Rejects with CannotRun or Damaged.
 * @param onFatal called when a thread has died: the process must end, and the next start recovers
 */
export async function startServer(config: Config, onFatal: (error: Error) => void): Promise<Running> {
  const kernel = chooseNative(config.kernel)
  const tls = await tlsOf(config)
  const http = { ...(await chooseTransport(config.http, config.httpSha256)), tls }
  if (http.warning !== undefined) warn(http.warning)
  if (http.transport.name === 'uws' && config.keepAliveSeconds * 1000 !== HTTP_IDLE_MS_MAX)
    warn(`--keep-alive ${config.keepAliveSeconds} has no effect over uWebSockets.js: start with --http node`)
  const paths = pathsOf(config.dataDir)
  const closers: Closers = []
  const options = { config, paths, kernel, onFatal, onRebuild: tellRebuild(), closers }
  const start = { ...options, http }
  try {
    return await (config.store === 'local' ? startLocal(start) : startNode(start))
  } catch (error) {
    // The command exits next. exit() while a thread is inside LMDB or DuckDB can abort the process.
    await Promise.allSettled(closers.reverse().map(close => close()))
    throw error
  }
}

async function startLocal(start: ServerStart): Promise<Running> {
  openFolder(start.paths)
  const threads = startThreads(start)
  const [{ openServer }, { openLocalStore }] = await Promise.all([
    import('./server.ts'),
    import('./local-store.ts'),
  ])
  return await openServer(start, listener => openLocalStore(start, threads, listener))
}

/** A node of a cluster, which has no folder. */
async function startNode(start: ServerStart): Promise<Running> {
  checkNode(start.config)
  const [{ openServer }, { openClusterStore }] = await Promise.all([
    import('./server.ts'),
    import('./cluster-store.ts'),
  ])
  return await openServer(start, listener => openClusterStore(start, listener))
}

async function tlsOf({ tlsCert, tlsKey }: Config): Promise<Tls | undefined> {
  if (tlsCert === '') return undefined
  const files = { cert: tlsCert, key: tlsKey }
  return { files, pair: await readPair(files) }
}

/** Prints a line per second while the index is rebuilt. */
function tellRebuild(): (done: number, of: number) => void {
  let told = 0
  return (done, of) => {
    if (monotonicMs() - told < 1000 && done < of) return
    told = monotonicMs()
    inform(`rebuilding the index: ${done} of ${of} rows`)
  }
}
