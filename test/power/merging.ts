/** Random merges of a life: any adjacent segments, more often and in other choices than the scheduler would make. */
import { join } from 'node:path'
import { olderThan } from '../../src/compact/choose.ts'
import { MergeWriter } from '../../src/compact/merge.ts'
import { Pacer } from '../../src/compact/pace.ts'
import type { MergeJob } from '../../src/compact/protocol.ts'
import { readSegmentKeys } from '../../src/keys/segment-keys.ts'
import { poolFolder } from '../../src/paths.ts'
import { readDeleteFile, writeDeleteFile } from '../../src/segment/deletes.ts'
import { publishInPieces, unlinkSegments } from '../../src/segment/publish.ts'
import type { Disk } from '../../src/util/disk.ts'
import { below, type Random } from '../util/random.ts'
import type { Life } from './life.ts'
import { PLANS, poolIdOf } from './pools.ts'

const CALLS = { readSegmentKeys, readDeleteFile, writeDeleteFile, publishInPieces }
let steps = 0
/** So fast that what runs beside a merge has its turn after each of its steps. */
const CLOCK = { cpuMs: () => 0, nowMs: () => 1000 * steps++, after: () => () => undefined }

export class Merging {
  readonly #life: Life
  readonly #disk: Disk
  readonly #random: Random
  readonly #merger: MergeWriter
  /** One at a time. */
  #last: Promise<unknown> = Promise.resolve()
  merges = 0

  constructor(life: Life, disk: Disk, random: Random) {
    this.#life = life
    this.#disk = disk
    this.#random = random
    this.#merger = new MergeWriter(
      CALLS,
      new Pacer(CLOCK, 'alone'),
      join(life.paths.temporary, 'merge'),
      disk,
    )
  }

  /** Makes one merge after those before it; rows are sent, sealed, updated and deleted meanwhile. */
  one(expireBeforeUs: number | undefined): Promise<void> {
    const done = this.#last.then(() => this.#one(expireBeforeUs))
    this.#last = done.catch(() => undefined)
    return done
  }

  /** After the last merge. */
  async end(): Promise<void> {
    await this.#last
    this.#merger.close()
  }

  async #one(expireBeforeUs: number | undefined): Promise<void> {
    const { manifest, sealer, paths } = this.#life
    const sealed = PLANS.filter(({ pool }) => (manifest.pool(pool)?.segments.length ?? 0) > 1)
    const plan = sealed[below(this.#random, sealed.length)]
    if (plan === undefined) return
    if (this.#random() < 0.5) sealer.forgetKept(plan.pool)
    const pinned = await manifest.snapshot(plan.pool)
    try {
      const all = [...pinned.all].sort((a, b) => a.meta.sequenceFrom - b.meta.sequenceFrom)
      const inputs = this.#choose(all, sealer.heldSegments(plan.pool))
      const first = inputs[0]
      if (first === undefined) return
      const job: MergeJob = {
        poolId: poolIdOf(plan.pool),
        plan,
        folder: poolFolder(paths, poolIdOf(plan.pool)),
        segment: sealer.takeSegmentNumber(plan.pool),
        inputs: inputs.map(({ meta, marks }) => ({ meta, marks })),
        expireBeforeUs: plan.pool === 2 ? undefined : expireBeforeUs,
        older: olderThan(
          first.meta.sequenceFrom,
          all.map(({ meta }) => ({ ...meta, marked: 0 })),
          manifest.emptied(plan.pool),
        ),
      }
      await this.#make(plan.pool, job)
    } finally {
      pinned.release()
    }
  }

  async #make(pool: number, job: MergeJob): Promise<void> {
    const done = await this.#merger.merge(job)
    // Some results are given up, as when the swap is refused: their files go.
    if (this.#random() < 0.15) {
      unlinkSegments(this.#disk, job.folder, [job.segment])
      return
    }
    this.#life.swap({
      pool,
      add: done.meta,
      remove: job.inputs.map(({ meta }) => meta.segment),
      keys: done.keys,
    })
    this.merges += 1
  }

  /** A random stretch of neighbours, none of them held. */
  #choose<S extends { readonly meta: { readonly segment: number } }>(
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
