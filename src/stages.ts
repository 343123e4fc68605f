/**
 * The stages that hold data, joined: catalog → index → tails → log, replayed into the tails. The server (start.ts) puts
 * HTTP and queries on top; a command on a stopped folder (command/offline.ts) replays and seals with the same code.
 *
 *   W-10  The same code after a crash as after a clean stop; nothing here grows with rows.
 */
import { FreedBuffers } from './batch/buffers.ts'
import { type ParseWorkers, startParseWorkers } from './batch/workers.ts'
import { type BeginOptions, type Begun, begin, beginIndex } from './begin.ts'
import type { Catalog } from './catalog/catalog.ts'
import type { Pool } from './catalog/model.ts'
import { type OpenedCatalog, openCatalog } from './catalog/open.ts'
import type { OpenedLog } from './commit/open.ts'
import type { RecoverOptions } from './commit/protocol.ts'
import type { Merger } from './compact/protocol.ts'
import { retentionChanged } from './compaction.ts'
import type { OpenedIndex } from './keys/index-client.ts'
import { type IndexOwner, NEW_INDEX } from './keys/thread-protocol.ts'
import { BACKGROUND_NICE } from './limits.ts'
import { createMetrics, type Metrics } from './metrics.ts'
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

interface OpenStagesOptions extends BeginOptions {
  /** Threads that run already; undefined: they are started now. */
  readonly begun?: Begun
  /** Gets what ends each stage, in the order of opening; to be run backwards when opening fails. */
  readonly closers: (() => Promise<unknown>)[]
  /** Starts what merges segments. */
  readonly merger: () => Merger
  /** A pool was deleted, and memory has forgotten it. */
  readonly onPoolDeleted?: (pool: Pool) => void
  /** The parse workers may take another job. */
  readonly onParseRoom?: () => void
}

/** Opens them all and replays the log. Rejects with CannotRun or Damaged; the caller runs the closers then. */
export async function openStages(options: OpenStagesOptions): Promise<Stages> {
  const { config, paths, kernel, onFault, closers } = options
  const begun = options.begun ?? begin(options)
  if (options.begun === undefined) closers.push(() => begun.leave())
  const freed = new FreedBuffers()
  const parse = startParseWorkers(kernel, freed, () => options.onParseRoom?.())
  closers.push(() => parse.stop())
  let pools: Pools | undefined
  const opened = await openCatalog({
    paths,
    store: begun.takeStore(),
    ...(config.clientId === '' ? {} : { clientId: config.clientId, clientSecret: config.clientSecret }),
    onPoolDeleted: pool => {
      options.onPoolDeleted?.(pool)
      pools?.drop(pool)
    },
    onPoolModified: pool => {
      if (pools !== undefined) retentionChanged(pools, pool.number)
    },
  })
  const { catalog } = opened
  closers.push(() => catalog.stop())
  const index = await begun.index.open(ownerOf(catalog))
  closers.push(() => index.index.stop())
  const metrics = createMetrics()
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
  const log = await begun.log.recover(recoverOptions(catalog, index, parse, pools))
  closers.push(() => log.commit.stop())
  pools.joinLog(log.commit)
  return { opened, catalog, index, metrics, parse, pools, log }
}

/** The index of a catalog's pools, rebuilt where it must be. */
export function openIndexOf(options: BeginOptions, catalog: Catalog): Promise<OpenedIndex> {
  return beginIndex(options).open(ownerOf(catalog))
}

function ownerOf(catalog: Catalog): IndexOwner {
  return { identity: catalog.meta().folderId, pools: rebuildPoolsOf(catalog) }
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
