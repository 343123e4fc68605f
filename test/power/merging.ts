/**
 * Random merges of a server. They take any adjacent segments, more often than the scheduler does
 * and with other picks.
 */
import { join } from 'node:path'
import type { MergeTask } from '../../src/store/compaction/compaction-types.ts'
import { MergeWriter } from '../../src/store/compaction/merge.ts'
import { MergeThrottle } from '../../src/store/compaction/merge-throttle.ts'
import { olderThan } from '../../src/store/compaction/pick-compaction.ts'
import { unlinkSegments } from '../../src/store/segment/publish-segment.ts'
import type { Disk } from '../../src/util/disk.ts'
import { poolFolder } from '../../src/util/paths.ts'
import { below, type Random } from '../util/random.ts'
import { poolIdOf, SCHEMAS } from './pools.ts'
import type { SingleThreadServer } from './single-thread-server.ts'

let steps = 0
/** A clock that runs so fast that the server does other work after each step of a merge. */
const CLOCK = { cpuMs: () => 0, nowMs: () => 1000 * steps++, after: () => () => undefined }

export class Merging {
  readonly #server: SingleThreadServer
  readonly #disk: Disk
  readonly #random: Random
  readonly #merger: MergeWriter
  /** One at a time. */
  #last: Promise<unknown> = Promise.resolve()
  merges = 0

  constructor(server: SingleThreadServer, disk: Disk, random: Random) {
    this.#server = server
    this.#disk = disk
    this.#random = random
    this.#merger = new MergeWriter(
      new MergeThrottle(CLOCK, 'full'),
      join(server.paths.temporary, 'merge'),
      disk,
    )
  }

  /**
   * Makes one merge after the earlier ones. Rows are sent, flushed, updated and deleted meanwhile.
   */
  one(expireBeforeUs: number | undefined): Promise<void> {
    const done = this.#last.then(() => this.#one(expireBeforeUs))
    this.#last = done.catch(() => undefined)
    return done
  }

  /** Waits for the last merge and closes the writer. */
  async end(): Promise<void> {
    await this.#last
    this.#merger.close()
  }

  async #one(expireBeforeUs: number | undefined): Promise<void> {
    const { manifest, flusher, paths } = this.#server
    const flushed = SCHEMAS.filter(({ pool }) => (manifest.pool(pool)?.segments.length ?? 0) > 1)
    const schema = flushed[below(this.#random, flushed.length)]
    if (schema === undefined) return
    if (this.#random() < 0.5) flusher.forgetRecent(schema.pool)
    const pinned = await manifest.snapshot(schema.pool)
    try {
      const all = [...pinned.all].sort((a, b) => a.meta.sequenceFrom - b.meta.sequenceFrom)
      const inputs = this.#pick(all, flusher.heldSegments(schema.pool))
      const first = inputs[0]
      if (first === undefined) return
      const task: MergeTask = {
        poolId: poolIdOf(schema.pool),
        schema,
        folder: poolFolder(paths, poolIdOf(schema.pool)),
        segment: flusher.takeSegmentNumber(schema.pool),
        inputs: inputs.map(({ meta, deletionVectors }) => ({ meta, deletionVectors })),
        expireBeforeUs: schema.timestamp < 0 ? undefined : expireBeforeUs,
        older: olderThan(
          first.meta.sequenceFrom,
          all.map(({ meta }) => ({ ...meta, deletedRows: 0 })),
          manifest.uncovered(schema.pool),
        ),
        leavesSegment: inputs.at(-1) === all.at(-1),
      }
      await this.#make(schema.pool, task)
    } finally {
      pinned.release()
    }
  }

  async #make(pool: number, task: MergeTask): Promise<void> {
    const done = await this.#merger.merge(task)
    // Some results are dropped, as after a refused compaction commit: their files are removed.
    if (this.#random() < 0.15) {
      unlinkSegments(this.#disk, task.folder, [task.segment])
      return
    }
    this.#server.commitCompaction({
      pool,
      add: done.meta,
      remove: task.inputs.map(({ meta }) => meta.segment),
      keys: done.keys,
    })
    this.merges += 1
  }

  /** Picks random adjacent segments, none of them held. */
  #pick<S extends { readonly meta: { readonly segment: number } }>(
    all: readonly S[],
    held: ReadonlySet<number>,
  ): S[] {
    if (all.length === 0) return []
    const from = below(this.#random, all.length)
    const to = from + 1 + below(this.#random, 4)
    const stretch = all.slice(from, to)
    const end = stretch.findIndex(({ meta }) => held.has(meta.segment))
    return end < 0 ? stretch : stretch.slice(0, end)
  }
}
