/**
 * Tails, segments and manifest of all pools, joined: what the ingest path appends to and queries read from.
 *
 *   W-4   Log files and replaced segments go only after the index flushed what makes them needless.
 *   W-8   sealNow() before a query; a snapshot pins its files.
 */
import { rmdir } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { FreedBuffers } from './batch/buffers.ts'
import type { Plan } from './batch/plan.ts'
import type { Pool } from './catalog/model.ts'
import type { CatalogService } from './catalog/protocol.ts'
import type { Commit } from './commit/protocol.ts'
import type { Debt, Merger } from './compact/protocol.ts'
import type { Scheduler } from './compact/scheduler.ts'
import { joinCompaction } from './compaction.ts'
import type { Config } from './config.ts'
import type { OpenedIndex } from './keys/index-client.ts'
import { createManifest, type Manifest, type PoolView } from './keys/manifest.ts'
import { BODY_BYTES_MAX, LOG_UNSEALED_BYTES, METRIC_DEBT_POOLS_MAX, SEALS_END_MS_MAX } from './limits.ts'
import type { Metrics } from './metrics.ts'
import { numberOfFile, type Paths, poolFolder } from './paths.ts'
import type { SealedSegment } from './segment/pipeline.ts'
import type { TailEntry } from './segment/protocol.ts'
import { Sealer } from './segment/sealer.ts'
import { SegmentWriterClient } from './segment/writer-client.ts'
import { must } from './util/assert.ts'
import { monotonicMs } from './util/clock.ts'
import { crashPoint } from './util/crash.ts'
import { warn } from './util/say.ts'
import { within } from './util/within.ts'

interface PoolsOptions {
  readonly config: Config
  readonly paths: Paths
  readonly catalog: CatalogService
  readonly index: OpenedIndex
  readonly metrics: Metrics
  readonly kernel: 'native' | 'js'
  readonly nice: number
  readonly freed: FreedBuffers
  readonly merger: Merger
  readonly onFault: (error: Error) => void
}

export class Pools {
  readonly #options: PoolsOptions
  readonly #sealer: Sealer
  readonly #writer: SegmentWriterClient
  readonly #manifest: Manifest
  /** Merges and retention of all pools. */
  readonly compaction: Scheduler
  #lastAppendMs = Number.NEGATIVE_INFINITY
  readonly #known = new Set<number>()
  readonly #folders = new Map<number, string>()
  readonly #dropping = new Set<Promise<void>>()
  /** Pools of which files are missing, and others may stand for them. */
  readonly #leftAlone = new Set<number>()
  #commit: Commit | undefined
  /** Written since the start. What was replayed stands so far below that all of it is due once the log is joined. */
  #logBytes = -LOG_UNSEALED_BYTES
  #onLogJoined: (commit: Commit) => void = () => {}
  /** A long replay fills tails before the log is open: their seals begin, and wait for it. */
  readonly #logJoined = new Promise<Commit>(resolve => {
    this.#onLogJoined = resolve
  })

  constructor(options: PoolsOptions) {
    const { config, index, kernel, nice, onFault } = options
    this.#options = options
    this.#writer = new SegmentWriterClient({ crashAt: config.crashAt, nice, assembler: kernel }, onFault)
    this.#manifest = createManifest({
      pools: index.opened.pools.filter(state => options.catalog.poolByNumber(state.pool) !== undefined),
      lastCommit: index.opened.lastCommit,
      readMarks: pool => index.index.readMarks(pool),
      folderOf: pool => this.#folderOf(pool),
      onUnpinned: files => this.#unlink(files),
      onEmptiedGone: pool => this.compaction.changed(pool),
    })
    this.#sealer = new Sealer({
      writer: this.#writer,
      commit: seals => index.index.commit(seals),
      syncLog: async () => (await this.#logJoined).syncAll(),
      logBytes: () => this.#logBytes,
      onCommitted: seals => this.#committed(seals),
      onFailed: (pool, error) => warn(`a seal of pool ${pool} failed and is tried again: ${error.message}`),
      onFatal: onFault,
      onFreed: entries => {
        for (const { batch } of entries) options.freed.give(batch)
      },
    })
    this.compaction = joinCompaction({
      ...options,
      manifest: this.#manifest,
      sealer: this.#sealer,
      writer: this.#writer,
      makeKnown: pool => void this.#isKnown(pool),
      folderOf: pool => this.#folderOf(pool),
      isLeftAlone: pool => this.#leftAlone.has(pool),
      lastAppendMs: () => this.#lastAppendMs,
      commit: () => this.#commit,
    })
  }

  /** The log is open: from now on seals may run and log files may go. */
  joinLog(commit: Commit): void {
    this.#commit = commit
    this.#onLogJoined(commit)
    this.#logBytes = 0
    commit.onSync = (ms, bytes) => {
      this.#logBytes += bytes
      this.#options.metrics.sync(ms, bytes)
    }
  }

  /** The current plan of a pool. */
  planOf(pool: Pool): Plan {
    return must(this.#options.catalog.plan(pool.number, pool.planVersion), 'the plan of a pool')
  }

  /** Appends synced rows, in sequence order (W-13). Rows of a deleted pool are dropped. */
  append(pool: number, plan: Plan, entries: readonly TailEntry[]): void {
    this.#lastAppendMs = monotonicMs()
    if (this.#isKnown(pool)) this.#sealer.append(pool, plan, entries)
  }

  /** See Sealer.sealNow. A pool that never got a row has nothing to seal. */
  async sealNow(pool: number): Promise<void> {
    if (this.#isKnown(pool)) await this.#sealer.sealNow(pool)
  }

  snapshot(pool: number) {
    return this.#manifest.snapshot(pool)
  }

  /** Seals what every pool has at this moment. Rejects as Sealer.sealNow does. */
  sealAll(): Promise<void> {
    return this.#sealer.sealAll()
  }

  /** What is sealed of a pool; undefined: nothing. */
  sealed(pool: number): PoolView | undefined {
    return this.#manifest.pool(pool)
  }

  /** Names and debts of the pools with the most of it (Debts.worst). */
  worstDebts(): readonly (readonly [name: string, debt: Debt])[] {
    return this.compaction
      .worstDebts(METRIC_DEBT_POOLS_MAX)
      .map(([pool, debt]) => [this.#options.catalog.poolByNumber(pool)?.uniqueName ?? String(pool), debt])
  }

  /** See Manifest.keepEmptied. */
  keepEmptied(pool: number): void {
    this.#manifest.keepEmptied(pool)
  }

  /** Nothing of the pool is merged until the next start. */
  leaveAlone(pool: number): void {
    this.#leftAlone.add(pool)
  }

  /** Keeps every file of every pool as of this turn. Returns what lets them go. */
  pinAll(): () => void {
    return this.#manifest.pinAll()
  }

  /** Is there room in the tail for another body's rows (W-9)? */
  hasRoom(): boolean {
    return this.#sealer.roomFor(BODY_BYTES_MAX)
  }

  /** `listener` is called when there is room again after `hasRoom` said no. */
  onRoom(listener: () => void): void {
    this.#sealer.onRoom = listener
  }

  /** Forgets a deleted pool: tail, marks, index, files. Its id answers 404 already. */
  drop(pool: Pool): void {
    const done = this.#drop(pool).catch(error => {
      warn(
        `removing the files of deleted pool ${pool.id} failed, the next start does it: ${(error as Error).message}`,
      )
    })
    this.#dropping.add(done)
    void done.finally(() => this.#dropping.delete(done))
  }

  stats() {
    return this.#sealer.stats()
  }

  /** Live segments of all pools. */
  segmentCount(): number {
    let count = 0
    for (const pool of this.#known) count += this.#manifest.pool(pool)?.segments.length ?? 0
    return count
  }

  /** Seals what it can in `msMax` and ends the segment thread. False: the log has the rest. */
  async stop(msMax: number): Promise<boolean> {
    const sealed = await within(msMax, this.#allSealed())
    // Of pools that were deleted the next start removes the rest.
    await within(SEALS_END_MS_MAX, Promise.all(this.#dropping))
    // What is under way ends: its files and its transaction are whole, and the threads are idle when they stop.
    const idle = await within(SEALS_END_MS_MAX, this.#sealer.stop())
    if (idle) await this.#writer.stop()
    return sealed && idle
  }

  async #allSealed(): Promise<void> {
    try {
      await this.#sealer.sealAll()
    } catch (error) {
      warn(`sealing before the end failed, the log has the rest: ${(error as Error).message}`)
      throw error
    }
  }

  /** Makes a pool known to the sealer at its first use; false for a deleted one. */
  #isKnown(number: number): boolean {
    if (this.#known.has(number)) return true
    const pool = this.#options.catalog.poolByNumber(number)
    if (pool === undefined) return false
    this.#known.add(number)
    this.#sealer.addPool({
      pool: number,
      poolId: pool.id,
      folder: this.#folderOf(number),
      nextSegment: this.#manifest.pool(number)?.nextSegment ?? 1,
    })
    return true
  }

  #folderOf(number: number): string {
    const known = this.#folders.get(number)
    if (known !== undefined) return known
    const pool = must(this.#options.catalog.poolByNumber(number), `pool ${number}`)
    const folder = poolFolder(this.#options.paths, pool.id)
    this.#folders.set(number, folder)
    return folder
  }

  #committed(seals: readonly SealedSegment[]): void {
    this.#manifest.apply(
      seals.map(seal => seal.commit),
      seals.map(seal => seal.committed),
    )
    crashPoint('seal.committed')
    this.#releaseLog()
    const nowMs = monotonicMs()
    for (const { commit, committed, beginMs, oldestMs, rows } of seals) {
      this.compaction.sealed(commit.pool, commit.keys === undefined ? 0 : committed.usPerKey)
      this.#options.metrics.seal(nowMs - beginMs, rows)
      this.#options.metrics.visible(nowMs - oldestMs)
    }
  }

  #releaseLog(): void {
    must(this.#commit, 'the log').release(this.#sealer.lowestUnsealedSequence())
  }

  async #drop(pool: Pool): Promise<void> {
    this.#known.delete(pool.number)
    await Promise.all([this.#sealer.dropPool(pool.number), this.compaction.dropPool(pool.number)])
    this.#releaseLog() // its unsealed rows hold no log file any more
    this.#manifest.drop(pool.number)
    crashPoint('pool.forgotten')
    await this.#options.index.index.dropPool(pool.number)
    crashPoint('pool.dropped')
    const folder = poolFolder(this.#options.paths, pool.id)
    this.#folders.delete(pool.number)
    await this.#writer.unlink(folder, []) // the segment thread works in order: what drop() gave up is gone after this
    // Files that a running query still reads keep the folder: the next start's sweep takes it then.
    await rmdir(folder).catch(() => undefined)
  }

  /** Resolves when they are gone for good. */
  async #unlink(files: readonly string[]): Promise<void> {
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
