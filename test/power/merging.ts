/**
 * Random merges of a server, and the rewrites of jobs, one at a time. The merges take any adjacent
 * segments, more often than the scheduler does and with other picks.
 */
import { join } from 'node:path'
import type {
  CompactPool,
  Merger,
  MergeTask,
  Rewrite,
  RewriteOutcome,
} from '../../src/store/compaction/compaction-types.ts'
import { MergeWriter } from '../../src/store/compaction/merge.ts'
import { MergeThrottle } from '../../src/store/compaction/merge-throttle.ts'
import { olderThan } from '../../src/store/compaction/pick-compaction.ts'
import { CompactionRunner } from '../../src/store/compaction/run-compaction.ts'
import { poolDeleted } from '../../src/store/flush/flusher.ts'
import { unlinkSegments } from '../../src/store/segment/publish-segment.ts'
import type { Disk } from '../../src/util/disk.ts'
import { must } from '../../src/util/errors.ts'
import { below, type Random } from '../util/random.ts'
import type { SingleThreadServer } from './single-thread-server.ts'

let steps = 0
/** A clock that runs so fast that the server does other work after each step of a merge. */
const CLOCK = { cpuMs: () => 0, nowMs: () => 1000 * steps++, after: () => () => undefined }

export class Merging {
  readonly #server: SingleThreadServer
  readonly #disk: Disk
  readonly #random: Random
  readonly #merger: MergeWriter
  readonly #runner: CompactionRunner
  /** Segments with lower numbers are left to a job, by pool. */
  readonly #reservedBelow = new Map<number, number>()
  /** One at a time. */
  #last: Promise<unknown> = Promise.resolve()
  merges = 0
  rewrites = 0

  constructor(server: SingleThreadServer, disk: Disk, random: Random) {
    this.#server = server
    this.#disk = disk
    this.#random = random
    this.#merger = new MergeWriter(
      new MergeThrottle(CLOCK, 'full'),
      join(server.paths.temporary, 'merge'),
      disk,
    )
    this.#runner = this.#openRunner()
  }

  /**
   * Makes one merge after the earlier ones. Rows are sent, flushed, updated and deleted meanwhile.
   */
  one(expireBeforeUs: number | undefined): Promise<void> {
    return this.#inTurn(() => this.#one(expireBeforeUs))
  }

  /** As Pools.reserveSegments does: later flushes and merges write segments from this number on. */
  reserve(pool: number): Promise<number> {
    const { flusher } = this.#server
    return this.#inTurn(async () => {
      do {
        await this.#server.flush(pool)
        flusher.forgetRecent(pool)
      } while (flusher.replaceableSegments(pool).size > 0)
      if (this.#server.catalog.poolByNumber(pool) === undefined) throw poolDeleted()
      const below = this.#server.takeSegmentNumber(pool)
      this.#reservedBelow.set(pool, below)
      return below
    })
  }

  /** As Pools.reserveAgain does. */
  reserveAgain(pool: number, below: number): void {
    this.#server.raiseSegmentNumber(pool, below)
    this.#reservedBelow.set(pool, below)
  }

  release(pool: number): void {
    this.#reservedBelow.delete(pool)
  }

  /** Rewrites one segment with a job's changes, as the scheduler does. */
  rewrite(pool: number, rewrite: Rewrite): Promise<RewriteOutcome> {
    return this.#inTurn(() => this.#runner.rewrite(pool, rewrite, this.#reservedBelow.get(pool) ?? 0))
  }

  /** Waits for the last merge and closes the writer. */
  async end(): Promise<void> {
    await this.#last
    this.#merger.close()
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#last.then(act)
    this.#last = done.catch(() => undefined)
    return done
  }

  async #one(expireBeforeUs: number | undefined): Promise<void> {
    const { manifest, flusher, catalog } = this.#server
    const flushed = catalog.pools().filter(pool => (manifest.pool(pool.number)?.segments.length ?? 0) > 1)
    const pool = flushed[below(this.#random, flushed.length)]
    if (pool === undefined) return
    const { number } = pool
    if (this.#random() < 0.5) flusher.forgetRecent(number)
    const pinned = await manifest.snapshot(number)
    try {
      const all = [...pinned.all].sort((a, b) => a.meta.sequenceFrom - b.meta.sequenceFrom)
      const reserved = this.#reservedBelow.get(number) ?? 0
      const held = flusher.replaceableSegments(number)
      const inputs = this.#pick(all, segment => segment < reserved || held.has(segment))
      const first = inputs[0]
      if (first === undefined) return
      const schemaOf = (version: number) => must(catalog.schema(number, version), 'a schema')
      const schema = schemaOf(Math.max(...inputs.map(({ meta }) => meta.schemaVersion)))
      await this.#make(number, {
        poolId: pool.id,
        schema,
        folder: this.#server.folderOf(number),
        segment: this.#server.takeSegmentNumber(number),
        inputs: inputs.map(({ meta, deletionVectors }) => ({
          meta,
          deletionVectors,
          columns: schemaOf(meta.schemaVersion).columns.length,
        })),
        expireBeforeUs: schema.timestamp < 0 ? undefined : expireBeforeUs,
        older: olderThan(
          first.meta.sequenceFrom,
          all.map(({ meta }) => ({ ...meta, deletedRows: 0 })),
          manifest.uncovered(number),
        ),
        leavesSegment: inputs.at(-1) === all.at(-1),
      })
    } finally {
      pinned.release()
    }
  }

  async #make(pool: number, task: MergeTask): Promise<void> {
    const done = await this.#merger.merge(task)
    // Some results are dropped, as after a refused compaction commit: their files are removed.
    if (this.#random() < 0.15 || this.#server.catalog.poolByNumber(pool) === undefined) {
      unlinkSegments(this.#disk, task.folder, [task.segment])
      return
    }
    const remove = task.inputs.map(({ meta }) => meta.segment)
    const commit = { pool, add: done.meta, remove, keys: done.keys }
    this.#server.manifest.applyCompaction(commit, this.#server.commitCompaction(commit))
    this.merges += 1
  }

  /** Picks random adjacent segments, none of them excluded. */
  #pick<S extends { readonly meta: { readonly segment: number } }>(
    all: readonly S[],
    isExcluded: (segment: number) => boolean,
  ): S[] {
    if (all.length === 0) return []
    const from = below(this.#random, all.length)
    const to = from + 1 + below(this.#random, 4)
    const stretch = all.slice(from, to)
    const end = stretch.findIndex(({ meta }) => isExcluded(meta.segment))
    return end < 0 ? stretch : stretch.slice(0, end)
  }

  #openRunner(): CompactionRunner {
    const { manifest } = this.#server
    const merger: Merger = {
      merge: task => this.#merger.merge(task),
      problemOf: (changes, schema) => this.#merger.problemOf(changes, schema),
      setSpeed: () => undefined,
      stop: async () => undefined,
    }
    return new CompactionRunner({
      merger,
      clock: { nowMs: CLOCK.nowMs, wallMs: () => 0, after: CLOCK.after },
      pool: pool => this.#poolOf(pool),
      obsolete: pool => manifest.uncovered(pool),
      takeSegmentNumber: pool => this.#server.takeSegmentNumber(pool),
      pin: pool => manifest.snapshot(pool),
      commit: async commit => this.#server.commitCompaction(commit, 'rewrite of a job'),
      apply: (commit, committed) => manifest.applyCompaction(commit, committed),
      unlink: async (from, segments) => unlinkSegments(this.#disk, from, segments),
      onMerged: () => {
        this.rewrites += 1
      },
    })
  }

  #poolOf(number: number): CompactPool | undefined {
    const { catalog } = this.#server
    const pool = catalog.poolByNumber(number)
    if (pool === undefined) return undefined
    return {
      poolId: pool.id,
      folder: this.#server.folderOf(number),
      retentionDays: 0,
      schema: version => must(catalog.schema(number, version), 'the schema of a segment'),
    }
  }
}
