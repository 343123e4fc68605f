/** The state of the server at one moment, for people: GraphQL's `serverStatus`. */

import type { Health } from '../api/api-types.ts'
import type { StateOfServer } from '../api/graphql/parents.ts'
import type { Activity } from '../database/activity.ts'
import { WEIR_VERSION } from '../util/version.ts'
import { keptReading } from './machine.ts'
import type { Store } from './store.ts'

/** Sums over all pools take a few milliseconds of 20,000 pools, and ten people may look. */
const STATE_MS = 1_000

interface StateDeps {
  readonly store: Pick<Store, 'state'>
  readonly activity: Activity
  health(): Health
}

/** Reads the state, at most once a second. */
export function stateReader(deps: StateDeps): () => Promise<StateOfServer> {
  return keptReading(() => readState(deps), STATE_MS)
}

async function readState({ store, activity, health }: StateDeps): Promise<StateOfServer> {
  const state = await store.state()
  const { ready, why } = health()
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
    ...state,
    memoryBytes: process.memoryUsage.rss(),
  }
}
