/**
 * The memtables, segments and manifest of all pools. Ingest appends to them, queries read from
 * them.
 *
 *   W-4   Log files and replaced segments are removed only after the index synced the change that
 *         makes them obsolete.
 *   W-8   A query calls makeVisible() first. Its snapshot pins the files that it reads.
 */

import { rmdir } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { Catalog } from '../catalog/catalog.ts'
import type { Pool } from '../catalog/documents/model.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { OpenedIndex } from '../index/index-client.ts'
import { Manifest } from '../index/manifest.ts'
import type { Commit } from '../log/commit-log.ts'
import type { BatchBuffers } from '../parse/batch-buffers.ts'
import type { CheckCalls, CheckFile } from '../store/check/check-file.ts'
import { Scrub } from '../store/check/scrub.ts'
import { SegmentChecks } from '../store/check/segment-checks.ts'
import type { CompactPool, Debt, Merger, ServerLoad } from '../store/compaction/compaction-types.ts'
import { LEFT_OUT } from '../store/compaction/merge-failures.ts'
import { Scheduler } from '../store/compaction/scheduler.ts'
import type { FlushedSegment } from '../store/flush/flush-pipeline.ts'
import { Flusher, poolDeleted } from '../store/flush/flusher.ts'
import type { MemtableEntry } from '../store/flush/memtable.ts'
import { SegmentThread } from '../store/flush/segment-writer.ts'
import { callAfter, monotonicMs, realClock, resolvesWithin, wallMs } from '../util/clock.ts'
import { must, type SegmentDamaged, Unavailable } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { getOrMake } from '../util/get-or-make.ts'
import { BACKGROUND_NICE, LOG_UNFLUSHED_BYTES, METRIC_DEBT_POOLS_MAX, QUERY_NICE } from '../util/limits.ts'
import type { KernelChoice } from '../util/native.ts'
import { numberOfFile, type Paths, poolFolder } from '../util/paths.ts'
import { fail, warn } from '../util/say.ts'
import { ThreadOnDemand } from '../util/thread-on-demand.ts'
import type { Config } from './config.ts'
import type { Metrics } from './metrics.ts'

/** Flushes that a job waits for until none may replace a segment that it reserves. */
const RESERVE_FLUSHES_MAX = 100
/** Time for the running flushes when the server stops flushing: part of STOP_MS_MAX. */
const FLUSHES_END_MS_MAX = 1_000
const DAY_MS = 86_400_000
/**
 * Between two looks at which log files may go. A look asks every pool with unflushed rows: after
 * each flush it took half of the main thread with 20,000 pools.
 */
const RELEASE_MS = 500

export interface PoolsOptions {
  readonly config: Config
  readonly paths: Paths
  readonly catalog: Catalog
  readonly index: OpenedIndex
  readonly metrics: Metrics
  readonly kernel: KernelChoice
  readonly batchBuffers: BatchBuffers
  readonly merger: Merger
  readonly onFatal: (error: Error) => void
}

export class Pools {
  readonly #options: PoolsOptions
  /** The memtables. Rows enter them by `append`. */
  readonly flusher: Flusher
  readonly #writer: SegmentThread
  /** The flushed part of every pool. */
  readonly manifest: Manifest
  /** Merges and retention of all pools. */
  readonly compaction: Scheduler
  /** Which segments are known to be whole. */
  readonly checks: SegmentChecks
  /** Reads all files again over days. It begins with `start`. */
  readonly scrub: Scrub
  readonly #checker: ThreadOnDemand<CheckCalls>
  /** Called with files that no manifest and no snapshot names any more. */
  onFilesFree: (files: readonly string[]) => void = () => {}
  /** Called with a pool that is deleted, or has a damaged file: questions about it are to fail. */
  onLost: (pool: number) => void = () => {}
  /** Damaged files that were found since the start. */
  damagedFiles = 0
  #cancelRelease: (() => void) | undefined
  #lastAppendMs = Number.NEGATIVE_INFINITY
  readonly #known = new Set<number>()
  /** By pool: what was acknowledged before this monotonic time is visible to queries. */
  readonly #visibleToMs = new Map<number, number>()
  readonly #folders = new Map<number, string>()
  readonly #dropping = new Set<Promise<void>>()
  /** Damaged pools, which are not compacted. */
  readonly #leftAlone = new Set<number>()
  #commit: Commit | undefined
  /**
   * Bytes written to the log since it was opened. Replayed rows get a value so far below 0 that
   * they are due as soon as the log is open.
   */
  #logBytes = -LOG_UNFLUSHED_BYTES
  #onLogOpened: (commit: Commit) => void = () => {}
  /** A long replay fills memtables before the log is open. Their flushes begin, and wait for it. */
  readonly #logOpened = new Promise<Commit>(resolve => {
    this.#onLogOpened = resolve
  })

  constructor(options: PoolsOptions) {
    const { config, index, kernel, onFatal } = options
    this.#options = options
    this.#writer = new SegmentThread({ crashAt: config.crashAt, nice: BACKGROUND_NICE, kernel }, onFatal)
    this.manifest = new Manifest({
      pools: index.opened.pools.filter(state => options.catalog.poolByNumber(state.pool) !== undefined),
      lastCommit: index.opened.lastCommit,
      readDeletionVectors: pool => index.index.readDeletionVectors(pool),
      folderOf: pool => this.#folderOf(pool),
      onUnpinned: files => this.#unlink(files),
      onAdded: meta => this.checks.setWhole(meta),
      onUncoveredRemoved: pool => this.compaction.changed(pool),
    })
    this.#checker = new ThreadOnDemand({ name: 'check', nice: QUERY_NICE, onCrash: onFatal })
    const checkFile: CheckFile = file => this.#checker.call('check', file)
    const onDamaged = (error: SegmentDamaged) => this.#foundDamaged(error)
    this.checks = new SegmentChecks(checkFile, onDamaged)
    this.scrub = new Scrub(
      {
        checkFile,
        checks: this.checks,
        manifest: this.manifest,
        onDamaged,
      },
      { beginMs: config.scrubBeginMs },
    )
    this.flusher = new Flusher({
      writer: this.#writer,
      commit: flushes => index.index.commit(flushes),
      syncLog: async () => (await this.#logOpened).syncAll(),
      logBytes: () => this.#logBytes,
      onCommitted: flushes => this.#committed(flushes),
      onFailed: (pool, error) => fail(`a flush of pool ${pool} failed and is tried again: ${error.message}`),
      onFatal,
      onFreed: entries => {
        for (const { batch } of entries) options.batchBuffers.give(batch)
      },
    })
    this.compaction = this.#createScheduler()
  }

  /** The scheduler of all pools. `Scheduler.start` begins its work. */
  #createScheduler(): Scheduler {
    const { manifest, flusher, checks } = this
    const { config, catalog, index, merger, metrics, onFatal } = this.#options
    return new Scheduler({
      merger,
      clock: { ...realClock, wallMs: () => wallMs() + config.retentionDaysAhead * DAY_MS },
      tickMs: config.compactTickMs,
      livePools: () => manifest.pools().filter(pool => catalog.poolByNumber(pool) !== undefined),
      pool: pool => this.#compactPool(pool),
      segments: pool => manifest.pool(pool)?.segments ?? [],
      obsolete: pool => manifest.uncovered(pool),
      replaceableSegments: pool => flusher.replaceableSegments(pool),
      forgetRecentFlushes: pool => flusher.forgetRecent(pool),
      takeSegmentNumber: pool => {
        this.#isKnown(pool)
        return flusher.takeSegmentNumber(pool)
      },
      pin: pool => manifest.snapshot(pool),
      commit: commit => index.index.commitCompaction(commit),
      apply: (commit, committed) => manifest.applyCompaction(commit, committed),
      unlink: (folder, segments) => this.#writer.unlink(folder, segments),
      load: () => this.#load(),
      onMerged: figures => metrics.merge(figures),
      onFailed: () => metrics.mergeFailed(),
      onDamaged: error => {
        const damaged = manifest.files().find(({ file }) => file === error.file)
        if (damaged !== undefined) checks.setDamaged(damaged.meta, error)
      },
      onFatal,
      fail,
      warn,
    })
  }

  /** A pool as compaction needs it. It leaves out deleted pools, and damaged ones. */
  #compactPool(number: number): CompactPool | undefined {
    const { catalog } = this.#options
    const pool = catalog.poolByNumber(number)
    if (pool === undefined || this.#leftAlone.has(number)) return undefined
    return {
      poolId: pool.id,
      folder: this.#folderOf(number),
      retentionDays: pool.retentionDays,
      schema: version => must(catalog.schema(number, version), 'the schema of a segment'),
    }
  }

  #load(): ServerLoad {
    const { flushingBytes, flushesAreSlow, poolsFailing } = this.flusher.load()
    return {
      ingestAgoMs: monotonicMs() - this.#lastAppendMs,
      // Memtables that are not old enough for a flush do not count: thousands of pools hold as much
      // all the time.
      flushingBytes,
      flushesAreSlow,
      isRefusing: poolsFailing > 0 || this.#commit?.stats().state !== 'open',
    }
  }

  /** Sets the open log: from now on flushes may run and log files may be removed. */
  setLog(commit: Commit): void {
    this.#commit = commit
    this.#onLogOpened(commit)
    this.#logBytes = 0
    commit.onSync = (ms, bytes) => {
      this.#logBytes += bytes
      this.#options.metrics.sync(ms, bytes)
    }
  }

  /** Appends synced rows, in sequence order (W-13). Rows of a deleted pool are dropped. */
  append(pool: number, schema: PoolSchema, entries: readonly MemtableEntry[]): void {
    this.#lastAppendMs = monotonicMs()
    if (this.#isKnown(pool)) this.flusher.append(pool, schema, entries)
  }

  /** See Flusher.flushNow. A pool that never got a row has nothing to flush. */
  async flushNow(pool: number): Promise<void> {
    if (this.#isKnown(pool)) await this.flusher.flushNow(pool)
  }

  /**
   * Makes what was acknowledged before the call visible to queries (W-8). With a staleness of S ms
   * a call does nothing where an earlier one began at most S ms ago. Rejects as flushNow does.
   */
  async makeVisible(pool: number): Promise<void> {
    const beganMs = monotonicMs()
    const { stalenessMs } = this.#options.config
    const visibleToMs = this.#visibleToMs.get(pool) ?? Number.NEGATIVE_INFINITY
    if (stalenessMs > 0 && beganMs - visibleToMs <= stalenessMs) return
    await this.flushNow(pool)
    if (stalenessMs > 0 && this.#known.has(pool)) this.#visibleToMs.set(pool, beganMs)
  }

  /**
   * Flushes what was acknowledged before the call, and leaves the segments that hold it to a job
   * (Scheduler.reserve). Resolves with a number: theirs are lower, and later ones are not. Rejects
   * as flushNow does; merges of the pool then wait until the job tries again, or ends.
   */
  async reserveSegments(pool: number): Promise<number> {
    // A merge that runs already may take its number after ours. No other one may begin until then.
    await this.compaction.reserve(pool, Number.POSITIVE_INFINITY)
    for (let flushes = 0; flushes < RESERVE_FLUSHES_MAX; flushes++) {
      await this.flushNow(pool)
      if (!this.#isKnown(pool)) throw poolDeleted()
      // A flush that replaces a segment writes its rows to a new one, which would not be reserved.
      this.flusher.forgetRecent(pool)
      if (this.flusher.replaceableSegments(pool).size > 0) continue
      const below = this.flusher.takeSegmentNumber(pool)
      void this.compaction.reserve(pool, below)
      return below
    }
    throw new Unavailable('flushes_overlap', 'the flushes of the pool follow each other without a pause')
  }

  /**
   * Makes a reservation of an earlier process again, before any merge. Numbers that were taken then
   * and never committed are free again: without this a rewritten segment could look reserved.
   */
  reserveAgain(pool: number, below: number): void {
    if (!this.#isKnown(pool)) return
    this.flusher.raiseSegmentNumber(pool, below)
    void this.compaction.reserve(pool, below)
  }

  /** The rows of a pool that are flushed and not deleted, and the bytes of its files. */
  sizeOf(pool: number): { readonly rows: number; readonly bytes: number } {
    let rows = 0
    let bytes = 0
    for (const segment of this.manifest.pool(pool)?.segments ?? []) {
      rows += segment.rows - segment.deletedRows
      bytes += segment.bytes
    }
    return { rows, bytes }
  }

  /** All pools together. */
  sizeOfAll(): { readonly segments: number; readonly bytes: number } {
    let segments = 0
    let bytes = 0
    for (const pool of this.manifest.pools())
      for (const segment of this.manifest.pool(pool)?.segments ?? []) {
        segments += 1
        bytes += segment.bytes
      }
    return { segments, bytes }
  }

  /** Names and debts of the pools with the most debt. */
  worstDebts(): readonly (readonly [name: string, debt: Debt])[] {
    return this.compaction
      .worstDebts(METRIC_DEBT_POOLS_MAX)
      .map(([pool, debt]) => [this.#options.catalog.poolByNumber(pool)?.uniqueName ?? String(pool), debt])
  }

  /** Compaction leaves the pool out until the next start. */
  leaveAlone(pool: number): void {
    this.#leftAlone.add(pool)
  }

  /**
   * Removes a deleted pool: memtable, deletion vectors, index, files. Requests to it get 404
   * already.
   */
  drop(pool: Pool): void {
    const done = this.#drop(pool).catch(error => {
      warn(
        `removing the files of deleted pool ${pool.id} failed, the next start does it: ${(error as Error).message}`,
      )
    })
    this.#dropping.add(done)
    void done.finally(() => this.#dropping.delete(done))
  }

  /** Live segments of which this process does not know yet whether they are whole. */
  uncheckedCount(): number {
    return this.manifest.files().filter(({ meta }) => !this.checks.isKnown(meta)).length
  }

  /** Live segments of all pools. */
  segmentCount(): number {
    return this.sizeOfAll().segments
  }

  /**
   * Flushes as much as it can in `msMax` and ends the segment thread. Resolves with false where
   * some rows are only in the log.
   */
  async stop(msMax: number): Promise<boolean> {
    this.scrub.stop()
    const checked = this.#checker.stop()
    const flushed = await resolvesWithin(msMax, this.#allFlushed())
    // The next start removes files of deleted pools that are left.
    await resolvesWithin(FLUSHES_END_MS_MAX, Promise.all(this.#dropping))
    // Flushes under way end, so their files and their transaction are complete, and the threads
    // are idle when they stop.
    const idle = await resolvesWithin(FLUSHES_END_MS_MAX, this.flusher.stop())
    if (this.#commit !== undefined) this.#releaseLog()
    if (idle) await this.#writer.stop()
    await checked
    return flushed && idle
  }

  async #allFlushed(): Promise<void> {
    try {
      await this.flusher.flushAll()
    } catch (error) {
      warn(`the flush before the stop failed, the log keeps the rows: ${(error as Error).message}`)
      throw error
    }
  }

  /** Makes a pool known to the flusher at its first use; false for a deleted one. */
  #isKnown(number: number): boolean {
    if (this.#known.has(number)) return true
    const pool = this.#options.catalog.poolByNumber(number)
    if (pool === undefined) return false
    this.#known.add(number)
    this.flusher.addPool({
      pool: number,
      poolId: pool.id,
      folder: this.#folderOf(number),
      nextSegment: this.manifest.pool(number)?.nextSegment ?? 1,
    })
    return true
  }

  #folderOf(number: number): string {
    return getOrMake(this.#folders, number, () => {
      const pool = must(this.#options.catalog.poolByNumber(number), `pool ${number}`)
      return poolFolder(this.#options.paths, pool.id)
    })
  }

  #committed(flushes: readonly FlushedSegment[]): void {
    this.manifest.apply(
      flushes.map(flush => flush.commit),
      flushes.map(flush => flush.committed),
    )
    crashPoint('flush.committed')
    this.#releaseLogSoon()
    const nowMs = monotonicMs()
    for (const { commit, committed, beginMs, oldestMs, rows } of flushes) {
      this.compaction.flushed(commit.pool, commit.keys === undefined ? 0 : committed.usPerKey)
      this.#options.metrics.flush(nowMs - beginMs, rows)
      this.#options.metrics.visible(nowMs - oldestMs)
    }
  }

  /** Tells the log once, and merges for ever. A file of a deleted pool is of no interest. */
  #foundDamaged(error: SegmentDamaged): void {
    this.damagedFiles += 1
    const pool = this.#options.catalog.pool(basename(dirname(error.file)))
    const segment = numberOfFile(basename(error.file))
    if (pool !== undefined) this.onLost(pool.number)
    if (pool !== undefined && segment !== undefined && this.compaction.leaveOut(pool.number, segment))
      fail(`${error.message}; ${LEFT_OUT}`)
  }

  /** At most once in RELEASE_MS. */
  #releaseLogSoon(): void {
    this.#cancelRelease ??= callAfter(RELEASE_MS, () => this.#releaseLog())
  }

  #releaseLog(): void {
    this.#cancelRelease?.()
    this.#cancelRelease = undefined
    must(this.#commit, 'the log').release(this.flusher.lowestUnflushedSequence())
  }

  async #drop(pool: Pool): Promise<void> {
    this.#known.delete(pool.number)
    this.#visibleToMs.delete(pool.number)
    await Promise.all([this.flusher.dropPool(pool.number), this.compaction.dropPool(pool.number)])
    this.#releaseLog() // its unflushed rows hold no log file any more
    this.manifest.drop(pool.number)
    this.onLost(pool.number)
    crashPoint('pool.forgotten')
    await this.#options.index.index.dropPool(pool.number)
    crashPoint('pool.dropped')
    const folder = poolFolder(this.#options.paths, pool.id)
    this.#folders.delete(pool.number)
    // The segment thread works in order, so the files that dropPool() discarded are gone after
    // this.
    await this.#writer.unlink(folder, [])
    // Files that a running query still reads keep the folder. The sweep of the next start removes
    // it.
    await rmdir(folder).catch(() => undefined)
  }

  /** Resolves when the files are gone for good. */
  async #unlink(files: readonly string[]): Promise<void> {
    this.onFilesFree(files)
    const byFolder = new Map<string, number[]>()
    for (const file of files) {
      const segments = byFolder.get(dirname(file)) ?? []
      segments.push(must(numberOfFile(basename(file)), 'the number of a segment'))
      byFolder.set(dirname(file), segments)
    }
    try {
      await Promise.all([...byFolder].map(([folder, segments]) => this.#writer.unlink(folder, segments)))
    } catch (error) {
      warn(`replaced segments stay for now: ${(error as Error).message}`)
      throw error
    }
  }
}
