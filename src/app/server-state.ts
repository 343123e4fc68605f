/** The state of the server at one moment, for people: GraphQL's `serverStatus`. */
import type { StateOfServer } from '../api/graphql/parents.ts'
import { type HealthState, healthOf } from '../api/probes.ts'
import type { Activity } from '../database/activity.ts'
import type { Pools } from '../database/pools.ts'
import { monotonicMs } from '../util/clock.ts'
import { WEIR_VERSION } from '../util/version.ts'
import { diskSpace } from './machine.ts'

/** Sums over all pools take a few milliseconds of 20,000 pools, and ten people may look. */
const STATE_MS = 1_000

interface StateDeps {
  readonly pools: Pick<Pools, 'sizeOfAll' | 'flusher'>
  readonly activity: Activity
  readonly health: HealthState
  readonly dataDir: string
}

/** Reads the state, at most once a second. */
export function stateReader(deps: StateDeps): () => Promise<StateOfServer> {
  let last: { readonly atMs: number; readonly state: Promise<StateOfServer> } | undefined
  return async () => {
    if (last === undefined || monotonicMs() - last.atMs > STATE_MS)
      last = { atMs: monotonicMs(), state: readState(deps) }
    const asked = last
    try {
      return await asked.state
    } catch (error) {
      if (last === asked) last = undefined // the next one who asks gets another try
      throw error
    }
  }
}

async function readState({ pools, activity, health, dataDir }: StateDeps): Promise<StateOfServer> {
  const disk = await diskSpace(dataDir)
  const { segments, bytes } = pools.sizeOfAll()
  const { memtableRows, oldestMs } = pools.flusher.stats()
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
    unflushedRecords: String(memtableRows),
    flushLagMs: flushLagMs(oldestMs),
    segments,
    segmentBytes: bytes,
    diskBytes: disk.bytes,
    diskFreeBytes: disk.freeBytes,
    memoryBytes: process.memoryUsage.rss(),
  }
}

/** The age of the oldest row that is not flushed; 0 without any. */
export function flushLagMs(oldestMs: number | undefined): number {
  return oldestMs === undefined ? 0 : Math.max(0, monotonicMs() - oldestMs)
}
