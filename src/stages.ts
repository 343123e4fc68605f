/**
 * The stages that hold data, joined: catalog → index → tails → log, replayed into the tails. The server (start.ts) puts
 * HTTP and queries on top; a command on a stopped folder (command/offline.ts) replays and seals with the same code.
 *
 *   W-10  The same code after a crash as after a clean stop; nothing here grows with rows.
 */
import { FreedBuffers } from './batch/buffers.ts'
import { type ParseWorkers, startParseWorkers } from './batch/workers.ts'
import type { Catalog } from './catalog/catalog.ts'
import type { Pool } from './catalog/model.ts'
import { type OpenedCatalog, openCatalog } from './catalog/open.ts'
import { type OpenedLog, type StartedLog, startLog } from './commit/open.ts'
import type { RecoverOptions } from './commit/protocol.ts'
import type { Merger } from './compact/protocol.ts'
import type { Config } from './config.ts'
import { type OpenedIndex, type StartedIndex, startIndex } from './keys/index-client.ts'
import { type IndexOwner, NEW_INDEX } from './keys/thread-protocol.ts'
import { BACKGROUND_NICE } from './limits.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import type { Paths } from './paths.ts'
import { Pools } from './pools.ts'
import { replayChunk } from './replay.ts'

/** The open stages. */
export interface Stages {
  readonly opened: OpenedCatalog
  readonly catalog: Catalog
  readonly index: OpenedIndex
  readonly metrics: Metrics
  readonly parse: ParseWorkers
  readonly pools: Pools
  readonly log: OpenedLog
}

export interface OpenStagesOptions {
  readonly config: Config
  readonly paths: Paths
  readonly kernel: 'native' | 'js'
  /** A thread died: the process must end; recovery makes it whole. */
  readonly onFault: (error: Error) => void
  /** Gets what ends each stage, in the order of opening; to be run backwards when opening fails. */
  readonly closers: (() => Promise<unknown>)[]
  /** Starts what merges segments. */
  readonly merger: () => Merger
  /** A rebuild of the index has done `done` of `of` segments of a pool. */
  readonly onRebuild: (done: number, of: number, pool: number) => void
  /** A pool was deleted, and memory has forgotten it. */
  readonly onPoolDeleted?: (pool: Pool) => void
  /** The parse workers may take another job. */
  readonly onParseRoom?: () => void
}

/** Opens them all and replays the log. Rejects with CannotRun or Damaged; the caller runs the closers then. */
export async function openStages(options: OpenStagesOptions): Promise<Stages> {
  const { config, paths, kernel, onFault, closers } = options
  // These two read while the catalog is opened. Run backwards, their closers come last: one that is open is stopped before.
  const started = { index: startIndexOf(options), log: startLogOf(options) }
  const begun = { index: false, log: false }
  closers.push(async () => {
    await Promise.all([begun.index || started.index.leave(), begun.log || started.log.end()])
  })
  let pools: Pools | undefined
  const opened = await openCatalog({
    paths,
    crashAt: config.crashAt,
    ...(config.clientId === '' ? {} : { clientId: config.clientId, clientSecret: config.clientSecret }),
    onPoolDeleted: pool => {
      options.onPoolDeleted?.(pool)
      pools?.drop(pool)
    },
    onPoolModified: pool => pools?.compaction.retentionChanged(pool.number),
  })
  const { catalog } = opened
  closers.push(() => catalog.stop())
  begun.index = true
  const index = await started.index.open(ownerOf(catalog))
  closers.push(() => index.index.stop())
  const metrics = createMetrics()
  const freed = new FreedBuffers()
  const parse = startParseWorkers(kernel, freed, () => options.onParseRoom?.())
  closers.push(() => parse.stop())
  const merger = options.merger()
  closers.push(() => merger.stop())
  pools = new Pools({
    config,
    paths,
    catalog,
    index,
    metrics,
    kernel,
    nice: BACKGROUND_NICE,
    freed,
    merger,
    onFault,
  })
  begun.log = true
  const log = await started.log.recover(recoverOptions(catalog, index, parse, pools))
  closers.push(() => log.commit.stop())
  pools.joinLog(log.commit)
  return { opened, catalog, index, metrics, parse, pools, log }
}

type IndexOptions = Pick<OpenStagesOptions, 'config' | 'paths' | 'kernel' | 'onFault' | 'onRebuild'>

/** The index of a catalog's pools, rebuilt where it must be. */
export function openIndexOf(options: IndexOptions, catalog: Catalog): Promise<OpenedIndex> {
  return startIndexOf(options).open(ownerOf(catalog))
}

function startIndexOf({ config, paths, kernel, onFault, onRebuild }: IndexOptions): StartedIndex {
  return startIndex({
    folder: paths.index,
    segmentFolder: paths.segment,
    kernel,
    crashAt: config.crashAt,
    nice: BACKGROUND_NICE,
    onFailed: onFault,
    onProgress: onRebuild,
  })
}

function ownerOf(catalog: Catalog): IndexOwner {
  return { identity: catalog.meta().folderId, pools: rebuildPoolsOf(catalog) }
}

function startLogOf({ config, paths }: OpenStagesOptions): StartedLog {
  return startLog({
    folder: paths.log,
    durability: config.durability,
    crashAt: config.crashAt,
    fileBytes: config.logFileBytes,
  })
}

/** For the operator: that the index was built, of how much and why, and which rows were not found. None: it was whole. */
export function rebuiltNotes({ opened, notes }: OpenedIndex): string[] {
  const { rebuiltBecause, lost } = notes
  if (rebuiltBecause === undefined) return [...lost]
  const segments = opened.pools.reduce((sum, pool) => sum + pool.segments.length, 0)
  const of = `from ${segments} segments of ${opened.pools.length} pools`
  const how =
    rebuiltBecause === NEW_INDEX
      ? `the index was built ${of}: there was none, as after weir restore`
      : `the index was rebuilt ${of}: ${rebuiltBecause}`
  return [how, ...lost]
}

/** Every living pool with all its plans, as a rebuild needs them. */
export function rebuildPoolsOf(catalog: Pick<Catalog, 'pools' | 'plan'>) {
  return catalog.pools().map(({ number, id, planVersion }) => {
    const versions = Array.from({ length: planVersion }, (_, index) => catalog.plan(number, index + 1))
    return { pool: number, poolId: id, plans: versions.filter(plan => plan !== undefined) }
  })
}

/** Sealed sequence by pool number, as the log is read by it; -1: deleted. */
export function sealedSequences(
  catalog: Pick<Catalog, 'pools' | 'tombstones'>,
  states: readonly { readonly pool: number; readonly sealedSequence: number }[],
): Map<number, number> {
  const sealed = new Map<number, number>(catalog.tombstones().map(({ number }) => [number, -1]))
  const known = new Map(states.map(state => [state.pool, state.sealedSequence]))
  for (const { number } of catalog.pools()) sealed.set(number, known.get(number) ?? 0)
  return sealed
}

function recoverOptions(
  catalog: Catalog,
  index: OpenedIndex,
  parse: ParseWorkers,
  pools: Pools,
): RecoverOptions {
  const plan = (pool: number, version: number) => {
    const found = catalog.plan(pool, version)
    const shared = catalog.planShared(pool, version)
    return found === undefined || shared === undefined ? undefined : { plan: found, shared }
  }
  const services = { plan, parse: parse.parse, append: pools.append.bind(pools) }
  const sealed = sealedSequences(catalog, index.opened.pools)
  return { sealed, replay: chunk => replayChunk(chunk, services) }
}
