/** The state of the server at one moment, for people: GraphQL's `serverStatus`. */
import { statfs } from 'node:fs/promises'
import type { StateOfServer } from '../api/graphql/parents.ts'
import { type HealthState, healthOf } from '../api/probes.ts'
import type { Activity } from '../database/activity.ts'
import type { Pools } from '../database/pools.ts'
import { WEIR_VERSION } from '../util/version.ts'

/** Sums over all pools take a millisecond at 20,000 segments, and ten people may look. */
const SIZES_MS = 5_000

interface StateDeps {
  readonly pools: Pick<Pools, 'sizeOfAll' | 'flusher'>
  readonly activity: Activity
  readonly health: HealthState
  readonly dataDir: string
}

export function stateReader({ pools, activity, health, dataDir }: StateDeps): () => Promise<StateOfServer> {
  let sizes = { segments: 0, bytes: 0 }
  let sizesAtMs = Number.NEGATIVE_INFINITY
  return async () => {
    const disk = await statfs(dataDir)
    if (performance.now() - sizesAtMs > SIZES_MS) {
      sizes = pools.sizeOfAll()
      sizesAtMs = performance.now()
    }
    const { ready, why } = healthOf(health)
    const { accepted, rejected } = activity.seconds()
    return {
      version: WEIR_VERSION,
      startedAt: new Date(activity.startedAtMs).toISOString(),
      isReady: ready,
      reason: why ?? null,
      accepted: String(activity.accepted),
      rejected: String(activity.rejected),
      acceptedBySecond: accepted,
      rejectedBySecond: rejected,
      syncMs: activity.syncMs() ?? null,
      unflushedRecords: String(pools.flusher.stats().memtableRows),
      segments: sizes.segments,
      segmentBytes: sizes.bytes,
      diskBytes: disk.blocks * disk.bsize,
      diskFreeBytes: disk.bavail * disk.bsize,
      memoryBytes: process.memoryUsage.rss(),
    }
  }
}
