/**
 * A server's start: the folder and its lock, then the threads that read it, and only then the program itself.
 *
 *   folder and lock → threads of catalog, index and log begin to read → the rest of the program (server.ts) is loaded
 *
 * Loading takes as long as the reading, a quarter of a second on an idle core: what is imported here is what both need.
 *
 *   W-10  The same code after a crash as after a clean stop; nothing here grows with rows.
 */
import { type BeginOptions, type Begun, begin } from './begin.ts'
import type { OpenedCatalog } from './catalog/open.ts'
import type { Config } from './config.ts'
import { openFolder } from './folder.ts'
import { pathsOf } from './paths.ts'
import { monotonicMs } from './util/clock.ts'
import { armCrash } from './util/crash.ts'
import { orderFaults } from './util/fault.ts'
import { chooseNative } from './util/native.ts'
import { warn } from './util/say.ts'

/** A running server. */
export interface Running {
  /** `http://host:port`, as bound. */
  readonly url: string
  readonly opened: OpenedCatalog
  /** One line for the operator: what runs, and what the start found. */
  readonly notes: readonly string[]
  /** Resolves true when everything was answered, synced, sealed and closed in time. */
  stop(): Promise<boolean>
}

/** What a server is opened with. */
export interface ServerStart extends BeginOptions {
  readonly begun: Begun
  /** Gets what ends each stage, in the order of opening; run backwards when the start fails. */
  readonly closers: (() => Promise<unknown>)[]
}

/**
 * Starts everything and resolves when ready. Rejects with CannotRun or Damaged.
 * @param onFault called when a thread died: the process must end; recovery makes it whole
 */
export async function startServer(config: Config, onFault: (error: Error) => void): Promise<Running> {
  orderFaults(config.faultAt)
  armCrash(config.crashAt)
  const kernel = chooseNative(config.kernel)
  const paths = pathsOf(config.dataDir)
  openFolder(paths)
  const options = { config, paths, kernel, onFault, onRebuild: tellRebuild() }
  const begun = begin(options)
  const closers = [() => begun.leave()]
  try {
    const { openServer } = await import('./server.ts')
    return await openServer({ ...options, begun, closers })
  } catch (error) {
    // The command exits now, and exit() while a thread is inside LMDB or DuckDB can end in an abort instead.
    await Promise.allSettled(closers.reverse().map(close => close()))
    throw error
  }
}

/** A line a second while the index is rebuilt. */
function tellRebuild(): (done: number, of: number) => void {
  let told = 0
  return (done, of) => {
    if (monotonicMs() - told < 1000 && done < of) return
    told = monotonicMs()
    warn(`rebuilding the index: ${done} of ${of} rows`)
  }
}
