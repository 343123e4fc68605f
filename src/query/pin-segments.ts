/** Pins the segments that questions and exports read. */
import type { PoolSchema } from '../format/schema.ts'
import type { QuerySegment } from '../index/index-types.ts'
import { must } from '../util/errors.ts'
import type { QuestionDeps } from './ask.ts'
import { countLiveRows } from './duckdb/live-rows.ts'
import { type Pruning, prune } from './plan/prune-segments.ts'
import type { SegmentRows } from './plan/segment-task.ts'

export interface PinDeps {
  /** Makes everything acknowledged before the call visible, or less where staleness is allowed. */
  makeVisible(pool: number): Promise<void>
  snapshot(pool: number): Promise<PinnedSegments>
}

/** Segments whose files stay until `release`, which must be called. */
export interface PinnedSegments {
  readonly segments: readonly QuerySegment[]
  /** See Manifest.version. */
  readonly version?: number | undefined
  release(): void
}

/** The segments that can hold the plan's rows. */
export async function pinSegments(
  schema: PoolSchema,
  pruning: Pruning,
  deps: PinDeps,
): Promise<PinnedSegments> {
  await deps.makeVisible(schema.pool)
  const snapshot = await deps.snapshot(schema.pool)
  const { version, segments } = snapshot
  return { segments: prune(schema, pruning, segments), version, release: () => snapshot.release() }
}

/** Pins the segments of each pool of a question. The pools are flushed at the same time. */
export function segmentPins(deps: PinDeps): QuestionDeps['pin'] {
  return async pools => {
    const settled = await Promise.allSettled(
      pools.map(({ schema, pruning }) => pinSegments(schema, pruning, deps)),
    )
    const pinned = settled.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
    const release = () => {
      for (const each of pinned) each.release()
    }
    const failed = settled.find(each => each.status === 'rejected')
    if (failed !== undefined) {
      release()
      throw failed.reason
    }
    const [own = [], ...others] = pinned.map(({ segments }) => segments)
    // The newest first: the engine then skips older ones where the newest rows are asked for.
    const ordered = [own.toReversed(), ...others]
    const rows = pools.map(({ schema }, index) => ({ schema, segments: must(ordered[index], 'a pin') }))
    const versions = pinned.map(({ version }) => version)
    const source = { pools: rows } satisfies SegmentRows
    return { source, versions, liveRows: () => countLiveRows(own), release }
  }
}
