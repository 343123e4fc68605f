/**
 * Opens the stages that hold data: catalog → index → memtables → log, replayed into the memtables.
 * The server (app/server.ts) adds HTTP and queries. A command on a stopped folder
 * (tools/offline.ts) replays and flushes with the same code.
 *
 *   W-10  The same code after a crash as after a clean stop; nothing here grows with rows.
 */

import type { Catalog, CatalogListener } from '../catalog/catalog.ts'
import { schemaVersionOf } from '../catalog/documents/model.ts'
import { type OpenedCatalog, openCatalog } from '../catalog/open-catalog.ts'
import type { OpenedIndex } from '../index/index-client.ts'
import { NEW_INDEX } from '../index/index-types.ts'
import { BatchBuffers } from '../parse/batch-buffers.ts'
import { startParseWorkers } from '../parse/parse-workers.ts'
import { MergerClient } from '../store/compaction/merge-client.ts'
import { ReceivedClocks } from '../util/clock.ts'
import { retentionChanged } from './compaction.ts'
import { createMetrics } from './metrics.ts'
import { Pools } from './pools.ts'
import { replayChunk } from './replay.ts'
import type { StartedThreads, StartOptions } from './start-threads.ts'

/** Nice value of the merge thread: everything else goes first. */
export const MERGE_NICE = 10

export type Stages = Awaited<ReturnType<typeof openStages>>

/** Opens all stages over their threads and replays the log. Rejects with CannotRun or Damaged. */
export async function openStages(threads: StartedThreads, options: StartOptions & CatalogListener) {
  const { config, paths, kernel, onFatal, closers } = options
  const batchBuffers = new BatchBuffers()
  const parse = startParseWorkers(kernel, batchBuffers)
  closers.push(() => parse.stop())
  let pools: Pools | undefined
  const { opened, index } = await openMetadata(threads, options, {
    ...(options.jobCreated && { jobCreated: options.jobCreated }),
    poolDeleted: pool => {
      options.poolDeleted?.(pool)
      pools?.drop(pool)
    },
    poolModified: (pool, before) => {
      options.poolModified?.(pool, before)
      if (pools !== undefined && pool.retentionDays !== before.retentionDays)
        retentionChanged(pools, pool.number)
    },
  })
  const { catalog } = opened
  const metrics = createMetrics()
  // Its thread starts with the first merge: a command on a stopped folder has none.
  const merger = new MergerClient(
    { crashAt: config.crashAt, nice: MERGE_NICE, speed: 'throttled', temporary: paths.merge },
    onFatal,
  )
  closers.push(() => merger.stop())
  pools = new Pools({ config, paths, catalog, index, metrics, kernel, batchBuffers, merger, onFatal })
  const received = new ReceivedClocks()
  for (const { pool, receivedToUs } of index.opened.pools) received.of(pool).raise(receivedToUs)
  const replayDeps = {
    schema: (pool: number, version: number) => {
      const schema = catalog.schema(pool, version)
      const shared = catalog.sharedSchema(pool, version)
      return schema === undefined || shared === undefined ? undefined : { schema, shared }
    },
    parse: parse.parse,
    append: pools.append.bind(pools),
    received: (pool: number, us: number) => received.of(pool).raise(us),
  }
  const log = await threads.log.recover({
    flushed: flushedSequences(catalog, index.opened.pools),
    replay: chunk => replayChunk(chunk, replayDeps),
  })
  pools.setLog(log.commit)
  return { opened, catalog, index, metrics, parse, pools, log, received }
}

/**
 * Opens the catalog, then the index of its pools, which is rebuilt where it is missing or damaged.
 */
export async function openMetadata(
  { store, index }: Pick<StartedThreads, 'store' | 'index'>,
  { paths, config }: Pick<StartOptions, 'paths' | 'config'>,
  listener: CatalogListener = {},
): Promise<{ readonly opened: OpenedCatalog; readonly index: OpenedIndex }> {
  const { clientId, clientSecret } = config
  const admin = clientId === '' ? {} : { clientId, clientSecret }
  const opened = await openCatalog({ paths, store, ...admin, ...listener })
  const { catalog } = opened
  const owner = { identity: catalog.read.meta().folderId, pools: rebuildPoolsOf(catalog) }
  return { opened, index: await index.open(owner) }
}

/**
 * Messages to the operator about a rebuilt index: its size, the reason, and rows that were not
 * found. There are none where the index was complete.
 */
export function rebuiltNotes({ opened, notes }: OpenedIndex): string[] {
  const { rebuiltBecause, possibleLosses } = notes
  if (rebuiltBecause === undefined) return [...possibleLosses]
  const segments = opened.pools.reduce((sum, pool) => sum + pool.segments.length, 0)
  const of = `from ${segments} segments of ${opened.pools.length} pools`
  const how =
    rebuiltBecause === NEW_INDEX
      ? `the index was built ${of}: there was none, as after weir restore`
      : `the index was rebuilt ${of}: ${rebuiltBecause}`
  return [how, ...possibleLosses]
}

/** Every live pool with all versions of its schema, as a rebuild needs them. */
export function rebuildPoolsOf(catalog: Pick<Catalog, 'pools' | 'schema'>) {
  return catalog.pools().map(pool => {
    const { number, id } = pool
    const length = schemaVersionOf(pool)
    const versions = Array.from({ length }, (_, index) => catalog.schema(number, index + 1))
    return { pool: number, poolId: id, schemas: versions.filter(schema => schema !== undefined) }
  })
}

/** Flushed sequence by pool number, as the log is read by it; -1 for a deleted pool. */
export function flushedSequences(
  catalog: Pick<Catalog, 'pools' | 'tombstones'>,
  states: readonly { readonly pool: number; readonly flushedSequence: number }[],
): Map<number, number> {
  const flushed = new Map<number, number>(catalog.tombstones().map(({ number }) => [number, -1]))
  const known = new Map(states.map(state => [state.pool, state.flushedSequence]))
  for (const { number } of catalog.pools()) flushed.set(number, known.get(number) ?? 0)
  return flushed
}
