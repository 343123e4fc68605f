/**
 * A server in one thread over a given Disk: ingest, cut-overs, log, memtables, flushes, index,
 * manifest, removal of replaced files and of deleted pools, release of log files. The parts are the
 * product's own; only threads and HTTP are missing.
 */

import { basename, dirname } from 'node:path'
import { commitToLog } from '../../src/app/commit-to-log.ts'
import { wireIngest } from '../../src/app/ingest-wiring.ts'
import type { Catalog } from '../../src/catalog/catalog.ts'
import type { Pool } from '../../src/catalog/documents/model.ts'
import { replayChunk } from '../../src/database/replay.ts'
import { flushedSequences, rebuildPoolsOf } from '../../src/database/stages.ts'
import { RECORD_HEADER_BYTES, recordBytes } from '../../src/format/log-record.ts'
import { KEY_RECEIVED_AT, type PoolSchema } from '../../src/format/schema.ts'
import type { CompactionCommit, FlushCommitted } from '../../src/index/index-types.ts'
import { Manifest } from '../../src/index/manifest.ts'
import { type Opened, openIndexFolder } from '../../src/index/open-index.ts'
import { sweep } from '../../src/index/sweep-orphans.ts'
import type { Commit } from '../../src/log/commit-log.ts'
import type { Span } from '../../src/log/log-types.ts'
import { loggedSequences } from '../../src/log/read-log.ts'
import type { RecoveredSummary } from '../../src/log/recover-log.ts'
import { FLAG, OUTCOME, OUTCOME_WORDS, REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import type { ParseResult, ParseTask, ParseTaskGroup } from '../../src/parse/parse-task.ts'
import { createTaskRunner } from '../../src/parse/run-task.ts'
import { Flusher } from '../../src/store/flush/flusher.ts'
import { ENTRY_WORDS, type MemtableEntry } from '../../src/store/flush/memtable.ts'
import type { SegmentWriter } from '../../src/store/flush/segment-writer.ts'
import { tryAssemblerNative } from '../../src/store/segment/assembler.ts'
import { assemblerJs } from '../../src/store/segment/assembler-js.ts'
import { tryEncoderNative } from '../../src/store/segment/parquet-encoder.ts'
import { encoderJs } from '../../src/store/segment/parquet-encoder-js.ts'
import { unlinkSegments } from '../../src/store/segment/publish-segment.ts'
import { FlushWriter } from '../../src/store/segment/write-segment.ts'
import { type Clock, ReceivedClocks } from '../../src/util/clock.ts'
import type { Disk } from '../../src/util/disk.ts'
import { must } from '../../src/util/errors.ts'
import type { KernelChoice } from '../../src/util/native.ts'
import { numberOfFile, type Paths, pathsOf, poolFolder } from '../../src/util/paths.ts'
import { openOn } from '../log/log.ts'
import type { ServerCatalog } from './catalog.ts'
import type { Request } from './pools.ts'

export interface ServerOptions {
  /** The data folder. */
  readonly root: string
  readonly disk: Disk
  readonly kernel: KernelChoice
  readonly durability: 'fsync' | 'os'
  /** Small, so that a few requests fill a log file. */
  readonly fileBytes: number
  /** The number of rows at which a memtable is flushed. */
  readonly flushRows: number
  /** Called before and after each transaction of the index, which syncs in between. */
  readonly onTransaction: (what: string) => void
  readonly catalog: ServerCatalog
  /** The identity of the catalog, which the index repeats. */
  readonly identity: string
}

/** Without timers: a flush comes when a memtable is full or the test asks for it. */
const NO_CLOCK: Clock = { nowMs: () => 1, after: () => () => undefined }

/** Opens the folder and replays its log. */
export async function openServer(options: ServerOptions): Promise<SingleThreadServer> {
  const { root, disk, kernel, catalog, identity } = options
  const paths = pathsOf(root)
  const opened = await openIndexFolder({
    disk,
    folder: paths.index,
    segmentFolder: paths.segment,
    identity,
    pools: rebuildPoolsOf(catalog),
    kernel,
    loggedSequences: pools => loggedSequences(disk, paths.log, pools),
    onProgress: () => undefined,
  })
  const server = new SingleThreadServer(options, paths, opened)
  try {
    await Promise.race([server.openLog(), server.failed])
  } catch (error) {
    opened.index.close()
    throw error
  }
  return server
}

export class SingleThreadServer {
  readonly manifest: Manifest
  readonly flusher: Flusher
  readonly opened: Opened
  readonly paths: Paths
  readonly catalog: ServerCatalog
  summary: RecoveredSummary | undefined
  readonly #options: ServerOptions
  /** Pools that the flusher knows. */
  readonly #known = new Set<number>()
  /** Pools with a cut-over under way: nobody sends to them. */
  readonly #held = new Set<number>()
  readonly #folders = new Map<number, string>()
  readonly #dropping = new Set<Promise<void>>()
  readonly #run: (task: ParseTask) => ParseResult
  readonly #clocks = new ReceivedClocks()
  #commit: Commit | undefined
  #ingest: ReturnType<typeof wireIngest> | undefined
  #onLogOpened: (commit: Commit) => void = () => {}
  readonly #logOpened = new Promise<Commit>(resolve => {
    this.#onLogOpened = resolve
  })
  /** Rejects with the first failure of a flush or of the sweep. */
  readonly failed: Promise<never>
  #onFailed: (error: Error) => void = () => {}

  constructor(options: ServerOptions, paths: Paths, opened: Opened) {
    const { disk, kernel, flushRows, catalog } = options
    this.#options = options
    this.opened = opened
    this.paths = paths
    this.catalog = catalog
    this.#run = createTaskRunner(kernel)
    this.failed = new Promise((_, reject) => {
      this.#onFailed = reject
    })
    this.failed.catch(() => undefined)
    for (const { pool, receivedToUs } of opened.pools) this.#clocks.of(pool).raise(receivedToUs)
    this.manifest = new Manifest({
      pools: opened.pools.filter(({ pool }) => catalog.poolByNumber(pool) !== undefined),
      lastCommit: opened.lastCommit,
      readDeletionVectors: async pool => opened.index.readDeletionVectors(pool),
      folderOf: pool => this.folderOf(pool),
      onUnpinned: files => {
        for (const file of files)
          unlinkSegments(disk, dirname(file), [must(numberOfFile(basename(file)), 'a segment')])
      },
    })
    this.flusher = new Flusher({
      writer: this.#writer(),
      commit: async flushes => this.#transact('flush', () => opened.index.commit(flushes)),
      syncLog: async () => (await this.#logOpened).syncAll(),
      onCommitted: flushes => {
        this.manifest.apply(
          flushes.map(flush => flush.commit),
          flushes.map(flush => flush.committed),
        )
        this.#releaseLog()
      },
      onFailed: (_, error) => this.#failed(error),
      onFatal: error => this.#failed(error),
      clock: NO_CLOCK,
      limits: { rows: flushRows, bytes: 1e9, entries: 50 },
    })
  }

  /** The folder of a pool's segments. Deleted pools keep theirs until their files are gone. */
  folderOf(number: number): string {
    const known = this.#folders.get(number)
    if (known !== undefined) return known
    const { id } = must(this.catalog.poolByNumber(number), `pool ${number}`)
    const folder = poolFolder(this.paths, id)
    this.#folders.set(number, folder)
    return folder
  }

  /** Recovers the log into the memtables, as start.ts does. */
  async openLog(): Promise<void> {
    const { disk, durability, fileBytes } = this.#options
    const { catalog } = this
    const flushed = flushedSequences(catalog, this.opened.pools)
    const deps = {
      schema: (pool: number, version: number) => {
        const schema = catalog.schema(pool, version)
        const shared = catalog.sharedSchema(pool, version)
        return schema === undefined || shared === undefined ? undefined : { schema, shared }
      },
      parse: async (task: ParseTask) => this.#run(task),
      append: (pool: number, schema: PoolSchema, entries: readonly MemtableEntry[]) => {
        if (this.#isKnown(pool)) this.flusher.append(pool, schema, entries)
      },
      received: (pool: number, us: number) => this.#clocks.of(pool).raise(us),
    }
    const { summary, commit } = await openOn(
      disk,
      { folder: this.paths.log, fileBytesMax: fileBytes, durability, flushed },
      chunk => replayChunk(chunk, deps),
    )
    this.summary = summary
    this.#commit = commit
    this.#ingest = wireIngest({
      catalog: catalog as unknown as Catalog,
      rows: commitToLog({ catalog: catalog as unknown as Catalog, commit, append: deps.append }),
      received: this.#clocks,
      webhookUrl: id => `http://127.0.0.1/v1/${id}`,
    })
    this.#onLogOpened(commit)
  }

  /**
   * Sends requests as one append. Returns their first sequence at once; `acked` resolves when they
   * are acknowledged.
   */
  send(requests: readonly Request[]): { readonly firstSequence: number; readonly acked: Promise<void> } {
    const commit = must(this.#commit, 'the log')
    const firstSequence = commit.stats().lastSequence + 1
    const { spans, parts } = this.#parse(requests)
    const bytes = spans.reduce((sum, span) => sum + span.bytes, 0)
    const committed = must(this.#ingest, 'the ingest').commit({
      spans,
      records: requests.length,
      bytes,
      parts,
    })
    return { firstSequence, acked: must(committed[0], 'all of the batch').done }
  }

  /** Commits a compaction, or a job's rewrite of a segment. The caller applies it. */
  commitCompaction(compaction: CompactionCommit, what = 'compaction commit'): FlushCommitted {
    return this.#transact(what, () => this.opened.index.commitCompaction(compaction))
  }

  /**
   * Removes the entries of deleted pools, and files that no transaction names, as after every
   * start.
   */
  async sweep(): Promise<void> {
    const { pools, folders, rebuiltBecause, index } = this.opened
    for (const { pool } of pools) if (this.catalog.poolByNumber(pool) === undefined) this.#dropEntries(pool)
    const found = await sweep({
      disk: this.#options.disk,
      segmentFolder: this.paths.segment,
      opened: pools,
      now: index.state().pools,
      folders,
      poolsByFolder: new Map(this.catalog.pools().map(({ id, number }) => [id, number])),
      indexWasWhole: rebuiltBecause === undefined,
      mayGoOn: () => undefined,
    })
    for (const pool of found.poolsWithOrphans) this.manifest.keepUncovered(pool)
    if (found.missing.length > 0) this.#failed(new Error(`named and missing: ${found.missing.join()}`))
  }

  /** Flushes a pool. One that got no row, or that is deleted meanwhile, has nothing to flush. */
  async flush(pool: number): Promise<void> {
    if (!this.#isKnown(pool)) return
    await this.flusher.flushNow(pool).catch((error: Error) => {
      if (this.catalog.poolByNumber(pool) !== undefined) throw error
    })
  }

  takeSegmentNumber(pool: number): number {
    this.#isKnown(pool)
    return this.flusher.takeSegmentNumber(pool)
  }

  /** A segment that is written later has this number or a higher one. */
  raiseSegmentNumber(pool: number, to: number): void {
    if (this.#isKnown(pool)) this.flusher.raiseSegmentNumber(pool, to)
  }

  /** A sequence that divides the log: everything below it is synced. */
  boundary(): Promise<number> {
    return must(this.#commit, 'the log').boundary()
  }

  /** False while the pool's schema is replaced. */
  maySend(pool: number): boolean {
    return !this.#held.has(pool)
  }

  /** Runs `change`, which may give the pool a new schema version from this sequence on. */
  async cutOver<T>(pool: Pool, change: (sequence: number) => Promise<T>): Promise<T> {
    this.#held.add(pool.number)
    try {
      return await must(this.#ingest, 'the ingest').cutOver(pool, change)
    } finally {
      this.#held.delete(pool.number)
    }
  }

  /** Removes what is left of a pool that the catalog has deleted. */
  drop(pool: Pool): void {
    this.#ingest?.forget(pool)
    const done = this.#drop(pool).catch(error => this.#failed(error))
    this.#dropping.add(done)
    void done.finally(() => this.#dropping.delete(done))
  }

  async #drop({ number, id }: Pool): Promise<void> {
    this.#known.delete(number)
    await this.flusher.dropPool(number)
    this.#releaseLog()
    this.manifest.drop(number)
    this.#dropEntries(number)
    try {
      this.#options.disk.rmdir(poolFolder(this.paths, id))
    } catch {
      // A merge still reads its files. The sweep of the next start removes the folder.
    }
    this.#folders.delete(number)
  }

  #dropEntries(pool: number): void {
    const step = () => this.opened.index.dropSlice(pool)
    while (this.#transact('removal of a pool', step));
  }

  /** Makes a pool known to the flusher at its first use; false for a deleted one. */
  #isKnown(number: number): boolean {
    if (this.#known.has(number)) return true
    const pool = this.catalog.poolByNumber(number)
    if (pool === undefined) return false
    this.#known.add(number)
    this.flusher.addPool({
      pool: number,
      poolId: pool.id,
      folder: this.folderOf(number),
      nextSegment: this.manifest.pool(number)?.nextSegment ?? 1,
    })
    return true
  }

  #releaseLog(): void {
    must(this.#commit, 'the log').release(this.flusher.lowestUnflushedSequence())
  }

  /** Syncs the log, with either durability. Earlier requests survive every later power cut. */
  sync(): Promise<void> {
    return must(this.#commit, 'the log').syncAll()
  }

  /** Stops the log with its clean-stop mark and closes the index. */
  async stop(): Promise<void> {
    await Promise.all(this.#dropping)
    await this.flusher.stop()
    await must(this.#commit, 'the log').stop()
    this.opened.index.close()
  }

  #transact<T>(what: string, work: () => T): T {
    this.#options.onTransaction(`before ${what}`)
    const result = work()
    this.#options.onTransaction(`after ${what}`)
    return result
  }

  #failed(error: Error): void {
    this.#onFailed(error)
  }

  /** Does the work of the segment thread. */
  #writer(): SegmentWriter {
    const { disk, kernel } = this.#options
    const writer = new FlushWriter(
      tryAssemblerNative(kernel) ?? assemblerJs,
      tryEncoderNative(kernel) ?? encoderJs,
      disk,
    )
    return {
      flush: async task => {
        await new Promise(resolve => setImmediate(resolve))
        return writer.write(task)
      },
      unlink: async (folder, segments) => unlinkSegments(disk, folder, segments),
    }
  }

  /**
   * Does the work of the parse workers and the front end: makes a span and a part for each request.
   */
  #parse(requests: readonly Request[]) {
    const spans: Span[] = []
    const parts = requests.map((request, place) => {
      const { pool, kind, context, body, receivedAtUs } = request
      const offset = RECORD_HEADER_BYTES + context.length
      const slab = new SharedArrayBuffer(recordBytes(context.length + body.length) + 64)
      new Uint8Array(slab).set(context, RECORD_HEADER_BYTES)
      new Uint8Array(slab).set(body, offset)
      const table = new Float64Array(REQUEST_WORDS)
      table[REQUEST.offset] = offset
      table[REQUEST.bytes] = body.length
      table[REQUEST.contextBytes] = context.length
      table[REQUEST.receivedAtUs] = receivedAtUs
      table[REQUEST.bits] = -1
      const { planVersion: version } = must(this.catalog.poolByNumber(pool), 'a pool')
      const schema = must(this.catalog.sharedSchema(pool, version), 'a schema')
      const { key } = must(this.catalog.schema(pool, version), 'a schema')
      const hasEventTimes = kind === 'post' && key?.columns.includes(KEY_RECEIVED_AT) === true
      if (hasEventTimes) table[REQUEST.flags] = FLAG.rises
      const clock = hasEventTimes ? { clock: this.#clocks.of(pool).share() } : {}
      const group: ParseTaskGroup = { kind, pool, version, schema, from: 0, to: 1, ...clock }
      const result = this.#run({ slab, table, groups: [group] })
      const bits = result.bits.get(0)
      const span = { slab, offset: 0, bytes: result.recordBytes[0]!, records: 1 }
      spans.push(bits === undefined ? span : { ...span, bits })
      const accepted = result.outcomes[OUTCOME.accepted]!
      if (accepted !== request.mutations.length || result.outcomes.length !== OUTCOME_WORDS)
        throw new Error(`${accepted} events accepted, not ${request.mutations.length}: ${Buffer.from(body)}`)
      return result.batches.map(part => {
        const entry = new Float64Array(ENTRY_WORDS)
        const firstUs = part.receivedAtUs?.[0]
        entry.set([place, firstUs ?? receivedAtUs, accepted, firstUs === undefined ? 0 : 1])
        return { kind, pool, version, batch: part.batch, requests: entry, rows: part.requests }
      })
    })
    return { spans, parts: parts.flat() }
  }
}
