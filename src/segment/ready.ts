/**
 * Pools that want a seal, in two lanes: `urgent` where somebody waits (a reader, or requests for room in the tail),
 * `aged` where only time passed. Each lane is a queue.
 *
 * While both have pools they take turns by weight, a full seal being worth SEALS_SMALL small ones: a flood of aged
 * tails does not stop a reader, and a pool that is always full does not keep the log from being released (W-13).
 */
import { SEALS_SMALL } from '../limits.ts'
import type { Lane, PoolState } from './seal.ts'

export class ReadyPools {
  readonly #lanes: Readonly<Record<Lane, PoolState[]>> = { urgent: [], aged: [] }
  /** Weight that urgent seals took and aged ones did not: at 0 the turn is the urgent ones'. */
  #owed = 0

  /** Puts a pool into its lane. One that stands in the aged lane may move to the urgent one. */
  put(state: PoolState, lane: Lane): void {
    if (state.lane === lane || state.lane === 'urgent') return
    // What it leaves in the aged lane is passed over by `take`.
    state.lane = lane
    this.#lanes[lane].push(state)
  }

  /** Nobody stands in line. */
  get isEmpty(): boolean {
    return this.#lanes.urgent.length + this.#lanes.aged.length === 0
  }

  /** Does somebody wait who is waited for? */
  get isAnyUrgent(): boolean {
    return this.#lanes.urgent.length > 0
  }

  /** The next pool, out of its lane; `took` follows where a seal of it starts. */
  take(): { readonly state: PoolState; readonly lane: Lane } | undefined {
    const order: readonly Lane[] = this.#owed > 0 ? ['aged', 'urgent'] : ['urgent', 'aged']
    for (const lane of order) {
      const state = this.#shift(lane)
      if (state === undefined) continue
      state.lane = undefined
      return { state, lane }
    }
    this.#owed = 0
    return undefined
  }

  /** A seal of `weight` started, from that lane. */
  took(lane: Lane, weight: number): void {
    const owed = this.#owed + (lane === 'urgent' ? weight : -weight)
    this.#owed = Math.max(0, Math.min(SEALS_SMALL, owed))
  }

  #shift(lane: Lane): PoolState | undefined {
    for (;;) {
      const state = this.#lanes[lane].shift()
      if (state === undefined || state.lane === lane) return state
    }
  }
}
